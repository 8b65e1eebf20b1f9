"""Tasks of mechanisms that JAX traces, and the executor that does them in this process."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.interfaces.executor import Executor, Task
from dpframe.interfaces.plugin import Plugin
from dpframe.sampling.address import Segment, pieces
from dpframe.sampling.programs import CountTask, DrawTask, Place, count_segment, drawn
from dpframe.workers.scheduling import Overdue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpframe.common.types import HostArray, Tree


@dataclasses.dataclass(frozen=True)
class CountSegment(Task):
    """Count a segment of one dataset: see `count_segment`."""

    shared: CountTask
    lanes: tuple[int, ...]
    index: int
    segment: Segment

    def run(self, shared: CountTask) -> tuple[Tree, ...]:
        """Return counts, in pieces: a device counts in 32 bits what it draws in one call."""
        segment, total = self.segment, None
        step = pieces(shared.rows, shared.elements)
        with jax.enable_x64(shared.precision == "float64"):
            for first in range(segment.first, max(segment.stop, segment.first + 1), step):
                piece = segment._replace(first=first, stop=min(first + step, segment.stop))
                counted = count_segment(shared, self.lanes, self.index, piece)
                more = jax.tree.map(lambda leaf: np.asarray(leaf, np.int64), counted)
                total = more if total is None else jax.tree.map(np.add, total, more)
        return total  # type: ignore[return-value]

    @property
    def plugins(self) -> tuple[type, ...]:
        """See `Task`."""
        shared = self.shared
        found = [
            *plugin_classes([shared.padded[0], *shared.attacks]),
            *map(type, shared.statistics),
        ]
        return tuple(dict.fromkeys(found))


@dataclasses.dataclass(frozen=True)
class DrawChunks(Task):
    """Draw some chunks, or score them: see `drawn`."""

    shared: DrawTask
    place: Place

    def run(self, shared: DrawTask) -> list[HostArray]:
        """Return outputs, or scores under each attack."""
        return drawn(shared, self.place)

    @property
    def plugins(self) -> tuple[type, ...]:
        """See `Task`."""
        attacks = [attack for of_lane in self.shared.scoring for attack, _ in of_lane]
        return plugin_classes([*self.shared.mechanisms, *attacks])


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
