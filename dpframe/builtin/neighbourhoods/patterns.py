"""Eight ways in which D and D′ differ that find most mistakes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpframe.builtin.neighbourhoods._box import Box, Fresh

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpframe import Earned, Floats, Pair


class Patterns(Box, name="patterns"):
    """The eight patterns of StatDP [Ding2018], drawn in to the box.

    Where D is constant, D′ has one entry above, one below, one above and the rest below, one below
    and the rest above, half of them below and half above, all above, or all below; and two halves
    that change places. Where one entry may differ, it does so among others that stand in these
    ways. First round the middle of the box; when asked again, near its ends and with the entries
    in reverse order.
    """

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        fresh = Fresh(self.words, history)
        for turn in (1, -1):
            for centres in self.places():
                for centre in centres:
                    for d0, d1 in self.around(centre):
                        fresh.add(*self.inside(d0[::turn], d1[::turn]))
                if fresh.pairs:
                    return fresh.pairs
        return ()

    def places(self) -> list[list[float]]:
        """Where the patterns lie, one round after the other."""
        (low, high), reach = self.ends, self.reach
        if high - low < 2 * reach:
            # Nothing is above and below at the full step, so D lies at an end, and half of the
            # patterns fall together.
            return [[high, low], [(low + high) / 2]]
        middle = low + reach * math.floor((high - low) / (2 * reach))
        return [[middle], [low + reach, high - reach], [low, high]]

    def around(self, centre: float) -> Iterator[tuple[Floats, Floats]]:
        """D and D′ of all patterns, not yet drawn in."""
        n, step = self.length, self.reach
        first, front = np.arange(n) == 0, np.arange(n) < (n + 1) // 2
        flat, halves = np.zeros(n), np.where(front, -1.0, 1.0)
        if self.adjacency == "one-by-one":
            for others in (flat, flat - 1, flat + 1, halves):
                d0 = centre + step * np.where(first, 0.0, others)
                yield d0, d0 + step * first
                yield d0, d0 - step * first
            return
        one, rest = np.where(first, 1.0, 0.0), np.where(first, 1.0, -1.0)
        for change in (one, -one, rest, -rest, halves, flat + 1, flat - 1):
            yield flat + centre, centre + step * change
        low = flat + max(centre - step, self.ends[0])
        yield low + step * front, low + step * ~front
