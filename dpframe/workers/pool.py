"""A pool of worker processes for black boxes."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from dpframe.errors import SampleError
from dpframe.workers.process import Gone, Remarks, WorkerProcess, available_cores, end, is_foreign
from dpframe.workers.program.query import heard
from dpframe.workers.scheduling import (
    Flights,
    LostError,
    Overdue,
    Stopped,
    Told,
    Turns,
    called,
    outputs,
    problem,
    take_note,
    told_in,
    unloaded,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpframe.common.types import HostArray
    from dpframe.sampling.address import Shape
    from dpframe.workers.program.frames import Frame
    from dpframe.workers.program.query import Queried
    from dpframe.workers.scheduling import Lent, Load, Request, Ticket


TO_LOAD = 60.0
"""Seconds in which a process has to start, and to import what the mechanism needs."""

MISSING = ("ModuleNotFoundError", "ImportError", "AttributeError")
"""What a process says to a module, or a part of one, that only this process has."""

DEAF = 5.0
"""Seconds that a process gets beyond the limits of all the releases that it was asked for."""

NOTHING = -1
"""Number of no load."""


class Workers:
    """Worker processes of one run; a process starts when it is first needed.

    Args:
        most: how many at once; default: one per core, and two at least, since what is wrong with a
            box's randomness may show only between processes.
        interpreters: paths of the interpreters of environments, by the names of these.
    """

    def __init__(
        self, most: int | None = None, interpreters: Mapping[str, str] | None = None
    ) -> None:
        self.most = max(2, most or available_cores())
        self.interpreters = interpreters or {}
        self.calls = 0
        self.words: dict[int, str] = {}
        self._flights, self._remarks, self._turns = Flights(), Remarks(), Turns()
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._change = threading.Condition()
        self._stopped = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextlib.contextmanager
    def lend(self, load: Load, number: int = 1) -> Iterator[list[Lent]]:
        """See `Source`."""
        load.message()  # a mistake costs no process
        ticket, taken = self._take(load, number)
        lent = [_Worker(self, p, load) for p in taken]
        try:
            for worker in lent:
                worker.take_in()
            yield list(lent)
        finally:
            end(*(worker.process for worker in lent if not worker.at_rest))
            with self._change:
                self._turns.give_back(ticket)
                self._busy.difference_update(worker.process for worker in lent)
                if not self._stopped:
                    self._idle += [worker.process for worker in lent if worker.process.alive]
                self._change.notify_all()

    def stop(self) -> None:
        """See `Source`; also the end of a run in order."""
        with self._change:
            self._stopped = True
            processes = [*self._idle, *self._busy]
            self._idle.clear()
            self._change.notify_all()
        end(*processes)

    @property
    def released(self) -> int:
        """See `Source`."""
        with self._change:
            return self.calls - self._flights.ahead(time.monotonic())

    @property
    def flights(self) -> Flights:
        """What is under way."""
        return self._flights

    def asked(self, releases: int) -> None:
        """See `Source`."""
        with self._change:
            self.calls += releases

    def note(self, told: Told) -> None:
        """See `Source`."""
        with self._change:
            take_note(self.words, told)

    @property
    def stopped(self) -> bool:
        """Whether the run ends."""
        return self._stopped

    def replace(self, old: WorkerProcess) -> WorkerProcess:
        """A fresh process in the place of one whose state a box has spoiled."""
        end(old)
        with self._change:
            if self._stopped:
                raise Stopped
            new = WorkerProcess(old.interpreter, self._remarks)
            self._busy.discard(old)
            self._busy.add(new)
        return new

    def _interpreter_of(self, load: Load) -> str | None:
        """Which interpreter holds a load; None for one like this process."""
        if not is_foreign(load.content[0]):
            return None
        box: Any = load.content[0][0]
        if box.environment is None:
            return sys.executable
        if box.environment not in self.interpreters:
            raise SampleError(f"there is no environment {box.environment!r} to run it in")
        return self.interpreters[box.environment]

    def _take(self, load: Load, number: int) -> tuple[Ticket, list[WorkerProcess]]:
        wanted = self._interpreter_of(load)
        with self._change:
            ticket = self._turns.enter(load.topic)
            try:
                while not (self._turns.is_next(ticket) and self._free >= number):
                    if self._stopped:
                        raise Stopped
                    self._change.wait()
                if self._stopped:
                    raise Stopped
                taken = self._chosen(load, wanted, number)
                self._turns.take(ticket, number)
                return ticket, taken
            finally:
                self._turns.leave(ticket)
                self._change.notify_all()  # somebody else is next

    @property
    def _free(self) -> int:
        return self.most - len(self._busy)

    def _chosen(self, load: Load, wanted: str | None, number: int) -> list[WorkerProcess]:
        # Those that hold the load already come first.
        fit = [process for process in self._idle if process.interpreter == wanted]
        fit.sort(key=lambda process: process.holds != load.number)
        taken = fit[:number]
        self._idle = [process for process in self._idle if process not in taken]
        # Those of other interpreters wait too, but not in any number.
        most = max(0, 2 * self.most - len(self._busy) - number)
        spare, self._idle = self._idle[most:], self._idle[:most]
        end(*spare)
        taken += [WorkerProcess(wanted, self._remarks) for _ in range(number - len(taken))]
        self._busy.update(taken)
        return taken


class _Worker:
    """One process, lent for one load."""

    def __init__(self, workers: Workers, process: WorkerProcess, load: Load) -> None:
        self.workers, self.process, self.load = workers, process, load
        self.told = Told()
        self.at_rest = False
        """Whether it waits for a task; else it is somewhere inside the box, or has ended."""

    def draw(
        self, request: Request, shape: Shape | None, deadline: float | None
    ) -> Iterator[HostArray]:
        """See `Lent`."""
        done, asked = 0, 0
        flights, kind = self.workers.flights, type(self.load.content[0][request.lane])
        self.at_rest = False
        try:
            self.process.say({"do": "draw", **request.as_task(shape)})
            while True:
                # The next chunk has begun, whether or not it ever comes to its end.
                begun = min(done + 1, request.stop - request.first) * request.rows
                self.workers.asked(begun - asked)
                asked = max(asked, begun)
                flights.begin(self, kind, asked - done * request.rows, time.monotonic())
                frame = self._hear(request, shape, deadline)
                flights.end(self, time.monotonic())
                self.at_rest = frame.header["tell"] != "outputs"
                if frame.header["tell"] == "done":
                    return
                found = outputs(frame, called(kind))
                self.told = told_in(frame)
                self.workers.note(self.told)
                done += frame.header["chunks"]
                yield found
        except Gone as gone:
            raise self._ended(gone, "while it sampled") from None
        finally:
            flights.forget(self)

    def _hear(self, request: Request, shape: Shape | None, deadline: float | None) -> Frame:
        """The next answer; a release that nothing interrupts from within ends its process."""
        asking = request.asking if shape is None else shape.asking
        if asking is None or asking.limit is None:
            return self.process.hear(deadline)
        until = time.monotonic() + request.rows * asking.limit + DEAF
        try:
            return self.process.hear(until if deadline is None else min(until, deadline))
        except Overdue:
            if deadline is not None and deadline <= until:
                raise
            raise SampleError(
                f"a release took longer than the {asking.limit:g} s that it has, and could not be "
                "interrupted"
            ) from None

    def query(self, data: int, deadline: float | None) -> Queried:
        """See `Lent`."""
        self.at_rest = False
        try:
            self.process.say({"do": "query", "data": data})
            frame = self.process.hear(deadline)
        except Gone as gone:
            raise self._ended(gone, "while it worked out its query") from None
        self.at_rest = True
        if frame.header["tell"] != "queried":
            raise problem(frame, "sample")
        return heard(frame)

    def take_in(self) -> None:
        """Makes the process hold the load; the box's time has not begun yet.

        Raises:
            SampleError: it cannot.
            Stopped: the run ends.
        """
        deadline = time.monotonic() + TO_LOAD
        try:
            while self.process.holds != self.load.number:
                if self.process.holds is None:
                    self.process.hear(deadline)  # that it is ready
                self.process.topic = self.load.topic
                sent_code = self.load.as_code  # another worker may bring it meanwhile
                self.process.say(*self.load.message())
                frame = self.process.hear(deadline)
                if frame.header["tell"] == "spoiled":
                    self.process = self.workers.replace(self.process)
                elif frame.header["tell"] == "loaded":
                    self.process.holds = self.load.number
                elif frame.header.get("type") in MISSING and (
                    self.load.may_bring_code or self.load.as_code > sent_code
                ):
                    self.process.holds = NOTHING
                    if self.load.may_bring_code:
                        self.load.bring_code()
                else:
                    self.process.holds = NOTHING
                    self.at_rest = True
                    raise SampleError(unloaded(frame))
        except Gone as gone:
            raise self._ended(gone, "before it sampled") from None
        except Overdue:
            raise LostError(
                f"a worker process did not load the mechanism within {TO_LOAD:g} s"
            ) from None
        self.at_rest = True

    def _ended(self, gone: Gone, when: str) -> Exception:
        if self.workers.stopped:
            return Stopped()
        return LostError(f"a worker process {gone} {when}")
