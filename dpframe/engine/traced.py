"""The programs that run on the device: draw, score, count."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from dpframe.engine.keys import chunk_key
from dpframe.engine.lanes import lane_axes

if TYPE_CHECKING:
    from dpframe.mechanism import Mechanism
    from dpframe.statistic import Statistic
    from dpframe.types import Array, Key, Tree


@partial(jax.jit, static_argnames=("statistics", "rows"))
def count_chunks(
    counts: tuple[Tree, ...],
    mechanisms: Mechanism,
    attacks: tuple[Any, ...],
    states: tuple[Tree, ...],
    bounds: tuple[Tree, ...],
    base: Key,
    data: Array,
    dataset: Array,
    first: Array,
    stop: Array,
    limit: Array,
    *,
    statistics: tuple[Statistic, ...],
    rows: int,
) -> tuple[Tree, ...]:
    """Draws, scores and counts the chunks first … stop − 1 of one dataset in one loop.

    Args:
        counts: per scorer the counts to add to; every leaf [lanes, attacks, …].
        mechanisms: stacked over lanes.
        attacks: per scorer the stacked attacks.
        states: per scorer what the attacks learned; every leaf [lanes, attacks, …].
        bounds: per scorer what the statistic's pilot fixed; every leaf [lanes, attacks, …].
        base: key of the stream.
        data: the dataset.
        dataset: its index.
        first: first chunk.
        stop: the chunk after the last.
        limit: rows counted of each chunk.
        statistics: one per scorer.
        rows: rows per chunk.
    """

    def body(index: Array, counts: tuple[Tree, ...]) -> tuple[Tree, ...]:
        key = chunk_key(base, index, dataset)

        def lane(mechanism: Mechanism, *trees: tuple[Tree, ...]) -> tuple[Tree, ...]:
            outputs = mechanism.sample(key, data, rows)
            return _count_outputs(*trees, attacks, outputs, dataset, limit, statistics)

        added: tuple[Tree, ...] = _over_lanes(lane, mechanisms, counts, states, bounds)
        return added

    return jax.lax.fori_loop(first, stop, body, counts)


@partial(jax.jit, static_argnames=("statistics",))
def count_given(
    counts: tuple[Tree, ...],
    attacks: tuple[Any, ...],
    states: tuple[Tree, ...],
    bounds: tuple[Tree, ...],
    outputs: Array,
    dataset: Array,
    limit: Array,
    *,
    statistics: tuple[Statistic, ...],
) -> tuple[Tree, ...]:
    """Scores and counts outputs made elsewhere: one chunk of one lane.

    Args:
        counts: per scorer the counts to add to; every leaf [attacks, …]; so are states and bounds.
        attacks: per scorer the stacked attacks.
        states: per scorer what the attacks learned.
        bounds: per scorer what the statistic's pilot fixed.
        outputs: shape [rows, *output dims].
        dataset: its index.
        limit: rows counted.
        statistics: one per scorer.
    """
    return _count_outputs(counts, states, bounds, attacks, outputs, dataset, limit, statistics)


@partial(jax.jit, static_argnames=("rows",))
def draw_chunk(
    mechanism: Mechanism, base: Key, data: Array, dataset: Array, index: Array, *, rows: int
) -> Array:
    """The outputs of one chunk, shape [rows, *output dims]: for learning and for looking."""
    return mechanism.sample(chunk_key(base, index, dataset), data, rows)


@jax.jit
def score_given(attack: Any, state: Tree, outputs: Array) -> Array:
    """Scores of given outputs, shape [n]: for the pilot."""
    scores: Array = attack.score(state, outputs)
    return scores


@partial(jax.jit, static_argnames=("rows",))
def nan_lanes(
    mechanisms: Mechanism, base: Key, data: Array, dataset: Array, *, rows: int
) -> Array:
    """Whether the first chunk has a NaN, shape [lanes]."""
    key = chunk_key(base, jnp.int32(0), dataset)

    def lane(mechanism: Mechanism, found: Array) -> Array:
        return found | jnp.any(jnp.isnan(mechanism.sample(key, data, rows)))

    lanes = max((leaf.size for leaf in jax.tree.leaves(mechanisms)), default=1)
    found: Array = _over_lanes(lane, mechanisms, jnp.zeros(lanes, bool))
    return found


def _count_outputs(
    counts: tuple[Tree, ...],
    states: tuple[Tree, ...],
    bounds: tuple[Tree, ...],
    attacks: tuple[Any, ...],
    outputs: Array,
    dataset: Array,
    limit: Array,
    statistics: tuple[Statistic, ...],
) -> tuple[Tree, ...]:
    keep = jnp.arange(len(outputs), dtype=jnp.int32) < limit

    def scorer(statistic: Statistic, attacks: Any, *trees: Tree) -> Tree:
        def one(attack: Any, counts: Tree, state: Tree, bound: Tree) -> Tree:
            return statistic.update(bound, counts, dataset, attack.score(state, outputs), keep)

        return _over_lanes(one, attacks, *trees)

    columns = (statistics, attacks, counts, states, bounds)
    return tuple(scorer(*column) for column in zip(*columns, strict=True))


def _over_lanes(function: Any, stacked: Any, *others: Tree) -> Any:
    """Maps over a stacked plugin; the first axis of every leaf of `others` is the lane too.

    What does not depend on the lane, such as the noise, is computed once for all lanes: the
    mapped axis does not reach it.
    """
    axes = lane_axes(stacked)
    if jax.tree.leaves(axes):
        return jax.vmap(function, in_axes=(axes, *[0] * len(others)))(stacked, *others)
    only = function(stacked, *jax.tree.map(lambda leaf: leaf[0], others))
    return jax.tree.map(lambda leaf: leaf[None], only)
