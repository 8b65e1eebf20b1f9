"""Sparse vector techniques that release numbers on purpose, and two techniques combined."""

from __future__ import annotations

from typing import Annotated

import jax
import jax.numpy as jnp

from dpframe.plugins import Array, Ge, Key, Pair, PureDP
from dpframe_textbook.neighbours import EachByOne, each_by_one
from dpframe_textbook.noise import laplace
from dpframe_textbook.sparse_vector import (
    BELOW,
    SparseVector3,
    SparseVector4,
    sparse_vector,
    stop,
)


class NumericalSparseVector(EachByOne, name="numerical-sparse-vector"):
    """Release answers above the threshold with fresh noise [Wang2019].

    Threshold plus Lap(3/ε), comparisons plus Lap(6c/ε), released answers plus Lap(3c/ε); stops
    after c. In the output, 0 means below and −1 means stopped. Claim: ε-DP if each answer changes
    by up to 1; true.
    """

    threshold: float = 1.0
    """The threshold that answers are compared with."""
    cutoff: Annotated[int, Ge(1)] = 2
    """c, the number of answers above the threshold after which it stops."""

    def sample(self, key: Key, data: Array, n: int) -> Array:
        keys, (size, dtype) = jax.random.split(key, 3), (data.size, data.dtype)
        unit = 3 / self.epsilon
        threshold = self.threshold + unit * laplace(keys[0], (1, n), dtype)
        compared = data[:, None] + 2 * self.cutoff * unit * laplace(keys[1], (size, n), dtype)
        released = data[:, None] + self.cutoff * unit * laplace(keys[2], (size, n), dtype)
        above = compared >= threshold
        return stop(jnp.where(above, released, BELOW), above, self.cutoff).T


class SparseVector34(EachByOne, name="sparse-vector-3-4"):
    """`sparse-vector-3` and `sparse-vector-4` on the same answers [Bichsel2021].

    The two outputs are concatenated. Claim: 2ε-DP if each answer changes by up to 1, because each
    technique claims ε; wrong, because both claims are.
    """

    threshold: float = 1.0
    """The threshold that answers are compared with."""
    cutoff: Annotated[int, Ge(1)] = 2
    """c, the number of answers above the threshold after which each technique stops."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(2 * self.epsilon * each_by_one(pair))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        both = [
            technique(epsilon=self.epsilon, threshold=self.threshold, cutoff=self.cutoff)
            for technique in (SparseVector3, SparseVector4)
        ]
        keys = jax.random.split(key)
        parts = [sparse_vector(one, k, data, n) for one, k in zip(both, keys, strict=True)]
        return jnp.concatenate(parts, axis=1)
