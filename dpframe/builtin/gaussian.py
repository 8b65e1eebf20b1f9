"""Gaussian mechanisms."""

import dataclasses
from typing import Annotated, Self

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dpframe.builtin.pure_mechanisms import known, sensitivity_or_distance
from dpframe.plugins import (
    ApproxDP,
    Array,
    Claim,
    GaussianDP,
    Gt,
    HostArray,
    Key,
    Le,
    Lt,
    Mechanism,
    Pair,
    PureDP,
    SubsampledGaussianDP,
)
from dpframe.stats.gaussian import gaussian_mu_at


def standard_normal(key: Key, data: Array, n: int) -> Array:
    """Draw N(0, 1) for every coordinate of n outputs, shape [n, *data.shape].

    Drawn in one row and reshaped last: vectors then have full width whatever the dimension.
    """
    return jax.random.normal(key, (n * data.size,), data.dtype).reshape(n, *data.shape)


def normal_cdf(data: HostArray, x: HostArray, sigma: float) -> HostArray | None:
    """Return P(data + N(0, σ²) ≤ x) for data of one number, else None."""
    if np.size(data) != 1:
        return None
    probabilities: HostArray = special.ndtr((x - np.ravel(data)[0]) / sigma)
    return probabilities


def shift_log_ratio(data: Array, outputs: Array, sigma: Array | float) -> Array:
    """Return the log density of N(data, σ²) with respect to N(0, σ²), shape [n].

    Unlike −‖outputs − data‖²/2σ² it is linear in the outputs, so differences of two such values
    lose no digits.
    """
    products = (data * (outputs - data / 2)).reshape(len(outputs), -1)
    return jnp.sum(products, axis=1) / sigma**2


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
    """δ of the claim; used only with `epsilon`."""
    sigma: Annotated[float, Gt(0)] | None = None
    """Standard deviation of the noise; without `epsilon` the claim follows from it."""
    sensitivity: Annotated[float, Gt(0)] | None = None
    """l2 sensitivity Δ; default: the pair's l2 distance."""

    def check(self) -> None:
        if self.epsilon is None and self.sigma is None:
            raise ValueError("give sigma, or epsilon to calibrate it to, or both")

    def resolve(self, pair: Pair) -> Self:
        sensitivity, sigma = sensitivity_or_distance(self.sensitivity, pair, 2), self.sigma
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


class SubsampledGaussian(Mechanism, name="subsampled-gaussian"):
    """A noisy sum over a Poisson sample of the records, such as one step of DP-SGD.

    The dataset is the contribution of one record to the sum: a vector x, or zero if the record is
    absent. The other records are known and left out. With probability q the record is in the
    sample, and the output is x + N(0, σ²Δ²) in every coordinate; else it is N(0, σ²Δ²). Claim: the
    exact curve of that for records of l2 norm Δ; true, unless another is named. True curve of
    a pair with D = 0, such as zeros-ones at any dim: the same, with Δ/‖x‖ times the noise; at
    δ = 0 the true ε is infinite. At dim 1 the output rounds to 1 with probability Φ(−1/2σ) on D and
    qΦ(1/2σ) + (1 − q)Φ(−1/2σ) on D′ [Koskela2024, section 3]. In float32 the
    noise is between −5.42 σΔ and 5.22 σΔ, and q is rounded up to a multiple of 2⁻²³.
    """

    sampling_probability: Annotated[float, Gt(0), Le(1)]
    """q, the probability that the record is in the sample."""
    noise_multiplier: Annotated[float, Gt(0)]
    """σ: standard deviation of the noise, divided by the sensitivity."""
    epsilon: Annotated[float, Gt(0)] | None = None
    """The claim, at `delta`; changes nothing else. Default: the exact curve is claimed."""
    delta: Annotated[float, Gt(0), Lt(1)] = 1e-5
    """δ of the claim; used only with `epsilon`."""
    mu: Annotated[float, Gt(0)] | None = None
    """Claims μ-GDP instead; changes nothing else."""
    claimed_noise_multiplier: Annotated[float, Gt(0)] | None = None
    """Claims the exact curve of this σ instead of the true one; changes nothing else."""
    sensitivity: Annotated[float, Gt(0)] | None = None
    """Δ, the largest l2 norm of a record; default: the pair's l2 distance."""

    def check(self) -> None:
        claims = [self.epsilon, self.mu, self.claimed_noise_multiplier]
        if sum(claim is not None for claim in claims) > 1:
            raise ValueError(
                "epsilon, mu and claimed_noise_multiplier are claims: give one of them"
            )

    def resolve(self, pair: Pair) -> Self:
        sensitivity = sensitivity_or_distance(self.sensitivity, pair, 2)
        return dataclasses.replace(self, sensitivity=sensitivity)

    def claim(self, pair: Pair) -> Claim:
        if self.epsilon is not None:
            return ApproxDP(self.epsilon, self.delta)
        if self.mu is not None:
            return GaussianDP(self.mu)
        claimed = self.claimed_noise_multiplier or self.noise_multiplier
        return SubsampledGaussianDP(self.sampling_probability, claimed)

    def truth(self, pair: Pair) -> Claim | None:
        if np.any(pair.d0) and np.any(pair.d1):
            return None  # a record replaced: two mixtures
        distance = pair.distance(2)
        if distance == 0:
            return PureDP(0.0)
        return SubsampledGaussianDP(self.sampling_probability, self._deviation / distance)

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        without = normal_cdf(np.zeros_like(data), x, self._deviation)
        chosen = normal_cdf(data, x, self._deviation)
        if without is None or chosen is None:
            return None
        return without + self.sampling_probability * (chosen - without)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        choice, noise = jax.random.split(key)
        chosen = jax.random.uniform(choice, (n,), data.dtype) < self.sampling_probability
        added = jnp.where(chosen.reshape(n, *[1] * data.ndim), data, 0)
        return added + self._deviation * standard_normal(noise, data, n)

    def log_density(self, data: Array, outputs: Array) -> Array:
        q = self.sampling_probability
        ratio = shift_log_ratio(data, outputs, self._deviation)
        return jnp.logaddexp(jnp.log1p(-q), jnp.log(q) + ratio)

    @property
    def _deviation(self) -> float:
        """Standard deviation of the noise."""
        return self.noise_multiplier * known(self.sensitivity)
