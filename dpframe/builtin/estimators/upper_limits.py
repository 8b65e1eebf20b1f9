"""Upper limits of the loss that the cuts of an attack's score can show.

A cut is {score ≥ t} or {score > t} for any t, or its complement. A cut between two edges has at
most the probability of the lower edge's cut and at least that of the upper one's, so limits at the
edges limit all cuts. All cuts together need no more error than one: the largest limit is too small
only if the limit of the best cut is, and the best cut does not depend on the counts. Each cut has
two limits, one for each dataset, at half of the error each.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpframe.builtin.estimators.choice import Chosen
from dpframe.builtin.estimators.events import Shown, loss_of
from dpframe.plugins import Floats, HostArray, Ints, Query
from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper

TELLING = 1.0
"""Largest accepted excess of the limit for all cuts over that for the chosen thresholds. A larger
excess reflects how few rare scores were counted, not what the attack shows."""


def largest_shown(
    chosen: Sequence[Chosen], counts: Ints, query: Query, edges: HostArray | None = None
) -> Shown:
    """Limit the loss of every cut of the score, or of the cuts that a pilot chose.

    All cuts are limited only if the trials suffice for any counts; each limit then gets half of the
    error. Both limits hold together, so the counts may decide which one is reported. `edges` is
    None if the bins are not in the order of the score.
    """
    error = 1 - query.confidence
    half = error / 2
    if edges is None or not possible(query.trials, query.delta, half):
        return Shown(_of_chosen(chosen, counts, query.delta, error), "chosen thresholds")
    some = _of_chosen(chosen, counts, query.delta, half)
    every = every_cut_shows(counts, edges, query.delta, half)
    if every <= some + TELLING:
        return Shown(every, "every cut")
    return Shown(some, "chosen thresholds")


def _of_chosen(chosen: Sequence[Chosen], counts: Ints, delta: float, error: float) -> float:
    """Return an upper limit of the loss that the chosen cuts show, for either dataset."""
    each = error / 2  # see the head of this file
    found = [0.0]
    for one in chosen:
        ladder = one.family.bins(counts)
        false, true = ladder.false[one.cut], ladder.true[one.cut]
        n, n_true = ladder.trials_false, ladder.trials_true
        lows = clopper_pearson_lower([false, true], [n, n_true], each).tolist()
        highs = clopper_pearson_upper([false, true], [n, n_true], each).tolist()
        found += [loss_of(lows[0], highs[1], delta), loss_of(lows[1], highs[0], delta)]
    return max(found)


class _Limits(NamedTuple):
    """Limits of the probabilities of events on D and on D′, each of shape [2, cuts]."""

    low: Floats
    high: Floats


def possible(trials: tuple[int, int], delta: float, error: float) -> bool:
    """True if this number of trials can limit every cut, whatever the counts are.

    An event that never happened may still have a probability of about 1/n. Events beyond the
    outermost edges are harmless only if that is below δ.
    """
    if not all(trials):
        return False
    never = clopper_pearson_upper([0, 0], list(trials), error / 2)
    return bool((never <= delta).all())


def every_cut_shows(counts: Ints, edges: HostArray, delta: float, error: float) -> float:
    """Limit the loss of every cut of the score, in both directions, from above; inf for none.

    `counts` are those of `BinCounts`, shape [2, edges + 2]; `edges` ascend, in the dtype of scores.
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
    """Mark the bins that hold one value only, so that no cut divides them, shape [edges + 2]."""
    infinite = np.array([np.inf], edges.dtype)
    first, last = np.concatenate([-infinite, edges]), np.concatenate([edges, infinite])
    with np.errstate(over="ignore"):
        several = np.nextafter(first, infinite) < last
    # The last bin ends with infinity itself.
    several[-1] = edges[-1] < np.inf
    return np.concatenate([[True], ~several])


def _limits(counts: Ints, each: float) -> tuple[_Limits, _Limits]:
    """Limit Pr[score in a bin or later] and Pr[before it]; the last cut is behind all bins."""
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
    """Return the largest ln((Pr[true] − δ)/Pr[false]); −inf if no event has more than δ."""
    above = true - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(np.where(above > 0, above, 0) / false)
    return float(np.where(above > 0, ratios, -np.inf).max(initial=-np.inf))
