"""Events {score beyond a threshold}, their counts, and the estimate that they certify."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dpframe import BinCounts, Estimate, Query, Share, epsilon_of, estimate_from_boxes
from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper
from dpframe.stats.joint import joint_staircases
from dpframe.stats.tradeoff import certified_profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Array, Floats, HostArray, Ints, Tree, UpperOf
    from dpframe.builtin.estimators.choice import Chosen


# Scores on a monotone grid that the pilot fixes.


EDGES = 1023
"""Bins are then narrow enough that rounding costs less than half a percent of a bound."""

DISTINCT = 64
"""Up to so many distinct values in the pilot, each value gets a bin of its own."""

BEYOND = 40
"""Edges outside of the pilot's extremes, on each side."""


@dataclasses.dataclass(frozen=True)
class PilotGrid(BinCounts):
    """Counts on a grid of the pilot's order statistics, and the pilot's own counts beside it.

    Edges are dense in the tails, where rare events are, and go on beyond the extremes.
    """

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> dict[str, HostArray]:
        edges = grid(pilot0, pilot1)
        pilot = np.stack([bin_counts(edges, scores) for scores in (pilot0, pilot1)])
        return {"edges": edges, "pilot": pilot}

    def edges(self, layout: Tree) -> Array:
        edges: Array = layout["edges"]
        return edges

    def describe(self, layout: Tree) -> dict[str, Any]:
        edges = np.asarray(layout["edges"])
        return {
            **super().describe(layout),
            # As short as their precision allows: a float32 has half the digits of its float64.
            "edges": [float(str(edge)) for edge in edges],
            "pilot": np.asarray(layout["pilot"]).tolist(),
        }


def grid(pilot0: HostArray, pilot1: HostArray) -> HostArray:
    """Edges in ascending order, padded with inf, shape [EDGES], in the dtype of the scores."""
    dtype = pilot0.dtype
    values = distinct(pilot0, pilot1)
    if len(values) > DISTINCT:
        pilots = [pilot[np.isfinite(pilot)].astype(np.float64) for pilot in (pilot0, pilot1)]
        levels = (EDGES - 2 * BEYOND - 2) // 4
        quantiles = [_tails(np.sort(scores), levels) for scores in pilots if len(scores)]
        values = np.concatenate([*quantiles, _beyond(np.concatenate(pilots))])
        # What is not finite has a bin of its own.
        values = np.append(values, [np.finfo(dtype).min, np.inf])
    edges = np.unique(values.astype(dtype))
    padding = np.full(EDGES - len(edges), np.inf, dtype)
    return np.concatenate([edges, padding])


def distinct(pilot0: HostArray, pilot1: HostArray) -> HostArray:
    """The distinct values of both pilots in ascending order, without NaN."""
    values: HostArray = np.unique(np.concatenate([pilot0, pilot1]))
    found: HostArray = values[~np.isnan(values)]
    return found


def _tails(scores: Floats, levels: int) -> Floats:
    """Order statistics at ranks in geometric progression from both ends, interpolated."""
    ranks = np.geomspace(1, max(1, len(scores) / 2), levels) - 1
    places = np.arange(len(scores))
    return np.concatenate(
        [np.interp(ranks, places, scores), np.interp(ranks, places, scores[::-1])]
    )


def _beyond(scores: Floats) -> Floats:
    """Edges outside of the extremes, in steps that grow from a fraction of the tail's scale."""
    scores = np.sort(scores)
    inner = min(len(scores) - 1, round(np.sqrt(len(scores))))
    steps = np.geomspace(0.02, 30, BEYOND)
    above = scores[-1] + steps * (scores[-1] - scores[-1 - inner])
    below = scores[0] - steps * (scores[inner] - scores[0])
    both: Floats = np.concatenate([above, below])
    found: Floats = both[np.isfinite(both)]
    return found


def bin_counts(edges: HostArray, scores: HostArray) -> HostArray:
    """Counts as `BinCounts` counts them, on the host, shape [len(edges) + 2]."""
    bins = np.where(np.isnan(scores), 0, 1 + np.searchsorted(edges, scores, side="right"))
    return np.bincount(bins, minlength=len(edges) + 2).astype(np.int32)


# Events {score beyond a threshold} and how often they happened.


RATIO = 3.0
"""Ratio of neighbouring ranks. Two between them would cost more than they find."""


class Ladder(Protocol):
    """Scores in the order in which an event takes them in, from one end.

    An event says one dataset; it is false on the other. "The first j steps" are the j most
    extreme values, whatever a step is.
    """

    @property
    def trials_false(self) -> int:
        """Scores on the dataset that the event does not say."""

    @property
    def trials_true(self) -> int:
        """Scores on the dataset that it says."""

    def at_rank(self, ranks: Ints) -> Ints:
        """True counts of the events strictly beyond the rank-th most extreme false score."""


class Bins(NamedTuple):
    """A ladder over bins; a step is a bin."""

    false: Ints
    """Counts in the first j bins, shape [bins + 1]."""
    true: Ints
    """The same."""

    @property
    def trials_false(self) -> int:
        return int(self.false[-1])

    @property
    def trials_true(self) -> int:
        return int(self.true[-1])

    def at_rank(self, ranks: Ints) -> Ints:
        beyond: Ints = self.true[np.searchsorted(self.false, ranks - 1, side="right") - 1]
        return beyond


class Sorted(NamedTuple):
    """A ladder over raw scores."""

    false: HostArray
    """Ascending, and the most extreme last."""
    true: HostArray
    """The same."""

    @property
    def trials_false(self) -> int:
        return len(self.false)

    @property
    def trials_true(self) -> int:
        return len(self.true)

    def at_rank(self, ranks: Ints) -> Ints:
        thresholds = self.false[len(self.false) - ranks]
        beyond: Ints = len(self.true) - np.searchsorted(self.true, thresholds, side="right")
        return beyond


class Family(NamedTuple):
    """Which end of the scores says which dataset."""

    top: bool
    """Whether events are {score > t}; else {score < t}."""
    says: int
    """0 for D, 1 for D′."""

    def bins(self, counts: Ints) -> Bins:
        """The ladder over bin counts, shape [2, bins]."""
        ordered = counts[:, ::-1] if self.top else counts
        steps = np.pad(np.cumsum(ordered, axis=1, dtype=np.int64), ((0, 0), (1, 0)))
        return Bins(steps[1 - self.says], steps[self.says])

    def sorted(self, scores: tuple[HostArray, HostArray]) -> Sorted:
        """The ladder over raw scores, each sorted in ascending order and without NaN."""
        extreme = [values if self.top else -values[::-1] for values in scores]
        return Sorted(extreme[1 - self.says], extreme[self.says])


UP = (Family(top=True, says=1), Family(top=False, says=0))
DOWN = (Family(top=True, says=0), Family(top=False, says=1))


class Events(NamedTuple):
    """Events with what was counted, and how the error is shared among them."""

    false: Ints
    """Rank − 1, or the count of a fixed event, shape [k]."""
    trials_false: Ints
    true: Ints
    trials_true: Ints
    weight: Floats
    share: Floats
    """Of the error; the sum is at most 1."""
    ranked: HostArray
    """Whether the event is a rank's; else it is a fixed one."""

    @property
    def fpr(self) -> Floats:
        """Estimated false-positive rates."""
        fixed = self.false / self.trials_false
        return np.asarray(
            np.where(self.ranked, (self.false + 1) / (self.trials_false + 1), fixed), np.float64
        )

    @property
    def tpr(self) -> Floats:
        """Estimated true-positive rates."""
        return np.asarray(self.true / self.trials_true, np.float64)

    def staircases(self, error: float) -> Floats:
        """Staircases that all hold together with probability 1 − error, shape [k, corners, 2]."""
        return joint_staircases(
            self.false,
            self.trials_false,
            self.true,
            self.trials_true,
            self.weight,
            np.minimum(error * self.share, 1),
        )

    def only(self, chosen: Sequence[int]) -> Events:
        """Some of the events."""
        columns: list[Any] = [column[list(chosen)] for column in self]
        return Events(*columns)


def joined(parts: Sequence[Events]) -> Events:
    """Events of several kinds together."""
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Events(*columns)


def rank_events(ladder: Ladder, ranks: Ints, weight: Floats, share: Floats) -> Events:
    """Events beyond the given ranks of the false scores."""
    same = np.ones(len(ranks), np.int64)
    return Events(
        ranks - 1,
        ladder.trials_false * same,
        ladder.at_rank(ranks),
        ladder.trials_true * same,
        weight,
        share,
        same.astype(bool),
    )


def geometric(ladder: Ladder, share: float) -> Events:
    """Events at ranks 1, 3, 9, … up to half of the false scores, the rare ones favoured.

    Which rank is best depends on the mechanism: 1 where one output gives the record away, about
    20 for Gaussian noise, a quarter of all for Laplace noise. A rare event needs its share of the
    error more than a frequent one.
    """
    most = max(1.0, ladder.trials_false / 2)
    steps = np.arange(int(np.log(most) / np.log(RATIO) + 1e-9) + 1)
    ranks = np.round(RATIO**steps).astype(np.int64)
    shares = 1 / (steps + 1.5) ** 1.5
    weight = expected_weight(ranks, ladder.trials_false)
    return rank_events(ladder, ranks, weight, share * shares / shares.sum())


def expected_weight(ranks: Ints | Floats, trials: int) -> Floats:
    """The weight of the false positives if TPR were FPR^{2/3}: a guess, right for no mechanism.

    The best weight is the share of the false positives in the standard error of ln(TPR/FPR).
    """
    fpr = np.clip(np.asarray(ranks, np.float64) / trials, 0, 0.5)
    tpr = fpr ** (2 / 3)
    return np.asarray(1 / np.sqrt(1 + fpr * (1 - tpr) / tpr), np.float64)


# What the cuts of a score can show at most, from counts between fixed edges.
#
# A cut is {score ≥ t} or {score > t}, for any number t, or its complement. One between two edges
# has
# at most the probability of the lower edge's cut and at least that of the upper one's, whatever
# the
# scores do in between. So limits at the edges limit all of them, and where two edges stand close
# together little is lost.
#
# All cuts together cost no more than one. The largest of their limits is too small only if that
# of
# the best cut is, and which cut is best does not depend on the counts. It has two limits, one for
# either dataset, and each gets half of the error.


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


# From events with their counts to an estimate.


TELLING = 1.0
"""How far the limit of every cut may lie above that of the chosen thresholds. Beyond it, it says
how few rare scores were counted rather than what the attack shows."""

KEPT = 3
"""Events whose p-value is computed: those that say most. More would change it little."""

POINTS = 25
"""Points of a privacy profile."""


class Shown(NamedTuple):
    """What an attack can show at most, and what of it was limited."""

    epsilon: float
    of: UpperOf


def estimate_from_events(
    parts: Sequence[Events],
    query: Query,
    *,
    shown: Shown,
    rates: Floats,
    notes: tuple[str, ...] = (),
) -> Estimate:
    """Builds a certified estimate.

    Args:
        parts: events whose shares of the error sum to at most 1.
        query: what is asked.
        shown: what the attack can show at most.
        rates: estimated (FPR, TPR) of many events, shape [k, 2], for the privacy profile.
        notes: remarks for the record.
    """
    events = joined(parts)
    at_level = events.staircases(1 - query.confidence)
    said = np.array([epsilon_of(one[None], query.delta) for one in at_level])
    best = int(said.argmax())
    if said[best] == 0:  # nothing is certified: the point value of what comes closest
        loose = events.staircases(1.0)
        best = int(np.argmax([epsilon_of(one[None], query.delta) for one in loose]))
    loudest = set(np.argsort(-said, kind="stable")[:KEPT].tolist())
    if query.claim is not None:
        corners = np.clip(at_level, 0, 1)
        gaps = query.claim.tradeoff(corners[..., 0]) - corners[..., 1]
        loudest |= set(np.argsort(-gaps.min(axis=1), kind="stable")[:KEPT].tolist())
    kept = events.only(sorted(loudest))
    found = estimate_from_boxes(
        kept.staircases,
        query,
        epsilon=loss_of(events.fpr[best], events.tpr[best], query.delta),
        epsilon_upper=max(shown.epsilon, float(said.max())),
        epsilon_upper_of=shown.of,
        profile=profile(rates),
        notes=(f"the error is shared among {len(said)} events", *notes),
    )
    boxes = at_level.max(axis=1)
    shares = zip(events.share.tolist(), said.tolist(), strict=True)
    return found._replace(
        tradeoff=tuple((float(x), float(y)) for x, y in boxes),
        profile_lower=certified_profile(at_level),
        shares=tuple(Share(share, lower) for share, lower in shares),
    )


def epsilon_at(fpr: float, tpr: float, delta: float) -> float:
    """max{0, ln((TPR − δ)/FPR)}, the loss that an event shows; inf if it never happens falsely."""
    if tpr <= delta:
        return 0.0
    return max(0.0, math.log((tpr - delta) / fpr)) if fpr > 0 else math.inf


def loss_of(fpr: float, tpr: float, delta: float) -> float:
    """The loss that an event or its complement shows."""
    return max(epsilon_at(fpr, tpr, delta), epsilon_at(1 - tpr, 1 - fpr, delta))


def largest_shown(
    chosen: Sequence[Chosen], counts: Ints, query: Query, edges: HostArray | None = None
) -> Shown:
    """Upper limit of the loss of every cut of the score, or else of the cuts that a pilot chose.

    The first is tried only if there are enough trials for it whatever is counted; then each has
    half of the error. Both hold together at the confidence, so it does not matter that the counts
    decide which of the two is said.

    Args:
        chosen: cuts that the pilot chose.
        counts: shape [2, bins].
        query: what is asked.
        edges: between the bins; None if the bins are not in the order of the score.
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
    """Upper limit of the loss that cuts show, whichever dataset they say."""
    each = error / 2  # of the best cut alone: see `every_cut`
    found = [0.0]
    for one in chosen:
        ladder = one.family.bins(counts)
        false, true = ladder.false[one.cut], ladder.true[one.cut]
        n, n_true = ladder.trials_false, ladder.trials_true
        lows = clopper_pearson_lower([false, true], [n, n_true], each).tolist()
        highs = clopper_pearson_upper([false, true], [n, n_true], each).tolist()
        found += [loss_of(lows[0], highs[1], delta), loss_of(lows[1], highs[0], delta)]
    return max(found)


def binned_rates(counts: Ints, families: Sequence[Family]) -> Floats:
    """Estimated (FPR, TPR) of every cut of every family, shape [k, 2]."""
    found = []
    for family in families:
        ladder = family.bins(counts)
        found.append([ladder.false / ladder.trials_false, ladder.true / ladder.trials_true])
    return np.concatenate(found, axis=1).T


def profile(rates: Floats) -> tuple[tuple[float, float], ...]:
    """Estimated δ(ε) = max over events of TPR − e^ε FPR, biased upwards by the maximum.

    The ε run from 0 to where the estimate, at events seen at least once falsely, has fallen to 0.
    """
    seen = (rates[:, 0] > 0) & (rates[:, 1] > 0)
    largest = max(1.0, float(np.log(rates[seen, 1] / rates[seen, 0]).max(initial=0.0)))
    epsilons = np.linspace(0, largest, POINTS)
    deltas = (rates[:, 1] - np.exp(epsilons)[:, None] * rates[:, 0]).max(axis=1)
    return tuple((float(e), float(d)) for e, d in zip(epsilons, np.maximum(deltas, 0), strict=True))
