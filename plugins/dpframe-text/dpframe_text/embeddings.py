"""Noise on vectors that stand for texts: embeddings, and directions of topics."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
from dpframe_textbook.noise import laplace, normal, uniform

from dpframe.plugins import (
    ApproxDP,
    Array,
    GaussianDP,
    Gt,
    Key,
    Lt,
    Mechanism,
    MetricDP,
    Pair,
    PureDP,
)
from dpframe.stats.gaussian import gaussian_mu_at


class ClippedEmbedding(Mechanism, name="clipped-embedding"):
    """An embedding, clipped to length C, plus Laplace noise of scale 2C√d/ε [Habernal2021].

    The l1 distance of two vectors of length C in d dimensions is at most 2C√d. Claim: ε-DP for any
    two embeddings; true. With a mistake: wrong.
    """

    epsilon: Annotated[float, Gt(0)] = 1.0
    """The claim."""
    bound: Annotated[float, Gt(0)] = 1.0
    """C, the largest length."""
    mistake: Literal["none", "l2-for-l1", "half-range", "noise-first"] = "none"
    """l2-for-l1: scale 2C/ε, as in ADePT, although Laplace noise needs the l1 distance; half-range:
    scale C√d/ε; noise-first: the noise is added before the clipping."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        vector = data.ravel()
        dimensions = 1 if self.mistake == "l2-for-l1" else vector.size
        scale = (1 if self.mistake == "half-range" else 2) * self.bound * dimensions**0.5
        noise = laplace(key, (n, vector.size), data.dtype) * scale / self.epsilon
        if self.mistake == "noise-first":
            return to_length(vector + noise, self.bound)
        noisy: Array = to_length(vector, self.bound) + noise
        return noisy


class DPBart(Mechanism, name="dp-bart"):
    """An embedding whose coordinates are clipped, plus Gaussian noise [Igamberdiev2023].

    Coordinates are clipped to [−C, C], so the l2 distance of two embeddings in d dimensions is at
    most 2C√d. The noise is that of the analytic Gaussian mechanism. Claim: (ε, δ)-DP for any two
    embeddings; true. With a mistake: wrong.
    """

    epsilon: Annotated[float, Gt(0)] = 1.0
    """The claim, at `delta`."""
    delta: Annotated[float, Gt(0), Lt(1)] = 1e-3
    """δ of the claim."""
    bound: Annotated[float, Gt(0)] = 1.0
    """C, the largest absolute coordinate."""
    mistake: Literal["none", "one-coordinate", "classical", "noise-first"] = "none"
    """one-coordinate: the sensitivity is 2C, as if one coordinate changed; classical: σ is
    √(2 ln(1.25/δ))/ε times the sensitivity, which is valid for ε below 1 only; noise-first: the
    noise is added before the clipping."""
    sigma: Annotated[float, Gt(0)] | None = None
    """Standard deviation of the noise; default: the value that the claim needs."""

    def claim(self, pair: Pair) -> ApproxDP:
        return ApproxDP(self.epsilon, self.delta)

    def resolve(self, pair: Pair) -> Self:
        if self.sigma is not None:
            return self
        coordinates = 1 if self.mistake == "one-coordinate" else np.size(pair.d0)
        mu = float(gaussian_mu_at(self.epsilon, self.delta))
        if self.mistake == "classical":
            mu = self.epsilon / math.sqrt(2 * math.log(1.25 / self.delta))
        return dataclasses.replace(self, sigma=2 * self.bound * math.sqrt(coordinates) / mu)

    def truth(self, pair: Pair) -> GaussianDP | None:
        if self.mistake == "noise-first" or self.sigma is None:
            return None
        zero, one = (np.clip(np.ravel(d), -self.bound, self.bound) for d in (pair.d0, pair.d1))
        return GaussianDP(float(np.linalg.norm(one - zero)) / self.sigma)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        if self.sigma is None:
            raise ValueError("the noise is known only for a given pair")
        vector = data.ravel()
        noise = self.sigma * normal(key, (n, vector.size), data.dtype)
        if self.mistake == "noise-first":
            return jnp.clip(vector + noise, -self.bound, self.bound)
        return jnp.clip(vector, -self.bound, self.bound) + noise


class VonMisesFisher(Mechanism, name="von-mises-fisher"):
    """A direction y with density proportional to e^{εx·y}, in three dimensions [Weggenmann2021].

    The direction of the data is x. Claim: ε times the Euclidean distance between the two unit
    vectors; true. With a mistake: wrong.
    """

    epsilon: Annotated[float, Gt(0)] = 1.0
    """ε for directions at distance 1."""
    mistake: Literal["none", "not-normalised", "exponential-angle"] = "none"
    """not-normalised: x is the vector itself, of any length; exponential-angle: the angle θ to x
    is drawn with density proportional to e^{−εθ}, without the factor sin θ of areas on a sphere."""

    def claim(self, pair: Pair) -> MetricDP:
        zero, one = (direction(np.ravel(data), np) for data in (pair.d0, pair.d1))
        return MetricDP(self.epsilon, float(np.linalg.norm(one - zero)), metric="euclidean")

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_angle, of_side = jax.random.split(key)
        x, rate = self._towards(data)
        u = uniform(of_angle, (n,), data.dtype)
        if self.mistake == "exponential-angle":
            cosine = jnp.cos(-jnp.log1p(u * jnp.expm1(-rate * jnp.pi)) / rate)
        else:
            cosine = jnp.clip(1 + jnp.log1p((1 - u) * jnp.expm1(-2 * rate)) / rate, -1, 1)
        side = 2 * jnp.pi * uniform(of_side, (n,), data.dtype)
        sine = jnp.sqrt(1 - cosine**2)
        one, other = _across(x)
        across = jnp.cos(side)[:, None] * one + jnp.sin(side)[:, None] * other
        return cosine[:, None] * x + sine[:, None] * across

    def log_density(self, data: Array, outputs: Array) -> Array:
        x, rate = self._towards(data)
        cosine = jnp.clip(outputs @ x, -1, 1)
        if self.mistake == "exponential-angle":
            return -rate * jnp.arccos(cosine) - jnp.log(1 - cosine**2) / 2
        return rate * (cosine - 1) + jnp.log(rate) - jnp.log(-jnp.expm1(-2 * rate))

    def _towards(self, data: Array) -> tuple[Array, Array]:
        """Return x and the factor of cos θ or of −θ in the exponent."""
        vector = data.ravel()
        long = self.mistake == "not-normalised"
        length = jnp.maximum(jnp.linalg.norm(vector), 1e-3) if long else 1.0
        return direction(vector, jnp), self.epsilon * jnp.asarray(length, data.dtype)


def direction(vector: Any, xp: Any) -> Any:
    """Return the unit vector of this direction; of zeros, the last axis."""
    length = xp.linalg.norm(vector)
    last = xp.arange(vector.size) == vector.size - 1
    return xp.where(length > 0, vector / xp.where(length > 0, length, 1.0), last)


def to_length(vectors: Array, bound: Any) -> Array:
    """Shorten vectors to a length of at most `bound`; shape [..., d]."""
    length = jnp.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors * jnp.minimum(1.0, bound / jnp.maximum(length, 1e-30))


def _across(x: Array) -> tuple[Array, Array]:
    """Return two unit vectors that complete a unit vector to an orthonormal basis."""
    axis = (jnp.arange(3) == jnp.argmin(jnp.abs(x))).astype(x.dtype)
    one = jnp.cross(x, axis)
    one = one / jnp.linalg.norm(one)
    return one, jnp.cross(x, one)
