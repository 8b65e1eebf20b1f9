"""What a worker of a cluster does for black boxes: processes of its own draw for it."""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.blame import blame
from dpframe.engine.boxes.lending import Load, LostError, Overdue, RaisedError, Stopped, Told
from dpframe.engine.boxes.workers import Workers
from dpframe.engine.cluster import surroundings
from dpframe.engine.cluster.parts import Missing, Refused
from dpframe.engine.cluster.work import unpacked
from dpframe.errors import SampleError

if TYPE_CHECKING:
    from dpframe.engine.addresses.shape import Shape
    from dpframe.engine.boxes.lending import Lent, Request
    from dpframe.engine.cluster.parts import Sent
    from dpframe.engine.cluster.surroundings import Needed
    from dpframe.engine.cluster.work import Answer
    from dpframe.types import HostArray

PULSE = 0.5
"""Seconds between two looks at whether anybody still waits for what is drawn."""

IDLE = 60.0
"""Seconds after which processes that nobody asks are ended: their run may have ended anyhow."""

WORDS = 1 << 12
"""Answers of which one task tells what they stand for."""

ME = secrets.token_hex(8)
"""By which runs know this process: an address may be another's later."""


class Asked(NamedTuple):
    """What is drawn in one task."""

    run: str
    """Whose boxes share processes."""
    request: Request
    shape: Shape | None
    seconds: float | None
    """That the box has from when it is loaded; None for no limit."""
    needed: Needed


class Drawn(NamedTuple):
    """What came of it."""

    outputs: tuple[tuple[HostArray, Told], ...] = ()
    """As `Lent.draw` yields them."""
    ending: tuple[str, str] | None = None
    """Why there is no more: the kind of error and its words."""
    releases: int = 0
    """That the box was asked for."""
    place: str = ""
    """Which process says so."""


def draw(sent: Sent, asked: Asked) -> tuple[Any, ...]:
    """What became of a task, and which worker says so."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()
    return (*answer(sent, asked, lambda: _is_wanted(worker, key)), worker.address)


def answer(sent: Sent, asked: Asked, is_wanted: Any = lambda: True) -> Answer:
    """Draws for as long as it is wanted.

    Args:
        sent: mechanisms and data, as in a load.
        asked: what of them.
        is_wanted: whether anybody still waits for it.
    """
    try:
        return _answered(sent, asked, is_wanted)
    except Exception as error:  # of this machine: memory, a disk; another one may do better
        return "broken", blame(error)


def _answered(sent: Sent, asked: Asked, is_wanted: Any) -> Answer:
    try:
        load = unpacked(sent, lambda content: Load(*content))
        interpreters = surroundings.check(load.content[0], asked.needed)
    except Refused as refused:
        return "refused", str(refused)
    except Missing as missing:
        return "missing", str(missing)
    workers = _pool.take(asked.run, interpreters, is_wanted)
    before = workers.calls
    try:
        with workers.lend(load) as (lent, *_):
            outputs, ending = _all(lent, workers, asked)
    except SampleError as error:  # no process, or none that holds it: nothing was drawn
        outputs, ending = [], ("unlent", str(error))
    except Stopped:
        outputs, ending = [], ("stopped", "")
    finally:
        _pool.give_back(asked.run, workers)
    return "drawn", Drawn(tuple(outputs), ending, workers.calls - before, ME)


def _all(
    lent: Lent, workers: Workers, asked: Asked
) -> tuple[list[tuple[HostArray, Told]], tuple[str, str] | None]:
    until = None if asked.seconds is None else time.monotonic() + asked.seconds
    outputs: list[tuple[HostArray, Told]] = []
    try:
        drawing = lent.draw(asked.request, asked.shape, until)
        outputs.extend((found, _in_words(found, lent.told, workers)) for found in drawing)
    except (SampleError, Overdue) as error:
        return outputs, _ending(error)
    return outputs, None


def _ending(error: Exception) -> tuple[str, str]:
    kinds = (RaisedError, "raised"), (LostError, "lost"), (Overdue, "overdue")
    kind = next((name for cls, name in kinds if isinstance(error, cls)), "wrong")
    return kind, str(error)


def _in_words(outputs: HostArray, told: Told, workers: Workers) -> Told:
    """What was told, with the words of all codes: an answer that told them may be lost."""
    if not told.answering:
        return told
    codes = {int(code) for code in np.unique(outputs[:WORDS, :2])}
    known = {code: workers.words[code] for code in codes & workers.words.keys()}
    return told._replace(words={**known, **told.words})


def _is_wanted(worker: Any, key: Any) -> bool:
    """Whether somebody still waits for a task, as far as Dask's worker knows."""
    task = worker.state.tasks.get(key)
    gone = worker.status.name in ("closing", "closed", "closing_gracefully", "failed")
    return not gone and task is not None and task.state == "executing"


class _Pool:
    """Processes of boxes, by the run that they serve: one set for each task that goes on."""

    def __init__(self) -> None:
        self._idle: list[tuple[str, Workers, float]] = []
        self._busy: dict[Workers, Any] = {}
        self._lock = threading.Lock()
        self._watch: threading.Thread | None = None

    def take(self, run: str, interpreters: dict[str, str], is_wanted: Any) -> Workers:
        """Processes for one task: those that served the same run before, or others."""
        with self._lock:
            places = [at for at, (own, _, _) in enumerate(self._idle) if own == run]
            workers = self._idle.pop(places[-1])[1] if places else Workers(1)
            workers.interpreters = {**workers.interpreters, **interpreters}
            self._busy[workers] = is_wanted
            if self._watch is None:
                self._watch = threading.Thread(target=self._look, name="boxes", daemon=True)
                self._watch.start()
        return workers

    def give_back(self, run: str, workers: Workers) -> None:
        """The task has come to its end."""
        with self._lock:
            del self._busy[workers]
            if not workers.stopped:
                self._idle.append((run, workers, time.monotonic()))

    def end(self, run: str | None = None) -> None:
        """Ends what serves a run, or all."""
        with self._lock:
            ended = [one for own, one, _ in self._idle if run in (None, own)]
            self._idle = [each for each in self._idle if each[1] not in ended]
        for workers in ended:
            workers.stop()

    def _look(self) -> None:
        while True:
            time.sleep(PULSE)
            with self._lock:
                old = time.monotonic() - IDLE
                ended = [one for _, one, since in self._idle if since < old]
                self._idle = [each for each in self._idle if each[1] not in ended]
                ended += [one for one, is_wanted in self._busy.items() if not is_wanted()]
            for workers in ended:
                workers.stop()


_pool = _Pool()


def end(run: str) -> None:
    """Ends the processes that serve a run."""
    _pool.end(run)
