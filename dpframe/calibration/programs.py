"""Programs over many repeats of one small audit at once.

A repeat draws what `dpframe run` would draw for it: the address is the same, and so are chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from dpframe.engine.address import chunk_key
from dpframe.engine.compile import compiled
from dpframe.engine.trace import check_outputs

if TYPE_CHECKING:
    from dpframe.mechanism import Mechanism
    from dpframe.statistic import Statistic
    from dpframe.types import Array, Key, Tree

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
            outputs = mechanism.sample(chunk_key(base, index, dataset), data, rows)
            check_outputs(outputs, rows)
            return outputs

        made = jax.lax.map(chunk, jnp.arange(chunks, dtype=jnp.int32))
        kept: Array = made.reshape(chunks * rows, *made.shape[2:])[:count]
        return kept

    outputs: Array = jax.lax.map(repeat, bases, batch_size=max(1, CACHED // (chunks * rows)))
    return outputs


@compiled()
def score_repeats(attack: Any, states: Tree, outputs: Array) -> Array:
    """Scores of many repeats, shape [repeats, n].

    Args:
        attack: one attack.
        states: what it learned in each repeat; every leaf [repeats, …].
        outputs: shape [repeats, n, *output dims].
    """
    scores: Array = jax.vmap(attack.score)(states, outputs)
    return scores


@compiled(static=("statistic",))
def count_repeats(layouts: Tree, scores: Array, dataset: Array, *, statistic: Statistic) -> Tree:
    """Counts of many repeats, every leaf [repeats, …].

    Args:
        layouts: what the pilot of each repeat fixed; every leaf [repeats, …].
        scores: shape [repeats, n].
        dataset: its index.
        statistic: what counts.
    """

    def repeat(layout_and_scores: tuple[Tree, Array]) -> Tree:
        layout, own = layout_and_scores
        keep = jnp.ones(own.shape, bool)
        return statistic.update(layout, statistic.zero(layout), dataset, own, keep)

    batch = max(1, CACHED // scores.shape[1])
    return jax.lax.map(repeat, (layouts, scores), batch_size=batch)
