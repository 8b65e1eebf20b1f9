"""Wealth as it is written down: one draw after the other, in bins without an order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.builtin.estimators.betting import against, bets

if TYPE_CHECKING:
    from dpframe import Claim


def wealth(rounds: list[Any], claim: Claim) -> list[float]:
    """Logarithm of the wealth after each round, from its counts of D and D′ in each bin.

    The share of D in a bin is what earlier rounds counted, and half a draw on each side. A draw
    pays the weight of its bin; both ways to bet have half of the wealth.
    """
    own = against(claim, 0.0).exact
    assert own is not None
    seen, ways, path = np.asarray(rounds[0]), [0.0, 0.0], [0.0]
    for counts in rounds[1:]:
        share = (seen[0] + 0.5) / (seen.sum(axis=0) + 1)
        for way, weights in enumerate(bets(share, seen.sum(axis=0), own).tolist()):
            for drawn, paid in zip(np.asarray(counts).tolist(), weights, strict=True):
                ways[way] += sum(number * each for number, each in zip(drawn, paid, strict=True))
        seen = seen + counts
        top = max(ways)
        path.append(top + math.log(sum(math.exp(way - top) for way in ways) / 2))
    return path
