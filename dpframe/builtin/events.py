"""Events {score beyond a threshold}: grids, counts, and the estimate that they certify."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe.plugins import (
    Array,
    BinCounts,
    Estimate,
    Evidence,
    Floats,
    HostArray,
    Ints,
    Query,
    Share,
    Tree,
    UpperOf,
    epsilon_of,
    estimate_from_boxes,
)
from dpframe.stats import histograms, tradeoff
from dpframe.stats.exact_test import EventCounts, exact_region
from dpframe.stats.joint import joint_staircases

EDGES = 1023  # bins are then narrow enough that rounding costs less than half a percent of a bound
DISTINCT = 64  # up to this many distinct values in the pilot, each value gets its own bin
BEYOND = 40  # edges outside the pilot's extremes, on each side


@dataclasses.dataclass(frozen=True)
class PilotGrid(BinCounts):
    """Counts between order statistics of the pilot, together with the pilot's own counts.

    Edges are dense in the tails, where rare events are, and go on beyond the extremes.
    """

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> dict[str, HostArray]:
        edges = grid(pilot0, pilot1)
        pilot = np.stack([histograms.bin_counts(edges, scores) for scores in (pilot0, pilot1)])
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
    """Return ascending edges padded with inf, shape [EDGES], in the dtype of the scores."""
    dtype = pilot0.dtype
    values = distinct(pilot0, pilot1)
    if len(values) > DISTINCT:
        pilots = [pilot[np.isfinite(pilot)].astype(np.float64) for pilot in (pilot0, pilot1)]
        levels = (EDGES - 2 * BEYOND - 2) // 4
        quantiles = [_tails(np.sort(scores), levels) for scores in pilots if len(scores)]
        values = np.concatenate([*quantiles, beyond(np.sort(np.concatenate(pilots)), BEYOND, 30)])
        # Infinities get bins of their own.
        values = np.append(values, [np.finfo(dtype).min, np.inf])
    edges = np.unique(values.astype(dtype))
    padding = np.full(EDGES - len(edges), np.inf, dtype)
    return np.concatenate([edges, padding])


def distinct(pilot0: HostArray, pilot1: HostArray) -> HostArray:
    """Return the distinct values of both pilots in ascending order, without NaN."""
    values: HostArray = np.unique(np.concatenate([pilot0, pilot1]))
    return values[~np.isnan(values)]


def _tails(scores: Floats, levels: int) -> Floats:
    """Return order statistics at ranks in geometric progression from both ends, interpolated."""
    ranks = np.geomspace(1, max(1, len(scores) / 2), levels) - 1
    places = np.arange(len(scores))
    return np.concatenate(
        [np.interp(ranks, places, scores), np.interp(ranks, places, scores[::-1])]
    )


def beyond(ascending: Floats, number: int, reach: float, otherwise: float = 0.0) -> Floats:
    """Return edges outside the extremes, in steps that grow from the scale of each tail.

    Args:
        ascending: finite scores, at least one.
        number: edges on each side.
        reach: the largest step, in units of the tail's scale.
        otherwise: the scale of a tail without spread.
    """
    inner = min(len(ascending) - 1, round(np.sqrt(len(ascending))))
    steps = np.geomspace(0.02, reach, number)
    above = ascending[-1] + steps * ((ascending[-1] - ascending[-1 - inner]) or otherwise)
    below = ascending[0] - steps * ((ascending[inner] - ascending[0]) or otherwise)
    both: Floats = np.concatenate([above, below])
    return both[np.isfinite(both)]


def apart(bins: int, places: tuple[int, int], trials: tuple[int, int]) -> Ints:
    """Return the counts if all draws of D are in one bin and all of D′ in another."""
    counts = np.zeros((2, bins), np.int64)
    counts[(0, 1), places] = trials
    return counts


RATIO = 3.0  # ratio of neighbouring ranks; with smaller steps, more events share the error


class Bins(NamedTuple):
    """Cumulative counts of the bins, from one end of the scores.

    An event is evidence for one dataset; on the other dataset it is a false positive.
    """

    false: Ints  # false positives in the first j bins, shape [bins + 1]
    true: Ints  # true positives in the first j bins, the same shape

    @property
    def trials_false(self) -> int:
        return int(self.false[-1])

    @property
    def trials_true(self) -> int:
        return int(self.true[-1])

    def at_rank(self, ranks: Ints) -> Ints:
        """Return the true counts beyond the bin of the rank-th most extreme false score."""
        return self.true[np.searchsorted(self.false, ranks - 1, side="right") - 1]


class Family(NamedTuple):
    """The events at one end of the scores, and the dataset that they are evidence for."""

    top: bool  # True if events are {score > t}; else they are {score < t}
    says: int  # 0 for D, 1 for D′

    def bins(self, counts: Ints) -> Bins:
        """Order bin counts, shape [2, bins]."""
        ordered = counts[:, ::-1] if self.top else counts
        steps = np.pad(np.cumsum(ordered, axis=1, dtype=np.int64), ((0, 0), (1, 0)))
        return Bins(steps[1 - self.says], steps[self.says])


UP = (Family(top=True, says=1), Family(top=False, says=0))
DOWN = (Family(top=True, says=0), Family(top=False, says=1))


class Events(NamedTuple):
    """Events with their counts and their shares of the error; every field has shape [k].

    The first six fields are the terms of `Evidence`, in its order.
    """

    false: Ints  # rank − 1, or the count of a fixed event, shape [k]
    trials_false: Ints
    true: Ints
    trials_true: Ints
    weight: Floats  # of `dpframe.stats.joint`; 0 for a fixed event that is tested exactly
    share: Floats  # of the error; the sum is at most 1
    ranked: HostArray  # True if the event lies beyond a rank; False for a fixed threshold

    @property
    def fpr(self) -> Floats:
        """The estimated false-positive rates, shape [k]."""
        fixed = self.false / self.trials_false
        return np.asarray(
            np.where(self.ranked, (self.false + 1) / (self.trials_false + 1), fixed), np.float64
        )

    @property
    def tpr(self) -> Floats:
        """The estimated true-positive rates, shape [k]."""
        return np.asarray(self.true / self.trials_true, np.float64)

    def staircases(self, error: float, query: Query) -> Floats:
        """Return staircases that all hold together with probability 1 − error, [k, corners, 2]."""
        fixed = np.where(self.weight > 0, self.weight, 0.5)  # the rows of 0 are replaced
        rows = list(joint_staircases(*self[:4], fixed, np.minimum(error * self.share, 1)))
        for place in np.flatnonzero(self.weight == 0).tolist():
            counts = EventCounts(*(int(column[place]) for column in self[:4]))
            share = float(self.share[place])
            level = share * (1 - query.confidence)
            region = exact_region(counts, query.delta, either_rate=True, level=level)
            rows[place] = region(share * error)[0]
        # A corner that is repeated adds nothing to a union of boxes.
        corners = np.arange(max(map(len, rows)))
        return np.stack([row[np.minimum(corners, len(row) - 1)] for row in rows])

    def only(self, chosen: Sequence[int]) -> Events:
        """Return the chosen events."""
        return Events._make(column[list(chosen)] for column in self)

    @property
    def design(self) -> tuple[tuple[float, ...], ...]:
        """The ranks, trials, weights and shares, which do not depend on the counts."""
        ranks = np.where(self.ranked, self.false + 1, 0)
        fixed = (ranks, self.trials_false, self.trials_true, self.weight, self.share)
        return tuple(zip(*(column.tolist() for column in fixed), strict=True))

    def evidence(self, chosen: Events) -> Evidence:
        """Return the inputs of the staircases of chosen events, and the design of all."""
        terms = zip(*(column.tolist() for column in chosen[:6]), strict=True)
        return Evidence("joint", tuple(terms), self.design)


def joined(parts: Sequence[Events]) -> Events:
    """Join events of several kinds."""
    return Events._make(np.concatenate(column) for column in zip(*parts, strict=True))


def geometric(ladder: Bins, share: float) -> Events:
    """Count events at ranks 1, 3, 9, … up to half of the false scores, favouring rare ones.

    The best rank depends on the mechanism: 1 if a single output reveals the record, about 20 for
    Gaussian noise, a quarter of all trials for Laplace noise. Rare events get larger shares of the
    error, because their bounds depend more on it.
    """
    most = max(1.0, ladder.trials_false / 2)
    steps = np.arange(int(np.log(most) / np.log(RATIO) + 1e-9) + 1)
    ranks = np.round(RATIO**steps).astype(np.int64)
    shares = 1 / (steps + 1.5) ** 1.5
    # The best weight is the share of the false positives in the standard error of ln(TPR/FPR).
    # No mechanism has TPR = FPR^{2/3} exactly; it is a guess that costs little for any of them.
    fpr = np.clip(ranks / ladder.trials_false, 0, 0.5)
    tpr = fpr ** (2 / 3)
    same = np.ones(len(ranks), np.int64)
    return Events(
        ranks - 1,
        ladder.trials_false * same,
        ladder.at_rank(ranks),
        ladder.trials_true * same,
        1 / np.sqrt(1 + fpr * (1 - tpr) / tpr),
        share * shares / shares.sum(),
        same.astype(bool),
    )


CAUTION = 1.5
"""Standard errors by which the pilot's rates are worsened before they are compared. Otherwise the
pilot would choose the events on which it was lucky."""

KEPT = 3  # events from which the p-value is computed; more would hardly change it
POINTS = 25  # points of a privacy profile


class Shown(NamedTuple):
    """The largest loss that an attack can show, and the events to which this limit applies."""

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
    """Build a certified estimate from events whose shares of the error sum to at most 1.

    `rates` are estimated (FPR, TPR) of many events, shape [k, 2], for the privacy profile.
    """
    events = joined(parts)
    at_level = events.staircases(1 - query.confidence, query)
    bounds = np.array([epsilon_of(one[None], query.delta) for one in at_level])
    best = int(bounds.argmax())
    if bounds[best] == 0:  # nothing is certified: report the event that comes closest
        loose = events.staircases(1.0, query)
        best = int(np.argmax([epsilon_of(one[None], query.delta) for one in loose]))
    loudest = set(np.argsort(-bounds, kind="stable")[:KEPT].tolist())
    if query.claim is not None:
        corners = np.clip(at_level, 0, 1)
        gaps = query.claim.tradeoff(corners[..., 0]) - corners[..., 1]
        loudest |= set(np.argsort(-gaps.min(axis=1), kind="stable")[:KEPT].tolist())
    kept = events.only(sorted(loudest))
    estimate = estimate_from_boxes(
        functools.partial(kept.staircases, query=query),
        query,
        epsilon=loss_of(events.fpr[best], events.tpr[best], query.delta),
        epsilon_upper=max(shown.epsilon, float(bounds.max())),
        epsilon_upper_of=shown.of,
        profile=profile(rates),
        notes=(f"the error is shared among {len(bounds)} events", *notes),
        evidence=events.evidence(kept),
    )
    boxes = at_level.max(axis=1)
    shares = zip(events.share.tolist(), bounds.tolist(), strict=True)
    return estimate._replace(
        tradeoff=tuple((float(x), float(y)) for x, y in boxes),
        profile_lower=tradeoff.certified_profile(at_level),
        shares=tuple(Share(share, lower) for share, lower in shares),
    )


def epsilon_at(fpr: float, tpr: float, delta: float) -> float:
    """Return max{0, ln((TPR − δ)/FPR)}, the loss of an event; inf if it never happens falsely."""
    if tpr <= delta:
        return 0.0
    return max(0.0, math.log((tpr - delta) / fpr)) if fpr > 0 else math.inf


def loss_of(fpr: float, tpr: float, delta: float) -> float:
    """Return the larger loss of an event and of its complement."""
    return max(epsilon_at(fpr, tpr, delta), epsilon_at(1 - tpr, 1 - fpr, delta))


def binned_rates(counts: Ints, families: Sequence[Family]) -> Floats:
    """Estimate (FPR, TPR) of every cut of every family, shape [k, 2]."""
    rates = []
    for family in families:
        ladder = family.bins(counts)
        rates.append([ladder.false / ladder.trials_false, ladder.true / ladder.trials_true])
    return np.concatenate(rates, axis=1).T


def profile(rates: Floats) -> tuple[tuple[float, float], ...]:
    """Estimate δ(ε) = max over events of TPR − e^ε FPR, biased upwards by the maximum.

    ε runs from 0 to the largest loss of an event with at least one false positive, or 1.
    """
    seen = (rates[:, 0] > 0) & (rates[:, 1] > 0)
    largest = max(1.0, float(np.log(rates[seen, 1] / rates[seen, 0]).max(initial=0.0)))
    epsilons = np.linspace(0, largest, POINTS)
    deltas = (rates[:, 1] - np.exp(epsilons)[:, None] * rates[:, 0]).max(axis=1)
    return tuple((float(e), float(d)) for e, d in zip(epsilons, np.maximum(deltas, 0), strict=True))
