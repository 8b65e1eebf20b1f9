"""The reconstruction attack of the DPText paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import lax

from dpframe import Attack

if TYPE_CHECKING:
    from dpframe import Array, Tree


class MajorityVote(Attack, name="majority-vote"):
    """Rounds each coordinate to 0 or 1 and lets the majority decide [Habernal2022, section 4].

    A coordinate counts as 1 unless it is at most 0.5, so NaN counts as 1. A tie decides for D:
    at dim 2 the vote is an AND. For a mechanism that sets each coordinate to 1 with probability
    p, independently, Pr[decide D′] = Pr[Bin(dim, p) > dim/2].
    """

    gives = "decision"

    def score(self, state: Tree, outputs: Array) -> Array:
        ones = ~(outputs <= 0.5)
        coordinates = ones.reshape(len(ones), -1)
        return 2 * _row_sums(coordinates) > coordinates.shape[1]


def _row_sums(mask: Array) -> Array:
    """How many entries of each row of a boolean array [n, dim] are True, as int32; traced.

    XLA writes an int32 for every entry of a long row and adds those up. Four bytes as one word, or
    rows folded in bytes to 16 columns, stay in its vectors, at the lengths at which it keeps them.
    """
    n, dim = mask.shape
    if dim in (16, 32):
        words = lax.bitcast_convert_type(mask.astype(jnp.uint8).reshape(n, dim // 4, 4), jnp.uint32)
        four = jnp.sum(words, axis=1, dtype=jnp.uint32)
        return ((four * np.uint32(0x01010101)) >> np.uint32(24)).astype(jnp.int32)
    if 32 < dim <= 512:
        whole = dim - dim % 16
        folded = jnp.sum(mask[:, :whole].reshape(n, whole // 16, 16), axis=1, dtype=jnp.uint8)
        rest = jnp.sum(mask[:, whole:], axis=1, dtype=jnp.int32)
        return jnp.sum(folded, axis=1, dtype=jnp.int32) + rest
    return jnp.sum(mask, axis=1, dtype=jnp.int32)
