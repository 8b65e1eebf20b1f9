"""The counting kernel: device programs that draw, score and count a segment."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe.common.arrays import jax, jnp
from dpframe.common.types import Array, HostArray, Tree
from dpframe.count import rounds
from dpframe.draw import trace
from dpframe.draw.compile_cache import compiled
from dpframe.draw.local_executor import plugin_classes
from dpframe.draw.programs import Origin
from dpframe.draw.streams import Segment, Stream, chunk_keys, chunks_in_words, pieces
from dpframe.draw.threefry import key_of
from dpframe.errors import WrongResultError
from dpframe.interfaces.executor import Task
from dpframe.interfaces.mechanism import Mechanism
from dpframe.interfaces.plugin_calls import check_updated
from dpframe.interfaces.statistic import Statistic


class Scoring(NamedTuple):
    """Attacks with what they learned, and layouts of statistics, per scorer."""

    attacks: tuple[Any, ...]  # stacked; every leaf [attacks]
    states: tuple[Tree, ...]  # every leaf [variants, attacks, …], inside a variant [attacks, …]
    layouts: tuple[Tree, ...]  # what the pilots of the statistics fixed; shaped like the states


class Span(NamedTuple):
    """The first `limit` rows of each of the chunks first … stop − 1."""

    first: Any
    stop: Any
    limit: Any
    ends: Any = None
    """Ends of rounds within the first chunk, int32 [slots]; None for no slots.

    With slots, every leaf of the counts has them as its first axis. All counts go into slot 0,
    unless `first` is −1: then step k counts the first chunk up to `ends[k]` into slot k."""


ACCELERATOR_ELEMENTS = 1 << 24
"""Output coordinates that one step of the loop makes on an accelerator."""


def chunks_at_once(elements: int) -> int:
    """Return the number of chunks that one step of the loop makes; it changes no count."""
    if jax.default_backend() == "cpu":
        return 1  # the outputs that one core makes at a time should stay in its cache
    return max(1, ACCELERATOR_ELEMENTS // elements)


MOST_CHUNKS = 1 << 13
"""Keys that a counting program takes: the chunks of any segment of usual size."""


@compiled(static=("statistics", "rows", "prng", "width"))
def count_chunks(
    counts: tuple[Tree, ...],
    mechanisms: Mechanism,
    variants: Array,
    scoring: Scoring,
    origin: Origin,
    span: Span,
    *,
    statistics: tuple[Statistic, ...],
    rows: int,
    prng: str,
    width: int = 1,
) -> tuple[Tree, ...]:
    """Draw, score and count chunks of one dataset in one loop on the device.

    Args:
        counts: per scorer the counts to add to; leaves [padded variants, attacks, …], before that
            [slots, …] if the span has some.
        mechanisms: stacked; every leaf [padded variants].
        variants: number of real variants.
        scoring: attacks, states and layouts, variants padded.
        origin: keys and data of the draws, with MOST_CHUNKS keys.
        span: the chunks to count; with slots the width is 1.
        statistics: one per scorer.
        rows: rows per chunk.
        prng: name of the generator.
        width: chunks that one step of the loop makes.
    """

    def chunk(counts: tuple[Tree, ...], number: Array, limit: Array) -> tuple[Tree, ...]:
        key = key_of(jax.lax.dynamic_index_in_dim(origin.keys, number, keepdims=False), prng)

        def variant(
            counts: Any, mechanism: Mechanism, states: Any, layouts: Any
        ) -> tuple[Tree, ...]:
            outputs = mechanism.sample(key, origin.data, rows)
            trace.check_outputs(outputs, rows)
            own = Scoring(scoring.attacks, states, layouts)
            return count_outputs(counts, own, outputs, origin.dataset, limit, statistics=statistics)

        updated: tuple[Tree, ...] = trace.each_variant(
            variant, variants, counts, mechanisms, scoring.states, scoring.layouts
        )
        return updated

    def in_slot(number: Array, counts: tuple[Tree, ...]) -> tuple[Tree, ...]:
        apart = span.first < 0
        slot = jnp.where(apart, number, 0)
        limit = jnp.where(apart, span.ends[slot], span.limit)
        own = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, slot, 0, False), counts)
        new = chunk(own, jnp.where(apart, 0, number), limit)
        put = jax.lax.dynamic_update_index_in_dim
        in_place: tuple[Tree, ...] = jax.tree.map(lambda a, b: put(a, b, slot, 0), counts, new)
        return in_place

    def step(number: Array, counts: tuple[Tree, ...]) -> tuple[Tree, ...]:
        if span.ends is not None:
            return in_slot(number, counts)
        if width == 1:
            return chunk(counts, number, span.limit)
        numbers = number * width + jnp.arange(width, dtype=jnp.int32)
        limits = jnp.where(numbers < chunks, span.limit, 0)  # beyond the last chunk count nothing
        nothing = jax.tree.map(jnp.zeros_like, counts)
        chunk_counts = jax.vmap(chunk, in_axes=(None, 0, 0))(nothing, numbers, limits)
        added: tuple[Tree, ...] = jax.tree.map(
            lambda old, new: old + new.sum(0, dtype=old.dtype), counts, chunk_counts
        )
        return added

    chunks = span.stop - span.first
    steps = chunks if width == 1 else (chunks + width - 1) // width
    result: tuple[Tree, ...] = jax.lax.fori_loop(0, steps, step, counts)
    return result


def count_outputs(
    counts: tuple[Tree, ...],
    scoring: Scoring,
    outputs: Array | tuple[Array, ...],
    dataset: Array,
    limit: Array,
    *,
    statistics: tuple[Statistic, ...],
) -> tuple[Tree, ...]:
    """Score and count the first `limit` outputs of one variant; traced.

    Args:
        counts: per scorer the counts to add to; every leaf [attacks, …].
        scoring: attacks, states and layouts of this variant.
        outputs: shape [rows, *output dims]; or such an array per scorer.
        dataset: its index.
        limit: rows counted.
        statistics: one per scorer.
    """
    seen = outputs if isinstance(outputs, tuple) else (outputs,) * len(statistics)
    rows = seen[0].shape[0]
    keep = jnp.arange(rows, dtype=jnp.int32) < limit

    def scorer(
        statistic: Statistic, counts: Tree, outputs: Array, attacks: Any, states: Any, layouts: Any
    ) -> Tree:
        def one(counts: Tree, attack: Any, state: Tree, layout: Tree) -> Tree:
            scores = attack.score(state, outputs)
            trace.check_scores(scores, rows, attack.gives)
            updated = statistic.update(layout, counts, dataset, scores, keep)
            check_updated(counts, updated)
            return updated

        number = jax.tree.leaves(counts)[0].shape[0]
        return trace.each_variant(one, number, counts, attacks, states, layouts)

    columns = zip(statistics, counts, seen, *scoring, strict=True)
    return tuple(scorer(*column) for column in columns)


count_given = compiled(static=("statistics",))(count_outputs)
"""A program that counts outputs made elsewhere: one chunk of one variant."""


class CountTask(NamedTuple):
    """Everything that determines the counts of a traced pass whose attacks have learned.

    Any process can count segments with it.
    """

    zeros: Any  # per scorer counts of nothing; every leaf [padded variants, attacks, …]
    padded: tuple[Tree, Tree, Tree]  # mechanisms, states, layouts; every leaf [padded variants, …]
    attacks: tuple[Any, ...]  # stacked, per scorer
    statistics: tuple[Statistic, ...]
    data: tuple[Tree, ...]  # D and D′, in the precision of the run
    stream: Stream
    prng: str
    precision: str
    variants: int
    rows: int  # of a chunk
    elements: int  # coordinates of one output
    in_rounds: bool  # True if rounds end within the first chunk


def count_segment(
    task: CountTask, variants: Sequence[int], index: int, segment: Segment
) -> tuple[Tree, ...]:
    """Count a segment of one dataset: a pure function.

    Returns counts per scorer, int64, leaves [padded variants, attacks, …], the requested variants
    first. If the segment has slices, their axis comes before these.
    """
    padded = task.padded
    if len(variants) < task.variants:  # one program serves all; the requested variants come first
        order = np.resize(np.array(variants), len(jax.tree.leaves(task.zeros)[0]))
        padded = jax.tree.map(lambda leaf: leaf[order], padded)
    mechanisms, states, layouts = padded
    width, zeros, ends = chunks_at_once(task.rows * task.elements), task.zeros, None
    if task.in_rounds and (width == 1 or segment.slices):
        # A slot for every place where a round may end: one program for all rounds.
        ends = np.zeros(rounds.most_slices(task.rows) + 1, np.int32)
        zeros = jax.tree.map(lambda leaf: np.zeros((len(ends), *np.shape(leaf)), leaf.dtype), zeros)
        width = 1
    slices = len(segment.slices)

    def counted(leaf: Any) -> HostArray:
        """Return counts of slices, the differences of counts up to each end; else slot 0."""
        counts = np.asarray(leaf, np.int64)
        if ends is None:
            return counts
        return np.diff(counts[: slices + 1], axis=0) if slices else counts[0]

    total: tuple[Tree, ...] | None = None
    step = min(MOST_CHUNKS, pieces(task.rows, task.elements))  # a call counts draws in 32 bits
    with jax.enable_x64(task.precision == "float64"):
        for first in range(segment.first, max(segment.stop, segment.first + 1), step):
            stop = min(segment.stop, first + step)
            keys = np.zeros((MOST_CHUNKS, 2), np.uint32)
            keys[: stop - first] = chunk_keys(task.stream, task.prng, index, first, stop)
            span = Span(np.int32(first), np.int32(stop), np.int32(segment.limit), ends)
            if slices and ends is not None:
                # Count the first chunk repeatedly, up to each place where a slice begins or ends.
                upto = [segment.slices[0][0], *(end for _, end in segment.slices)]
                ends[: len(upto)] = upto
                span = span._replace(first=np.int32(-1), stop=np.int32(slices))
            new_counts = count_chunks(
                zeros,
                mechanisms,
                np.int32(len(variants)),
                Scoring(task.attacks, states, layouts),
                Origin(keys, task.data[index], np.int32(index)),
                span,
                statistics=task.statistics,
                rows=task.rows,
                prng=task.prng,
                width=width,
            )
            more = jax.tree.map(counted, new_counts)
            total = more if total is None else jax.tree.map(np.add, total, more)
    assert total is not None  # an empty segment is one call, too
    return total


@dataclasses.dataclass(frozen=True)
class CountSegment(Task):
    """Count a segment of one dataset: see `count_segment`."""

    shared: CountTask
    variants: tuple[int, ...]
    index: int
    segment: Segment

    def run(self, shared: CountTask) -> tuple[Tree, ...]:
        return count_segment(shared, self.variants, self.index, self.segment)

    def checked(self, counts: Any) -> tuple[Tree, ...]:
        """Return counts as int64, if these variants have one for each row of the segment."""
        shared, segment = self.shared, self.segment
        parts = [end - start for start, end in segment.slices]
        rows = np.array(parts or [segment.limit * (segment.stop - segment.first)])
        zeros, variants = shared.zeros, len(jax.tree.leaves(shared.zeros)[0])
        trials = np.zeros((len(rows), variants, 1, 2), np.int64)
        trials[:, : len(self.variants), :, self.index] = rows[:, None, None]
        if segment.slices:
            zeros = jax.tree.map(
                lambda leaf: np.broadcast_to(leaf, (len(rows), *leaf.shape)), zeros
            )
        else:
            trials = trials[0]
        if not isinstance(counts, list | tuple) or len(counts) != len(zeros):
            raise WrongResultError("counts of another structure")
        scorers = zip(shared.statistics, counts, zeros, strict=True)
        return tuple(rounds.checked_counts(*each, trials, trials.ndim - 1) for each in scorers)

    def __str__(self) -> str:
        return chunks_in_words(self.segment.first, self.segment.stop, self.index)

    @property
    def plugins(self) -> tuple[type, ...]:
        shared = self.shared
        own = plugin_classes([shared.padded[0], *shared.attacks])
        return tuple(dict.fromkeys([*own, *map(type, shared.statistics)]))
