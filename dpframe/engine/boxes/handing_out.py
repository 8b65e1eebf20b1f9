"""Chunks that several draw at once: ranges of them, handed out to whoever is free."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.engine.boxes.pace import Pace

T = TypeVar("T")

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
