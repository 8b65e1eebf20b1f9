"""The Gaussian mechanism."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Self

from dpframe import ApproxDP, GaussianDP, Gt, Lt, Mechanism, Pair
from dpframe.builtin.mechanisms._gaussian import (
    l2_sensitivity,
    normal_cdf,
    shift_log_ratio,
    standard_normal,
)
from dpframe.builtin.mechanisms._pairs import known
from dpframe.stats.gaussian import gaussian_mu_at

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Key


class Gaussian(Mechanism, name="gaussian"):
    """Gaussian mechanism: x + N(0, σ²) in every coordinate.

    With σ alone it claims to be Δ/σ-GDP for a query of l2 sensitivity Δ [Dong2022, theorem 2.7
    of the preprint]; true. With ε alone it claims (ε, δ)-DP and takes the smallest σ for which that
    is true (analytic Gaussian mechanism) [Balle2018, theorem 8]. With both it claims (ε, δ)-DP
    whatever σ is. True curve for every pair: exactly μ-GDP, μ its l2 distance over σ; at δ = 0 the
    true ε is infinite. A coordinate rounds to 1 with probability Φ(−1/2σ) on D and Φ(1/2σ) on D′.
    In float32 the noise is between −5.42 σ and 5.22 σ.
    """

    epsilon: Annotated[float, Gt(0)] | None = None
    """The claim, at `delta`; without `sigma` the noise is calibrated to it."""
    delta: Annotated[float, Gt(0), Lt(1)] = 1e-5
    """δ of the claim; counts only together with `epsilon`."""
    sigma: Annotated[float, Gt(0)] | None = None
    """Standard deviation of the noise; without `epsilon` the claim follows from it."""
    sensitivity: Annotated[float, Gt(0)] | None = None
    """l2 sensitivity Δ; default: the pair's l2 distance."""

    def check(self) -> None:
        if self.epsilon is None and self.sigma is None:
            raise ValueError("give sigma, or epsilon to calibrate it to, or both")

    def resolve(self, pair: Pair) -> Self:
        sensitivity, sigma = l2_sensitivity(self.sensitivity, pair), self.sigma
        if sigma is None:
            sigma = sensitivity / float(gaussian_mu_at(known(self.epsilon), self.delta))
        return dataclasses.replace(self, sensitivity=sensitivity, sigma=sigma)

    def claim(self, pair: Pair) -> ApproxDP | GaussianDP:
        if self.epsilon is not None:
            return ApproxDP(self.epsilon, self.delta)
        return GaussianDP(known(self.sensitivity) / known(self.sigma))

    def truth(self, pair: Pair) -> GaussianDP:
        return GaussianDP(pair.distance(2) / known(self.sigma))

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return normal_cdf(data, x, known(self.sigma))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return data + known(self.sigma) * standard_normal(key, data, n)

    def log_density(self, data: Array, outputs: Array) -> Array:
        return shift_log_ratio(data, outputs, known(self.sigma))
