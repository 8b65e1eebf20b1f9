"""Chunks of a black box's answers, and who draws which of them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Part(NamedTuple):
    """Consecutive chunks of one size, of one dataset."""

    dataset: int
    first: int
    stop: int
    rows: int

    @property
    def draws(self) -> int:
        """Answers in all of them."""
        return (self.stop - self.first) * self.rows


class Todo:
    """Parts, handed out in tasks to whoever is free."""

    def __init__(self, parts: Sequence[Part], at_once: Callable[[Part], int]) -> None:
        self._parts, self._at_once = list(parts), at_once
        self._lock = threading.Lock()

    def take(self) -> Part | None:
        """The next task, or None when there is nothing left."""
        with self._lock:
            if not self._parts:
                return None
            part = self._parts.pop(0)
            stop = min(part.stop, part.first + self._at_once(part))
            if stop < part.stop:
                self._parts.insert(0, part._replace(first=stop))
            return part._replace(stop=stop)

    def stop(self) -> None:
        """Nothing is left."""
        with self._lock:
            self._parts.clear()
