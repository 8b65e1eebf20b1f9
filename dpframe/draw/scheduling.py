"""Sizes of tasks, time limits, and the threads that draw from black boxes."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from dpframe.common.machine import core_share, run_into_future

TASK_SECONDS = 0.5  # seconds of work in a task: short, for smooth progress and small losses
LEAST_SECONDS = 1.0  # seconds that the first releases get, however small the time budget is
TASK_BYTES = 1 << 24  # bytes of outputs that a task holds at most

T = TypeVar("T")
Q = TypeVar("Q")


class TaskSize:
    """Chooses the size of the next task by time and bytes; this changes no draw."""

    def __init__(self, nbytes: int) -> None:
        self.most = max(1, TASK_BYTES // max(1, nbytes))
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
        return max(1, min(self.most, int(TASK_SECONDS / max(self.seconds, 1e-9))))

    def timed(self, draw: Callable[[Q, range], T]) -> Callable[[Q, range], T]:
        """Return a function that draws chunks and measures the time."""

        def measured(of: Q, chunks: range) -> T:
            started = time.monotonic()
            drawn = draw(of, chunks)
            self.measured(len(chunks), time.monotonic() - started)
            return drawn

        return measured


class Clock:
    """The time that a black box has used: it runs while workers draw, not while they start.

    On a machine with more work than cores it runs more slowly, so that a time budget allows about
    as many draws as on an idle one. The limit is in seconds; None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit, self._before, self._rate = limit, 0.0, 1.0
        self._at_work, self._since = 0, 0.0
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run inside the context; workers that draw at the same time count once."""
        self._start()
        try:
            yield
        finally:
            self._stop()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop inside the context, where a caller that runs the clock waits for workers."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._at_work == 0:
                self._since, self._rate = time.monotonic(), core_share()
            self._at_work += 1

    def _stop(self) -> None:
        with self._lock:
            self._at_work -= 1
            if self._at_work == 0:
                self._before += self._rate * (time.monotonic() - self._since)

    def limit_to(self, seconds: float) -> None:
        """Set another limit."""
        with self._lock:
            self._limit = seconds

    def used(self) -> float:
        """Return the seconds that the black box has used."""
        with self._lock:
            running = self._rate * (time.monotonic() - self._since) if self._at_work else 0.0
            return self._before + running

    def set(self, used: float) -> None:
        """Set the seconds that the black box has used until now."""
        with self._lock:
            self._before += used - self.used()

    def left(self) -> float | None:
        """Return the seconds that are left, negative afterwards; None without a limit."""
        with self._lock:
            return None if self._limit is None else self._limit - self.used()

    def deadline(self) -> float | None:
        """Return the monotonic time at which the running clock reaches its limit."""
        with self._lock:
            if self._limit is None:
                return None
            return self._since + (self._limit - self._before) / self._rate


def at_once(calls: Sequence[Callable[[], T]], most: int) -> list[T]:
    """Make calls that each wait for one worker: in parallel if there are enough, else in turn."""
    if most < len(calls):
        return [call() for call in calls]
    with ThreadPoolExecutor(len(calls)) as threads:
        return [future.result() for future in [threads.submit(call) for call in calls]]


Which = tuple[Any, range]  # a source of draws, such as a dataset, and chunks of it

Submit = Callable[[Callable[[], Any]], "Future[Any]"]  # lets a thread make a call


def run_in_daemon(call: Callable[[], Any]) -> Future[Any]:
    """Make a call in a daemon thread, which does not keep the process alive."""
    future: Future[Any] = Future()
    work = threading.Thread(
        target=run_into_future, args=(future, call), name="dpframe-learn", daemon=True
    )
    work.start()
    return future


def run_tasks(
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
    results: list[dict[int, T]] = [{} for _ in which]

    def take() -> tuple[int, Q, range] | None:
        with lock:
            for place, (of, chunks) in enumerate(left):
                if chunks and not stopped.is_set():
                    number = size(of)  # asked once, because it may change at any time
                    left[place] = of, chunks[number:]
                    return place, of, chunks[:number]
            return None

    def work() -> None:
        while (task := take()) is not None:
            place, of, chunks = task
            try:
                results[place][chunks.start] = draw(of, chunks)
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
    return [[parts[first] for first in sorted(parts)] for parts in results]
