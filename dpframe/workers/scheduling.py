"""Requests to black boxes: terms, order, and batch sizes."""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
import itertools
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import cloudpickle
import numpy as np

from dpframe.common.text import message
from dpframe.errors import SampleError
from dpframe.workers import process as foreign_start
from dpframe.workers.process import Overdue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from dpframe.common.types import HostArray
    from dpframe.interfaces.mechanism import HostMechanism
    from dpframe.sampling.address import Asking, Shape, Stream
    from dpframe.workers.program.frames import Frame
    from dpframe.workers.program.querying import Queried


# Whose turn it is, where several searches or passes wait for the same worker processes.
#
# Without turns, who gives a worker back takes it again before anybody who waits has woken up, and
# a
# box that is asked for two workers at once waits until nobody else wants any. So each asks in a
# queue: who has had the least time comes first, and nobody passes the first, however little he
# wants.
# What is drawn does not depend on turns, only when.


class Ticket(NamedTuple):
    """A place in the queue."""

    number: int
    who: str


class Turns:
    """The queue, and the time that everybody has had. One thread at a time.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._numbers = clock, itertools.count()
        self._waiting: list[Ticket] = []
        self._used: dict[str, float] = {}
        """Seconds of workers that somebody has had and given back."""
        self._held: dict[int, tuple[Ticket, int, float]] = {}
        """Tickets whose workers are out: how many, and since when."""

    def enter(self, who: str) -> Ticket:
        """Asks for a turn.

        Who comes, or comes back, while others are at it has had as much as the least of them: he
        is not ahead for all the time in which he wanted nothing.
        """
        others = {t.who for t in self._waiting} | {t.who for t, _, _ in self._held.values()}
        if who not in others:
            least = min(map(self._had, others), default=0.0)
            self._used[who] = max(self._used.get(who, 0.0), least)
        ticket = Ticket(next(self._numbers), who)
        self._waiting.append(ticket)
        return ticket

    def is_next(self, ticket: Ticket) -> bool:
        """Whether everybody else waits for this one."""
        return ticket == min(self._waiting, key=lambda one: (self._had(one.who), one.number))

    def leave(self, ticket: Ticket) -> None:
        """It waits no more, whether or not it got anything."""
        self._waiting.remove(ticket)

    def take(self, ticket: Ticket, workers: int) -> None:
        """It has got workers."""
        self._held[ticket.number] = ticket, workers, self._clock()

    def give_back(self, ticket: Ticket) -> None:
        """It has no more of them."""
        _, workers, since = self._held.pop(ticket.number)
        self._used[ticket.who] += workers * (self._clock() - since)

    def _had(self, who: str) -> float:
        now = self._clock()
        out = [n * (now - since) for ticket, n, since in self._held.values() if ticket.who == who]
        return self._used[who] + sum(out)


# What a black box is asked for, and who asks: the terms on which workers are lent.


__all__ = [
    "Lent",
    "Load",
    "LostError",
    "Overdue",
    "RaisedError",
    "Request",
    "Source",
    "Stopped",
    "Told",
    "at_once",
    "called",
    "take_note",
]

MOST_WORDS = 1 << 14
"""Texts that a run keeps."""

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818  # nothing is wrong: the run ends
    """Somebody ends the run."""


class Load:
    """The mechanisms and the data of a pass, as worker processes take them in.

    Args:
        mechanisms: one per lane.
        data: the two datasets, as the pair made them.
    """

    _numbers = itertools.count()

    def __init__(self, mechanisms: tuple[HostMechanism, ...], data: tuple[Any, ...]) -> None:
        self.number = next(self._numbers)
        self.content = mechanisms, data
        self.topic = repr([(type(m).__qualname__, m.params()) for m in mechanisms])
        """What is alike for all pairs of a search: who prints something, prints it for that."""
        self.as_code = False
        """Whether the modules of the mechanisms travel with them."""
        self.sent: Any = None
        """Kept by what sends it elsewhere."""
        self._pickled: bytes | None = None
        self._foreign: tuple[dict[str, Any], bytes] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Load, self.content

    def pickled(self) -> bytes:
        """In bytes: classes and functions that no module has, such as a script's, go as code.

        Raises:
            SampleError: it cannot be handed to another process.
        """
        with _PICKLING:  # several workers may ask at once
            return self._pickled or self._made()

    def _made(self) -> bytes:
        if self._pickled is None:
            try:
                with contextlib.ExitStack() as stack:
                    for name in {type(m).__module__ for m in self.content[0]} & {*sys.modules}:
                        if self.as_code and name != "__main__":
                            stack.enter_context(by_value(sys.modules[name]))
                    self._pickled = cloudpickle.dumps(self.content)
            except Exception as error:  # whatever the code of an object raises
                raise SampleError(not_handed_over(error)) from error
        return self._pickled

    def message(self) -> tuple[dict[str, Any], bytes]:
        """What a worker is told to take it in; raises SampleError as `pickled` does."""
        if self._foreign is None and foreign_start.is_foreign(self.content[0]):
            self._foreign = foreign_start.task(*self.content)
        return self._foreign or ({"do": "load"}, self.pickled())

    @property
    def may_bring_code(self) -> bool:
        """Whether what a worker cannot import may still be handed over."""
        return not self.as_code and not foreign_start.is_foreign(self.content[0])

    def bring_code(self) -> None:
        """Hands the modules of the mechanisms over too: nobody else can import them."""
        with _PICKLING:
            self.as_code, self._pickled = True, None


_PICKLING = threading.RLock()

# A class that travels as code brings its fields along, and there is but one MISSING.
copyreg.pickle(type(dataclasses.MISSING), lambda _: "MISSING")


@contextlib.contextmanager
def by_value(module: ModuleType) -> Iterator[None]:
    """While it lasts, everything of a module is pickled as code."""
    with _PICKLING:
        cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            cloudpickle.unregister_pickle_by_value(module)


class Request(NamedTuple):
    """Which chunks of which dataset."""

    lane: int
    data: int
    """Which dataset is the input."""
    stream: Stream
    dataset: int
    """The dataset of the address; another one than the input only where addresses are tried out."""
    first: int
    stop: int
    rows: int
    asking: Asking | None = None
    """How answers of any kind are asked for, where nothing is known of one yet."""

    def as_task(self, shape: Shape | None) -> dict[str, Any]:
        """The request in words that a worker understands; with what is known of an output."""
        dims = None if shape is None else list(shape.dims)
        task = {**self._asdict(), "dims": dims, "dtype": shape and shape.dtype.name}
        del task["asking"]
        asking = self.asking if shape is None else shape.asking
        width = shape.width if shape is not None and asking is not None else None
        return {**task, "answers": asking and {**asking._asdict(), "width": width}}


class Told(NamedTuple):
    """What a worker says beside outputs."""

    answering: bool = False
    """Whether they are answers of any kind, as rows of 64-bit words."""
    natives: frozenset[tuple[int, ...] | None] = frozenset()
    """Shapes of those that are numbers; None stands for others; exceptions are left out."""
    words: Mapping[int, str] = {}
    """What some codes stand for."""
    paces: tuple[float, ...] = ()
    """Seconds per answer, each of a few of them, by the worker's clock."""


class RaisedError(SampleError):
    """The box raised an exception."""


class LostError(SampleError):
    """The process that held the box has ended, or could not begin."""


class Lent(Protocol):
    """A worker process for as long as somebody needs it."""

    @property
    def told(self) -> Told:
        """Of what it drew last."""

    def draw(
        self, request: Request, shape: Shape | None, deadline: float | None
    ) -> Iterator[HostArray]:
        """Draws chunks in their order.

        Args:
            request: which.
            shape: of one output, where it is known.
            deadline: until when, on the monotonic clock.

        Yields:
            Outputs of one or several chunks, shape [chunks × rows, *output dims].

        Raises:
            SampleError: the box, or its process, did something else than return outputs.
            Overdue: the deadline has come; the process is ended.
            Stopped: the run ends.
        """

    def query(self, data: int, deadline: float | None) -> Queried:
        """What the first mechanism of the load answers without noise.

        Args:
            data: number of the dataset.
            deadline: until when, on the monotonic clock.

        Raises:
            SampleError, Overdue, Stopped: as `draw` does.
        """


class Source(Protocol):
    """Where outputs of black boxes come from."""

    @property
    def calls(self) -> int:
        """Releases asked for so far, whatever for."""

    @property
    def most(self) -> int:
        """How many workers there can be."""

    @property
    def words(self) -> dict[int, str]:
        """What codes of kinds and of short values stand for, as far as workers have said so."""

    @property
    def released(self) -> int:
        """How many of these have come back, and about how far those are that have not."""

    def asked(self, releases: int) -> None:
        """Counts releases."""

    def note(self, told: Told) -> None:
        """Takes in what codes stand for."""

    def lend(self, load: Load, number: int = 1) -> AbstractContextManager[list[Lent]]:
        """Lends so many workers at once, or as many as there can be.

        Raises:
            SampleError: none can be made to hold the load.
            Stopped: the run ends.
        """

    def stop(self) -> None:
        """Ends whatever goes on, now; everybody who waits gets Stopped."""


def at_once(calls: Sequence[Callable[[], T]], most: int) -> list[T]:
    """What some calls give that wait for workers; at the same time, since releases may be dear.

    Args:
        calls: each waits for one worker.
        most: workers there can be; if they are fewer, one call comes after the other.
    """
    if most < len(calls):
        return [call() for call in calls]
    with ThreadPoolExecutor(len(calls)) as threads:
        return [found.result() for found in [threads.submit(call) for call in calls]]


def called(kind: type[HostMechanism]) -> str:
    """The method of a box that is called."""
    return "release" if kind.gives_releases() else "sample"


def take_note(words: dict[int, str], told: Told) -> None:
    """Adds to a glossary what a worker said."""
    if len(words) < MOST_WORDS:
        words.update(told.words)


def not_handed_over(error: Exception) -> str:
    """Why a black box cannot be handed to another process."""
    return (
        "a black box runs in a process of its own, and this one cannot be handed over: "
        f"{type(error).__name__}: {message(error)}"
    )


# What a worker process has said, as outputs or as what went wrong.


def outputs(frame: Frame, what: str) -> HostArray:
    """Outputs in an answer; any other answer is a mistake of the box."""
    if frame.header["tell"] != "outputs":
        raise problem(frame, what)
    found: HostArray = np.frombuffer(frame.content, np.dtype(frame.header["dtype"]))
    return found.reshape(frame.header["shape"])


def told_in(frame: Frame) -> Told:
    """What comes beside outputs."""
    header = frame.header
    natives = [None if shape is None else tuple(shape) for shape in header.get("natives", ())]
    words = {int(code): text for code, text in header.get("words", {}).items()}
    paces = tuple(header.get("paces", ()))
    return Told(header.get("answering", False), frozenset(natives), words, paces)


def unloaded(frame: Frame) -> str:
    """Why a mechanism could not be taken in."""
    if frame.header["tell"] == "refused":
        return str(frame.header["why"])
    return f"a worker could not load the mechanism ({frame.header.get('blame')})"


def problem(frame: Frame, what: str) -> SampleError:
    """What a box did instead of answering."""
    if frame.header["tell"] == "refused":
        return SampleError(frame.header["why"])
    return RaisedError(f"{what} raised {frame.header['blame']}")


# How fast a black box is, and how much of it to ask for at a time.


BUNDLE = 0.5
"""Seconds of work in a task: progress is smooth, and little is lost with it."""

GRACE = 1.0
"""Seconds that the first releases get however small the time budget is."""

NBYTES = 1 << 24
"""Outputs that a task holds at most."""


class Pace:
    """Measures tasks, and says how long the next one should be. It changes no draw.

    Args:
        nbytes: of the outputs of one chunk.
    """

    def __init__(self, nbytes: int) -> None:
        self.most = max(1, NBYTES // max(1, nbytes))
        self.seconds: float | None = None
        """What a chunk takes; None before the first."""
        self._lock = threading.Lock()

    def measured(self, chunks: int, seconds: float) -> None:
        """Takes in what some chunks took; the last ones weigh most."""
        if chunks < 1:
            return
        with self._lock:
            now = seconds / chunks
            self.seconds = now if self.seconds is None else (self.seconds + now) / 2

    @property
    def chunks(self) -> int:
        """How many chunks fill a task."""
        if self.seconds is None:
            return 1
        return max(1, min(self.most, int(BUNDLE / max(self.seconds, 1e-9))))


class Clock:
    """The time that a box has had: it runs while a worker is at it, and not while one is started.

    Args:
        limit: seconds that it gets; None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit, self._before = limit, 0.0
        self._at_work, self._since = 0, 0.0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While a worker is at the box; several may be."""
        with self._lock:
            if self._at_work == 0:
                self._since = time.monotonic()
            self._at_work += 1
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= 1
                if self._at_work == 0:
                    self._before += time.monotonic() - self._since

    def give_back(self, seconds: float) -> None:
        """Time in which it ran and the box could not, because others held the workers."""
        with self._lock:
            self._before -= seconds

    def used(self) -> float:
        """Seconds that it has had."""
        with self._lock:
            return self._used()

    def set(self, used: float) -> None:
        """As if it had had so many seconds until now."""
        with self._lock:
            self._before += used - self._used()

    def left(self) -> float | None:
        """Seconds that it still gets, negative afterwards; None without a limit."""
        with self._lock:
            return None if self._limit is None else self._limit - self._used()

    def deadline(self) -> float | None:
        """When its time is over, if it goes on; asked while it runs."""
        with self._lock:
            return None if self._limit is None else self._since + self._limit - self._before

    def _used(self) -> float:
        running = time.monotonic() - self._since if self._at_work else 0.0
        return self._before + running


# Chunks that several draw at once: ranges of them, handed out to whoever is free.


Which = tuple[Any, range]
"""Some draws, and which chunks of them."""


class Pool(Protocol):
    """Threads."""

    def submit(self, call: Callable[[], Any], /) -> Future[Any]:
        """Lets one of them make a call."""


class Daemons:
    """As many threads as are asked for, which end with the process whatever they are at."""

    def submit(self, call: Callable[[], Any], /) -> Future[Any]:
        """See `Pool`."""
        found: Future[Any] = Future()

        def work() -> None:
            try:
                found.set_result(call())
            except BaseException as error:  # it belongs to whoever waits
                found.set_exception(error)

        threading.Thread(target=work, name="dpframe-learn", daemon=True).start()
        return found


def handed_out(
    which: Sequence[Which], pace: Pace, draw: Callable[[Any, range], T], pool: Pool, most: int
) -> list[list[T]]:
    """What is drawn of some chunks, in as many tasks as that takes.

    Args:
        which: the chunks.
        pace: how many of them make a task.
        draw: draws a task.
        pool: threads that wait for it.
        most: tasks at once.

    Returns:
        For each part of `which` what its tasks gave, in the order of their chunks.
    """
    todo = _Tasks(which, pace)
    found: list[dict[int, T]] = [{} for _ in which]

    def work() -> None:
        while (task := todo.take()) is not None:
            place, (of, chunks) = task
            started = time.monotonic()
            try:
                found[place][chunks.start] = draw(of, chunks)
            except BaseException:  # what is asked for after the first would be for nothing
                todo.stop()
                raise
            pace.measured(len(chunks), time.monotonic() - started)

    number = max(1, min(sum(len(chunks) for _, chunks in which), most))
    for worker in [pool.submit(work) for _ in range(number)]:
        try:
            worker.result()
        except BaseException:  # Ctrl-C, too
            todo.stop()
            raise
    return [[parts[first] for first in sorted(parts)] for parts in found]


class _Tasks:
    """Consecutive ranges of chunks."""

    def __init__(self, which: Sequence[Which], pace: Pace) -> None:
        self._left, self._place, self._pace = list(which), 0, pace
        self._lock = threading.Lock()

    def take(self) -> tuple[int, Which] | None:
        """The next range, and to which part it belongs, or None when there is nothing left."""
        with self._lock:
            while self._place < len(self._left):
                of, chunks = self._left[self._place]
                if chunks:
                    size = self._pace.chunks  # asked once: it changes at any time
                    self._left[self._place] = of, chunks[size:]
                    return self._place, (of, chunks[:size])
                self._place += 1
            return None

    def stop(self) -> None:
        """Nothing is left."""
        with self._lock:
            self._place = len(self._left)


# Releases that are under way: a box says nothing until all rows of a call are there.


class _Flight(NamedTuple):
    kind: Any
    releases: int
    since: float


class Flights:
    """Guesses how far calls are, from how long earlier ones took; it serves a display only."""

    def __init__(self) -> None:
        self._under_way: dict[Any, _Flight] = {}
        self._paces: dict[Any, float] = {}
        """Seconds per release, by the class of the box."""
        self._lock = threading.Lock()

    def begin(self, caller: Any, kind: Any, releases: int, now: float) -> None:
        """Somebody waits for so many releases.

        Args:
            caller: who waits, for one thing at a time.
            kind: what is alike in its pace.
            releases: how many will come at once.
            now: seconds.
        """
        with self._lock:
            self._under_way[caller] = _Flight(kind, releases, now)

    def end(self, caller: Any, now: float) -> None:
        """They have come."""
        with self._lock:
            flight = self._under_way.pop(caller, None)
            if flight is not None and flight.releases:
                self._paces[flight.kind] = (now - flight.since) / flight.releases

    def forget(self, caller: Any) -> None:
        """Whatever it waited for will not come."""
        with self._lock:
            self._under_way.pop(caller, None)

    def ahead(self, now: float) -> int:
        """About how many releases of those under way are still to be made."""
        with self._lock:
            return sum(self._left(flight, now) for flight in self._under_way.values())

    def _left(self, flight: _Flight, now: float) -> int:
        pace = self._paces.get(flight.kind)
        done = int((now - flight.since) / pace) if pace else 0
        # The last one is not there before it is said to be.
        return max(min(1, flight.releases), flight.releases - done)
