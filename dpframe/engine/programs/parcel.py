"""All that decides what a segment of a pass counts: a value that any process can count from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.engine.addresses.address import chunk_keys
from dpframe.engine.counts.rounds import most_slices
from dpframe.engine.programs import programs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.engine.addresses.address import Stream
    from dpframe.engine.addresses.chunks import Segment
    from dpframe.statistic import Statistic
    from dpframe.types import HostArray, Tree


class Parcel(NamedTuple):
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
    parcel: Parcel, lanes: Sequence[int], index: int, segment: Segment
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
    width = programs.chunks_at_once(parcel.rows * parcel.elements)
    slots = parcel.in_rounds and (width == 1 or bool(segment.slices))
    found: tuple[Tree, ...] = _in_slots(parcel) if slots else parcel.zeros
    most = programs.MOST_CHUNKS
    for first in range(segment.first, max(segment.stop, segment.first + 1), most):
        stop = min(segment.stop, first + most)
        keys = np.zeros((most, 2), np.uint32)
        keys[: stop - first] = chunk_keys(parcel.stream, parcel.prng, index, first, stop)
        span = programs.Span(np.int32(first), np.int32(stop), np.int32(segment.limit))
        found = programs.count_chunks(
            found,
            mechanisms,
            np.int32(len(lanes)),
            programs.Scoring(parcel.attacks, states, layouts),
            programs.Origin(keys, parcel.data[index], np.int32(index)),
            _up_to_slices(span, parcel.rows, segment.slices) if slots else span,
            statistics=parcel.statistics,
            rows=parcel.rows,
            prng=parcel.prng,
            width=1 if slots else width,
        )
    return jax.tree.map(partial(_of_slots, slices=segment.slices), found) if slots else found


def _in_slots(parcel: Parcel) -> tuple[Tree, ...]:
    """Counts of nothing for every place where a round may end: one program for all rounds."""
    most = most_slices(parcel.rows) + 1
    found: tuple[Tree, ...] = jax.tree.map(
        lambda leaf: np.zeros((most, *np.shape(leaf)), leaf.dtype), parcel.zeros
    )
    return found


def _up_to_slices(
    span: programs.Span, rows: int, slices: tuple[tuple[int, int], ...]
) -> programs.Span:
    """The first chunk up to where its slices begin and end, as often as that is."""
    ends = np.zeros(most_slices(rows) + 1, np.int32)
    if not slices:
        return span._replace(ends=ends)
    found = [slices[0][0], *(end for _, end in slices)]
    ends[: len(found)] = found
    return programs.Span(np.int32(-1), np.int32(len(found) - 1), span.limit, ends)


def _of_slots(leaf: Any, slices: tuple[tuple[int, int], ...]) -> HostArray:
    """Counts of slices, from those of the rows before each end; without slices those of slot 0."""
    counts = np.asarray(leaf)
    return np.diff(counts[: len(slices) + 1], axis=0) if slices else counts[0]


def _of(parcel: Parcel, lanes: Sequence[int]) -> tuple[Any, Any, Any]:
    """Mechanisms, states and layouts, those of some lanes first; one program serves all."""
    if len(lanes) == parcel.lanes:
        return parcel.padded
    order = np.resize(np.array(lanes), len(jax.tree.leaves(parcel.zeros)[0]))
    found: tuple[Any, Any, Any] = jax.tree.map(lambda leaf: leaf[order], parcel.padded)
    return found
