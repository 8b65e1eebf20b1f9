"""Many reports about one value: a memoised response is randomised again for each report."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.noise import uniform

from dpframe.plugins import Array, Floats, Ge, Gt, Key, Le, Pair, ParameterError, PureDP
from dpframe_local.protocols import Protocol, grr, grr_rates

MOST_OUTPUTS = 20_000


class Memoised(Protocol):
    """The permanent response claims `epsilon`; each report about it claims `epsilon_report`."""

    epsilon: Annotated[float, Gt(0)] = 2.0
    """ε of the permanent response: the largest loss of any number of reports."""
    epsilon_report: Annotated[float, Gt(0)] = 1.0
    """ε of one report about the permanent response."""
    reports: Annotated[int, Ge(1), Le(1000)] = 4
    """Number of reports."""
    mistake: Literal["none", "not-kept"] = "none"
    """not-kept: nothing is memoised, so each report starts from a new response."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.first if self.reports == 1 else self.epsilon)

    @property
    def first(self) -> float:
        """The loss of a single report."""
        raise NotImplementedError


class LongitudinalGRR(Memoised, name="l-grr"):
    """Generalised randomised response twice, the first answer memoised [Arcolezi2022].

    An output counts the reports of each value. Claim: `epsilon`, or less for one report; true.
    With the mistake the claim is wrong, because the loss grows with the number of reports.
    """

    @property
    def first(self) -> float:
        (p1, q1), (p2, q2) = self._rates(np)
        own = p1 * p2 + (1 - p1) * q2
        other = q1 * p2 + (1 - q1) * q2
        return float(np.log(own) - np.log(other))

    def _rates(self, numpy: Any) -> list[tuple[Any, Any]]:
        return [grr_rates(e, self.k, numpy) for e in (self.epsilon, self.epsilon_report)]

    def truth(self, pair: Pair) -> FiniteDP | None:
        size = math.comb(self.reports + self.k - 1, self.k - 1)
        if self.mistake != "none" or size > MOST_OUTPUTS:
            return None
        counts = np.array(
            [
                np.diff([-1, *bars, self.reports + self.k - 1]) - 1
                for bars in itertools.combinations(range(self.reports + self.k - 1), self.k - 1)
            ]
        )
        ways = np.array([_ways(row.tolist()) for row in counts])
        densities = (np.exp(self._log(v, counts, np)) * ways for v in self._values(pair))
        return FiniteDP.of(*densities)

    def _log(self, value: Any, counts: Any, numpy: Any) -> Any:
        (p1, q1), (p2, q2) = self._rates(numpy)
        permanent = numpy.where(numpy.arange(self.k) == value, p1, q1)
        terms = numpy.log(permanent) + counts * (numpy.log(p2) - numpy.log(q2))
        most = terms.max(axis=-1, keepdims=True)
        total = numpy.log(numpy.sum(numpy.exp(terms - most), axis=-1)) + most[..., 0]
        return total + numpy.log(q2) * self.reports

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_permanent, of_reports = jax.random.split(key)
        kept = self.reports if self.mistake == "not-kept" else 1
        permanent = grr(
            of_permanent, self.value(data), self.epsilon, self.k, (n, kept), data.dtype
        ).astype(jnp.int32)
        shape = n, self.reports
        reports = grr(of_reports, permanent, self.epsilon_report, self.k, shape, data.dtype)
        return jnp.sum(reports[:, :, None] == jnp.arange(self.k), axis=1).astype(data.dtype)

    def log_density(self, data: Array, outputs: Array) -> Array:
        if self.mistake == "not-kept":
            # Reports are independent, so the only information is how often each value was reported.
            return jnp.take(outputs, self.value(data), axis=1)
        densities: Array = self._log(self.value(data), outputs, jnp)
        return densities


class LongitudinalUnary(Memoised, name="l-ue"):
    """Unary encoding twice, the first bits memoised: RAPPOR and its optimised forms [Arcolezi2022].

    An output counts the reports of each bit as 1. Claim: `epsilon`, or less for one report; true.
    With the mistake the claim is wrong, because the loss grows with the number of reports.
    """

    permanent: Literal["sue", "oue"] = "sue"
    """Encoding of the memoised bits: symmetric, as in RAPPOR, or optimised."""

    def check(self) -> None:
        if self.epsilon_report > 50:
            raise ParameterError("epsilon_report", "is above 50")

    @property
    def first(self) -> float:
        (p1, q1), (p2, q2) = self._rates(np)
        p, q = p1 * p2 + (1 - p1) * q2, q1 * p2 + (1 - q1) * q2
        return float(np.log(p / q) + np.log((1 - q) / (1 - p)))

    def _rates(self, numpy: Any) -> list[tuple[Any, Any]]:
        keep = 1 / (1 + numpy.exp(-self.epsilon / 2))
        first = (keep, 1 - keep)
        if self.permanent == "oue":
            first = (0.5 + 0.0 * self.epsilon, 1 / (1 + numpy.exp(self.epsilon)))
        # Bits are kept so that one report about the permanent bits loses epsilon_report.
        again = 1 / (1 + numpy.exp(-self.epsilon_report / 2))
        return [first, (again, 1 - again)]

    def truth(self, pair: Pair) -> FiniteDP | None:
        zero, one = self._values(pair)
        if self.mistake != "none" or (self.reports + 1) ** 2 > MOST_OUTPUTS:
            return None
        mine, others = (self._counts(rate) for rate in self._rates(np)[0])
        both = np.outer(mine, others)
        return FiniteDP.of(both, both.T if zero != one else both)

    def _counts(self, rate: float) -> Floats:
        """Return the probabilities of 0, 1, … reports of 1, for a bit kept as 1 at this rate."""
        p2, q2 = (float(r) for r in self._rates(np)[1])
        n = np.arange(self.reports + 1)
        ways = np.array([float(math.comb(self.reports, int(i))) for i in n])
        parts = [r**n * (1 - r) ** (self.reports - n) for r in (p2, q2)]
        return np.asarray(ways * (rate * parts[0] + (1 - rate) * parts[1]))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_permanent, of_reports = jax.random.split(key)
        (p1, q1), (p2, q2) = self._rates(jnp)
        kept = self.reports if self.mistake == "not-kept" else 1
        rates = jnp.where(jnp.arange(self.k) == self.value(data), p1, q1).astype(data.dtype)
        bits = uniform(of_permanent, (n, kept, self.k), data.dtype) < rates
        u = uniform(of_reports, (n, self.reports, self.k), data.dtype)
        return jnp.sum(u < jnp.where(bits, p2, q2), axis=1).astype(data.dtype)

    def log_density(self, data: Array, outputs: Array) -> Array:
        ones = jnp.take(outputs, self.value(data), axis=1)
        if self.mistake == "not-kept":
            return ones
        (p1, q1), (p2, q2) = self._rates(jnp)
        high, low = (ones * jnp.log(r) + (self.reports - ones) * jnp.log1p(-r) for r in (p2, q2))
        mine, other = (jnp.logaddexp(jnp.log(r) + high, jnp.log1p(-r) + low) for r in (p1, q1))
        return mine - other


def _ways(counts: list[int]) -> float:
    """Return the number of orders of reports with these counts."""
    orders = math.factorial(sum(counts))
    for count in counts:
        orders //= math.factorial(count)
    return float(orders)
