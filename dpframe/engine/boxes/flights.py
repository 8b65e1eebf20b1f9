"""Releases that are under way: a box says nothing until all rows of a call are there."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple


class _Flight(NamedTuple):
    kind: Any
    releases: int
    since: float


class Flights:
    """Guesses how far calls are, from how long earlier ones took; it serves a display only."""

    def __init__(self) -> None:
        self._under_way: dict[Any, _Flight] = {}
        self._paces: dict[Any, float] = {}
        """Seconds per release, by the class of the box."""
        self._lock = threading.Lock()

    def begin(self, caller: Any, kind: Any, releases: int, now: float) -> None:
        """Somebody waits for so many releases.

        Args:
            caller: who waits, for one thing at a time.
            kind: what is alike in its pace.
            releases: how many will come at once.
            now: seconds.
        """
        with self._lock:
            self._under_way[caller] = _Flight(kind, releases, now)

    def end(self, caller: Any, now: float) -> None:
        """They have come."""
        with self._lock:
            flight = self._under_way.pop(caller, None)
            if flight is not None and flight.releases:
                self._paces[flight.kind] = (now - flight.since) / flight.releases

    def forget(self, caller: Any) -> None:
        """Whatever it waited for will not come."""
        with self._lock:
            self._under_way.pop(caller, None)

    def ahead(self, now: float) -> int:
        """About how many releases of those under way are still to be made."""
        with self._lock:
            return sum(self._left(flight, now) for flight in self._under_way.values())

    def _left(self, flight: _Flight, now: float) -> int:
        pace = self._paces.get(flight.kind)
        done = int((now - flight.since) / pace) if pace else 0
        # The last one is not there before it is said to be.
        return max(min(1, flight.releases), flight.releases - done)
