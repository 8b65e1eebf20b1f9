"""The executor of this process, the results of tasks, and the source of black boxes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from dpframe.errors import SampleError
from dpframe.interfaces.executor import Executor, Task
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.plugin import Plugin
from dpframe.workers.scheduling import Lent, Load, Overdue, Source, Told

if TYPE_CHECKING:
    from collections.abc import Iterable


def plugin_classes(values: Iterable[Any]) -> tuple[type, ...]:
    """Return the classes of plugins among some values."""
    return tuple(dict.fromkeys(type(value) for value in values if isinstance(value, Plugin)))


def result(future: Future[Any], until: float | None = None) -> Any:
    """Wait for the result of a task.

    Raises:
        Overdue: the monotonic clock has reached `until`.
    """
    left = None if until is None else max(0.0, until - time.monotonic())
    try:
        return future.result(left)
    except TimeoutError:
        if future.done():
            raise  # by the task itself
        future.cancel()
        raise Overdue from None


class ThisProcess(Executor):
    """Does a task at once, in the thread that submits it."""

    is_local = True

    def __init__(self, capacity: int = 1) -> None:
        super().__init__("", lambda _: None)
        self._capacity = capacity

    @property
    def capacity(self) -> int:
        """See `Executor`."""
        return self._capacity

    def submit(self, task: Task) -> Future[Any]:
        """See `Executor`."""
        future: Future[Any] = Future()
        try:
            future.set_result(task())
        except BaseException as error:  # raised where the result is asked for
            future.set_exception(error)
        return future

    def close(self) -> None:
        """See `Executor`."""


HERE = ThisProcess()


class NoBoxes:
    """The source of a run without black boxes."""

    calls = released = 0
    most = 1

    def __init__(self) -> None:
        self.words: dict[int, str] = {}

    def asked(self, releases: int) -> None:
        """See `Source`."""

    def note(self, told: Told) -> None:
        """See `Source`."""

    def lend(self, load: Load, number: int = 1) -> AbstractContextManager[list[Lent]]:
        """See `Source`; raises SampleError."""
        raise SampleError("this run was to have no black box")

    def stop(self) -> None:
        """See `Source`."""


@contextlib.contextmanager
def source_of(cells: Sequence[Any], interpreters: Mapping[str, str]) -> Iterator[Source]:
    """Open worker processes for the black boxes of some cells, if there are any.

    Args:
        cells: of an audit.
        interpreters: paths of the interpreters of environments, by the names of these.
    """
    if not any(isinstance(cell.mechanism.value, HostMechanism) for cell in cells):
        yield NoBoxes()
        return
    from dpframe.workers.pool import Workers

    with Workers(interpreters=interpreters) as workers:
        yield workers
