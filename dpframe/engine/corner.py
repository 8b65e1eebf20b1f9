"""Estimates from outputs with two values, and the exact probability that they exceed the truth.

The trade-off curve of ε-DP has a corner, FPR = FNR = 1/(1 + e^ε). A mechanism with two outputs and
these error rates attains its ε in both directions, and the counts of its outputs are two binomial
numbers. So every probability is a finite sum, and there are no false alarms.

A whole bound exceeds the truth more rarely than it promises, because most of the events that
share its error do not matter for this mechanism. Even twice the error could then pass. So each
event is tested against its own share of the error (`dpframe.Share`). If output D′ is rare, the
corner is sharp: limits that cover it give a bound below ε, so an exact limit exceeds ε almost as
often as it may.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpframe.common import trees
from dpframe.common.arrays import jnp
from dpframe.interfaces.estimator import Estimate, Estimator, Query
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.stats.binomial import PROBABILITY_ROUNDING, probability_of


class TwoValued:
    """The estimates of an estimator for k false positives and u false negatives.

    A pilot has `pilot` draws per dataset, of which `errors` are wrong. `look_at` checks each
    estimate.
    """

    def __init__(
        self,
        estimator: Estimator,
        query: Query,
        dtype: Any,
        pilot: int,
        errors: int,
        look_at: Callable[[Estimate], Estimate] = lambda estimate: estimate,
    ) -> None:
        self.estimator, self.query, self.trials = estimator, query, query.trials[0]
        self._look_at = look_at
        self._made: dict[tuple[int, int], Estimate] = {}
        self._edges: dict[int, int] = {}
        statistic, self.layout = estimator.statistic(), ()
        if statistic.needs_pilot():
            scores = [(np.arange(pilot) < n).astype(dtype) for n in (errors, pilot - errors)]
            self.layout = call_plugin("bind", lambda: statistic.bind(*scores))

        def counts_of_one(dataset: int, value: int) -> Any:
            score, zero = jnp.array([value], dtype), statistic.zero(self.layout)
            own = self.layout, zero, jnp.int32(dataset), score, jnp.array([True])
            counts = call_plugin("update", statistic.update, *own)
            return trees.map(lambda leaf: np.asarray(leaf, np.int64), counts)

        self._ones = [counts_of_one(dataset, value) for dataset in (0, 1) for value in (0, 1)]
        self.size = sum(leaf.size for leaf in trees.leaves(self._ones[0]))

    def counts(self, k: Any, u: Any, trials: Any) -> Any:
        """Return the counts of k false positives and u false negatives; both may be arrays."""
        times = [np.asarray(n) for n in (trials - k, k, u, trials - u)]
        return trees.map(
            lambda *leaves: sum(
                np.multiply.outer(n, leaf) for n, leaf in zip(times, leaves, strict=True)
            ),
            *self._ones,
        )

    def estimate(self, k: int, u: int) -> Estimate:
        """Return the estimate, computed once."""
        if (k, u) not in self._made:
            own = self.layout, self.counts(k, u, self.trials), self.query
            self._made[k, u] = self._look_at(call_plugin("estimate", self.estimator.estimate, *own))
        return self._made[k, u]

    def edge(self, k: int, level: float) -> int:
        """Return the most false negatives that refute the claim beside k false positives, or −1."""
        if k in self._edges:
            return self._edges[k]
        low, high, step = -1, self.trials - k + 1, self.trials
        u = high // 2
        if self._edges:  # the sum of errors hardly changes from a neighbour's edge
            near = min(self._edges, key=lambda other: abs(other - k))
            u, step = self._edges[near] + near - k, 1 + abs(k - near) // 16
        while high - low > 1:
            u = min(max(u, low + 1), high - 1)
            found = self.estimate(k, u).p_resolved
            if found is not None and found <= level:
                low, u = u, u + step
            else:
                high, u = u, u - step
            step *= 2
            if not low < u < high:
                u = (low + high) // 2
        self._edges[k] = low
        return low


class Corner:
    """A bound and its shares of the error at the corner of the curve of ε-DP.

    `rate` is FPR and FNR of the two outputs, and `error` the promised error of the bound, which may
    exceed ε by `rounding`.
    """

    def __init__(self, table: TwoValued, rate: float, error: float, rounding: float) -> None:
        self._table, self._rate, self.error = table, rate, error
        self.epsilon = math.log((1 - rate) / rate)
        self._most = self.epsilon + rounding
        expected = round(rate * table.trials)
        self.shares = [share.error for share in table.estimate(expected, expected).shares]
        self.spent = math.fsum(self.shares)
        self.largest = sorted(range(len(self.shares)), key=lambda n: -self.shares[n])

    def probability(self, hit: Callable[[Estimate], bool], promised: float) -> float:
        """Return the probability of an estimate that hits; see `probability_of`."""
        table, rate = self._table, self._rate
        return probability_of(lambda k, u: hit(table.estimate(k, u)), table.trials, rate, promised)

    @functools.cached_property
    def exceedance(self) -> float:
        """The probability that the bound exceeds ε."""
        return self.probability(lambda one: (one.epsilon_lower or 0.0) > self._most, self.error)

    @functools.cache  # noqa: B019  # a corner is short-lived
    def of_share(self, number: int) -> float:
        """Return the probability that an event certifies more than ε at its share of the error."""

        def hit(one: Estimate) -> bool:
            own = one.shares[number : number + 1]
            return bool(own) and own[0].epsilon_lower > self._most

        return self.probability(hit, self.shares[number] * self.error)

    def mistakes(self, events: int = 1) -> list[str]:
        """Describe every broken promise of the bound, and of the events with the largest shares."""
        more, found = 1 + PROBABILITY_ROUNDING, []
        if self.exceedance > self.error * more:
            found.append(
                f"the bound exceeds the truth with probability {self.exceedance:.4g}, but promises "
                f"at most {self.error:.4g}"
            )
        for number in self.largest[:events]:
            share, own = self.shares[number], self.shares[number] * self.error
            if self.of_share(number) > own * more:
                found.append(
                    f"the event with {share:.3g} of the error, {own:.4g}, exceeds the truth with "
                    f"probability {self.of_share(number):.4g}"
                )
        if self.spent > more:
            found.append(f"the shares of the error sum to {self.spent:.6g}")
        return found
