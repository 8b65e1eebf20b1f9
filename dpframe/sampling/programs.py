"""The programs that run on the device: draw, score, count."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.engine.checks import check_updated, guarded
from dpframe.engine.rounds import most_slices
from dpframe.engine.trace import check_outputs, check_scores, each_lane
from dpframe.sampling.address import chunk_keys, key_of
from dpframe.sampling.compile_cache import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.common.types import Array, HostArray, Key, Tree
    from dpframe.interfaces.mechanism import Mechanism
    from dpframe.interfaces.statistic import Statistic
    from dpframe.sampling.address import Segment, Stream


# The programs that run on the device: draw, score, count.


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


# All that decides what a segment of a pass counts: a value that any process can count from.


class CountTask(NamedTuple):
    """A pass over a mechanism that JAX traces, once its attacks have learned."""

    zeros: Any
    """Per scorer counts of nothing; every leaf [padded lanes, attacks, …]."""
    padded: tuple[Tree, Tree, Tree]
    """Mechanisms, states and layouts; every leaf [padded lanes, …]."""
    attacks: tuple[Any, ...]
    """Stacked, per scorer."""
    statistics: tuple[Statistic, ...]
    data: tuple[Tree, ...]
    """D and D′, in the precision of the run."""
    stream: Stream
    prng: str
    precision: str
    lanes: int
    rows: int
    """Of a chunk."""
    elements: int
    """Coordinates of one output."""
    in_rounds: bool
    """Whether rounds end within the first chunk."""


def count_segment(
    parcel: CountTask, lanes: Sequence[int], index: int, segment: Segment
) -> tuple[Tree, ...]:
    """Counts of a segment of one dataset: a pure function; call it in the parcel's precision.

    Args:
        parcel: what is counted.
        lanes: which of its lanes.
        index: of the dataset.
        segment: which chunks.

    Returns:
        Per scorer; every leaf [padded lanes, attacks, …], those asked for first, and before that
        [slices, …] where the segment has some.
    """
    mechanisms, states, layouts = _of(parcel, lanes)
    width = chunks_at_once(parcel.rows * parcel.elements)
    slots = parcel.in_rounds and (width == 1 or bool(segment.slices))
    found: tuple[Tree, ...] = _in_slots(parcel) if slots else parcel.zeros
    most = MOST_CHUNKS
    for first in range(segment.first, max(segment.stop, segment.first + 1), most):
        stop = min(segment.stop, first + most)
        keys = np.zeros((most, 2), np.uint32)
        keys[: stop - first] = chunk_keys(parcel.stream, parcel.prng, index, first, stop)
        span = Span(np.int32(first), np.int32(stop), np.int32(segment.limit))
        found = count_chunks(
            found,
            mechanisms,
            np.int32(len(lanes)),
            Scoring(parcel.attacks, states, layouts),
            Origin(keys, parcel.data[index], np.int32(index)),
            _up_to_slices(span, parcel.rows, segment.slices) if slots else span,
            statistics=parcel.statistics,
            rows=parcel.rows,
            prng=parcel.prng,
            width=1 if slots else width,
        )
    return jax.tree.map(partial(_of_slots, slices=segment.slices), found) if slots else found


def _in_slots(parcel: CountTask) -> tuple[Tree, ...]:
    """Counts of nothing for every place where a round may end: one program for all rounds."""
    most = most_slices(parcel.rows) + 1
    found: tuple[Tree, ...] = jax.tree.map(
        lambda leaf: np.zeros((most, *np.shape(leaf)), leaf.dtype), parcel.zeros
    )
    return found


def _up_to_slices(span: Span, rows: int, slices: tuple[tuple[int, int], ...]) -> Span:
    """The first chunk up to where its slices begin and end, as often as that is."""
    ends = np.zeros(most_slices(rows) + 1, np.int32)
    if not slices:
        return span._replace(ends=ends)
    found = [slices[0][0], *(end for _, end in slices)]
    ends[: len(found)] = found
    return Span(np.int32(-1), np.int32(len(found) - 1), span.limit, ends)


def _of_slots(leaf: Any, slices: tuple[tuple[int, int], ...]) -> HostArray:
    """Counts of slices, from those of the rows before each end; without slices those of slot 0."""
    counts = np.asarray(leaf)
    return np.diff(counts[: len(slices) + 1], axis=0) if slices else counts[0]


def _of(parcel: CountTask, lanes: Sequence[int]) -> tuple[Any, Any, Any]:
    """Mechanisms, states and layouts, those of some lanes first; one program serves all."""
    if len(lanes) == parcel.lanes:
        return parcel.padded
    order = np.resize(np.array(lanes), len(jax.tree.leaves(parcel.zeros)[0]))
    found: tuple[Any, Any, Any] = jax.tree.map(lambda leaf: leaf[order], parcel.padded)
    return found


# All that decides what a mechanism that JAX traces gives: a value that any process can draw from.
#
# What attacks learn from travels as it is. What a pilot sees is scored where it is drawn, and
# only
# the scores travel: a model has thousands of numbers, and a pilot looks at one of them.


class DrawTask(NamedTuple):
    """A mechanism of every lane of a pass, and where its outputs come from."""

    mechanisms: tuple[Any, ...]
    """One per lane, leaves in the dtype of the run."""
    data: tuple[Tree, Tree]
    """D and D′, in the precision of the run."""
    stream: Stream
    """Of the pass: what is drawn says which of its streams."""
    prng: str
    precision: str
    rows: int
    """Of a chunk."""
    scoring: tuple[tuple[tuple[Any, Tree], ...], ...] = ()
    """For every lane attacks, with what they learned, whose scores are wanted in place of outputs;
    empty where outputs are."""


class Place(NamedTuple):
    """Which chunks of which draws."""

    stream: str
    lane: int
    dataset: int
    first: int
    stop: int


def drawn(recipe: DrawTask, place: Place) -> list[HostArray]:
    """Outputs of some chunks, or their scores.

    A chunk is drawn, and scored, by one call of a program for chunks: so it is the same to the bit
    whoever asks for it, and beside whatever else.

    Args:
        recipe: what is drawn.
        place: which of it.

    Returns:
        One array, the outputs; or the scores under each attack. Shape [n, …].

    Raises:
        CellError: the author's mistake.
    """
    with jax.enable_x64(recipe.precision == "float64"):
        stream = recipe.stream.of(place.stream)
        keys = chunk_keys(stream, recipe.prng, place.dataset, place.first, place.stop)
        chunks = [_of_key(recipe, place, key) for key in keys]
        return [np.concatenate(parts) for parts in zip(*chunks, strict=True)]


def _of_key(recipe: DrawTask, place: Place, key: HostArray) -> list[HostArray]:
    origin = Origin(key, recipe.data[place.dataset], np.int32(place.dataset))
    mechanism = recipe.mechanisms[place.lane]
    how: Any = {"rows": recipe.rows, "prng": recipe.prng}
    outputs = guarded("sample", lambda: draw_chunk(mechanism, origin, **how))
    if not recipe.scoring:
        return [np.asarray(outputs)]
    calls: list[Callable[[], Any]] = [
        partial(score_given, *one, outputs) for one in recipe.scoring[place.lane]
    ]
    return [np.asarray(guarded("score", call)) for call in calls]
