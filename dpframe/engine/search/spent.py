"""The time that a search had before it was interrupted: it gets what is left of its seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.engine.counts.checkpoint import Saved

if TYPE_CHECKING:
    from dpframe.engine.addresses.address import Stream
    from dpframe.engine.boxes.pace import Clock
    from dpframe.engine.counts.checkpoint import Store

LEAST = 0.1
"""Share of its seconds that a search gets however often it was interrupted."""

EVERY = 0.5
"""Seconds after which they are put down again."""


class Spent:
    """What a search has used of its seconds, kept beside its counts until it has come to its end.

    Who goes on takes the same steps again, with answers that are kept; that costs none of them.

    Args:
        store: where it is kept.
        stream: address of the search.
        key: of what is searched.
        clock: of the search.
        limit: its seconds; None where time is no budget.
    """

    def __init__(
        self, store: Store, stream: Stream, key: str, clock: Clock, limit: float | None
    ) -> None:
        self._store, self._stream, self._key = store, stream, key
        self._clock, self._limit = clock, limit
        kept = None if limit is None else store.load(stream, key)
        self._until = 0 if kept is None else kept.done[0]
        """Draws of the try before this one that are still to be gone through."""
        self._seconds = 0.0 if kept is None else float(kept.leaves[0])

    def note(self, drawn: int) -> None:
        """Takes in how far the search has come.

        Args:
            drawn: draws of each dataset until now.
        """
        if self._limit is None:
            return
        if drawn < self._until:
            self._clock.set(0.0)
            return
        if self._until:
            self._until = 0
            self._clock.set(min(self._seconds, (1 - LEAST) * self._limit))
            return
        used = self._clock.used()
        if used >= self._seconds + EVERY:
            self._seconds = used
            self._store.save(self._stream, self._key, Saved((drawn, drawn), [round(used, 3)]))

    def forget(self) -> None:
        """The search has come to its end; who repeats it has all of its seconds."""
        self._store.forget(self._stream, self._key)
