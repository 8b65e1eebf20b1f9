"""How much of a fast box is looked at at once, before anything is bet on it.

To learn from answers takes some time however few they are, and a fast box gives thousands of them
in that time. A pair that shows nothing in its first few answers is bet on with nothing anyway. So
it is not followed in small steps: its next answers are as many as the box gives in a moment, they
are learned from, and then it is seen how far the pair lies from the claim.

Whether a box is fast enough depends on this machine. There are only two answers, so that one seed
gives the same draws wherever a box is clearly the one or the other; and what counts is the median
of what the answers of all pairs took, by the workers' own clocks: what else the machine does holds
some of them up, but not half. The answer is kept, so that a search that was interrupted goes
through the same steps.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from dpframe.engine.counts.checkpoint import Saved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.engine.addresses.address import Stream
    from dpframe.engine.counts.checkpoint import Store

MOMENT = 0.5
"""Seconds of the box's work for a whole look, on both datasets together, at most."""

LARGEST = 1 << 11
"""Answers of each dataset: attacks that are slow to learn are not asked yet."""


DEARER = 10
"""Times what a look may take, that it may take of one pair: its data may be larger."""


def is_fast(own: Sequence[Sequence[float]], all_pairs: Sequence[Sequence[float]]) -> bool:
    """Whether a box gives all answers of a look in a moment.

    Args:
        own: seconds per answer of the pair that would be looked at, on D and on D′, each of a few
            answers.
        all_pairs: of every pair and dataset.
    """
    told, limit = [pace for paces in all_pairs for pace in paces], MOMENT / (2 * LARGEST)
    if not told or statistics.median_low(told) > limit:
        return False
    return all(paces and min(paces) <= DEARER * limit for paces in own)


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

    def next(self, fast: bool, most: int) -> int:
        """How many answers per dataset a pair should have had after a look.

        Args:
            fast: whether the box is fast enough.
            most: how many there may be.
        """
        if self._taken == len(self._sizes):
            fits = min(most, LARGEST) if fast else 0
            # Few sizes: what is compiled for one serves for all.
            self._sizes.append(1 << (fits.bit_length() - 1) if fits else 0)
            number = len(self._sizes)
            self._store.save(self._stream, self._key, Saved((number, number), [*self._sizes]))
        self.last = self._sizes[self._taken]
        self._taken += 1
        return self.last
