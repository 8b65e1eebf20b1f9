"""Poisson samples of records in arrays of a fixed length."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

if TYPE_CHECKING:
    from dpframe.plugins import Array, Key

OVERFLOW = 1e-9
"""A batch is longer than its array with at most this probability; what is too much is left out."""


class Batch(NamedTuple):
    """Some of the records."""

    index: Any
    """Rows, shape [length]; anything where the weight is 0."""
    weight: Any
    """1 for a record, 0 for padding, shape [length]."""

    def with_row(self, row: int) -> Batch:
        """The same with one row more."""
        return Batch(jnp.append(self.index, row), jnp.append(self.weight, 1))


@functools.cache
def batch_length(rows: int, rate: float) -> int:
    """Length of an array that holds a Poisson sample of `rows` records, but for `OVERFLOW`."""
    sizes = np.arange(rows + 1)
    # Pr[Bin(rows, rate) > size] is a regularised incomplete beta function.
    longer = np.append(special.betainc(sizes[:-1] + 1.0, rows - sizes[:-1], rate), 0.0)
    return max(1, int(sizes[longer <= OVERFLOW][0]))


def poisson_sample(key: Key, present: Array, rate: Array | float, length: int) -> Batch:
    """Takes each record that is present with probability `rate`, independently.

    Args:
        key: for the choice.
        present: which rows exist, shape [rows].
        rate: the sampling probability.
        length: of the arrays returned, see `batch_length`.
    """
    taken = present & (jax.random.uniform(key, present.shape) < rate)
    (index,) = jnp.nonzero(taken, size=length, fill_value=0)
    weight = jnp.arange(length) < jnp.sum(taken, dtype=jnp.int32)
    return Batch(index, weight.astype(jnp.result_type(float)))
