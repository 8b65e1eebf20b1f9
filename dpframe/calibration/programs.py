"""Draws of many repeats of one small audit at once.

A repeat draws what `dpframe run` would draw for it: the address is the same, and so are chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from dpframe.engine.addresses.address import chunk_key
from dpframe.engine.compiling.compile import compiled
from dpframe.engine.programs.programs import sampled

if TYPE_CHECKING:
    from dpframe.mechanism import Mechanism
    from dpframe.types import Array, Key

CACHED = 1 << 16
"""Output coordinates made at a time: small arrays stay in the cache of a core."""


@compiled(static=("rows", "count"))
def draw_repeats(
    mechanism: Mechanism, bases: Key, data: Array, dataset: Array, *, rows: int, count: int
) -> Array:
    """Outputs of many repeats, shape [repeats, count, *output dims].

    Args:
        mechanism: one lane.
        bases: key of the stream of each repeat, shape [repeats].
        data: the dataset.
        dataset: its index.
        rows: rows per chunk; a tail chunk is drawn whole and cut.
        count: outputs of a repeat.
    """
    chunks = -(-count // rows)

    def repeat(base: Key) -> Array:
        def chunk(index: Array) -> Array:
            return sampled(mechanism, chunk_key(base, index, dataset), data, rows)

        made = jax.lax.map(chunk, jnp.arange(chunks, dtype=jnp.int32))
        kept: Array = made.reshape(chunks * rows, *made.shape[2:])[:count]
        return kept

    outputs: Array = jax.lax.map(repeat, bases, batch_size=max(1, CACHED // (chunks * rows)))
    return outputs
