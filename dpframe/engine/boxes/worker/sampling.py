"""Draws chunks from a black box, and refuses what is no independent output per row."""

from __future__ import annotations

import contextlib
import os
import random
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.engine.addresses.address import PROBE, Stream, host_generator, host_seeds
from dpframe.engine.boxes.worker.answer_encoding import UnreadableError
from dpframe.engine.boxes.worker.answering import Asked, Encoded, Scribe, wider
from dpframe.engine.boxes.worker.handout import CHANGED, Handout
from dpframe.engine.boxes.worker.timing import Timer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpframe.types import HostArray

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
