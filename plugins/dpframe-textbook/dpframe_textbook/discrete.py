"""Discrete Laplace and discrete Gaussian noise on whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Floats, Ge, Key, Le, Mechanism, Pair, PureDP, ZeroConcentratedDP
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.integers import discrete_gaussian, discrete_laplace
from dpframe_textbook.neighbours import one_by_one

REACH = 40
"""Number of scales beyond which the noise has a probability below 1e-17."""


class DiscreteLaplace(Mechanism, name="discrete-laplace"):
    """Whole numbers plus noise z, Pr[z] proportional to e^{−|z|s/t} [CanonneKS2020, algorithm 2].

    Sampled with integer arithmetic only. Claim: s/t-DP if one number changes by up to 1; true, and
    tight. With the mistake: wrong, the loss is s/t + ln 2. Numbers are rounded first.
    """

    t: Annotated[int, Ge(1), Le(1_000_000)] = 10
    """Numerator of the scale."""
    s: Annotated[int, Ge(1), Le(1_000_000)] = 1
    """Denominator of the scale."""
    mistake: Literal["none", "two-zeros"] = "none"
    """two-zeros: magnitude and sign are drawn separately, so 0 occurs twice as often as it
    should."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(one_by_one(pair) * self.s / self.t)

    def truth(self, pair: Pair) -> FiniteDP | None:
        scale = self.t / self.s
        return _shifted(pair, scale, self._weights)

    def _weights(self, z: Floats) -> Floats:
        weights = np.exp(-np.abs(z) * self.s / self.t)
        return np.where(z == 0, 2.0 if self.mistake == "two-zeros" else 1.0, 1.0) * weights

    def sample(self, key: Key, data: Array, n: int) -> Array:
        twice = self.mistake == "two-zeros"
        noise = discrete_laplace(key, n * data.size, self.t, self.s, two_zeros=twice)
        return _added(noise, data, n)


class DiscreteGaussian(Mechanism, name="discrete-gaussian"):
    """Whole numbers plus noise z, Pr[z] proportional to e^{−z²/2σ²} [CanonneKS2020, algorithm 3].

    Sampled with integer arithmetic only. Claim: d²/2σ²-zCDP for numbers at the l2 distance d; true.
    With the mistake: wrong. Numbers are rounded first.
    """

    sigma: Annotated[int, Ge(2), Le(31)] = 10
    """σ of the noise in the claim."""
    mistake: Literal["none", "sigma-for-variance"] = "none"
    """sigma-for-variance: the sampler, which asks for σ², is given σ."""

    def claim(self, pair: Pair) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(pair.distance(2) ** 2 / (2 * self.sigma**2))

    def truth(self, pair: Pair) -> FiniteDP | None:
        return _shifted(
            pair, float(self._variance) ** 0.5, lambda z: np.exp(-z * z / (2 * self._variance))
        )

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return _added(discrete_gaussian(key, n * data.size, self._variance), data, n)

    @property
    def _variance(self) -> int:
        return self.sigma if self.mistake == "sigma-for-variance" else self.sigma**2


def _added(noise: Array, data: Array, n: int) -> Array:
    whole = jnp.floor(data + 0.5)
    return whole + noise.astype(data.dtype).reshape(n, *data.shape)


def _shifted(pair: Pair, scale: float, weights: Callable[[Floats], Floats]) -> FiniteDP | None:
    """Return the curve of noise with these weights if at most one number differs, else None."""
    zero, one = (np.floor(np.asarray(d, np.float64) + 0.5).ravel() for d in (pair.d0, pair.d1))
    if np.count_nonzero(zero != one) > 1:
        return None
    gap = float(np.abs(one - zero).sum())
    z = np.arange(-np.ceil(REACH * scale), np.ceil(REACH * scale) + gap + 1)
    return FiniteDP.of(weights(z), weights(z - gap))
