"""Report noisy max: the index of the largest noisy answer, or its value."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Floats, Key, Pair
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.neighbours import EachByOne
from dpframe_textbook.noise import exponential, laplace
from dpframe_textbook.quadrature import EXPONENTIAL, LAPLACE, Law, largest_of


class NoisyMax(EachByOne):
    """Answers plus noise of scale 2/ε."""

    def index_probabilities(self, data: Floats, law: Law) -> Floats:
        """Return the probability that each noisy answer is largest.

        Args:
            data: answers, shape [k].
            law: of the noise.

        Returns:
            Shape [k].
        """
        return largest_of(np.asarray(data, np.float64) * self.epsilon / 2, law)


class ReportNoisyMax1(NoisyMax, name="report-noisy-max-1"):
    """The index of the largest answer plus Lap(2/ε) [Ding2018, algorithm 5].

    Claim: ε-DP if each answer changes by up to 1; true.
    """

    def truth(self, pair: Pair) -> FiniteDP:
        zero, one = (self.index_probabilities(d, LAPLACE) for d in (pair.d0, pair.d1))
        return FiniteDP.of(zero, one)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        noisy = data[:, None] + _laplace(key, data, n) * 2 / self.epsilon
        return _index(noisy)


class ReportNoisyMax2(NoisyMax, name="report-noisy-max-2"):
    """The index of the largest answer plus exponential noise of mean 2/ε [Ding2018, algorithm 6].

    Claim: ε-DP if each answer changes by up to 1; true.
    """

    def truth(self, pair: Pair) -> FiniteDP:
        zero, one = (self.index_probabilities(d, EXPONENTIAL) for d in (pair.d0, pair.d1))
        return FiniteDP.of(zero, one)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        noisy = data[:, None] + _exponential(key, data, n) * 2 / self.epsilon
        return _index(noisy)


class ReportNoisyMax3(NoisyMax, name="report-noisy-max-3"):
    """The largest noisy answer, with noise Lap(2/ε) [Ding2018, algorithm 7].

    Claim: ε-DP if each answer changes by up to 1; wrong for more than two answers. If all k answers
    change together, outputs below all of them lose kε/2.
    """

    def sample(self, key: Key, data: Array, n: int) -> Array:
        noisy = data[:, None] + _laplace(key, data, n) * 2 / self.epsilon
        return jnp.max(noisy, axis=0)[:, None]


class ReportNoisyMax4(NoisyMax, name="report-noisy-max-4"):
    """The largest noisy answer, with exponential noise of mean 2/ε [Ding2018, algorithm 8].

    Claim: ε-DP if each answer changes by up to 1; wrong: outputs below the largest answer on D′ are
    impossible on D′, but have probability (1 − e^{−ε/2})^k on D if k equal answers are 1 lower.
    """

    def sample(self, key: Key, data: Array, n: int) -> Array:
        noisy = data[:, None] + _exponential(key, data, n) * 2 / self.epsilon
        return jnp.max(noisy, axis=0)[:, None]


def _laplace(key: Key, data: Array, n: int) -> Array:
    return laplace(key, (data.size, n), data.dtype)


def _exponential(key: Key, data: Array, n: int) -> Array:
    return exponential(key, (data.size, n), data.dtype)


def _index(noisy: Array) -> Array:
    return jnp.argmax(noisy, axis=0).astype(noisy.dtype)[:, None]
