"""Time limits and durations of releases."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from time import perf_counter
from typing import Any

AGAIN = 0.5
"""Seconds between two alarms of a release, which may catch the exception of the first."""

TIMED = 8
"""Least number of outputs timed together, because the time of a single one varies."""


class Limit:
    """A limit on the seconds of one release, or none; it interrupts Python code only."""

    def __init__(self, seconds: float | None) -> None:
        main = threading.current_thread() is threading.main_thread()
        self.seconds = seconds if main and hasattr(signal, "setitimer") else None
        self._running = False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Use the alarm of this process inside the block."""
        if self.seconds is None:
            yield
            return
        before = signal.signal(signal.SIGALRM, self._ring)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def start(self) -> None:
        """Begin a release."""
        if self.seconds is not None:
            self._running = True
            signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN)

    def stop(self) -> None:
        """End the release."""
        self._running = False

    def _ring(self, *_: Any) -> None:
        if self._running:
            raise TimeoutError(f"no answer within {self.seconds:g} s")


class Timer:
    """Measures seconds per output from its creation on."""

    def __init__(self) -> None:
        self._since, self._rows = perf_counter(), 0
        self.paces: list[float] = []  # seconds per output, each of `TIMED` outputs or more

    def drew(self, rows: int) -> None:
        """Note that `rows` more outputs were drawn."""
        self._rows += rows
        if self._rows >= TIMED:
            now = perf_counter()
            self.paces.append((now - self._since) / self._rows)
            self._since, self._rows = now, 0
