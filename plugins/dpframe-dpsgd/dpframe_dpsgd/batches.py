"""Poisson samples of records in arrays of a fixed length."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dpframe.plugins import Array, Key

OVERFLOW = 1e-9
"""A batch exceeds its array with at most this probability; excess records are left out."""


class Batch(NamedTuple):
    """A sample of the records."""

    index: Any
    """Indices of rows, shape [length]; arbitrary where the weight is 0."""
    weight: Any
    """1 for a record, 0 for padding, shape [length]."""

    def with_row(self, row: int) -> Batch:
        """Return the batch with one more row."""
        return Batch(jnp.append(self.index, row), jnp.append(self.weight, 1))


@functools.cache
def batch_length(rows: int, rate: float) -> int:
    """Return the array length that a Poisson sample exceeds with probability at most `OVERFLOW`."""
    sizes = np.arange(rows + 1)
    # Pr[Bin(rows, rate) > size] is a regularised incomplete beta function.
    longer = np.append(special.betainc(sizes[:-1] + 1.0, rows - sizes[:-1], rate), 0.0)
    return max(1, int(sizes[longer <= OVERFLOW][0]))


def poisson_sample(key: Key, present: Array, rate: Array | float, length: int) -> Batch:
    """Sample each existing record independently with probability `rate`.

    Args:
        key: a JAX key.
        present: True for rows that exist, shape [rows].
        rate: the sampling probability.
        length: of the returned arrays; see `batch_length`.
    """
    taken = present & (jax.random.uniform(key, present.shape) < rate)
    (index,) = jnp.nonzero(taken, size=length, fill_value=0)
    weight = jnp.arange(length) < jnp.sum(taken, dtype=jnp.int32)
    return Batch(index, weight.astype(jnp.result_type(float)))
