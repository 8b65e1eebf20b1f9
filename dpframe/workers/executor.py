"""The executor of this process, the results of tasks, and the source of black boxes."""

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from dpframe.common import trees
from dpframe.common.machine import settle
from dpframe.errors import SampleError, UntrustedError, WrongResultError
from dpframe.interfaces.executor import Executor, Task
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.plugin import Plugin
from dpframe.workers.requests import Lent, Load, Overdue, WorkerSource


def plugin_classes(values: Iterable[Any]) -> tuple[type, ...]:
    """Return the classes of plugins among some values."""
    return tuple(dict.fromkeys(type(value) for value in values if isinstance(value, Plugin)))


def result(executor: Executor, task: Task, until: float | None = None) -> Any:
    """Submit a task, wait for its result, and check it; all results of tasks pass through here.

    Raises:
        WrongResultError: this process gave an impossible result.
        UntrustedError: another process gave an impossible or different result.
        Overdue: the monotonic clock has reached `until`.
    """
    future = executor.submit(task)
    left = None if until is None else max(0.0, until - time.monotonic())
    try:
        found = future.result(left)
    except TimeoutError:
        if not future.done():
            future.cancel()
            raise Overdue from None
        found = future.result()  # it came at the last moment, or the task itself raised this error
    return executor.taken(task, found) if isinstance(executor, Checked) else task.checked(found)


class Checked(Executor):
    """An executor whose results are checked, some of them by repeating the task here.

    A worker cannot predict which: they are chosen when they arrive, by the system's entropy. If
    `verify` is an integer, the i-th result of a kind is chosen with probability min(1, verify / i):
    the first ones always, and verify × ln 2 on average among the second half of any number. If it
    is a float, it is the share of results to choose.
    """

    def __init__(self, executor: Executor, verify: float) -> None:
        self.executor, self.verify = executor, verify
        self.address, self.warn, self.run = executor.address, executor.warn, executor.run
        self._came: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        return self.executor.capacity

    @property
    def under_way(self) -> int:
        return self.executor.under_way

    def submit(self, task: Task) -> Future[Any]:
        return self.executor.submit(task)

    def scale(self, segments: float) -> int:
        return self.executor.scale(segments)

    def stop(self) -> None:
        self.executor.stop()

    def close(self) -> None:
        self.executor.close()

    def chosen(self, kind: str) -> bool:
        """True if a new result of a kind is to be repeated here."""
        with self._lock:
            self._came[kind] += 1
            share = self.verify
            if isinstance(share, int):
                share /= self._came[kind]
        return _ENTROPY.random() < share

    def taken(self, task: Task, found: Any) -> Any:
        """Return a result once checked; raise UntrustedError if this machine finds another."""
        try:
            checked = task.checked(found)
        except WrongResultError as wrong:
            if task.repeatable:
                task.checked(task())  # raises if the task itself is at fault
            raise self.untrusted(task, str(wrong)) from None
        if task.repeatable and self.chosen(type(task).__name__):
            again = task.checked(task())
            if not _same(checked, again):
                raise self.untrusted(task, OTHER)
        return checked

    def untrusted(self, task: Task, why: str) -> UntrustedError:
        """Return the error of a wrong result."""
        name = f"{type(self.executor).__name__}{f' at {self.address}' if self.address else ''}"
        return UntrustedError(
            f"the executor {name} returned {why}, for {task}: none of its results is used, and "
            "its counts are dropped"
        )


OTHER = "something other than this machine finds"

_ENTROPY = random.SystemRandom()


def _same(one: Any, other: Any) -> bool:
    """Compare trees of arrays bit for bit, types included."""
    flat: Any = [trees.flatten(tree) for tree in (one, other)]
    (a, first), (b, second) = flat
    told = [[(x.dtype, x.shape, x.tobytes()) for x in map(np.asarray, each)] for each in (a, b)]
    return bool(first == second) and told[0] == told[1]


class ThisProcess(Executor):
    """Does a task at once, in the thread that submits it."""

    is_local = True

    def __init__(self, capacity: int = 1) -> None:
        super().__init__("", lambda _: None)
        self._capacity = capacity

    @property
    def capacity(self) -> int:
        return self._capacity

    def submit(self, task: Task) -> Future[Any]:
        future: Future[Any] = Future()
        settle(future, task)
        return future

    def close(self) -> None:
        """See `Executor`."""


HERE = ThisProcess()


class NoBoxes(WorkerSource):
    """A source for runs without black boxes."""

    def lend(self, load: Load, number: int = 1) -> AbstractContextManager[list[Lent]]:
        """See `WorkerSource`; raises SampleError."""
        raise SampleError("this run must not use a black box")


@contextlib.contextmanager
def source_of(cells: Sequence[Any], interpreters: Mapping[str, str]) -> Iterator[WorkerSource]:
    """Open a source for the black boxes of some cells, with worker processes if there are any.

    `interpreters` has the path of each environment's interpreter by name.
    """
    if not any(isinstance(cell.mechanism.value, HostMechanism) for cell in cells):
        yield NoBoxes()
        return
    from dpframe.workers.pool import Workers

    with Workers(interpreters=interpreters) as workers:
        yield workers
