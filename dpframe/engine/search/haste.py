"""How much of a fast box is looked at at once, before anything is bet on it.

To learn from answers takes some time however few they are, and a fast box gives thousands of them
in that time. A pair that shows nothing in its first few answers is bet on with nothing anyway. So
it is not followed in small steps: its next answers are as many as the box gives in a moment, they
are learned from, and then it is seen how far the pair lies from the claim.

How many they are depends on how fast the box is on this machine. So it is kept: whoever repeats
the search goes through the same steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.engine.checkpoint import Saved

if TYPE_CHECKING:
    from dpframe.engine.address import Stream
    from dpframe.engine.checkpoint import Store

MOMENT = 0.1
"""Seconds of the box's work, on both datasets together."""

LARGEST = 1 << 11
"""Answers of each dataset, at most: attacks that are slow to learn are not asked yet."""


class Haste:
    """The sizes of all looks of one search, in their order.

    Args:
        store: where they are kept.
        stream: address of the search.
        key: of what is searched.
    """

    def __init__(self, store: Store, stream: Stream, key: str) -> None:
        self._store, self._stream, self._key = store, stream, key
        kept = store.load(stream, key)
        self._sizes: list[int] = [] if kept is None else list(kept.leaves)
        self._taken = 0
        self.last = 0
        """Answers per dataset that a pair had after the last look; 0 where the box is too slow."""

    def next(self, pace: float | None, most: int) -> int:
        """How many answers per dataset a pair should have had after a look.

        Args:
            pace: seconds that an answer takes; None if that is not known.
            most: how many there may be.
        """
        if self._taken == len(self._sizes):
            many = 0 if pace is None else int(MOMENT / max(2 * pace, 1e-9))
            fits = min(many, most, LARGEST)
            # Few sizes: what is compiled for one serves for all.
            self._sizes.append(1 << (fits.bit_length() - 1) if fits else 0)
            number = len(self._sizes)
            self._store.save(self._stream, self._key, Saved((number, number), [*self._sizes]))
        self.last = self._sizes[self._taken]
        self._taken += 1
        return self.last
