"""The programs that run on the device: draw, score, count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from dpframe.engine.addresses.address import key_of
from dpframe.engine.checks.answers import check_updated
from dpframe.engine.compiling.compile import compiled
from dpframe.engine.planning.lanes import each_lane
from dpframe.engine.planning.trace import check_outputs, check_scores

if TYPE_CHECKING:
    from dpframe.mechanism import Mechanism
    from dpframe.statistic import Statistic
    from dpframe.types import Array, Key, Tree


class Scoring(NamedTuple):
    """What is done with outputs, per scorer."""

    attacks: tuple[Any, ...]
    """Stacked; every leaf [attacks]."""
    states: tuple[Tree, ...]
    """What the attacks learned; every leaf [lanes, attacks, …], inside a lane [attacks, …]."""
    layouts: tuple[Tree, ...]
    """What the pilots of the statistics fixed; shaped like the states."""


class Origin(NamedTuple):
    """Where draws come from."""

    keys: Any
    """Words of the keys of consecutive chunks, uint32 [chunks or more, 2]; of one chunk [2]."""
    data: Any
    dataset: Any
    """0 or 1, an integer scalar."""


class Span(NamedTuple):
    """Which draws: chunks first … stop − 1, and of each the first `limit` rows.

    Where they come from begins with the keys of the first of them.
    """

    first: Any
    stop: Any
    limit: Any
    ends: Any = None
    """Where rounds may end within the first chunk, int32 [slots]: the counts then have slots before
    all other axes. Everything goes into slot 0; but from first = −1 on the first chunk is counted
    again for each step, up to the end of its slot. None: no slots."""


ACCELERATOR_ELEMENTS = 1 << 24
"""Output coordinates that one step of the loop makes on an accelerator."""


def chunks_at_once(elements: int) -> int:
    """How many chunks of so many coordinates one step of the loop makes; changes no count."""
    if jax.default_backend() == "cpu":
        return 1  # what one core makes at a time should stay in its cache
    return max(1, ACCELERATOR_ELEMENTS // elements)


MOST_CHUNKS = 1 << 13
"""How many keys a counting program takes: the chunks of any segment of usual size."""


@compiled(static=("statistics", "rows", "prng", "width"))
def count_chunks(
    counts: tuple[Tree, ...],
    mechanisms: Mechanism,
    lanes: Array,
    scoring: Scoring,
    origin: Origin,
    span: Span,
    *,
    statistics: tuple[Statistic, ...],
    rows: int,
    prng: str,
    width: int = 1,
) -> tuple[Tree, ...]:
    """Draws, scores and counts chunks of one dataset in one loop on the device.

    Args:
        counts: per scorer the counts to add to; every leaf [padded lanes, attacks, …], before that
            [slots, …] where the span has some.
        mechanisms: stacked; every leaf [padded lanes].
        lanes: how many of the lanes are real.
        scoring: attacks, states and layouts, lanes padded.
        origin: where the draws come from, with MOST_CHUNKS keys.
        span: which draws; with slots the width is 1.
        statistics: one per scorer.
        rows: rows per chunk.
        prng: name of the generator.
        width: chunks that one step of the loop makes.
    """

    def chunk(counts: tuple[Tree, ...], number: Array, limit: Array) -> tuple[Tree, ...]:
        key = key_of(jax.lax.dynamic_index_in_dim(origin.keys, number, keepdims=False), prng)

        def lane(counts: Any, mechanism: Mechanism, states: Any, layouts: Any) -> tuple[Tree, ...]:
            outputs = mechanism.sample(key, origin.data, rows)
            check_outputs(outputs, rows)
            own = Scoring(scoring.attacks, states, layouts)
            return count_outputs(counts, own, outputs, origin.dataset, limit, statistics)

        updated: tuple[Tree, ...] = each_lane(
            lane, lanes, counts, mechanisms, scoring.states, scoring.layouts
        )
        return updated

    def in_slot(number: Array, counts: tuple[Tree, ...]) -> tuple[Tree, ...]:
        apart = span.first < 0
        slot = jnp.where(apart, number, 0)
        limit = jnp.where(apart, span.ends[slot], span.limit)
        own = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, slot, 0, False), counts)
        new = chunk(own, jnp.where(apart, 0, number), limit)
        put = jax.lax.dynamic_update_index_in_dim
        found: tuple[Tree, ...] = jax.tree.map(lambda a, b: put(a, b, slot, 0), counts, new)
        return found

    def step(number: Array, counts: tuple[Tree, ...]) -> tuple[Tree, ...]:
        if span.ends is not None:
            return in_slot(number, counts)
        if width == 1:
            return chunk(counts, number, span.limit)
        numbers = number * width + jnp.arange(width, dtype=jnp.int32)
        limits = jnp.where(numbers < chunks, span.limit, 0)  # beyond the last chunk count nothing
        nothing = jax.tree.map(jnp.zeros_like, counts)
        made = jax.vmap(chunk, in_axes=(None, 0, 0))(nothing, numbers, limits)
        added: tuple[Tree, ...] = jax.tree.map(
            lambda old, new: old + new.sum(0, dtype=old.dtype), counts, made
        )
        return added

    chunks = span.stop - span.first
    steps = chunks if width == 1 else (chunks + width - 1) // width
    result: tuple[Tree, ...] = jax.lax.fori_loop(0, steps, step, counts)
    return result


@compiled(static=("statistics",))
def count_given(
    counts: tuple[Tree, ...],
    scoring: Scoring,
    outputs: Array | tuple[Array, ...],
    dataset: Array,
    limit: Array,
    *,
    statistics: tuple[Statistic, ...],
) -> tuple[Tree, ...]:
    """Scores and counts outputs made elsewhere: one chunk of one lane.

    Args:
        counts: per scorer the counts to add to; every leaf [attacks, …].
        scoring: attacks, states and layouts of this lane.
        outputs: shape [rows, *output dims]; or such an array per scorer, of what each sees.
        dataset: its index.
        limit: rows counted.
        statistics: one per scorer.
    """
    return count_outputs(counts, scoring, outputs, dataset, limit, statistics)


def count_outputs(
    counts: tuple[Tree, ...],
    scoring: Scoring,
    outputs: Array | tuple[Array, ...],
    dataset: Array,
    limit: Array,
    statistics: tuple[Statistic, ...],
) -> tuple[Tree, ...]:
    """Adds the first `limit` outputs of one lane to the counts; traced."""
    seen = outputs if isinstance(outputs, tuple) else (outputs,) * len(statistics)
    rows = seen[0].shape[0]
    keep = jnp.arange(rows, dtype=jnp.int32) < limit

    def scorer(
        statistic: Statistic, counts: Tree, outputs: Array, attacks: Any, states: Any, layouts: Any
    ) -> Tree:
        def one(counts: Tree, attack: Any, state: Tree, layout: Tree) -> Tree:
            scores = attack.score(state, outputs)
            check_scores(scores, rows, attack.gives)
            updated = statistic.update(layout, counts, dataset, scores, keep)
            check_updated(counts, updated)
            return updated

        number = jax.tree.leaves(counts)[0].shape[0]
        return each_lane(one, number, counts, attacks, states, layouts)

    columns = zip(statistics, counts, seen, *scoring, strict=True)
    return tuple(scorer(*column) for column in columns)


@compiled(static=("rows", "prng"))
def draw_chunk(mechanism: Mechanism, origin: Origin, *, rows: int, prng: str) -> Array:
    """The outputs of one chunk, shape [rows, *output dims]: for learning and for looking."""
    return sampled(mechanism, key_of(origin.keys, prng), origin.data, rows)


def sampled(mechanism: Mechanism, key: Key, data: Array, rows: int) -> Array:
    """The outputs of one chunk, one per row asked for; traced."""
    outputs = mechanism.sample(key, data, rows)
    check_outputs(outputs, rows)
    return outputs


@compiled()
def score_given(attack: Any, state: Tree, outputs: Array) -> Array:
    """Scores of given outputs, shape [n]: for the pilot and for looking."""
    scores: Array = attack.score(state, outputs)
    check_scores(scores, outputs.shape[0], attack.gives)
    return scores
