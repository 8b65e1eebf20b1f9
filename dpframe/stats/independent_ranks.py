"""An exact two-sample test between order statistics, for canaries whose scores are independent.

The pairs (coin, score) of canaries that are drawn alike are independent, so the scores of the n₀
canaries that are out, and of the n₁ that are in, are two independent samples. Let H be the
(k+1)-th largest score of those out and L the (k+1)-th smallest of those in, and count the
canaries that are in above max(H, L) and those that are out below min(H, L).

The share a = P(out > H) is at most Beta(k + 1, n₀ − k) in distribution, b = P(in < L) at most
Beta(k + 1, n₁ − k), and a and b are independent. Given H and L, the n₁ − k − 1 other canaries in
that exceed L exceed H too with probability at most (1 − f(a))/(1 − b) each, and accordingly below.
The sum of both counts is a sum of independent coins, whose upper tail is at most that of as many
equal coins with the same mean, from one above the mean on [Hoeffding1956].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from dpframe.common.types import Bools, Floats
from dpframe.stats.gaussian import gaussian_tradeoff
from dpframe.stats.roots import crossing

MOST_MU = 40.0

NODES = 80
"""Intervals into which the law of each share is divided; each counts as its upper end."""

_NORMAL = np.linspace(-3.5, 5.0, NODES - 1)
_ENDS = np.append(special.ndtr(_NORMAL), 1.0)
_MASSES = np.diff(_ENDS, prepend=0.0)


class RankTest(NamedTuple):
    """The exceedances of one rank."""

    rank: int
    """k."""
    outside: int
    """n₀, canaries that are out."""
    inside: int
    """n₁, canaries that are in."""
    exceeding: int
    """Those in above max(H, L), and those out below min(H, L)."""


def rank_test(coins: Bools, rank: int) -> RankTest | None:
    """Count exceedances; return None if there are not more than k + 1 canaries in and out.

    Args:
        coins: True for canaries that are in, by ascending scores without ties, shape [m].
        rank: k, chosen without the order.
    """
    inside, outside = np.flatnonzero(coins), np.flatnonzero(~coins)
    if min(len(inside), len(outside)) <= rank + 1:
        return None
    high, low = outside[-1 - rank], inside[rank]
    count = (inside > max(high, low)).sum() + (outside < min(high, low)).sum()
    return RankTest(rank, len(outside), len(inside), int(count))


def rank_p_value(test: RankTest, tradeoff: Callable[[Floats], Floats]) -> float:
    """Bound the probability of as many exceedances under a claim.

    Args:
        test: what was counted.
        tradeoff: the claim's curve f, equal to its own inverse; takes and returns shape [n].
    """
    rank, outside, inside, exceeding = test
    a = special.betaincinv(rank + 1, outside - rank, _ENDS)
    b = special.betaincinv(rank + 1, inside - rank, _ENDS)
    above, below = (np.clip(1 - np.asarray(tradeoff(share)), 0, 1) for share in (a, b))
    n1, n0 = inside - rank - 1, outside - rank - 1
    with np.errstate(divide="ignore", invalid="ignore"):  # shares of 1 are certain: fmin gives 1
        mean = n1 * np.fmin(1, above[:, None] / (1 - b)) + n0 * np.fmin(1, below / (1 - a)[:, None])
    coins = n0 + n1
    tails = special.bdtrc(exceeding - 1, coins, np.minimum(1, mean / coins))
    return min(1.0, float(_MASSES @ np.where(exceeding >= mean + 1, tails, 1.0) @ _MASSES))


def rank_gaussian_mu(test: RankTest, error: float) -> float:
    """Return the largest μ of a μ-GDP claim [Dong2022] that is refuted with this error."""
    return crossing(
        lambda mu: rank_p_value(test, lambda fpr: gaussian_tradeoff(fpr, mu)) - error,
        most=MOST_MU,
        tolerance=1e-4,
    )
