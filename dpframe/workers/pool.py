"""A pool of worker processes for black boxes."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dpframe.common import machine, text
from dpframe.errors import SampleError
from dpframe.workers import requests
from dpframe.workers.process import Gone, Remarks, WorkerProcess, end
from dpframe.workers.program.frames import Frame, NoFrameError
from dpframe.workers.program.query import Queried, Refused, heard

TO_LOAD = 60.0
"""Seconds in which a process must start and load the box, if another one has done so before."""

FIRST_LOAD = 600.0
"""The same if none has: the trial call of a plan comes first, and the machine may be busy."""

TIMES = 10  # a load may take this multiple of the longest earlier load in any case

MISSING = ("ModuleNotFoundError", "ImportError", "AttributeError")
"""Exceptions of a process that lacks a module, or a part of one, which this process has."""

DEAF = 5.0
"""Seconds that a process gets beyond the limits of all requested releases."""

NOTHING = -1  # number of no load


@dataclasses.dataclass(eq=False)
class Ticket:
    """A place in the queue, and the workers that it holds once it is served."""

    owner: str
    workers: int = 0
    since: float = 0.0


class FairQueue:
    """The order in which searches and passes are lent workers: least time used comes first.

    Without a queue, a caller that gives a worker back would take it again before other threads wake
    up, and a caller that needs two at once would wait until no other needs one. Requests are served
    in this order whatever their size. Draws do not depend on it. Not thread-safe.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: list[Ticket] = []  # the oldest first
        self._holding: list[Ticket] = []
        self._used: dict[str, float] = {}
        """Seconds of workers that owners have had and given back."""

    def enter(self, owner: str) -> Ticket:
        """Ask for workers.

        A new or returning owner starts with the least time that the others have used, so it gains
        nothing by a pause.
        """
        others = {ticket.owner for ticket in (*self._waiting, *self._holding)}
        if owner not in others:
            least = min(map(self._had, others), default=0.0)
            self._used[owner] = max(self._used.get(owner, 0.0), least)
        self._waiting.append(Ticket(owner))
        return self._waiting[-1]

    def is_next(self, ticket: Ticket) -> bool:
        """True if a ticket is to be served before all others."""
        return ticket is min(self._waiting, key=lambda one: self._had(one.owner))

    def leave(self, ticket: Ticket) -> None:
        """Remove a ticket that no longer waits, served or not."""
        self._waiting.remove(ticket)

    def take(self, ticket: Ticket, workers: int) -> None:
        """Note that a ticket holds workers."""
        ticket.workers, ticket.since = workers, self._clock()
        self._holding.append(ticket)

    def give_back(self, ticket: Ticket) -> None:
        """Note that a ticket has given its workers back."""
        self._holding.remove(ticket)
        self._used[ticket.owner] += ticket.workers * (self._clock() - ticket.since)

    def _had(self, owner: str) -> float:
        now, held = self._clock(), (one for one in self._holding if one.owner == owner)
        return self._used[owner] + sum(one.workers * (now - one.since) for one in held)


class UnderWay:
    """Estimates the progress of calls from the time of earlier ones, for the display only.

    A box returns all rows of a call at once.
    """

    def __init__(self) -> None:
        self._calls: dict[Any, tuple[Any, int, float]] = {}
        """By caller: kind of box, number of releases, and start."""
        self._seconds: dict[Any, float] = {}  # time per release, by the kind of box
        self._lock = threading.Lock()

    def begin(self, caller: Any, kind: Any, releases: int, now: float) -> None:
        """Note that a caller waits for releases of a kind of box."""
        with self._lock:
            self._calls[caller] = kind, releases, now

    def end(self, caller: Any, now: float) -> None:
        """Note that they have come."""
        with self._lock:
            kind, releases, since = self._calls.pop(caller, (None, 0, now))
            if releases:
                self._seconds[kind] = (now - since) / releases

    def forget(self, caller: Any) -> None:
        """Note that the releases will not come."""
        with self._lock:
            self._calls.pop(caller, None)

    def ahead(self, now: float) -> int:
        """Estimate how many of the releases under way are still missing."""
        missing = 0
        with self._lock:
            for kind, releases, since in self._calls.values():
                seconds = self._seconds.get(kind)
                done = int((now - since) / seconds) if seconds else 0
                # The last release is missing until the call returns.
                missing += max(min(1, releases), releases - done)
        return missing


class Workers(requests.WorkerSource):
    """Worker processes of one run, `most` lent at a time; one starts when it is first needed.

    Default: one per core, at least two, because a fault of a box's randomness may show only between
    processes. `interpreters` has the path of each environment's interpreter by name.
    """

    def __init__(
        self, most: int | None = None, interpreters: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self._most = max(2, most or machine.available_cores())
        self.interpreters = interpreters or {}
        self.under_way = UnderWay()
        self.stopped = False
        self._slowest: float | None = None
        self._remarks, self._queue = Remarks(), FairQueue()
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._change = threading.Condition()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, number: int) -> None:
        """Start processes before they are needed, so that they import in the meantime."""
        with contextlib.suppress(SampleError), self._change:  # raised again when they are lent
            self._idle += [WorkerProcess(remarks=self._remarks) for _ in range(number)]

    @contextlib.contextmanager
    def lend(self, load: requests.Load, number: int = 1) -> Iterator[list[requests.Lent]]:
        load.message()  # raises before a process starts
        ticket, taken = self._take(load, number)
        lent = [_Worker(self, p, load) for p in taken]
        try:
            for worker in lent[1:]:
                worker.ask_early()
            for worker in lent:
                worker.take_in()
            yield list(lent)
        finally:
            end(*(worker.process for worker in lent if not worker.at_rest))
            with self._change:
                self._queue.give_back(ticket)
                self._busy.difference_update(worker.process for worker in lent)
                if not self.stopped:
                    self._idle += [worker.process for worker in lent if worker.process.alive]
                self._change.notify_all()

    def stop(self) -> None:
        """See `WorkerSource`; also called when a run ends in order."""
        with self._change:
            self.stopped = True
            processes = [*self._idle, *self._busy]
            self._idle.clear()
            self._change.notify_all()
        end(*processes)

    @property
    def released(self) -> int:
        return self.calls - self.under_way.ahead(time.monotonic())

    @property
    def most(self) -> int:
        return self._most

    @property
    def to_load(self) -> float:
        """Seconds in which a process must load a box, judging by earlier ones."""
        return FIRST_LOAD if self._slowest is None else max(TO_LOAD, TIMES * self._slowest)

    def loaded_in(self, seconds: float) -> None:
        """Note how long a process took."""
        with self._change:
            self._slowest = max(self._slowest or 0.0, seconds)

    def replace(self, old: WorkerProcess) -> WorkerProcess:
        """Replace a process whose state a box has changed by a new one."""
        end(old)
        with self._change:
            if self.stopped:
                raise requests.Stopped
            new = WorkerProcess(old.interpreter, self._remarks)
            self._busy.discard(old)
            self._busy.add(new)
        return new

    def _interpreter_of(self, load: requests.Load) -> str | None:
        """Return the path of a load's interpreter; None for that of this process."""
        if not load.is_external:
            return None
        box: Any = load.content[0][0]
        if box.environment is None:
            return sys.executable
        if box.environment not in self.interpreters:
            raise SampleError(f"there is no environment {box.environment!r} to run it in")
        return self.interpreters[box.environment]

    def _take(self, load: requests.Load, number: int) -> tuple[Ticket, list[WorkerProcess]]:
        interpreter = self._interpreter_of(load)
        with self._change:
            ticket = self._queue.enter(load.topic)
            try:
                self._change.wait_for(
                    lambda: (
                        self.stopped
                        or (self._queue.is_next(ticket) and self.most - len(self._busy) >= number)
                    )
                )
                if self.stopped:
                    raise requests.Stopped
                taken = self._chosen(load, interpreter, number)
                self._queue.take(ticket, number)
                return ticket, taken
            finally:
                self._queue.leave(ticket)
                self._change.notify_all()  # another ticket is next

    def _chosen(
        self, load: requests.Load, interpreter: str | None, number: int
    ) -> list[WorkerProcess]:
        # Processes that hold the load come first, then those that have imported its library.
        own = load.code
        fit = [process for process in self._idle if process.interpreter == interpreter]
        if load.is_external:  # a process runs one module: another's would have to be replaced
            fit = [process for process in fit if process.imported in ("", own)]
        fit.sort(key=lambda process: (process.holds != load.number, process.imported != own))
        taken = fit[:number]
        self._idle = [process for process in self._idle if process not in taken]
        # Processes of other loads are kept too, up to a limit: those idle longest end.
        most = max(0, 2 * self.most - len(self._busy) - number)
        spare = self._idle[: max(0, len(self._idle) - most)]
        self._idle = self._idle[len(spare) :]
        end(*spare)
        try:
            while len(taken) < number:
                taken.append(WorkerProcess(interpreter, self._remarks))
        except BaseException:  # nothing would end processes that are neither idle nor busy
            end(*taken)
            raise
        self._busy.update(taken)
        return taken


class _Worker(requests.Lent):
    """One process, lent for one load: see `Lent`."""

    def __init__(self, workers: Workers, process: WorkerProcess, load: requests.Load) -> None:
        self.workers, self.process, self.load = workers, process, load
        self.at_rest = False
        """True if it waits for a task; else it is somewhere inside the box, or has ended."""
        self._asked = False  # asked to load the box; the answer was not read yet
        self._sent_code = 0  # `Load.as_code` at that time

    def draw(self, request: requests.Request, deadline: float | None) -> Iterator[requests.Drawn]:
        done, asked = 0, 0
        under_way, kind = self.workers.under_way, type(self.load.content[0][request.lane])
        self._begin(request)
        try:
            while True:
                # The next chunk has begun, even if it never ends.
                begun = min(done + 1, request.stop - request.first) * request.rows
                self.workers.asked(max(0, begun - asked))
                asked = max(asked, begun)
                under_way.begin(self, kind, asked - done * request.rows, time.monotonic())
                left = request._replace(first=request.first + done)
                try:
                    frame = self._hear(request, deadline)
                    self.at_rest = frame.header["tell"] != "outputs"
                    found = requests.drawn(frame, left, requests.called(kind))
                except (Gone, NoFrameError) as error:
                    gone = error if isinstance(error, Gone) else self.process.refused(error)
                    if not self._may_try_again(kind):
                        raise self._ended(gone, "while it sampled") from None
                    self._begin(left)
                    continue
                under_way.end(self, time.monotonic())
                if found is None:
                    return
                told = requests.told_in(frame)
                self.workers.note(told)
                done += frame.header["chunks"]
                yield requests.Drawn(found, told)
        finally:
            under_way.forget(self)

    def _begin(self, request: requests.Request) -> None:
        self.at_rest = False
        try:
            self.process.say({"do": "draw", **request.as_task()})
        except Gone as gone:
            raise self._ended(gone, "while it sampled") from None

    def _may_try_again(self, kind: type[Any]) -> bool:
        """Take another process if an earlier box may have broken this one; True if so.

        A box without a seed is tried again only after an invalid answer, because leaving out the
        draws during which its process ended would bias the counts.
        """
        nonsense = self.process.nonsense is not None
        if self.workers.stopped or self.process.topics <= {self.load.topic}:
            return False
        if not (nonsense or getattr(self.load.content[0][0], "seedable", False)):
            return False
        self.process = self.workers.replace(self.process)
        self.take_in()
        return True

    def _hear(self, request: requests.Request, deadline: float | None) -> Frame:
        """Return the next answer; a release that cannot be interrupted raises SampleError."""
        asking = request.terms
        if asking is None or asking.limit is None:
            return self.process.hear(deadline)
        until = time.monotonic() + request.rows * asking.limit + DEAF
        try:
            return self.process.hear(until if deadline is None else min(until, deadline))
        except requests.Overdue:
            if deadline is not None and deadline <= until:
                raise
            raise SampleError(
                f"a release took longer than the {asking.limit:g} s allowed, and could not be "
                "interrupted"
            ) from None

    def query(self, data: int, deadline: float | None) -> Queried:
        self.at_rest = False
        try:
            self.process.say({"do": "query", "data": data})
            frame = self.process.hear(deadline)
        except Gone as gone:
            raise self._ended(gone, "while it computed its query") from None
        self.at_rest = True
        if frame.header["tell"] != "queried":
            raise requests.problem(frame, "sample")
        try:
            return heard(frame)
        except Refused as refused:
            raise SampleError(str(refused)) from None

    def ask_early(self) -> None:
        """Ask the process to load the box before `take_in`, so that several load at once."""
        if self.process.holds != self.load.number:
            with contextlib.suppress(Gone, requests.Overdue):  # else `take_in` finds it
                self._ask(time.monotonic() + self.workers.to_load)

    def take_in(self) -> None:
        """Make the process load the box, before the box's time begins.

        Raises SampleError if it cannot, Stopped if the run ends.
        """
        began, limit = time.monotonic(), self.workers.to_load
        deadline = began + limit
        try:
            while self.process.holds != self.load.number:
                try:
                    frame = self._loaded(deadline)
                except Gone:
                    if self.workers.stopped or self.process.topics <= {self.load.topic}:
                        raise
                    self.process = self.workers.replace(self.process)  # an earlier box broke it
                    continue
                if frame.header["tell"] == "spoiled":
                    self.process = self.workers.replace(self.process)
                elif frame.header["tell"] == "loaded":
                    self.process.holds = self.load.number
                    self.workers.loaded_in(time.monotonic() - began)
                elif frame.header.get("type") in MISSING and (
                    self.load.may_bring_code or self.load.as_code > self._sent_code
                ):
                    self.process.holds = NOTHING
                    if self.load.may_bring_code:
                        self.load.bring_code()
                else:
                    self.process.holds = NOTHING
                    self.at_rest = True
                    if frame.header["tell"] == "refused":
                        raise requests.problem(frame, "sample")
                    why = text.escape(str(frame.header.get("blame")))
                    raise SampleError(f"a worker could not load the mechanism ({why})")
        except Gone as gone:
            raise self._ended(gone, "before it sampled") from None
        except requests.Overdue:
            raise requests.LostError(
                f"a worker process did not load the mechanism within {limit:g} s"
            ) from None
        self.at_rest = True

    def _loaded(self, deadline: float) -> Frame:
        """Ask the process to load the box, unless it was asked, and return its answer."""
        if not self._asked:
            self._ask(deadline)
        self._asked = False
        return self.process.hear(deadline)

    def _ask(self, deadline: float) -> None:
        if self.process.holds is None:
            self.process.hear(deadline)  # "ready"
        self.process.topic, self.process.imported = self.load.topic, self.load.code
        self.process.topics.add(self.load.topic)
        self._sent_code = self.load.as_code  # another worker may send the code later
        self.process.say(*self.load.message())
        self._asked = True

    def _ended(self, gone: Gone, when: str) -> Exception:
        if self.workers.stopped:
            return requests.Stopped()
        return requests.LostError(f"a worker process {gone} {when}")
