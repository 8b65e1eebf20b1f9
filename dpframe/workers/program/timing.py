"""What outputs take, with all that is done for them, a few at a time; see `foreign`.

Python 3.8 and its standard library are all that it uses.
"""

from __future__ import annotations

from time import perf_counter

TIMED = 8
"""Outputs that are timed together, at least: one may be quick, or slow, by chance."""


class Timer:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._since, self._rows = perf_counter(), 0
        self.paces: list[float] = []
        """Seconds per output."""

    def drew(self, rows: int) -> None:
        """So many more were drawn."""
        self._rows += rows
        if self._rows >= TIMED:
            now = perf_counter()
            self.paces.append((now - self._since) / self._rows)
            self._since, self._rows = now, 0
