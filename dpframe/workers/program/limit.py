"""Ends a release that takes too long."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


AGAIN = 0.5
"""Seconds after which a release is told once more: it may have caught the first exception."""


class Limit:
    """How long one release may take; code that does not come back to Python goes on all the same.

    Args:
        seconds: None: as long as it likes.
    """

    def __init__(self, seconds: float | None) -> None:
        main = threading.current_thread() is threading.main_thread()
        self.seconds = seconds if main and hasattr(signal, "setitimer") else None
        self._running = False

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Takes the alarm of the process for as long as it lasts."""
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
        """A release begins."""
        if self.seconds is not None:
            self._running = True
            signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN)

    def stop(self) -> None:
        """It has come back."""
        self._running = False

    def _ring(self, *_: Any) -> None:
        if self._running:
            raise TimeoutError(f"no answer within {self.seconds:g} s")
