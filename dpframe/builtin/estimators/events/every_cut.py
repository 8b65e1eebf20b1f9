"""What the cuts of a score can show at most, from counts between fixed edges.

A cut is {score ≥ t} or {score > t}, for any number t, or its complement. One between two edges has
at most the probability of the lower edge's cut and at least that of the upper one's, whatever the
scores do in between. So limits at the edges limit all of them, and where two edges stand close
together little is lost.

All cuts together cost no more than one. The largest of their limits is too small only if that of
the best cut is, and which cut is best does not depend on the counts. It has two limits, one for
either dataset, and each gets half of the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper

if TYPE_CHECKING:
    from dpframe import Floats, HostArray, Ints


class _Limits(NamedTuple):
    """Of the probabilities of events on D and on D′, each of shape [2, cuts]."""

    low: Floats
    high: Floats


def possible(trials: tuple[int, int], delta: float, error: float) -> bool:
    """Whether so many trials could limit every cut at all, whatever is counted.

    An event that never happened may still have a probability of about 1/n. Only if that is below
    δ does it not matter what lies beyond the outermost edges.
    """
    if not all(trials):
        return False
    never = clopper_pearson_upper([0, 0], list(trials), error / 2)
    return bool((never <= delta).all())


def every_cut_shows(counts: Ints, edges: HostArray, delta: float, error: float) -> float:
    """Upper limit of the loss of every cut of the score, in both directions; inf for none.

    Args:
        counts: of `BinCounts`, shape [2, edges + 2].
        edges: ascending, repeated ones allowed, in the dtype of the scores.
        delta: in [0, 1).
        error: with which the limit may be too small.
    """
    tops, bottoms = _limits(counts, error / 2)
    exact = np.arange(1, counts.shape[1])
    inner = np.flatnonzero(~_atoms(edges))
    shown = [0.0]
    for lower, upper in ((exact, exact), (inner, inner + 1)):
        for says in (0, 1):
            shown.append(_loss(tops.high[says][lower], tops.low[1 - says][upper], delta))
            shown.append(_loss(bottoms.high[says][upper], bottoms.low[1 - says][lower], delta))
    return max(shown)


def _atoms(edges: HostArray) -> HostArray:
    """Which bins hold one value only, so that no cut goes through them, shape [edges + 2]."""
    infinite = np.array([np.inf], edges.dtype)
    first, last = np.concatenate([-infinite, edges]), np.concatenate([edges, infinite])
    with np.errstate(over="ignore"):
        several = np.nextafter(first, infinite) < last
    # The last bin ends with infinity itself.
    several[-1] = edges[-1] < np.inf
    return np.concatenate([[True], ~several])


def _limits(counts: Ints, each: float) -> tuple[_Limits, _Limits]:
    """Of the scores from each bin on, and of those before it; the last cut is behind all bins."""
    trials = counts.sum(axis=1)
    below = np.pad(np.cumsum(counts, axis=1), ((0, 0), (1, 0)))
    rarer = np.minimum(below, trials[:, None] - below)
    low, high = np.zeros(below.shape), np.zeros(below.shape)
    for dataset, n in enumerate(trials):
        seen, where = np.unique(rarer[dataset], return_inverse=True)
        low[dataset] = clopper_pearson_lower(seen, n, each)[where]
        high[dataset] = clopper_pearson_upper(seen, n, each)[where]
    high[:, [0, -1]] = 0  # nothing is before the first bin or behind the last: known, not counted
    # The limits of the complement, from the rarer side, where they have all their digits.
    rare = below <= trials[:, None] - below
    bottoms = _Limits(np.where(rare, low, 1 - high), np.where(rare, high, 1 - low))
    tops = _Limits(np.where(rare, 1 - high, low), np.where(rare, 1 - low, high))
    return tops, bottoms


def _loss(true: Floats, false: Floats, delta: float) -> float:
    """The largest ln((Pr[true] − δ)/Pr[false]); −inf if no event has more than δ."""
    above = true - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(np.where(above > 0, above, 0) / false)
    return float(np.where(above > 0, ratios, -np.inf).max(initial=-np.inf))
