"""Requests to black boxes: their form, the workers that serve them, and the size of tasks."""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
import itertools
import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np

from dpframe.common.text import escape, message
from dpframe.common.types import HostArray
from dpframe.errors import SampleError
from dpframe.interfaces.attack import BEFORE, Answers
from dpframe.interfaces.mechanism import ForeignMechanism, HostMechanism
from dpframe.workers.program.frames import Frame, NoFrameError

if TYPE_CHECKING:
    from dpframe.sampling.address import Asking, Shape, Stream
    from dpframe.workers.program.query import Queried

BUNDLE = 0.5  # seconds of work in a task: progress is smooth, and little is lost with it
GRACE = 1.0  # seconds that the first releases get, however small the time budget is
NBYTES = 1 << 24  # bytes of outputs that a task holds at most
MOST_WORDS = 1 << 14  # texts that a run keeps
MOST_SAID = 1 << 14  # characters of such a text

T = TypeVar("T")
Q = TypeVar("Q")


class Stopped(Exception):  # noqa: N818  # nothing is wrong
    """The run ends."""


class Overdue(Exception):  # noqa: N818
    """A process did not answer in time; it goes on."""


class RaisedError(SampleError):
    """The box raised an exception."""


class LostError(SampleError):
    """The process that held the box has ended, or could not begin."""


# Requests.


class Load:
    """The mechanisms of a pass, one per lane, and its data, in the form that workers load."""

    _numbers = itertools.count()

    def __init__(self, mechanisms: tuple[HostMechanism, ...], data: tuple[Any, ...]) -> None:
        self.number = next(self._numbers)
        self.content = mechanisms, data
        self.topic = repr([(type(m).__qualname__, m.params()) for m in mechanisms])
        """Equal for all pairs of a search: workers are shared, and prints repeated, by topic."""
        self.as_code = False  # True if the modules of the mechanisms are sent too
        self.sent: Any = None  # a place for `RemoteBoxes`
        self._message: tuple[dict[str, Any], bytes] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Load, self.content

    @property
    def is_external(self) -> bool:
        """True if the boxes are modules for any interpreter."""
        return isinstance(self.content[0][0], ForeignMechanism)

    @property
    def code(self) -> str:
        """Name of the code that a process imports for it; equal names cost no second import."""
        if self.is_external:
            return str(self.message()[0]["digest"])
        return repr([(type(m).__module__, type(m).__qualname__) for m in self.content[0]])

    def message(self) -> tuple[dict[str, Any], bytes]:
        """Return the header and content of the request to load it.

        Classes and functions that are in no module, such as a script's, are sent as code.

        Raises:
            SampleError: it cannot be handed to another process.
        """
        with _PICKLING:  # several workers may ask at once
            if self._message is None:
                if self.is_external:
                    from dpframe.workers.process import external_load

                    self._message = external_load(*self.content)
                else:
                    self._message = {"do": "load"}, self._pickled()
            return self._message

    def _pickled(self) -> bytes:
        import cloudpickle

        try:
            with contextlib.ExitStack() as stack:
                for name in {type(m).__module__ for m in self.content[0]} & {*sys.modules}:
                    if self.as_code and name != "__main__":
                        stack.enter_context(by_value(sys.modules[name]))
                pickled: bytes = cloudpickle.dumps(self.content)
                return pickled
        except Exception as error:  # whatever the code of an object raises
            raise SampleError(not_handed_over(error)) from error

    @property
    def may_bring_code(self) -> bool:
        """True if code that a worker cannot import can still be sent to it."""
        return not self.as_code and not self.is_external

    def bring_code(self) -> None:
        """Send the modules of the mechanisms too, because only this process can import them."""
        with _PICKLING:
            self.as_code, self._message = True, None


_PICKLING = threading.RLock()

# A class that travels as code brings its fields along, and there must be one MISSING only.
copyreg.pickle(type(dataclasses.MISSING), lambda _: "MISSING")


@contextlib.contextmanager
def by_value(module: ModuleType) -> Iterator[None]:
    """Pickle everything in a module as code inside the context."""
    import cloudpickle

    with _PICKLING:
        cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def not_handed_over(error: Exception) -> str:
    """Return the message about a black box that cannot be sent to another process."""
    return (
        "a black box runs in its own process, and this one cannot be sent there: "
        f"{type(error).__name__}: {message(error)}"
    )


class Request(NamedTuple):
    """Chunks of one dataset."""

    lane: int
    data: int  # number of the dataset that is the input
    stream: Stream
    dataset: int
    """The dataset of the address; it differs from the input only where addresses are tested."""
    first: int
    stop: int
    rows: int
    asking: Asking | None = None
    """Terms of asking for answers of any kind, before the shape of an answer is known."""

    def terms(self, shape: Shape | None) -> Asking | None:
        """Return the terms of asking, given the shape if it is known; None for plain arrays."""
        return self.asking if shape is None else shape.asking

    def as_task(self, shape: Shape | None) -> dict[str, Any]:
        """Return the request as a worker reads it, with the shape if it is known."""
        asking = self.terms(shape)
        width = shape.width if shape is not None and asking is not None else None
        task = self._asdict()
        del task["asking"]
        return {
            **task,
            "dims": None if shape is None else list(shape.dims),
            "dtype": shape and shape.dtype.name,
            "answers": asking and {**asking._asdict(), "width": width},
        }


class Told(NamedTuple):
    """Information about outputs that a worker sends with them."""

    answering: bool = False  # True if they are answers of any kind, as rows of 64-bit words
    natives: frozenset[tuple[int, ...] | None] = frozenset()
    """Shapes of answers that are numbers; None stands for other answers but exceptions."""
    words: Mapping[int, str] = {}  # texts of some codes
    paces: tuple[float, ...] = ()
    """Seconds per answer, each averaged over a few answers, by the worker's clock."""


# The workers that serve requests.


class Lent(Protocol):
    """A worker process that is lent for one load."""

    @property
    def told(self) -> Told:
        """Information about the last outputs."""

    def draw(
        self, request: Request, shape: Shape | None, deadline: float | None
    ) -> Iterator[HostArray]:
        """Draw chunks in their order, until a monotonic time if one is given.

        Yields:
            Outputs of one or several chunks, shape [chunks × rows, *output dims].

        Raises:
            SampleError: the box, or its process, failed to return outputs.
            Overdue: the deadline has passed; the process is ended.
            Stopped: the run ends.
        """

    def query(self, data: int, deadline: float | None) -> Queried:
        """Return the answer of the first mechanism of the load without noise.

        Raises:
            SampleError, Overdue, Stopped: as `draw` does.
        """


class Source(Protocol):
    """Lends workers that draw from black boxes, and counts the releases of a run."""

    @property
    def calls(self) -> int:
        """Releases asked for so far, for any purpose."""

    @property
    def released(self) -> int:
        """Releases that have come back, with a guess for those under way."""

    @property
    def words(self) -> dict[int, str]:
        """Texts of codes of kinds and of short values that workers have sent."""

    @property
    def most(self) -> int:
        """Number of workers that can be lent at once."""

    def asked(self, releases: int) -> None:
        """Count releases."""

    def note(self, told: Told) -> None:
        """Take in the texts of codes."""

    def lend(self, load: Load, number: int = 1) -> AbstractContextManager[list[Lent]]:
        """Lend `number` workers at once, or the largest possible number.

        Raises:
            SampleError: no worker can load it.
            Stopped: the run ends.
        """

    def stop(self) -> None:
        """End all draws now; calls that wait raise Stopped."""


def called(kind: type[HostMechanism]) -> str:
    """Return the name of the method by which a box is called."""
    return "release" if kind.gives_releases() else "sample"


def take_note(words: dict[int, str], told: Told) -> None:
    """Add the texts that a worker has sent, unless there are too many."""
    if len(words) < MOST_WORDS:
        words.update(told.words)


# Batch sizes and time limits.


def outputs(frame: Frame, method: str) -> HostArray:
    """Return the outputs in an answer; for any other answer raise its error."""
    if frame.header["tell"] != "outputs":
        raise problem(frame, method)
    found: HostArray = np.frombuffer(frame.content, np.dtype(frame.header["dtype"]))
    return found.reshape(frame.header["shape"])


def drawn(frame: Frame, left: Request, shape: Shape | None, method: str) -> HostArray | None:
    """Return the outputs in an answer; None at the end.

    A box shares the process that writes answers, so everything in them is checked. `left` has the
    chunks still to come, `method` is the name of the box's method.

    Raises:
        NoFrameError: it does not answer the request.
        SampleError: it reports an error in place of outputs.
    """
    header, chunks = frame.header, left.stop - left.first
    if header["tell"] == "done" and not chunks:
        return None
    if header["tell"] in ("refused", "raised"):
        raise problem(frame, method)
    if header["tell"] != "outputs" or not 1 <= header["chunks"] <= chunks:
        raise NoFrameError("its answers are not those that were asked for")
    found = _array_of(frame, header["chunks"] * left.rows)
    answering = header["answering"]
    if answering != (left.terms(shape) is not None) and not (answering and shape is None):
        raise NoFrameError("its outputs have a different form than before")
    if shape is not None and (found.shape[1:], found.dtype.name) != (shape.dims, shape.dtype.name):
        raise NoFrameError("its outputs have a different shape or type than before")
    if answering:
        _check_answers(found, header)
    return found


_NUMBERS = re.compile(r"[<|>]?([biufc]\d{1,2})|b?float\d+\w*|u?int\d+")


def _array_of(frame: Frame, rows: int) -> HostArray:
    """Return the array in an answer; raise NoFrameError if its description does not fit."""
    shape, name = tuple(frame.header["shape"]), frame.header["dtype"]
    try:
        dtype = np.dtype(name if _NUMBERS.fullmatch(name) else "V")
    except (TypeError, ValueError):
        dtype = np.dtype("V")
    size = math.prod(shape) * dtype.itemsize
    if not dtype.itemsize or shape[:1] != (rows,) or len(shape) > 64 or size != len(frame.content):
        raise NoFrameError("its outputs do not have the shape and type that it states")
    if dtype.kind == "b" and max(frame.content, default=0) > 1:
        raise NoFrameError("its booleans are neither true nor false")
    found: HostArray = np.frombuffer(frame.content, dtype).reshape(shape)
    return found


def _check_answers(rows: HostArray, header: dict[str, Any]) -> None:
    """Raise NoFrameError if rows are not answers, or the information about them is impossible."""
    fine = rows.ndim == 2 and rows.shape[1] >= BEFORE and rows.dtype == np.uint64
    times = np.append(Answers(rows).seconds, header["paces"]) if fine else np.array([np.nan])
    fine = bool(np.all((times >= 0) & (times < np.inf)))
    if not fine or any(len(text) > MOST_SAID for text in header["words"].values()):
        raise NoFrameError("its answers have a different form than requested")


def told_in(frame: Frame) -> Told:
    """Return the information about the outputs in an answer."""
    header = frame.header
    natives = [None if shape is None else tuple(shape) for shape in header.get("natives", ())]
    words = {int(code): text for code, text in header.get("words", {}).items()}
    paces = tuple(header.get("paces", ()))
    return Told(header.get("answering", False), frozenset(natives), words, paces)


def problem(frame: Frame, method: str) -> SampleError:
    """Return the error that an answer without outputs reports."""
    if frame.header["tell"] == "refused":
        return SampleError(escape(frame.header["why"]))
    return RaisedError(f"{method} raised {escape(frame.header.get('blame', 'nothing'))}")


class Pace:
    """Chooses the size of the next task by time and bytes; this changes no draw."""

    def __init__(self, nbytes: int) -> None:
        self.most = max(1, NBYTES // max(1, nbytes))
        self.seconds: float | None = None  # time of a chunk; None before the first
        self._lock = threading.Lock()

    def measured(self, chunks: int, seconds: float) -> None:
        """Note the time of some chunks; later ones weigh more."""
        if chunks < 1:
            return
        with self._lock:
            now = seconds / chunks
            self.seconds = now if self.seconds is None else (self.seconds + now) / 2

    @property
    def chunks(self) -> int:
        """Number of chunks that fill a task."""
        if self.seconds is None:
            return 1
        return max(1, min(self.most, int(BUNDLE / max(self.seconds, 1e-9))))

    def timed(self, draw: Callable[[Q, range], T]) -> Callable[[Q, range], T]:
        """Return a function that draws chunks and measures the time."""

        def measured(of: Q, chunks: range) -> T:
            started = time.monotonic()
            found = draw(of, chunks)
            self.measured(len(chunks), time.monotonic() - started)
            return found

        return measured


class Clock:
    """The time that a box has used: it runs while workers draw, not while they start.

    The limit is in seconds; None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit, self._before = limit, 0.0
        self._at_work, self._since = 0, 0.0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run inside the context; workers that draw at the same time count once."""
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
        """Subtract time in which the clock ran while others held the workers."""
        with self._lock:
            self._before -= seconds

    def used(self) -> float:
        """Return the seconds that the box has used."""
        with self._lock:
            return self._used()

    def set(self, used: float) -> None:
        """Set the seconds that the box has used until now."""
        with self._lock:
            self._before += used - self._used()

    def left(self) -> float | None:
        """Return the seconds that are left, negative afterwards; None without a limit."""
        with self._lock:
            return None if self._limit is None else self._limit - self._used()

    def deadline(self) -> float | None:
        """Return the monotonic time at which the running clock reaches its limit."""
        with self._lock:
            return None if self._limit is None else self._since + self._limit - self._before

    def _used(self) -> float:
        running = time.monotonic() - self._since if self._at_work else 0.0
        return self._before + running


def at_once(calls: Sequence[Callable[[], T]], most: int) -> list[T]:
    """Make calls that each wait for one worker: in parallel if there are enough, else in turn."""
    if most < len(calls):
        return [call() for call in calls]
    with ThreadPoolExecutor(len(calls)) as threads:
        return [found.result() for found in [threads.submit(call) for call in calls]]


Which = tuple[Any, range]  # a stream of draws, and chunks of it

Submit = Callable[[Callable[[], Any]], "Future[Any]"]  # lets a thread make a call


def in_daemon(call: Callable[[], Any]) -> Future[Any]:
    """Make a call in a daemon thread, which does not keep the process alive."""
    found: Future[Any] = Future()

    def work() -> None:
        try:
            found.set_result(call())
        except BaseException as error:  # raised where the result is asked for
            found.set_exception(error)

    threading.Thread(target=work, name="dpframe-learn", daemon=True).start()
    return found


def handed_out(
    which: Sequence[tuple[Q, range]],
    size: Callable[[Q], int],
    draw: Callable[[Q, range], T],
    submit: Submit,
    most: int,
) -> list[list[T]]:
    """Draw chunks in tasks on at most `most` threads; the next free thread takes the next task.

    `size` returns the number of chunks of the next task, `draw` draws it, `submit` starts a thread.

    Returns:
        For each part of `which` the results of its tasks, in the order of their chunks.
    """
    left, lock, stopped = list(which), threading.Lock(), threading.Event()
    found: list[dict[int, T]] = [{} for _ in which]

    def take() -> tuple[int, Q, range] | None:
        with lock:
            for place, (of, chunks) in enumerate(left):
                if chunks and not stopped.is_set():
                    number = size(of)  # asked once: it changes at any time
                    left[place] = of, chunks[number:]
                    return place, of, chunks[:number]
            return None

    def work() -> None:
        while (task := take()) is not None:
            place, of, chunks = task
            try:
                found[place][chunks.start] = draw(of, chunks)
            except BaseException:  # draws after the first error are not used
                stopped.set()
                raise

    number = max(1, min(sum(len(chunks) for _, chunks in which), most))
    try:
        for thread in [submit(work) for _ in range(number)]:
            thread.result()
    except BaseException:  # Ctrl-C, too
        stopped.set()
        raise
    return [[parts[first] for first in sorted(parts)] for parts in found]
