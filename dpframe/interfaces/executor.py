"""Executors: where the tasks of a run are done, on this machine or on others."""

from __future__ import annotations

import dataclasses
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, ClassVar, Self

from dpframe.errors import CellError

wanted: ContextVar[Callable[[], bool]] = ContextVar("wanted", default=lambda: True)
"""Asked by tasks that take long; an executor sets it where it knows that a task was given up."""


class RefusedError(CellError):
    """A task would not give here what it gives on the machine that runs the audit."""


@dataclasses.dataclass(frozen=True)
class Task(ABC):
    """A piece of work: a pure function of its fields, the same to the bit wherever it is called.

    A task can be pickled by cloudpickle. It raises `RefusedError` where something differs from the
    machine that runs the audit, such as the version of a library.
    """

    shared: Any
    """Large, and the same object in many tasks: an executor may send it once."""
    until: float | None = dataclasses.field(default=None, kw_only=True)
    """Monotonic time, in seconds, after which the result is not used; None for no limit."""
    avoid: frozenset[str] = dataclasses.field(default=frozenset(), kw_only=True)
    """Processes, by name, that lost an earlier attempt: others are to be preferred."""

    @abstractmethod
    def run(self, shared: Any) -> Any:
        """Return the result, given the shared part."""

    def __call__(self) -> Any:
        """Return the result."""
        return self.run(self.shared)

    def checked(self, found: Any) -> Any:
        """Return a result that came back, if it can be one of this task.

        Raises:
            WrongResultError: it cannot.
        """
        return found

    @property
    def repeatable(self) -> bool:
        """True if this machine may do the task again, and must find the same."""
        return True

    @property
    def plugins(self) -> tuple[type, ...]:
        """Plugin classes whose code must be the same where the task is done."""
        return ()

    @property
    def kind(self) -> str:
        """Tasks of one kind are refused together; the part before # is shown to users."""
        return ""


class Executor(ABC):
    """Does tasks: `dpframe run --cluster ADDRESS` picks one by the scheme of the address.

    Args:
        address: such as "tcp://head:8786"; what follows the scheme is the executor's own matter.
        warn: takes a text about what went wrong without ending the run.

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
        """Name of the run: processes that serve several runs keep what belongs to each apart."""

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
        """Number of tasks to submit before the first result is there, so that no place waits."""
        return self.capacity

    @abstractmethod
    def submit(self, task: Task) -> Future[Any]:
        """Start a task, and return the future of its result."""

    def scale(self, segments: float) -> int:
        """Return how many times the usual size tasks should have.

        Args:
            segments: number of tasks of the usual size, about a second each, in the whole run.
        """
        del segments
        return 1

    def stop(self) -> None:  # noqa: B027  # most have nothing to end
        """End the run now: futures that are not done may raise any exception."""

    @abstractmethod
    def close(self) -> None:
        """Free what the executor holds; no task follows."""
