"""Count the segments of all passes on a few threads, so that every core is busy.

Device programs release the interpreter lock, so threads are enough. Segments have fixed addresses
and counts are integers, so threads and their order change no result.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from dpframe.common.arrays import jax
from dpframe.common.machine import doing
from dpframe.common.types import Tree
from dpframe.draw.streams import Segment
from dpframe.errors import CellError
from dpframe.spec.audit import RunSettings

Unit = tuple[int, "Segment"]  # dataset and segment: what a thread counts at a time
FAREWELL_SECONDS = 1.0  # seconds that threads get to finish when the caller leaves
CHECK_SECONDS = 0.2  # seconds between two checks of time budgets

NOTHING_COUNTED = "the time budget ran out before anything was counted"

FIRST_UNITS = 2  # units that are counted even without time left: the first of each dataset

_NUMBERS = itertools.count()


class GaveUpError(CellError):
    """A pass did not end in time; its counts so far are valid."""


class Work(Protocol):
    """A pass or a search, as work for the threads of a schedule."""

    run: RunSettings
    on_host: bool  # it keeps no device busy
    in_steps: bool  # the caller decides after each round if it continues

    def prepare(self) -> None:
        """Do what comes before the first unit: all of a search."""

    def units(self) -> Iterable[Unit]:
        """Return the units still to be counted."""

    def count(self, index: int, segment: Segment) -> tuple[Segment, tuple[Tree, ...]]:
        """Count a unit; return its segment, cut if time ran out, and its counts."""

    def begin(self) -> None:
        """Start the time budget, before the first unit."""

    def out_of_time(self) -> bool:
        """True if no more units are handed out."""

    def overdue(self) -> bool:
        """True if the work is given up, whatever its threads do."""


class CountedSegment(NamedTuple):
    """A segment was counted."""

    work: Any
    dataset: int
    segment: Segment
    counts: tuple[Tree, ...]
    seconds: float


class Paused(NamedTuple):
    """All units handed out of a pass are counted; the caller decides if the pass continues."""

    work: Any


class Finished(NamedTuple):
    """A pass is counted completely, or has failed."""

    work: Any
    error: BaseException | None


Event = CountedSegment | Paused | Finished


class Schedule:
    """Runs passes on threads, and reports their counts to the caller as events.

    `works` start in the given order; long ones should come first. `threads` threads share the
    devices in turn. `beside` more threads run only black boxes, which keep no device busy. If the
    caller leaves early, `interrupt` is called to stop everything that the threads wait for.
    """

    def __init__(
        self,
        works: Sequence[Work],
        threads: int,
        devices: Sequence[jax.Device | None],
        beside: int = 0,
        interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        self._devices, self._interrupt = devices, interrupt
        self._waiting = deque(works)
        self._ready: dict[Work, _Units] = {}
        """Prepared passes with units left, in the order of preparation."""
        self._open: dict[Work, int] = {}
        """Passes that have begun, and the number of their units being counted."""
        self._left = len(self._waiting)
        # Not guarded by the condition: the caller takes events, and a signal that raises there
        # must find no lock half released.
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._change = threading.Condition()
        self._stopping = False
        self._doing: dict[threading.Thread, Work] = {}
        kinds = [False] * max(1, threads) + [True] * beside
        self._threads = [self._thread(only_host=kind) for kind in kinds]
        self._timed = any(work.run.seconds is not None for work in works)

    def _thread(self, *, only_host: bool) -> threading.Thread:
        number = next(_NUMBERS)
        device = self._devices[number % len(self._devices)]
        return threading.Thread(
            target=self._serve,
            args=(device, only_host),
            name=f"dpframe-{number}",
            daemon=True,
        )

    def events(self, timeout: float) -> Generator[Event | None]:
        """Yield events as they come, and None after `timeout` seconds without one.

        If the caller leaves the loop, threads stop after their current segments; `rest` returns
        their last events.
        """
        try:
            for thread in tuple(self._threads):
                thread.start()
            if self._timed:
                threading.Thread(target=self._watch, name="dpframe-clock", daemon=True).start()
            while self._left:
                try:
                    event: Event | None = self._events.get(timeout=timeout)
                except queue.Empty:
                    event = None
                self._left -= isinstance(event, Finished)
                yield event
        finally:
            self._stop()

    def rest(self) -> list[Event | None]:
        """Return the events that were not taken."""
        return [self._events.get() for _ in range(self._events.qsize())]

    def wake(self) -> None:
        """Let the caller show the progress of a search now."""
        self._events.put(None)

    def go_on(self, work: Work) -> None:
        """Give a paused pass its next units; a pass that gets none is finished."""
        self._give_out(work, () if work.out_of_time() else work.units())

    def _stop(self) -> None:
        with self._change:
            self._stopping = True
            self._change.notify_all()
        if self._left:
            self._interrupt()
        deadline = time.monotonic() + FAREWELL_SECONDS
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join(max(0.0, deadline - time.monotonic()))

    def _serve(self, device: jax.Device | None, only_host: bool) -> None:
        """Prepare works and count their units, until nothing is left."""
        # The device belongs to this thread; black boxes alone need none.
        with contextlib.nullcontext() if device is None else jax.default_device(device):
            while (task := self._next(only_host)) is not None:
                work, unit = task
                with self._change:
                    self._doing[threading.current_thread()] = work
                try:
                    if unit is None:
                        work.prepare()
                        self._give_out(work, work.units())
                    else:
                        started = time.perf_counter()
                        segment, counts = work.count(*unit)
                        seconds = time.perf_counter() - started
                        self._done(work, CountedSegment(work, unit[0], segment, counts, seconds))
                except BaseException as error:  # whatever a plugin raises belongs to its pass
                    with self._change:
                        if work in self._open:
                            self._close(work, error)
                        self._change.notify_all()
                finally:
                    with self._change:
                        self._doing.pop(threading.current_thread(), None)

    def _watch(self) -> None:
        """Give up overdue passes, and replace the threads that are stuck in them.

        The caller cannot do this: a signal may reach it while it holds a lock.
        """
        while True:
            with self._change:
                if self._stopping or not (self._open or self._waiting):
                    return
                for work in [work for work in self._open if work.overdue()]:
                    stuck = [thread for thread, own in self._doing.items() if own is work]
                    hooks = {doing(thread.ident) for thread in stuck} - {None}
                    stuck_hooks = [f"{hook} did not return" for hook in sorted(map(str, hooks))]
                    self._close(work, GaveUpError("; ".join([NOTHING_COUNTED, *stuck_hooks])))
                    for thread in stuck:
                        del self._doing[thread]
                        self._threads.append(self._thread(only_host=work.on_host))
                        self._threads[-1].start()
                self._change.notify_all()
                self._change.wait(CHECK_SECONDS)

    def _next(self, only_host: bool) -> tuple[Work, Unit | None] | None:
        """Return the next unit of a prepared pass, else a pass to prepare; None if all is done."""

        def mine(works: Iterable[Work]) -> Work | None:
            return next((work for work in works if work.on_host or not only_host), None)

        with self._change:
            while not self._stopping:
                if (work := mine(self._ready)) is not None:
                    return work, self._pop(work)
                if (work := mine(self._waiting)) is not None:
                    self._waiting.remove(work)
                    self._open[work] = 0
                    return work, None
                if not self._open:
                    return None
                self._change.wait()
            return None

    def _pop(self, work: Work) -> Unit:
        units = self._ready[work]
        unit = units.take()
        self._open[work] += 1
        work.begin()
        # Each dataset gets its first segment, or there would be nothing to report.
        if not units or (work.out_of_time() and units.taken >= FIRST_UNITS):
            del self._ready[work]
        return unit

    def _give_out(self, work: Work, left: Iterable[Unit]) -> None:
        units = _Units(left)
        with self._change:
            if work in self._open:  # else it was given up
                if units:
                    self._ready[work] = units
                else:
                    self._close(work, None)
            self._change.notify_all()

    def _done(self, work: Work, counted: CountedSegment) -> None:
        with self._change:
            if work in self._open:  # else it failed
                self._events.put(counted)
                self._open[work] -= 1
                if self._open[work] == 0 and work not in self._ready:
                    if work.in_steps:
                        self._events.put(Paused(work))
                    else:
                        self._close(work, None)
            self._change.notify_all()

    def _close(self, work: Work, error: BaseException | None) -> None:
        self._ready.pop(work, None)
        del self._open[work]
        self._events.put(Finished(work, error))


class _Units:
    """The units of a pass, made one at a time as they are taken."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self.taken = 0
        self._units = iter(units)
        self._next = next(self._units, None)

    def __bool__(self) -> bool:
        return self._next is not None

    def take(self) -> Unit:
        """Return the next unit; there must be one."""
        unit = self._next
        assert unit is not None
        self._next = next(self._units, None)
        self.taken += 1
        return unit
