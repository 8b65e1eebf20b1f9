"""Keeps every core busy: a few threads share the segments of all passes.

The device programs release the interpreter lock, so threads are enough. Which thread counts what,
and in which order, changes nothing: segments have fixed addresses and counts are integers.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import jax

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jax import Device

    from dpframe.engine.chunks import Segment
    from dpframe.engine.work import Work
    from dpframe.types import Tree


Unit = tuple[int, "Segment"]
"""Dataset and segment: what a thread counts at a time."""

FIRST = 2
"""Units that are counted even when there is no time: the first of each dataset."""


class Counted(NamedTuple):
    """A segment came back."""

    work: Work
    dataset: int
    segment: Segment
    counts: tuple[Tree, ...]
    seconds: float


class Finished(NamedTuple):
    """All of a pass is counted, or it failed."""

    work: Work
    error: BaseException | None


class Schedule:
    """Runs works on threads and hands what they count to the caller, one event at a time.

    Args:
        works: in the order in which they should start; long ones first balance best.
        threads: how many segments may run at once.
        devices: they share these in turn.
    """

    def __init__(self, works: Iterable[Work], threads: int, devices: Sequence[Device]) -> None:
        self._waiting = deque(works)
        self._ready: dict[Work, _Units] = {}
        """In the order in which they were prepared; a work whose last unit is taken leaves."""
        self._open: dict[Work, int] = {}
        """Works that have begun, and how many of their units are being counted."""
        self._left = len(self._waiting)
        # Not guarded by the condition: the caller takes events, and a signal that raises there
        # must find no lock half released.
        self._events: queue.SimpleQueue[Counted | Finished] = queue.SimpleQueue()
        self._change = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(
                target=self._serve,
                args=(devices[n % len(devices)],),
                name=f"dpframe-{n}",
                daemon=True,
            )
            for n in range(max(1, threads))
        ]

    def events(self, patience: float) -> Iterator[Counted | Finished | None]:
        """Yields events as they come, and None when nothing came for `patience` seconds.

        Leaving the loop early stops the threads after their current segment; `rest` then has what
        they still counted.
        """
        try:
            for thread in self._threads:
                thread.start()
            while self._left:
                try:
                    event: Counted | Finished | None = self._events.get(timeout=patience)
                except queue.Empty:
                    event = None
                self._left -= isinstance(event, Finished)
                yield event
        finally:
            self._stop()

    def rest(self) -> list[Counted | Finished]:
        """Events that nobody has taken."""
        found = []
        while not self._events.empty():
            found.append(self._events.get())
        return found

    def _stop(self) -> None:
        with self._change:
            self._stopping = True
            self._change.notify_all()
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join()

    def _serve(self, device: Device) -> None:
        with jax.default_device(device):  # belongs to this thread
            while (task := self._next()) is not None:
                self._do(*task)

    def _do(self, work: Work, unit: Unit | None) -> None:
        try:
            if unit is None:
                work.prepare()
                self._prepared(work)
            else:
                started = time.perf_counter()
                counts = work.count(*unit)
                self._done(work, Counted(work, *unit, counts, time.perf_counter() - started))
        except BaseException as error:  # whatever a plugin raises belongs to its pass
            self._failed(work, error)

    def _next(self) -> tuple[Work, Unit | None] | None:
        """The next segment of a prepared pass, else a pass to prepare; None when all is done."""
        with self._change:
            while not self._stopping:
                if self._ready:
                    return self._pop()
                if self._waiting:
                    work = self._waiting.popleft()
                    self._open[work] = 0
                    return work, None
                if not self._open:
                    return None
                self._change.wait()
            return None

    def _pop(self) -> tuple[Work, Unit]:
        work, units = next(iter(self._ready.items()))
        unit = units.take()
        self._open[work] += 1
        # Each dataset gets its first segment, or there would be nothing to report.
        over = work.out_of_time() and units.taken >= FIRST
        if over or not units:
            del self._ready[work]
        return work, unit

    def _prepared(self, work: Work) -> None:
        with self._change:
            units = _Units(work.units())
            if units:
                self._ready[work] = units
            else:
                self._close(work, None)
            self._change.notify_all()

    def _done(self, work: Work, counted: Counted) -> None:
        with self._change:
            if work in self._open:  # else it failed meanwhile
                self._events.put(counted)
                self._open[work] -= 1
                if self._open[work] == 0 and work not in self._ready:
                    self._close(work, None)
            self._change.notify_all()

    def _failed(self, work: Work, error: BaseException) -> None:
        with self._change:
            if work in self._open:
                self._ready.pop(work, None)
                self._close(work, error)
            self._change.notify_all()

    def _close(self, work: Work, error: BaseException | None) -> None:
        del self._open[work]
        self._events.put(Finished(work, error))


class _Units:
    """The units of a work, made one at a time as they are taken."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self.taken = 0
        self._units = iter(units)
        self._next = next(self._units, None)

    def __bool__(self) -> bool:
        return self._next is not None

    def take(self) -> Unit:
        """The next unit; there must be one."""
        unit = self._next
        assert unit is not None
        self._next = next(self._units, None)
        self.taken += 1
        return unit
