"""Worker processes for black boxes: started once, lent out, ended when a box does not come back."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import cloudpickle
import numpy as np

from dpframe.blame import blame, message
from dpframe.engine.flights import Flights
from dpframe.engine.processes import available_cores
from dpframe.engine.worker.sampling import Refused, Sampler
from dpframe.engine.worker_process import Gone, Overdue, WorkerProcess, end
from dpframe.errors import SampleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from dpframe.engine.address import Stream
    from dpframe.engine.shape import Shape
    from dpframe.engine.worker.frames import Frame
    from dpframe.mechanism import HostMechanism
    from dpframe.types import HostArray

__all__ = ["Here", "Load", "Overdue", "Request", "Source", "Stopped", "Workers", "at_once"]


T = TypeVar("T")


class Stopped(Exception):  # noqa: N818  # nothing is wrong: the run ends
    """Somebody ends the run."""


TO_LOAD = 60.0
"""Seconds in which a process has to start, and to import what the mechanism needs."""

MISSING = ("ModuleNotFoundError", "ImportError", "AttributeError")
"""What a process says to a module, or a part of one, that only this process has."""

NOTHING = -1
"""Number of no load."""


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
        self.as_code = False
        """Whether the modules of the mechanisms travel with them."""
        self._pickled: bytes | None = None

    def pickled(self) -> bytes:
        """In bytes: classes and functions that no module has, such as a script's, go as code.

        Raises:
            SampleError: it cannot be handed to another process.
        """
        if self._pickled is None:
            try:
                with contextlib.ExitStack() as stack:
                    for name in {type(m).__module__ for m in self.content[0]} & {*sys.modules}:
                        if self.as_code and name != "__main__":
                            stack.enter_context(_by_value(sys.modules[name]))
                    self._pickled = cloudpickle.dumps(self.content)
            except Exception as error:  # whatever the code of an object raises
                raise SampleError(_not_handed_over(error)) from error
        return self._pickled

    def bring_code(self) -> None:
        """Hands the modules of the mechanisms over too: nobody else can import them."""
        self.as_code, self._pickled = True, None


_PICKLING = threading.RLock()


@contextlib.contextmanager
def _by_value(module: ModuleType) -> Iterator[None]:
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


class Lent(Protocol):
    """A worker process for as long as somebody needs it."""

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


class Source(Protocol):
    """Where outputs of black boxes come from."""

    calls: int
    """Releases asked for so far, whatever for."""
    most: int
    """How many workers there can be."""

    @property
    def released(self) -> int:
        """How many of these have come back, and about how far those are that have not."""

    def lend(self, load: Load, number: int = 1) -> AbstractContextManager[list[Lent]]:
        """Lends so many workers at once, or as many as there can be.

        Raises:
            SampleError: none can be made to hold the load.
            Stopped: the run ends.
        """

    def stop(self) -> None:
        """Ends whatever goes on, now; everybody who waits gets Stopped."""


class Workers:
    """Worker processes of one run; a process starts when it is first needed.

    Args:
        most: how many at once; default: one per core, and two at least, since what is wrong with a
            box's randomness may show only between processes.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = max(2, most or available_cores())
        self.calls = 0
        self._flights = Flights()
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
        load.pickled()  # a mistake costs no process
        lent = [_Worker(self, p, load) for p in self._take(load, number)]
        try:
            for worker in lent:
                worker.take_in()
            yield list(lent)
        finally:
            end(*(worker.process for worker in lent if not worker.at_rest))
            with self._change:
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
        """Counts releases."""
        with self._change:
            self.calls += releases

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
            new = WorkerProcess()
            self._busy.discard(old)
            self._busy.add(new)
        return new

    def _take(self, load: Load, number: int) -> list[WorkerProcess]:
        with self._change:
            while not self._stopped:
                free = self.most - len(self._busy)
                if free >= number:
                    # Those that hold the load already come first.
                    self._idle.sort(key=lambda process: process.holds != load.number)
                    taken, self._idle = self._idle[:number], self._idle[number:]
                    taken += [WorkerProcess() for _ in range(number - len(taken))]
                    self._busy.update(taken)
                    return taken
                self._change.wait()
            raise Stopped


class _Worker:
    """One process, lent for one load."""

    def __init__(self, workers: Workers, process: WorkerProcess, load: Load) -> None:
        self.workers, self.process, self.load = workers, process, load
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
            self.process.say({"do": "draw", **_wanted(request, shape)})
            while True:
                # The next chunk has begun, whether or not it ever comes to its end.
                begun = min(done + 1, request.stop - request.first) * request.rows
                self.workers.asked(begun - asked)
                asked = max(asked, begun)
                flights.begin(self, kind, asked - done * request.rows, time.monotonic())
                frame = self.process.hear(deadline)
                flights.end(self, time.monotonic())
                self.at_rest = frame.header["tell"] != "outputs"
                if frame.header["tell"] == "done":
                    return
                outputs = _outputs(frame)
                done += frame.header["chunks"]
                yield outputs
        except Gone as gone:
            raise self._ended(gone, "while it sampled") from None
        finally:
            flights.forget(self)

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
                self.process.say({"do": "load"}, self.load.pickled())
                frame = self.process.hear(deadline)
                if frame.header["tell"] == "spoiled":
                    self.process = self.workers.replace(self.process)
                elif frame.header["tell"] == "loaded":
                    self.process.holds = self.load.number
                elif frame.header.get("type") in MISSING and not self.load.as_code:
                    self.process.holds = NOTHING
                    self.load.bring_code()
                else:
                    self.process.holds = NOTHING
                    self.at_rest = True
                    raise SampleError(_unloaded(frame))
        except Gone as gone:
            raise self._ended(gone, "before it sampled") from None
        except Overdue:
            raise SampleError(
                f"a worker process did not load the mechanism within {TO_LOAD:g} s"
            ) from None
        self.at_rest = True

    def _ended(self, gone: Gone, when: str) -> Exception:
        if self.workers.stopped:
            return Stopped()
        return SampleError(f"a worker process {gone} {when}")


class Here:
    """Draws in this process: for tests, and where the process is a worker already.

    What hangs or crashes takes everything along.
    """

    def __init__(self) -> None:
        self.calls, self.most = 0, 1

    @property
    def released(self) -> int:
        """See `Source`; nothing is under way while somebody asks."""
        return self.calls

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @contextlib.contextmanager
    def lend(self, load: Load, number: int = 1) -> Iterator[list[Lent]]:
        """See `Source`."""
        try:
            sampler = Sampler(*load.content)
        except Exception as error:  # what cannot be copied
            raise SampleError(_not_handed_over(error)) from error
        yield [_Inline(self, sampler)] * number

    def stop(self) -> None:
        """See `Source`; there is nothing to end."""


class _Inline:
    def __init__(self, here: Here, sampler: Sampler) -> None:
        self.here, self.sampler = here, sampler

    def draw(
        self, request: Request, shape: Shape | None, deadline: float | None
    ) -> Iterator[HostArray]:
        """See `Lent`."""
        self.here.calls += (request.stop - request.first) * request.rows
        try:
            for drawn in self.sampler.draw(_wanted(request, shape)):
                yield drawn.outputs
                if deadline is not None and time.monotonic() >= deadline:
                    raise Overdue
        except (Overdue, GeneratorExit):
            raise
        except Refused as refused:
            raise SampleError(str(refused)) from None
        except BaseException as error:
            raise SampleError(f"sample raised {blame(error)}") from error


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


def _wanted(request: Request, shape: Shape | None) -> dict[str, Any]:
    dims = None if shape is None else list(shape.dims)
    return {**request._asdict(), "dims": dims, "dtype": shape and shape.dtype.name}


def _outputs(frame: Frame) -> HostArray:
    """Outputs in an answer; any other answer is a mistake of the box."""
    if frame.header["tell"] != "outputs":
        raise _problem(frame)
    found: HostArray = np.frombuffer(frame.content, np.dtype(frame.header["dtype"]))
    return found.reshape(frame.header["shape"])


def _not_handed_over(error: Exception) -> str:
    return (
        "a black box runs in a process of its own, and this one cannot be handed over: "
        f"{type(error).__name__}: {message(error)}"
    )


def _unloaded(frame: Frame) -> str:
    return f"a worker could not load the mechanism ({frame.header.get('blame')})"


def _problem(frame: Frame) -> SampleError:
    if frame.header["tell"] == "refused":
        return SampleError(frame.header["why"])
    return SampleError(f"sample raised {frame.header['blame']}")
