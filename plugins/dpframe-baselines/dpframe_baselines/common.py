"""Shared by all baselines: a grid chosen by the pilot, events on it, and inversion of tests."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpframe.plugins import (
    Array,
    BinCounts,
    Contrast,
    Estimate,
    Estimator,
    Floats,
    HostArray,
    Ints,
    Query,
    Statistic,
    Tree,
)
from dpframe.stats.histograms import bin_counts

IID = "independent, identically distributed outputs"
EDGES = 255
SMALLEST_P = 1e-300  # p-values are floored here, never 0
LARGEST = 40.0  # ε beyond which nothing is certified
HALVINGS = 46  # halvings of an interval: 40 nats to 6e-13


@dataclasses.dataclass(frozen=True)
class Grid(BinCounts):
    """Counts between quantiles of the pilot's scores, dense in both tails; keeps its counts."""

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> dict[str, HostArray]:
        both = np.concatenate([pilot0, pilot1])
        values = np.unique(both[np.isfinite(both)])
        if len(values) > EDGES:
            tail = np.geomspace(0.5 / len(both), 0.5, EDGES // 2)
            levels = np.concatenate([tail, 1 - tail])
            finite = both[np.isfinite(both)]
            values = np.unique(np.quantile(finite, levels, method="nearest"))
        edges = np.full(EDGES, np.inf, both.dtype)
        edges[: len(values)] = values
        pilot = np.stack([bin_counts(edges, scores) for scores in (pilot0, pilot1)])
        return {"edges": edges, "pilot": pilot}

    def edges(self, layout: Tree) -> Array:
        edges: Array = layout["edges"]
        return edges

    def describe(self, layout: Tree) -> dict[str, Any]:
        edges = [float(str(edge)) for edge in np.asarray(layout["edges"])]
        pilot = np.asarray(layout["pilot"]).tolist()
        return {**super().describe(layout), "edges": edges, "pilot": pilot}


class Sample(NamedTuple):
    """Counts in ascending bins on D and on D′; NaN is in the lowest."""

    q: Ints
    p: Ints

    @property
    def trials(self) -> tuple[int, int]:
        """Draws on D and on D′, at least 1."""
        return max(1, int(self.q.sum())), max(1, int(self.p.sum()))

    @property
    def rates(self) -> tuple[Floats, Floats]:
        """Frequencies of the bins on D and on D′."""
        n, m = self.trials
        return self.q / n, self.p / m

    @property
    def area(self) -> float:
        """Share of pairs of draws in which the score on D′ is larger; ties count half."""
        if not (self.q.any() and self.p.any()):
            return 0.5
        q, p = self.rates
        return float((np.cumsum(q) - q / 2) @ p)

    @property
    def rising(self) -> bool:
        """True if larger scores mean D′."""
        return self.area >= 0.5


def sample_of(counts: Tree) -> Sample:
    """Return counts, with the bin of NaN merged into the lowest."""
    whole = np.asarray(counts, np.int64)
    own = whole[:, 1:].copy()
    own[:, 0] += whole[:, 0]
    return Sample(own[0], own[1])


class Way(NamedTuple):
    """Events at one end of the scores, by cut: more likely on one dataset than on the other."""

    false: Ints  # hits on the dataset where the events are rarer
    n: int  # its draws
    true: Ints  # hits on the other
    m: int


def ways(sample: Sample, *, rising: bool) -> tuple[Way, Way]:
    """Return the events {score ≥ cut} and {score < cut}; a `rising` score is larger on D′."""
    sums = [np.cumsum(side) for side in sample]
    low = [total[:-1] for total in sums]
    high = [total[-1] - tail for total, tail in zip(sums, low, strict=True)]
    n, m = sample.trials
    if rising:
        return Way(high[0], n, high[1], m), Way(low[1], m, low[0], n)
    return Way(high[1], m, high[0], n), Way(low[0], n, low[1], m)


class Baseline(Estimator):
    """An estimator from counts on a grid, whose pilot makes all choices."""

    def statistic(self) -> Statistic:
        return Grid()

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        counts = np.zeros(np.shape(layout["pilot"]), np.int64)
        low, high = (0, 1) if sample_of(layout["pilot"]).rising else (1, 0)
        counts[low, 1], counts[high, -1] = trials[low], trials[high]
        return counts


Test = Callable[[float, float, float], float]
"""The p-value of (ε, δ)-DP if each probability is off by up to a resolution; rises with ε."""


def from_test(p_value: Test, query: Query, epsilon: float) -> Estimate:
    """Return the estimate of a test: the bound is the supremum of the ε that it rejects.

    A claim is tested at all of its relevant δ and at that of the query; the test must hold for all
    δ at once.

    Args:
        p_value: of (ε, δ), and a resolution.
        query: the question.
        epsilon: the point value.
    """

    def tested(epsilon: float, delta: float, slack: float) -> float:
        value = p_value(epsilon, delta, slack) if epsilon < LARGEST else 1.0
        return max(SMALLEST_P, value) if value < 1 else 1.0  # also of NaN

    def bound(delta: float) -> float:
        return largest(lambda epsilon: tested(epsilon, delta, 0.0) <= 1 - query.confidence)

    claim = query.claim
    lower = 0.0 if query.only == "p-values" else bound(query.delta)
    if claim is None:
        return Estimate(epsilon, epsilon_lower=lower)
    deltas = dict.fromkeys((query.delta, *claim.telling_deltas))
    points = [(delta, claim.epsilon_at(delta)) for delta in deltas]
    exact, resolved = (
        min(tested(most, delta, slack) for delta, most in points)
        for slack in (0.0, query.resolution)
    )
    if query.only == "p-values":
        return Estimate(epsilon, lower, p_value=exact, p_resolved=max(exact, resolved))
    contrasts = [Contrast(delta, bound(delta), most) for delta, most in points]
    return Estimate(
        epsilon,
        epsilon_lower=lower,
        p_value=exact,
        p_resolved=max(exact, resolved),
        contrast=max(contrasts, key=lambda one: one.lower - one.claimed),
    )


def largest(holds: Callable[[float], bool]) -> float:
    """Return the largest ε up to which a condition holds, between 0 and `LARGEST`."""
    low, high = 0.0, LARGEST
    if not holds(low):
        return 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def smallest(holds: Callable[[float], bool]) -> float:
    """Return the smallest error at which a condition holds; it must also hold at larger errors."""
    low, high = math.log(SMALLEST_P), 0.0
    if not holds(1.0):
        return 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(math.exp(middle)) else (middle, high)
    return math.exp(high)


def loss(true: float, false: float) -> float:
    """Return ln(true/false), at least 0; inf if only `false` is 0."""
    if true <= false:
        return 0.0
    return math.log(true / false) if false > 0 else math.inf
