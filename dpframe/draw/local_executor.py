"""The executor of this process, the results of tasks, and the source of black boxes."""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any

from dpframe.common.machine import run_into_future
from dpframe.draw.requests import BlackBoxPayload, DeadlinePassed, WorkerLease, WorkerSource
from dpframe.errors import SampleError
from dpframe.interfaces.executor import Executor, Task
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.plugin import Plugin


def plugin_classes(values: Iterable[Any]) -> tuple[type, ...]:
    """Return the classes of plugins among some values."""
    return tuple(dict.fromkeys(type(value) for value in values if isinstance(value, Plugin)))


def result(executor: Executor, task: Task, until: float | None = None) -> Any:
    """Submit a task, wait for its result, and check it; all results of tasks pass through here.

    Raises:
        WrongResultError: the result does not have the form of this task's results.
        DeadlinePassed: the monotonic clock has reached `until`.
    """
    future = executor.submit(task)
    left = None if until is None else max(0.0, until - time.monotonic())
    try:
        value = future.result(left)
    except TimeoutError:
        if not future.done():
            future.cancel()
            raise DeadlinePassed from None
        value = future.result()  # it came at the last moment, or the task itself raised this error
    return task.checked(value)


class LocalExecutor(Executor):
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
        run_into_future(future, task)
        return future

    def close(self) -> None:
        """See `Executor`."""


LOCAL_EXECUTOR = LocalExecutor()


class NoBlackBoxes(WorkerSource):
    """A source for runs without black boxes."""

    def lend(
        self, load: BlackBoxPayload, number: int = 1
    ) -> AbstractContextManager[list[WorkerLease]]:
        """See `WorkerSource`; raises SampleError."""
        raise SampleError("this run must not use a black box")


@contextlib.contextmanager
def source_of(cells: Sequence[Any], interpreters: Mapping[str, str]) -> Iterator[WorkerSource]:
    """Open a source for the black boxes of some cells, with worker processes if there are any.

    `interpreters` has the path of each environment's interpreter by name.
    """
    if not any(isinstance(cell.mechanism.value, HostMechanism) for cell in cells):
        yield NoBlackBoxes()
        return
    from dpframe.draw.pool import Workers

    with Workers(interpreters=interpreters) as workers:
        yield workers
