"""Metric differential privacy: the allowed loss grows with the distance."""

from __future__ import annotations

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Floats, Ge, Gt, Key, Le, Mechanism, MetricDP, Pair
from dpframe_textbook.noise import exponential, laplace, normal


class PlanarLaplace(Mechanism, name="planar-laplace"):
    """A point plus noise x with density proportional to e^{−ε|x|}, |x| its length [Andres2013].

    Claim: ε times the Euclidean distance between any two points; true, and tight. With the mistake:
    wrong. The mechanism was designed for the plane, but points may have more coordinates.
    """

    epsilon: Annotated[float, Gt(0)] = 1.0
    """ε for points at distance 1."""
    mistake: Literal["none", "each-coordinate"] = "none"
    """each-coordinate: Lap(1/ε) in each coordinate, which protects only the l1 distance."""

    def claim(self, pair: Pair) -> MetricDP:
        return MetricDP(self.epsilon, pair.distance(2), "euclidean")

    def sample(self, key: Key, data: Array, n: int) -> Array:
        if self.mistake == "each-coordinate":
            return data + laplace(key, (n, *data.shape), data.dtype) / self.epsilon
        noise = euclidean_laplace(key, n, data.size, data.dtype)
        return data + noise.reshape(n, *data.shape) / self.epsilon


class NearestWord(Mechanism, name="nearest-word"):
    """The word that is nearest to a word's embedding plus noise [Feyisetan2020].

    The noise has a density proportional to e^{−ε|x|}: a uniform direction, and a gamma-distributed
    length of shape `dimensions`. Words are numbers. Coordinate j of the embedding of
    word w is 10 times the fractional part of (w + 1)√p_j, where p_j is the jth prime. Claim: ε
    times the Euclidean distance between the two embeddings; true. With the mistake: wrong.
    """

    epsilon: Annotated[float, Gt(0)] = 1.0
    """ε for words at distance 1."""
    words: Annotated[int, Ge(2), Le(10_000)] = 50
    """Size of the vocabulary: 0, 1, …; other numbers are rounded and clamped."""
    dimensions: Annotated[int, Ge(1), Le(15)] = 4
    """Dimension of the embedding."""
    mistake: Literal["none", "exponential-length"] = "none"
    """exponential-length: the length is exponential in every dimension."""

    def claim(self, pair: Pair) -> MetricDP:
        table = embedding(self.words, self.dimensions)
        places = [
            int(np.clip(np.floor(np.ravel(data)[0] + 0.5), 0, self.words - 1))
            for data in (pair.d0, pair.d1)
        ]
        return MetricDP.between(self.epsilon, table[places[0]], table[places[1]])

    def sample(self, key: Key, data: Array, n: int) -> Array:
        table = jnp.asarray(embedding(self.words, self.dimensions), data.dtype)
        word = jnp.clip(jnp.floor(data.ravel()[0] + 0.5), 0, self.words - 1).astype(int)
        degrees = 1 if self.mistake == "exponential-length" else self.dimensions
        noise = euclidean_laplace(key, n, self.dimensions, data.dtype, degrees) / self.epsilon
        # |x − y|² less |x|², which is the same for all words y.
        gaps = jnp.sum(table**2, axis=1) - 2 * (table[word] + noise) @ table.T
        return jnp.argmin(gaps, axis=1).astype(data.dtype)[:, None]


PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


def embedding(words: int, dimensions: int) -> Floats:
    """Return a vector for each word, shape [words, dimensions]."""
    steps = np.sqrt(np.array(PRIMES[:dimensions], np.float64))
    return np.asarray(10 * ((np.arange(1, words + 1)[:, None] * steps) % 1), np.float64)


def euclidean_laplace(
    key: Key, n: int, dimensions: int, dtype: np.dtype, degrees: int | None = None
) -> Array:
    """Draw vectors with density proportional to e^{−|x|}, shape [n, dimensions].

    Args:
        key: a JAX key.
        n: number of vectors.
        dimensions: of each.
        dtype: of floats.
        degrees: of the gamma distribution of the length; default: `dimensions`.
    """
    of_direction, of_length = jax.random.split(key)
    towards = normal(of_direction, (dimensions, n), dtype)
    length = jnp.sum(exponential(of_length, (degrees or dimensions, n), dtype), axis=0)
    return (towards * (length / jnp.sqrt(jnp.sum(towards**2, axis=0)))).T
