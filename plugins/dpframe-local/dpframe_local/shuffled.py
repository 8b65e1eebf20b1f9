"""Reports in random order, with the claim of privacy amplification by shuffling."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from dpframe_textbook.finite import FiniteDP

from dpframe.plugins import Array, Claim, Floats, Ge, Gt, Key, Le, Lt, Mechanism, Pair
from dpframe_local.protocols import grr, grr_rates

SMALLEST = 1e-300
"""The smallest δ of a search."""


@dataclasses.dataclass(frozen=True)
class ShuffledDP(Claim):
    """The claim of n reports, each ε₀-DP on its own, in random order [Feldman2021, theorem 3.1].

    If ε₀ ≤ ln(n/(16 ln(2/δ))), they are (ε, δ)-DP if one person's data change, with

        ε = ln(1 + (e^ε₀ − 1)/(e^ε₀ + 1) · (8 √(e^ε₀ ln(4/δ))/√n + 8 e^ε₀/n)).

    Otherwise, or if this ε is larger than ε₀, the claim is ε₀.

    Args:
        epsilon_report: ε₀.
        people: n.

    Raises:
        ValueError: a parameter is out of range.
    """

    epsilon_report: float
    people: int
    kind: ClassVar[str] = "shuffled"

    def __post_init__(self) -> None:
        if not 0 < self.epsilon_report < math.inf or self.people < 1:
            raise ValueError("epsilon_report is above 0, and people at least 1")

    @property
    def default_delta(self) -> float:
        return 1e-3

    def epsilon_at(self, delta: float) -> float:
        """Return the smaller of the theorem's ε and the ε that ε₀-DP allows at this δ."""
        if delta >= 1:
            return 0.0
        grown, n = math.exp(self.epsilon_report), self.people
        alone = math.log(max(1.0, grown - delta * (grown + 1)))
        if delta <= 0 or grown > n / (16 * math.log(2 / delta)):
            return alone
        crowd = 8 * math.sqrt(grown * math.log(4 / delta) / n) + 8 * grown / n
        return min(math.log1p((grown - 1) / (grown + 1) * crowd), alone)

    def delta_at(self, epsilon: float) -> float:
        """Return δ at ε by bisection of ln δ, because ε falls as δ grows."""
        grown = math.exp(self.epsilon_report)
        alone = (grown - math.exp(min(epsilon, self.epsilon_report))) / (grown + 1)
        if alone <= 0:
            return 0.0
        low, high = math.log(SMALLEST), math.log(alone)
        while high - low > 1e-12:
            middle = (low + high) / 2
            if self.epsilon_at(math.exp(middle)) <= epsilon:
                high = middle
            else:
                low = middle
        return math.exp(high)


class ShuffledGRR(Mechanism, name="shuffled-grr"):
    """Generalised randomised response of many people, shuffled: how often each value was reported.

    The dataset is one number for each person. Claim: theorem 3.1 of [Feldman2021], if one person's
    data change; true.
    """

    epsilon: Annotated[float, Gt(0), Lt(50)] = 1.0
    """ε₀, of one report."""
    k: Annotated[int, Ge(2), Le(64)] = 2
    """Number of values."""

    def claim(self, pair: Pair) -> ShuffledDP:
        values = (self._values(d, np) for d in (pair.d0, pair.d1))
        if np.count_nonzero(np.subtract(*values)) > 1:
            raise ValueError("the claim is about one person: D and D′ differ in more")
        return ShuffledDP(float(self.epsilon), int(np.size(pair.d0)))

    def truth(self, pair: Pair) -> FiniteDP | None:
        if self.k != 2:
            return None
        return FiniteDP.of(*(self._ones(self._values(d, np)) for d in (pair.d0, pair.d1)))

    def _ones(self, values: Any) -> Floats:
        """Return the probabilities of 0, 1, … reports of 1."""
        keep, other = (float(rate) for rate in grr_rates(self.epsilon, 2, np))
        probabilities = np.ones(1)
        for value in values:
            rate = keep if value else other
            probabilities = np.convolve(probabilities, [1 - rate, rate])
        return probabilities

    def _values(self, data: Any, numpy: Any) -> Any:
        numbers = numpy.floor(numpy.asarray(data).ravel() + 0.5).astype(numpy.int32)
        return numpy.clip(numbers, 0, self.k - 1)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        values = self._values(data, jnp)

        def add(counts: Array, person: tuple[Key, Array]) -> tuple[Array, None]:
            own, value = person
            reports = grr(own, value, self.epsilon, self.k, (n,), data.dtype)
            return counts + (reports[:, None] == jnp.arange(self.k)), None

        start = jnp.zeros((n, self.k), jnp.int32)
        counts, _ = jax.lax.scan(add, start, (jax.random.split(key, data.size), values))
        return counts.astype(data.dtype)
