"""Draw chunks from a black box and lay its answers out as arrays."""

from __future__ import annotations

import contextlib
import os
import random
from hashlib import blake2b
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.sampling.address import PROBE, Stream, host_generator, host_seeds
from dpframe.workers.program import answer_encoding as encoding
from dpframe.workers.program.answer_encoding import UnreadableError
from dpframe.workers.program.limit import Limit
from dpframe.workers.program.protect import CHANGED, Handout
from dpframe.workers.program.timing import Timer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpframe.common.types import Floats, HostArray


# Asks a black box that may answer with anything, and lays its answers out as an array.
#
# Batches of one type are encoded at once; the codes are those of `answer_encoding`, to the bit.


BEFORE = 3
"""Columns before the numbers: kind, value, seconds."""

KNOWN = 1 << 12
"""Texts and exceptions that are encoded once only."""


class Encoded(NamedTuple):
    """One answer."""

    kind: int
    value: int
    numbers: list[float]


class Asked(NamedTuple):
    """Answers to some releases, as they came."""

    answers: Any
    """A list of Python's or NumPy's own immutable values, of arrays that nobody else holds, and of
    Encoded; or an array of numbers with a row for each."""
    seconds: list[float]
    """What each took; empty where nobody asked for it."""


LOOKED = 256
"""Answers in which texts are looked for, so that markers of them have words."""


class Scribe:
    """Encodes the answers of one box.

    Args:
        attributes: what is read of objects.
    """

    def __init__(self, attributes: tuple[str, ...]) -> None:
        self.attributes = attributes
        self.words: dict[int, str] = {}
        """What codes stand for that were not handed on yet."""
        self._told: set[int] = set()
        self._once: set[int] = set()
        self._known: dict[Any, Encoded] = {}

    def ask(
        self,
        box: Any,
        rng: Any,
        data: Any,
        n: int,
        *,
        raises: bool,
        time: bool,
        limit: float | None = None,
    ) -> Asked:
        """Releases one answer after the other.

        Args:
            box: gives `release`, or `sample`, which is then asked for one at a time.
            rng: its generator.
            data: its dataset.
            n: how many.
            raises: whether an exception is an answer; running out of memory never is.
            time: whether to say how long each took.
            limit: seconds after which it is taken for a TimeoutError.
        """
        answers, seconds, single, alarm = [], [], not box.gives_releases(), Limit(limit)
        with alarm.watched():
            for _ in range(n):
                started = perf_counter() if time else 0.0
                try:
                    alarm.start()
                    answer = box.sample(rng, data, 1) if single else box.release(rng, data)
                    alarm.stop()
                except (Exception, SystemExit) as error:
                    alarm.stop()
                    if not raises or isinstance(error, MemoryError):
                        raise
                    answer = self.raised(error)
                if time:
                    seconds.append(perf_counter() - started)
                if single and not isinstance(answer, Encoded):
                    answer = _only(answer)
                answers.append(self.held(answer))
        return Asked(answers, seconds)

    def held(self, answer: Any) -> Any:
        """An answer that whoever gave it cannot change any more."""
        kind = type(answer)
        if kind in _IMMUTABLE or kind is Encoded:
            return answer
        if kind is np.ndarray and _is_plain(answer.dtype):
            return answer.copy()
        if isinstance(answer, np.generic) and _is_plain(answer.dtype):
            return answer
        return self.encoded(answer)

    def raised(self, error: BaseException) -> Encoded:
        """An exception as an answer."""
        return self._encoded(encoding.encode_raised(error))

    def encoded(self, answer: Any) -> Encoded:
        """One answer of any kind."""
        if isinstance(answer, Exception | SystemExit):  # of a list: some calls failed
            return self.raised(answer)
        found = self._encoded(encoding.encode(answer, self.attributes))
        if type(answer) in (list, tuple, dict):  # others are seen when they are laid out
            self._tell(answer, found.value)
        return found

    def lay_out(self, asked: Asked, width: int | None) -> HostArray:
        """Answers as rows of 64-bit words, [n, 3 + width]; None: as wide as the widest."""
        answers = asked.answers
        block, plain = _block(answers)
        if block is not None:
            kinds, values, numbers = self._of_block(block, plain)
        else:
            each = [self._one(answer) for answer in answers]
            kinds = np.array([one.kind for one in each], np.uint64)
            values = np.array([one.value for one in each], np.uint64)
            numbers = _numbers([one.numbers for one in each])
        self._notice(answers, values)
        width = numbers.shape[1] if width is None else width
        rows = np.full((len(answers), BEFORE + width), encoding.ABSENT, np.uint64)
        rows[:, 0], rows[:, 1], rows[:, 2] = kinds, values, 0
        if asked.seconds:
            rows[:, 2] = np.array(asked.seconds, np.float64).view(np.uint64)
        count = min(width, numbers.shape[1])
        rows[:, BEFORE : BEFORE + count] = numbers[:, :count].view(np.uint64)
        return rows

    def take_words(self, most: int) -> dict[int, str]:
        """Some of the words that were not handed on yet; they are then."""
        some = dict(list(self.words.items())[:most])
        for code in some:
            del self.words[code]
        return some

    def _one(self, answer: Any) -> Encoded:
        if type(answer) is Encoded:
            return answer
        key = (type(answer), answer) if type(answer) in _EXACT else None
        if key is not None and (known := self._known.get(key)) is not None:
            return known
        found = self.encoded(answer)
        if key is not None and len(self._known) < KNOWN:
            self._known[key] = found
        return found

    def _encoded(self, found: tuple[str, bytes, list[float]]) -> Encoded:
        kind, value, numbers = found
        return Encoded(self._kind(kind), encoding.code(value), numbers)

    def _kind(self, text: str) -> int:
        code = encoding.code_of_kind(text)
        self._say(code, text)
        return code

    def _say(self, code: int, text: str) -> None:
        if code not in self._told and len(self._told) < KNOWN:
            self._told.add(code)
            self.words[code] = text

    def _notice(self, answers: Any, values: HostArray) -> None:
        """Short texts for values that came more than once."""
        for answer, value in zip(answers[:64], values[:64].tolist(), strict=True):
            self._tell(answer, value)

    def _tell(self, answer: Any, value: int) -> None:
        if value in self._told or type(answer) is Encoded:
            return
        if value in self._once:
            if (text := encoding.in_words(answer)) is not None:
                self._say(value, text)
        elif len(self._once) < KNOWN:
            self._once.add(value)
            if len(self._once) <= LOOKED and type(answer) in (list, tuple, dict):
                for code, text in encoding.texts_in(answer).items():
                    self._say(code, text)

    def _of_block(self, block: HostArray, plain: bool) -> tuple[HostArray, HostArray, Floats]:
        """Codes and numbers of many answers of one type and shape.

        Args:
            block: shape [n, *dims].
            plain: whether they are Python's own floats.
        """
        n, dims, dtype = len(block), block.shape[1:], block.dtype
        content = np.ascontiguousarray(block).tobytes()
        if plain:
            before, title = b"f", "float"
        else:
            before, title = encoding.of_array(dtype, dims, scalar=not dims)
            before += encoding.sized_prefix(len(content) // max(1, n))
        values = _codes(before, content, n)
        flat = block.reshape(n, -1)[:, : encoding.MOST_NUMBERS]
        numbers = flat.astype(np.float64)
        kinds = np.full(n, self._kind(title), np.uint64)
        odd = ~np.isfinite(numbers).all(axis=1)
        if odd.any():
            numbers[np.isnan(numbers)] = encoding.NAN
            kinds[odd] = self._odd_kinds(title, numbers[odd])
        return kinds, values, numbers

    def _odd_kinds(self, title: str, numbers: Floats) -> HostArray:
        """Kinds of rows with numbers that are not finite: one text for each pattern of these."""
        marks = np.select([np.isnan(numbers), numbers == np.inf, numbers == -np.inf], [1, 2, 3], 0)
        _, examples, which = np.unique(marks, axis=0, return_index=True, return_inverse=True)
        texts = [title + encoding.flags(numbers[at].tolist()) for at in examples]
        codes = np.array([self._kind(encoding.short(text)) for text in texts], np.uint64)
        found: HostArray = codes[which.reshape(-1)]
        return found


_EXACT = (int, bool, str, bytes, type(None))
_IMMUTABLE = (*_EXACT, float, complex)


def _is_plain(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype.isnative


def _only(answer: Any) -> Any:
    """The one of a sample of one."""
    try:
        number = len(answer)
    except TypeError:
        number = None
    if number != 1:
        raise UnreadableError("sample(…, n=1) gave something else than one row")
    return answer[0]


def _block(answers: Any) -> tuple[HostArray | None, bool]:
    """Answers of one type and shape as an array, and whether they are Python's own floats."""
    if isinstance(answers, np.ndarray):
        big = answers[:1].nbytes > encoding.WHOLE
        return (None if big or not _is_plain(answers.dtype) else answers), False
    kinds = set(map(type, answers))
    if kinds == {float}:
        return np.array(answers, np.float64), True
    first = answers[0]
    if kinds == {np.ndarray} and first.ndim and first.nbytes <= encoding.WHOLE:
        alike = all(one.shape == first.shape and one.dtype == first.dtype for one in answers)
        return (np.stack(answers) if alike else None), False
    if len(kinds) == 1 and isinstance(first, np.generic):
        return np.array(answers, first.dtype), False
    return None, False


def wider(rows: HostArray, columns: int) -> HostArray:
    """Rows of answers with more columns: there are no numbers in them."""
    if rows.shape[1] == columns:
        return rows
    found = np.full((len(rows), columns), encoding.ABSENT, np.uint64)
    found[:, : rows.shape[1]] = rows
    return found


def _codes(before: bytes, content: bytes, n: int) -> HostArray:
    """The code of each of n pieces of equal length."""
    size = len(content) // max(1, n)
    pieces = [content[at : at + size] for at in range(0, n * size, size)] if size else [b""] * n
    start = blake2b(before, digest_size=8)
    distinct = dict.fromkeys(pieces, b"")
    for piece in distinct:
        hasher = start.copy()
        hasher.update(piece)
        distinct[piece] = hasher.digest()
    whole = b"".join(map(distinct.__getitem__, pieces))
    found: HostArray = np.frombuffer(whole, "<u8").astype(np.uint64)
    return found


def _numbers(each: list[list[float]]) -> Floats:
    width = max(map(len, each), default=0)
    found = np.full((len(each), width), encoding.ABSENT, np.uint64).view(np.float64)
    for row, numbers in zip(found, each, strict=True):
        if numbers:
            row[: len(numbers)] = numbers
    return found


# Draws chunks from a black box, and refuses what is no independent output per row.


SECONDS = 0.1
"""What is drawn leaves at least so often; what a process holds when it is ended is lost."""

NBYTES = 1 << 20
"""And before it gets larger than this."""


MOST = 1 << 30
"""Bytes that one call may return."""


WORDS = 256
"""Texts that leave with one chunk: they have to fit into a header."""


class Refused(Exception):  # noqa: N818  # said to the run, raised nowhere else
    """What the box did cannot be counted."""


class Drawn(NamedTuple):
    """Outputs of a few chunks."""

    chunks: int
    outputs: HostArray
    """Shape [chunks × rows, *output dims]."""
    words: Mapping[int, str] = {}
    """Of answers of any kind: what codes stand for that were not told before."""
    answering: bool = False
    """Whether they are such answers, as rows of 64-bit words."""
    natives: frozenset[tuple[int, ...] | None] = frozenset()
    """Shapes of those that are numbers; None stands for others; exceptions are left out."""
    paces: tuple[float, ...] = ()
    """Seconds per output, each of a few of them; see `timing`."""


class Sampler:
    """A black box with its pair.

    Args:
        mechanisms: one per lane.
        data: the two datasets.
    """

    def __init__(self, mechanisms: tuple[Any, ...], data: tuple[Any, ...]) -> None:
        self.mechanisms = mechanisms
        self.handouts = tuple(map(Handout, data))
        self.process = os.getpid()
        self._scribe = Scribe(mechanisms[0].attributes if mechanisms else ())
        self._prepared: dict[tuple[int, int], _Prepared] = {}

    def draw(self, wanted: dict[str, Any]) -> Iterator[Drawn]:
        """Draws chunks in their order.

        Args:
            wanted: `lane`, `data` (which dataset is the input), `stream` and `dataset` (the address
                with the chunk), `first` and `stop` of the chunks, `rows` of each, and `dims` and
                `dtype` of one output, null if not known yet.

        Raises:
            Refused: the outputs cannot be counted; those before were handed out.
        """
        handout = self.handouts[wanted["data"]]
        mechanism = self.mechanisms[wanted["lane"]]
        stream = Stream(*wanted["stream"])
        ready: list[Drawn] = []
        since, timer = monotonic(), Timer()
        for chunk in range(wanted["first"], wanted["stop"]):
            try:
                with self._data(mechanism, wanted["lane"], wanted["data"]) as data:
                    outputs = self._chunk(mechanism, stream, chunk, data, wanted)
            except BaseException:
                if ready and not _touched(handout):
                    yield _together(ready)
                raise
            ready.append(outputs)
            timer.drew(wanted["rows"])
            due = monotonic() - since > max(SECONDS, 10 * handout.seconds)
            nbytes = len(ready) * outputs.outputs.nbytes
            if due or nbytes > NBYTES or chunk + 1 == wanted["stop"]:
                if _touched(handout):
                    raise Refused(CHANGED)
                yield _together(ready)._replace(paces=tuple(timer.paces))
                ready, since, timer = [], monotonic(), Timer()

    @contextlib.contextmanager
    def _data(self, mechanism: Any, lane: int, index: int) -> Iterator[_Prepared]:
        """What a call gets for its dataset; changed by nobody while it lasts, or it is refused."""
        handout = self.handouts[index]
        if mechanism.prepares():
            yield self._prepare(mechanism, lane, index)
            return
        copy = handout.copy()
        yield _Prepared(copy)
        if not handout.shared and handout.changed(copy):
            raise Refused(CHANGED)

    def _prepare(self, mechanism: Any, lane: int, index: int) -> _Prepared:
        if (lane, index) not in self._prepared:
            handout = self.handouts[index]
            copy = handout.copy()
            _seed_global_generators(Stream(0, "prepare", 0, PROBE), 0, 0)
            try:
                found = _Prepared(mechanism.prepare(copy))
            except MemoryError:
                raise
            except (Exception, SystemExit) as error:
                found = _Prepared(None, error)
            self._stay_alone()
            if handout.changed(copy):
                raise Refused(CHANGED)
            self._prepared[lane, index] = found
        return self._prepared[lane, index]

    def _chunk(
        self, mechanism: Any, stream: Stream, chunk: int, data: _Prepared, wanted: dict[str, Any]
    ) -> Drawn:
        place, rows, how = (chunk, wanted["dataset"]), wanted["rows"], wanted.get("answers")
        answering = how is not None or (wanted["dims"] is None and mechanism.gives_releases())
        _seed_global_generators(stream, *place)
        try:
            if not answering:
                if data.error is not None:
                    raise data.error
                outputs = mechanism.sample(host_generator(stream, *place), data.data, rows)
                if wanted["dims"] is not None or not isinstance(outputs, list):
                    return Drawn(1, _as_array(outputs, wanted))
                return self._laid_out(Asked(self._held(outputs, rows), []), None)
            how = how or {"width": None, "raises": False, "time": False, "one": False}
            given = self._asked(mechanism, host_generator(stream, *place), data, rows, how)
            return self._laid_out(given, how["width"])
        except UnreadableError as problem:
            raise Refused(f"an answer cannot be read: {problem}") from None
        finally:
            self._stay_alone()

    def _asked(
        self, mechanism: Any, rng: Any, data: _Prepared, rows: int, how: dict[str, Any]
    ) -> Asked:
        """Answers to so many releases, in the way that is wanted."""
        if data.error is not None:
            if not how["raises"]:
                raise data.error
            return Asked([self._scribe.raised(data.error)] * rows, [])
        if mechanism.gives_releases() or how["one"]:
            ways = {"raises": how["raises"], "time": how["time"], "limit": how.get("limit")}
            return self._scribe.ask(mechanism, rng, data.data, rows, **ways)
        return Asked(self._held(mechanism.sample(rng, data.data, rows), rows), [])

    def _laid_out(self, given: Asked, width: int | None) -> Drawn:
        outputs = self._scribe.lay_out(given, width)
        words, natives = self._scribe.take_words(WORDS), _natives(given.answers)
        return Drawn(1, outputs, words, answering=True, natives=natives)

    def _held(self, outputs: Any, rows: int) -> Any:
        """Answers of one call of `sample`, one per row."""
        if not isinstance(outputs, list | tuple):
            if not _is_array_like(outputs):
                _no_array(outputs)
            outputs = np.asarray(outputs)
            if outputs.shape[:1] == (rows,) and outputs.dtype.kind in "OSUVmM":
                return [self._scribe.held(answer) for answer in outputs]
            _check(outputs, {"rows": rows, "dims": None, "dtype": None})
            return outputs
        if len(outputs) != rows:
            raise Refused(f"sample(…, n={rows}) gave {len(outputs)} answers")
        return [self._scribe.held(answer) for answer in outputs]

    def _stay_alone(self) -> None:
        if os.getpid() != self.process:  # a fork of the box came back too
            os._exit(0)


class _Prepared(NamedTuple):
    """What calls get for a dataset, or why they get nothing."""

    data: Any
    error: BaseException | None = None


def _together(drawn: list[Drawn]) -> Drawn:
    """Chunks one after the other."""
    words = {code: text for one in drawn for code, text in one.words.items()}
    natives = frozenset[Any]().union(*(one.natives for one in drawn))
    parts, answering = [one.outputs for one in drawn], all(one.answering for one in drawn)
    if answering:
        widest = max(part.shape[1] for part in parts)
        parts = [wider(part, widest) for part in parts]
    return Drawn(len(drawn), np.concatenate(parts), words, answering, natives)


def _touched(handout: Handout) -> bool:
    return handout.shared and handout.changed(None)


def _seed_global_generators(stream: Stream, chunk: int, dataset: int) -> None:
    """Gives the generators that whole processes share an address too.

    Other processes would start with the same state, or with one that nobody can replay.
    """
    seeds = host_seeds(stream, chunk, dataset)
    random.seed(seeds.tobytes())
    np.random.seed(seeds)  # that is the one


def _is_array_like(outputs: Any) -> bool:
    return isinstance(outputs, np.ndarray | np.generic | list | tuple | int | float) or hasattr(
        outputs, "__array__"
    )


def _no_array(outputs: Any) -> HostArray:
    raise Refused(f"sample returned {type(outputs).__name__}, not an array with one row per run")


def _as_array(outputs: Any, wanted: dict[str, Any]) -> HostArray:
    """Outputs of one call as an array of numbers."""
    found = np.asarray(outputs) if _is_array_like(outputs) else _no_array(outputs)
    _check(found, wanted)
    return found


def _natives(answers: Any) -> frozenset[tuple[int, ...] | None]:
    if isinstance(answers, np.ndarray):
        return frozenset([tuple(answers.shape[1:])])
    found = [one for one in answers if not (isinstance(one, Encoded) and one.kind & 1)]
    return frozenset(
        tuple(one.shape) if isinstance(one, np.ndarray) else () if _is_number(one) else None
        for one in found
    )


def _is_number(one: Any) -> bool:
    return isinstance(one, int | float | np.generic)


def _check(outputs: HostArray, wanted: dict[str, Any]) -> None:
    """Raises Refused unless there is an output per row, as before, that can be handed on."""
    rows, dims, dtype = wanted["rows"], wanted["dims"], wanted["dtype"]
    if outputs.dtype.kind not in "biufc" and not _is_extended(outputs.dtype):
        raise Refused(f"sample gave {outputs.dtype} values; outputs are numbers")
    if outputs.nbytes > MOST:
        raise Refused(
            f"sample(…, n={rows}) gave {outputs.nbytes / MOST:.3g} GiB at once, more than 1 GiB: "
            "smaller outputs are needed, or fewer rows"
        )
    if outputs.shape[:1] != (rows,):
        raise Refused(f"sample(…, n={rows}) gave shape {outputs.shape}; the first axis must be n")
    if dims is not None and outputs.shape != (rows, *dims):
        raise Refused(f"sample gave shape {outputs.shape}, not {(rows, *dims)} as before")
    if dtype is not None and outputs.dtype.name != dtype:
        raise Refused(f"sample gave {outputs.dtype}, and {dtype} before")


def _is_extended(dtype: np.dtype[Any]) -> bool:
    """Whether it is one of the small types that JAX adds to NumPy's, such as bfloat16."""
    return dtype.kind == "V" and dtype.names is None and dtype.name != f"void{8 * dtype.itemsize}"
