"""Answers plus Laplace noise, in several forms."""

from __future__ import annotations

from typing import Annotated

import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Ge, Gt, Key, LaplaceDP, Mechanism, Pair, PureDP
from dpframe_textbook.neighbours import OneByOne, one_by_one
from dpframe_textbook.noise import laplace


class NoisyHistogram1(OneByOne, name="noisy-histogram-1"):
    """Counts plus Lap(1/ε) each [Ding2018, algorithm 9].

    Claim: ε-DP if one count changes by up to 1; true, and tight.
    """

    def truth(self, pair: Pair) -> LaplaceDP | None:
        return of_one_difference(pair, 1 / self.epsilon)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return data + laplace(key, (n, *data.shape), data.dtype) / self.epsilon


class NoisyHistogram2(OneByOne, name="noisy-histogram-2"):
    """Counts plus Lap(ε) each, with an inverted scale [Ding2018, algorithm 10].

    Claim: ε-DP if one count changes by up to 1; wrong, the loss is exactly 1/ε.
    """

    def truth(self, pair: Pair) -> LaplaceDP | None:
        return of_one_difference(pair, self.epsilon)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return data + laplace(key, (n, *data.shape), data.dtype) * self.epsilon


class LaplaceParallel(Mechanism, name="laplace-parallel"):
    """The same answer k times, each with its own Lap(1/ε) noise [Bichsel2021].

    Claim: kε-DP for k answers; true, and tight. The loss reaches kε only in the tails, where all
    noise has the same sign; each answer alone loses ε.
    """

    epsilon: Annotated[float, Gt(0)] = 0.005
    """ε of one answer."""
    count: Annotated[int, Ge(1)] = 20
    """k, the number of answers."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.count * self.epsilon * one_by_one(pair))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        noise = laplace(key, (n, self.count, data.size), data.dtype) / self.epsilon
        return (data.ravel() + noise).reshape(n, -1)


class PrefixSum(OneByOne, name="prefix-sum"):
    """The sums of the first 1, 2, … answers, with Lap(1/ε) on each answer [Wang2019].

    Claim: ε-DP if one answer changes by up to 1; true, and tight. If each of ten answers changes,
    the loss and the claim are 10ε.
    """

    def truth(self, pair: Pair) -> LaplaceDP | None:
        return of_one_difference(pair, 1 / self.epsilon)  # sums can be undone

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return jnp.cumsum(data + laplace(key, (n, *data.shape), data.dtype) / self.epsilon, axis=1)


def of_one_difference(pair: Pair, scale: float) -> LaplaceDP | None:
    """Return the curve of answers plus Laplace noise if at most one answer differs, else None."""
    gaps = np.abs(np.asarray(pair.d1, np.float64) - np.asarray(pair.d0, np.float64))
    return LaplaceDP(float(gaps.sum()) / scale) if np.count_nonzero(gaps) <= 1 else None
