"""Wealth as it is written down: one draw after the other, in bins without an order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.builtin.betting import against
from dpframe.stats.output_bets import LOG_PRIOR, bets, grouped

if TYPE_CHECKING:
    from dpframe import Claim


def wealth(rounds: list[Any], claim: Claim) -> list[float]:
    """Logarithm of the wealth after each round, from its counts of D and D′ in each bin.

    The share of D in a bin is what earlier rounds counted, and half a draw on each side. A draw
    pays the weight of the group of its bin; each way to bet has its share of the wealth.
    """
    own = against(claim, 0.0).exact
    assert own is not None
    seen, ways, path = np.asarray(rounds[0]), [0.0 for _ in LOG_PRIOR], [0.0]
    for counts in rounds[1:]:
        share = (seen[0] + 0.5) / (seen.sum(axis=0) + 1)
        supposed, group = grouped(share, seen.sum(axis=0))
        for way, weights in enumerate(bets(supposed, own).tolist()):
            for drawn, paid in zip(np.asarray(counts).tolist(), weights, strict=True):
                ways[way] += sum(
                    number * paid[place] for number, place in zip(drawn, group, strict=True)
                )
        seen = seen + counts
        each = [own + prior for own, prior in zip(ways, LOG_PRIOR.tolist(), strict=True)]
        path.append(max(each) + math.log(sum(math.exp(one - max(each)) for one in each)))
    return path
