"""Tasks that draw from black boxes: their execution on any machine, and the form of results."""

import dataclasses
import hashlib
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from dpframe.errors import SampleError, WrongResultError
from dpframe.interfaces.attack import SECONDS
from dpframe.interfaces.executor import RefusedError, Task, wanted
from dpframe.interfaces.mechanism import ForeignMechanism
from dpframe.sampling.address import Shape, chunks_in_words, digest
from dpframe.workers import requests
from dpframe.workers.executor import plugin_classes
from dpframe.workers.pool import Workers
from dpframe.workers.requirements import Requirements, check

OTHERWISE = (
    "at the same address, the box draws something different there: another version of a "
    "library, or a processor that rounds differently"
)

PULSE = 0.5  # seconds between two checks that a task is still wanted
IDLE = 60.0  # seconds after which unused processes are ended: their run may be over
WORDS = 1 << 12  # answers of a task whose codes get texts

PLACE = secrets.token_hex(8)
"""Name of this process; an address or a process number may be another's later."""


class Sample(NamedTuple):
    """Chunks drawn on the audit's machine; a process must draw the same before it is used.

    Versions and digests do not cover indirect dependencies or the processor.
    """

    load: requests.Load
    request: requests.Request
    digest: str


class Box(NamedTuple):
    """The shared part of all tasks for one load."""

    run: str
    load: requests.Load
    required: Requirements
    sample: Sample | None


class BoxOutputs(NamedTuple):
    """The result of a task."""

    outputs: tuple[requests.Drawn, ...] = ()
    ending: tuple[str, str] | None = None
    """Reason why outputs are missing: the kind of error and its message."""
    releases: int = 0  # releases asked for
    place: str = ""  # name of the process


@dataclasses.dataclass(frozen=True)
class DrawBox(Task):
    """Draw chunks of a black box by worker processes of the machine that runs the task."""

    shared: Box
    request: requests.Request
    seconds: float | None  # time that the box has once it is loaded; None for no limit

    def run(self, shared: Box) -> BoxOutputs:
        """Return the outputs, and the reason if some are missing."""
        interpreters = check(shared.load.content[0], shared.required)
        workers = _kept.take(shared.run, interpreters, wanted.get())
        before = workers.calls
        try:
            if shared.sample is not None:
                _prove(shared, shared.sample, workers)
            with workers.lend(shared.load) as (lent, *_):
                outputs, ending = _all(lent, workers, self)
        except SampleError as error:  # no process could load it: nothing was drawn
            outputs, ending = [], ("unlent", str(error))
        except requests.Stopped:
            outputs, ending = [], ("stopped", "")
        finally:
            _kept.give_back(shared.run, workers)
        return BoxOutputs(tuple(outputs), ending, workers.calls - before, PLACE)

    def checked(self, found: Any) -> BoxOutputs:
        """Return a result if it has all chunks, in the box's type, or a reason for missing ones."""
        fits = isinstance(found, BoxOutputs) and isinstance(found.outputs, tuple)
        if not (fits and type(found.releases) is int and isinstance(found.place, str)):
            raise WrongResultError("no outputs")
        if not 0 <= found.releases <= MOST_RELEASES:
            raise WrongResultError("an impossible number of releases")
        if found.ending is not None:
            _check_all(found.ending, str, 2)
        done = 0
        for part in found.outputs:
            if not (isinstance(part, requests.Drawn) and len(part) == 2):
                raise WrongResultError("no outputs")
            done += _rows(part.outputs, self.request.shape)
            _check_told(part.told, answering=self.request.terms is not None)
            if done % self.request.rows:
                raise WrongResultError("a part of a chunk")
        wanted = (self.request.stop - self.request.first) * self.request.rows
        if done > wanted or (done < wanted and found.ending is None):
            raise WrongResultError(f"{done} releases in place of {wanted}")
        drawn: BoxOutputs = found
        return drawn

    @property
    def repeatable(self) -> bool:
        """False: `RemoteBoxes` repeats draws with its own processes."""
        return False

    def __str__(self) -> str:
        request = self.request
        words = chunks_in_words(request.first, request.stop, request.dataset)
        return f"{words} of {self.kind.partition('#')[0]}"

    @property
    def plugins(self) -> tuple[type, ...]:
        mechanisms = self.shared.load.content[0]
        return tuple(dict.fromkeys([*plugin_classes(mechanisms), *map(type, mechanisms)]))

    @property
    def kind(self) -> str:
        return kind_of(self.shared.load)


MOST_RELEASES = 1 << 50  # more than any task asks for


def _check_all(values: Any, kind: type | tuple[type, ...], number: int | None = None) -> None:
    """Raise WrongResultError unless `values` is a tuple of this length and type."""
    listed = isinstance(values, tuple | frozenset) and number in (None, len(values))
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not listed or any(type(value) not in kinds for value in values):
        raise WrongResultError("something other than outputs and remarks on them")


def _rows(outputs: Any, shape: Shape | None) -> int:
    """Return the number of outputs in an array; raise WrongResultError for other values."""
    if not isinstance(outputs, np.ndarray) or outputs.dtype.hasobject or not outputs.ndim:
        raise WrongResultError("something that is not an array of outputs")
    if shape is not None and (outputs.dtype, outputs.shape[1:]) != (shape.dtype, shape.dims):
        raise WrongResultError(f"{outputs.dtype} of shape {outputs.shape[1:]} in place of {shape}")
    return len(outputs)


def _check_told(told: Any, *, answering: bool) -> None:
    if not isinstance(told, requests.OutputDescription):
        raise WrongResultError("no outputs")
    if type(told.answering) is not bool or (answering and not told.answering):
        raise WrongResultError("something else than answers")
    if not isinstance(told.words, dict):
        raise WrongResultError("no words")
    _check_all((*told.words,), int)
    _check_all((*told.words.values(),), str)
    _check_all(told.paces, (int, float))
    if not isinstance(told.natives, frozenset):
        raise WrongResultError("no shapes")
    for native in told.natives - {None}:
        _check_all(native, int)


def kind_of(load: requests.Load) -> str:
    """Return the kind of a load; all boxes of a kind can be drawn on the same machines."""
    first: Any = load.content[0][0]
    own: list[Any] = [type(first).__module__, type(first).__qualname__, id(type(first))]
    where = ""
    if isinstance(first, ForeignMechanism):
        own.append(str(first.program().path))
        where = f" in {first.environment}" if first.environment else ""
    return f"{type(first).name}{where}#{digest(own)}"


_proved: set[tuple[str, str]] = set()  # runs, and digests of samples that this process has drawn


def _prove(box: Box, sample: Sample, workers: Workers) -> None:
    if (box.run, sample.digest) in _proved:
        return
    with workers.lend(sample.load) as (lent, *_):
        if outputs_digest(lent.draw(sample.request, None)) != sample.digest:
            raise RefusedError(OTHERWISE)
    _proved.add((box.run, sample.digest))


def outputs_digest(outputs: Iterable[requests.Drawn]) -> str:
    """Return a digest of outputs without their times, however they are divided into parts."""
    hasher, first = hashlib.blake2b(digest_size=16), True
    for found, told in outputs:
        kept = found.copy()
        if told.answering:
            kept[:, SECONDS] = 0
        hasher.update(f"{kept.dtype}{kept.shape[1:]}".encode() * first)
        first = False
        hasher.update(kept.tobytes())
    return hasher.hexdigest()


def _all(
    lent: requests.Lent, workers: Workers, task: DrawBox
) -> tuple[list[requests.Drawn], tuple[str, str] | None]:
    until = None if task.seconds is None else time.monotonic() + task.seconds
    outputs: list[requests.Drawn] = []
    try:
        outputs.extend(_in_words(drawn, workers) for drawn in lent.draw(task.request, until))
    except (SampleError, requests.Overdue) as error:
        return outputs, (_ENDINGS.get(type(error), "wrong"), str(error))
    return outputs, None


_ENDINGS: dict[type[Exception], str] = {
    requests.RaisedError: "raised",
    requests.LostError: "lost",
    requests.Overdue: "overdue",
}
"""Names of errors that end a task early; the others are "wrong"."""


def _in_words(drawn: requests.Drawn, workers: Workers) -> requests.Drawn:
    """Add the texts of all codes, because an earlier result with them may be lost."""
    outputs, told = drawn
    if not told.answering:
        return drawn
    codes = {int(code) for code in np.unique(outputs[:WORDS, :2])}
    known = {code: workers.words[code] for code in codes & workers.words.keys()}
    return requests.Drawn(outputs, told._replace(words={**known, **told.words}))


class _Kept:
    """Worker processes by the run that they serve: one set for each task under way."""

    def __init__(self) -> None:
        self._idle: list[tuple[str, Workers, float]] = []
        self._busy: dict[Workers, tuple[str, Callable[[], bool]]] = {}
        self._lock = threading.Lock()
        self._watch: threading.Thread | None = None

    def take(
        self, run: str, interpreters: dict[str, str], is_wanted: Callable[[], bool]
    ) -> Workers:
        """Return workers that served the same run before, or new ones."""
        with self._lock:
            places = [at for at, (own, _, _) in enumerate(self._idle) if own == run]
            workers = self._idle.pop(places[-1])[1] if places else Workers(1)
            workers.interpreters = {**workers.interpreters, **interpreters}
            self._busy[workers] = run, is_wanted
            if self._watch is None:
                self._watch = threading.Thread(target=self._look, name="boxes", daemon=True)
                self._watch.start()
        return workers

    def give_back(self, run: str, workers: Workers) -> None:
        with self._lock:
            del self._busy[workers]
            if not workers.stopped:
                self._idle.append((run, workers, time.monotonic()))

    def end(self, run: str | None, old: float) -> None:
        """End workers of a run, workers idle since before a time, and workers no longer wanted."""
        with self._lock:
            ended = [one for own, one, since in self._idle if own == run or since < old]
            self._idle = [each for each in self._idle if each[1] not in ended]
            for workers, (own, is_wanted) in self._busy.items():
                if own == run or not is_wanted():
                    ended.append(workers)
        for workers in ended:
            workers.stop()

    def _look(self) -> None:
        while True:
            time.sleep(PULSE)
            self.end(None, time.monotonic() - IDLE)


_kept = _Kept()


def end(run: str) -> None:
    """End the processes of this machine that serve a run."""
    _kept.end(run, -math.inf)
