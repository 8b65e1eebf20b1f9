"""How fast a black box is, and how much of it to ask for at a time."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

BUNDLE = 0.5
"""Seconds of work in a task: progress is smooth, and little is lost with it."""

GRACE = 1.0
"""Seconds that the first releases get however small the time budget is."""

NBYTES = 1 << 24
"""Outputs that a task holds at most."""


class Pace:
    """Measures tasks, and says how long the next one should be. It changes no draw.

    Args:
        nbytes: of the outputs of one chunk.
    """

    def __init__(self, nbytes: int) -> None:
        self.most = max(1, NBYTES // max(1, nbytes))
        self.seconds: float | None = None
        """What a chunk takes; None before the first."""
        self._lock = threading.Lock()

    def measured(self, chunks: int, seconds: float) -> None:
        """Takes in what some chunks took; the last ones weigh most."""
        if chunks < 1:
            return
        with self._lock:
            now = seconds / chunks
            self.seconds = now if self.seconds is None else (self.seconds + now) / 2

    @property
    def chunks(self) -> int:
        """How many chunks fill a task."""
        if self.seconds is None:
            return 1
        return max(1, min(self.most, int(BUNDLE / max(self.seconds, 1e-9))))


class Clock:
    """The time that a box has had: it runs while a worker is at it, and not while one is started.

    Args:
        limit: seconds that it gets; None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit, self._before = limit, 0.0
        self._at_work, self._since = 0, 0.0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While a worker is at the box; several may be."""
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
        """Time in which it ran and the box could not, because others held the workers."""
        with self._lock:
            self._before -= seconds

    def used(self) -> float:
        """Seconds that it has had."""
        with self._lock:
            return self._used()

    def set(self, used: float) -> None:
        """As if it had had so many seconds until now."""
        with self._lock:
            self._before += used - self._used()

    def left(self) -> float | None:
        """Seconds that it still gets, negative afterwards; None without a limit."""
        with self._lock:
            return None if self._limit is None else self._limit - self._used()

    def deadline(self) -> float | None:
        """When its time is over, if it goes on; asked while it runs."""
        with self._lock:
            return None if self._limit is None else self._since + self._limit - self._before

    def _used(self) -> float:
        running = time.monotonic() - self._since if self._at_work else 0.0
        return self._before + running
