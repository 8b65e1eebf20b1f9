"""False-alarm rates that are computed instead of simulated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt
from scipy import special

from dpframe.claims import PureDP
from dpframe.engine.checks import guarded
from dpframe.interfaces.attack import Attack
from dpframe.interfaces.confidence_regions import estimate_from_boxes
from dpframe.interfaces.estimator import Estimator
from dpframe.interfaces.mechanism import Mechanism
from dpframe.interfaces.statistic import DecisionCounts
from dpframe.sampling.address import precision_of
from dpframe.stats.binomial import clopper_pearson_upper

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.calibration.rehearsal import Part
    from dpframe.common.types import Array, Floats, Ints, Key, Tree
    from dpframe.interfaces.estimator import Estimate, Query
    from dpframe.interfaces.pair import Pair
    from dpframe.interfaces.statistic import Statistic
    from dpframe.spec.audit import RunSettings


# How often a bound exceeds the truth where it is most likely to, computed instead of simulated.
#
# The trade-off curve of ε-DP has a corner, FPR = FNR = 1/(1 + e^ε). A mechanism with two outputs
# that
# has these error rates attains its ε in both directions, and the counts of its outputs are two
# binomial numbers. So every probability is a finite sum: no draws, no false alarm.
#
# A whole bound exceeds the truth more rarely than it promises, because much of what it pays for
# does
# not matter with one mechanism. Twice the error then passes unnoticed. But what was paid for one
# event (`dpframe.Share`) cannot hide behind the others. Where few outputs in many say D′ the
# corner
# is sharp: counts that do not fail to cover it show less than ε. So an exact limit fails there
# almost
# as often as it may, and each event is held to its own share.


TRIALS, ERRORS = 100_000, 100
"""Draws per dataset, and how many of them are errors in the mean: enough that counts are fine
steps, few enough that the corner is sharp. The level of a bound does not depend on it."""

REACH = 6.0
"""Standard deviations below and above the mean within which counts are looked at."""

ROUNDING = 1e-5
"""Relative error of a probability that is not a mistake of its level."""


class Corner(NamedTuple):
    """What an estimator does at a corner."""

    epsilon: float
    """Of the corner, and the truth."""
    exceedance: float
    """Probability that the bound exceeds it."""
    share: float
    """The largest share of the error that an event has."""
    of_share: float
    """Probability that this event certifies more than ε."""
    spent: float
    """All shares together."""

    def mistakes(self, error: float) -> list[str]:
        """What is not as promised, in words.

        Args:
            error: promised for the whole bound.
        """
        own, more = self.share * error, 1 + ROUNDING
        found = []
        if self.exceedance > error * more:
            found.append(
                f"the bound exceeds the truth with probability {self.exceedance:.4g}, and promises "
                f"at most {error:.4g}"
            )
        if self.of_share > own * more:
            found.append(
                f"the event with {self.share:.3g} of the error, {own:.4g}, exceeds the truth with "
                f"probability {self.of_share:.4g}"
            )
        if self.spent > more:
            found.append(f"the shares of the error sum to {self.spent:.6g}")
        return found


def at_corner(
    part: Part, error: float, run: RunSettings, trials: int = TRIALS, errors: float = ERRORS
) -> Corner | None:
    """Computes what an estimator does at a corner.

    The layout is that of a pilot with exactly the expected outputs.

    Args:
        part: a certifying estimator, and what it is asked.
        error: promised for the whole bound.
        run: the precision.
        trials: draws per dataset.
        errors: how many of them are errors in the mean; fewer than half.

    Returns:
        None where the estimate does not tell how its error is shared: then its bound may rest on
        more than error rates, and need not hold for two outputs. Neither do canaries have a corner.

    Raises:
        CellError: the estimator or its statistic raised something.
    """
    if part.cell.attack.value.gives == "canaries":
        return None
    rate = errors / trials
    epsilon = math.log((1 - rate) / rate)
    with precision_of(run):
        table = _Table(part, trials, rate, run)
        shares = [share.error for share in table.estimate(round(errors), round(errors)).shares]
        if not shares:
            return None
        largest = int(np.argmax(shares))
        truth = epsilon * (1 + ROUNDING * 1e-4)

        def bound_exceeds(k: int, u: int) -> bool:
            return (table.estimate(k, u).epsilon_lower or 0.0) > truth

        def share_exceeds(k: int, u: int) -> bool:
            own = table.estimate(k, u).shares[largest:]
            return bool(own) and own[0].epsilon_lower > truth

        return Corner(
            epsilon=epsilon,
            exceedance=_probability(table, bound_exceeds, error),
            share=shares[largest],
            of_share=_probability(table, share_exceeds, shares[largest] * error),
            spent=math.fsum(shares),
        )


class _Table:
    """What an estimator says when k false positives and u false negatives were counted."""

    def __init__(self, part: Part, trials: int, rate: float, run: RunSettings) -> None:
        self.trials, self.rate = trials, rate
        self.estimator = part.cell.estimator.value
        self.query = part.query._replace(trials=(trials, trials), delta=0.0)
        statistic = self.estimator.statistic()
        decides = part.cell.attack.value.gives == "decision"
        dtype = np.dtype(bool if decides else run.precision)
        self.layout: Tree = ()
        if statistic.needs_pilot():
            ones = round(rate * trials)
            pilots = [np.arange(trials) < number for number in (ones, trials - ones)]
            scores = [pilot.astype(dtype) for pilot in pilots]
            self.layout = guarded("bind", lambda: statistic.bind(*scores))

        def counts_of_one(dataset: int, value: int) -> Any:
            score, keep = jnp.array([value], dtype), jnp.array([True])
            zero = statistic.zero(self.layout)
            counts = statistic.update(self.layout, zero, jnp.int32(dataset), score, keep)
            return jax.tree.map(lambda leaf: np.asarray(leaf, np.int64), counts)

        def counts_of_all() -> list[Any]:
            return [counts_of_one(dataset, value) for dataset in (0, 1) for value in (0, 1)]

        self._ones = guarded("counting", counts_of_all)
        self._made: dict[tuple[int, int], Estimate] = {}

    def estimate(self, k: int, u: int) -> Estimate:
        """The estimate from counts, made once."""
        if (k, u) not in self._made:
            times = (self.trials - k, k, u, self.trials - u)
            counts = jax.tree.map(
                lambda *leaves: sum(n * leaf for n, leaf in zip(times, leaves, strict=True)),
                *self._ones,
            )
            self._made[k, u] = guarded(
                "estimate", lambda: self.estimator.estimate(self.layout, counts, self.query)
            )
        return self._made[k, u]


def _probability(table: _Table, hit: Callable[[int, int], bool], promised: float) -> float:
    """Probability of the counts that hit, at the corner.

    With fewer errors a bound is higher, so the counts that hit lie below an edge. If they are
    likelier than promised, that is not taken for granted: the counts themselves are looked at, the
    likely ones first, until there is no doubt left.
    """
    n, rate = table.trials, table.rate
    deviation = math.sqrt(n * rate * (1 - rate))
    low = max(0, math.floor(n * rate - REACH * deviation))
    high = min(n, math.ceil(n * rate + REACH * deviation))
    edge = _edge(hit, low, high)
    below = special.bdtr(np.arange(high + 1), n, rate)
    mass = np.diff(below, prepend=0.0)
    found = math.fsum(mass[k] * below[u] for k, u in edge.items())
    if found <= promised:
        return found
    points = [(mass[k] * mass[u], k, u) for k, top in edge.items() for u in range(low, top + 1)]
    seen = 0.0
    for probability, k, u in sorted(points, reverse=True):
        seen += float(probability) if hit(k, u) else 0.0
        if seen > promised * (1 + 2 * ROUNDING):
            return found
    return seen


def _edge(hit: Callable[[int, int], bool], low: int, high: int) -> dict[int, int]:
    """For each k the largest u that hits, found by going down along the edge."""
    k, u = low, high
    edge: dict[int, int] = {}
    while k <= high and u >= low:
        if hit(k, u):
            edge[k] = u
            k += 1
        else:
            u -= 1
    return edge


# Cells whose p-value is exactly what a p-value should be, to try what the engine does with them.
#
# A coin says D′ with probability c on D and 1 − c on D′, and its estimator knows the latter. Then
# the
# claim ε = ln((1 − c)/c) is at a test of one binomial number, and how often it is rejected at any
# level is a sum of binomial probabilities. Nothing is given away, so no mistake can hide.


class Coin(Mechanism, name="coin"):
    """Decides between two outputs; its counts are made up, so it draws none."""

    epsilon: Annotated[float, Gt(0)]
    """The truth."""
    claimed: float | None = None
    """The claim; default: none."""

    def claim(self, pair: Pair) -> PureDP | None:
        return None if self.claimed is None else PureDP(self.claimed)

    def truth(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        drawn: Array = jax.random.uniform(key, (n, *data.shape), data.dtype)
        return drawn


class Side(Attack, name="side"):
    """Which side the coin shows."""

    gives: ClassVar[Literal["decision", "score"]] = "decision"

    def score(self, state: Tree, outputs: Array) -> Array:
        return outputs[:, 0] > 0.5


class OneLimit(Estimator, name="one-limit"):
    """Puts a limit on the false positives; the false negatives are known."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "the false-negative rate is known"

    rate: Annotated[float, Gt(0)]
    """The false-negative rate."""

    def statistic(self) -> Statistic:
        return DecisionCounts()

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        said, trials = int(counts[0, 1]), int(counts[0].sum())

        def boxes(error: float) -> Floats:
            limit = float(clopper_pearson_upper(said, trials, error))
            return np.array([[limit, self.rate]])

        point = math.log((1 - self.rate) * trials / max(said, 1))
        return estimate_from_boxes(boxes, query, epsilon=max(0.0, point))

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        return np.array([[trials[0], 0], [0, trials[1]]], np.int64)


PLUGINS: list[Any] = [Coin, Side, OneLimit]
