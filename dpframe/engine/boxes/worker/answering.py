"""Asks a black box that may answer with anything, and lays its answers out as an array.

Batches of one type are encoded at once; the codes are those of `answer_encoding`, to the bit.
"""

from __future__ import annotations

from hashlib import blake2b
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.engine.boxes.worker import answer_encoding as encoding
from dpframe.engine.boxes.worker.answer_encoding import UnreadableError
from dpframe.engine.boxes.worker.limit import Limit

if TYPE_CHECKING:
    from dpframe.types import Floats, HostArray

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
