"""Word replacement by noise in the space of embeddings, and the search for words near to it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from dpframe_textbook.metric import euclidean_laplace
from dpframe_textbook.noise import uniform

from dpframe.plugins import Array, Floats, Ge, Gt, Key, Le, Mechanism, MetricDP, Pair
from dpframe_text.choices import places, vectors_of


class NoisyWord(Mechanism):
    """A word near to the embedding of a word plus noise."""

    epsilon: Annotated[float, Gt(0)] = 1.0
    """ε for words at distance 1."""
    words: Annotated[int, Ge(30), Le(300)] = 60
    """Size of the vocabulary: words 0, 1, …; other numbers are rounded and clamped."""

    def gap(self, pair: Pair) -> Floats:
        """Return the difference of the vectors of D and D′, shape [d]."""
        first = (np.ravel(data)[0] for data in (pair.d0, pair.d1))
        zero, one = (vectors_of(self.words)[places(word, self.words, np)] for word in first)
        return np.asarray(one - zero)

    def distances(self, word: Array, noise: Array) -> Array:
        """Return squared distances from noisy embeddings to all words.

        Args:
            word: a number.
            noise: shape [n, d].

        Returns:
            Shape [n, words].
        """
        table = jnp.asarray(vectors_of(self.words), noise.dtype)
        noisy = table[word] + noise
        squares = jnp.sum(noisy**2, axis=1)[:, None] + jnp.sum(table**2, axis=1)
        return jnp.maximum(squares - 2 * noisy @ table.T, 0.0)


class Mahalanobis(NoisyWord, name="mahalanobis-word"):
    """The word nearest to an embedding plus noise that is long in directions of spread [Xu2020].

    The density of noise z is proportional to e^{−ε√(zᵀM⁻¹z)}, M = λΣ + (1 − λ)I. Σ is the
    covariance of the embeddings, scaled to a mean variance of 1. Claim: ε times the distance
    √(zᵀM⁻¹z) of the two embeddings; true. With a mistake: wrong.
    """

    weight: Annotated[float, Ge(0), Le(1)] = 1.0
    """λ, the weight of the covariance."""
    mistake: Literal["none", "euclidean-claim", "no-root", "exponential-length"] = "none"
    """euclidean-claim: the claim is ε times the Euclidean distance; no-root: M multiplies the noise
    instead of its square root; exponential-length: the length of the noise is exponential instead
    of gamma-distributed."""

    def claim(self, pair: Pair) -> MetricDP:
        gap = self.gap(pair)
        if self.mistake == "euclidean-claim":
            return MetricDP(self.epsilon, float(np.linalg.norm(gap)), metric="euclidean")
        length = float(np.sqrt(gap @ np.linalg.solve(self._matrix(np), gap)))
        return MetricDP(self.epsilon, length, metric="mahalanobis")

    def sample(self, key: Key, data: Array, n: int) -> Array:
        matrix = self._matrix(jnp).astype(data.dtype)
        if self.mistake != "no-root":
            matrix = jnp.linalg.cholesky(matrix).T
        degrees = 1 if self.mistake == "exponential-length" else len(matrix)
        noise = euclidean_laplace(key, n, len(matrix), data.dtype, degrees) / self.epsilon
        word = places(data.ravel()[0], self.words, jnp)
        return jnp.argmin(self.distances(word, noise @ matrix), axis=1).astype(data.dtype)[:, None]

    def _matrix(self, xp: Any) -> Any:
        covariance = np.cov(vectors_of(self.words).T)
        scaled = xp.asarray(covariance * len(covariance) / np.trace(covariance))
        return self.weight * scaled + (1 - self.weight) * xp.eye(len(covariance))


class Vickrey(NoisyWord, name="vickrey-word"):
    """The nearest or second-nearest word to a noisy embedding, chosen by their distances [Xu2021].

    The noise has density proportional to e^{−ε|x|}. The nearest word, at distance a, is chosen with
    probability (1 − t)b/(ta + (1 − t)b), else the second, at distance b. Claim: ε times the
    Euclidean distance between the two words; true. With a mistake: wrong.
    """

    t: Annotated[float, Ge(0), Le(1)] = 0.5
    """Preference for the second-nearest word."""
    mistake: Literal["none", "never-itself", "exponential-length"] = "none"
    """never-itself: the word itself is left out of the search, so its replacement always differs;
    exponential-length: the length of the noise is exponential instead of gamma-distributed."""

    def claim(self, pair: Pair) -> MetricDP:
        return MetricDP(self.epsilon, float(np.linalg.norm(self.gap(pair))), metric="euclidean")

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_noise, of_choice = jax.random.split(key)
        size = vectors_of(self.words).shape[1]
        degrees = 1 if self.mistake == "exponential-length" else size
        noise = euclidean_laplace(of_noise, n, size, data.dtype, degrees) / self.epsilon
        word = places(data.ravel()[0], self.words, jnp)
        gaps = jnp.sqrt(self.distances(word, noise))
        if self.mistake == "never-itself":
            gaps = jnp.where(jnp.arange(self.words) == word, jnp.inf, gaps)
        first = jnp.argmin(gaps, axis=1)
        others = jnp.where(jnp.arange(self.words) == first[:, None], jnp.inf, gaps)
        near, far = (1 - self.t) * jnp.min(others, axis=1), self.t * jnp.min(gaps, axis=1)
        takes_first = uniform(of_choice, (n,), data.dtype) * (near + far) < near
        return jnp.where(takes_first, first, jnp.argmin(others, axis=1)).astype(data.dtype)[:, None]
