"""Executors: where the tasks of a run are done, on this machine or on others."""

import dataclasses
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, ClassVar, Self

from dpframe.errors import CellError

wanted: ContextVar[Callable[[], bool]] = ContextVar("wanted", default=lambda: True)
"""Returns False once a task was given up. Long tasks call it; an executor that can tell sets it."""


class RefusedError(CellError):
    """A task would give a different result here than on the machine that runs the audit."""


@dataclasses.dataclass(frozen=True)
class Task(ABC):
    """A piece of work: a pure function of its fields, with the same bits on every machine.

    A task can be pickled by cloudpickle. It raises `RefusedError` on a machine that differs from
    the one that runs the audit, for example in the version of a library.
    """

    shared: Any
    """The large part that many tasks share; an executor may send it once."""
    until: float | None = dataclasses.field(default=None, kw_only=True)
    """Monotonic time, in seconds, after which the result is not used; None for no limit."""

    @abstractmethod
    def run(self, shared: Any) -> Any:
        """Return the result, given the shared part."""

    def __call__(self) -> Any:
        """Return the result."""
        return self.run(self.shared)

    def checked(self, found: Any) -> Any:
        """Return a received result if it has the form of this task's results.

        Raises:
            WrongResultError: it does not have this form.
        """
        return found

    @property
    def plugins(self) -> tuple[type, ...]:
        """Plugin classes whose code must be equal on the machine that does the task."""
        return ()


class Executor(ABC):
    """Does tasks: `dpframe run --cluster ADDRESS` picks one by the scheme of the address.

    Args:
        address: such as "tcp://head:8786"; the executor interprets the part after the scheme.
        warn: called with messages about failures that do not end the run.

    Raises:
        DpframeError: the address cannot be used.
    """

    schemes: ClassVar[tuple[str, ...]] = ()
    """Beginnings of addresses, before the first colon."""
    is_local: ClassVar[bool] = False
    """True if tasks are done in the thread that submits them."""

    def __init__(self, address: str, warn: Callable[[str], None]) -> None:
        self.address, self.warn = address, warn
        self.run = secrets.token_hex(8)
        """Name of the run, for processes that serve several runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Number of tasks that are done at the same time."""

    @property
    def under_way(self) -> int:
        """Number of tasks to submit before the first result arrives, so that no process is idle."""
        return self.capacity

    @abstractmethod
    def submit(self, task: Task) -> Future[Any]:
        """Start a task, and return the future of its result."""

    def scale(self, segments: float) -> int:
        """Return the size of tasks as a multiple of the usual size.

        Args:
            segments: number of tasks of the usual size, about a second each, in the whole run.
        """
        del segments
        return 1

    def stop(self) -> None:  # noqa: B027  # most have nothing to end
        """Stop the run now; pending futures may raise any exception."""

    @abstractmethod
    def close(self) -> None:
        """Free what the executor holds; no task follows."""
