"""All that decides what a segment of a pass counts: a value that any process can count from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.engine import programs
from dpframe.engine.address import base_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.engine.address import Stream
    from dpframe.engine.chunks import Segment
    from dpframe.statistic import Statistic
    from dpframe.types import Tree


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
        Per scorer; every leaf [padded lanes, attacks, …], those asked for first.
    """
    mechanisms, states, layouts = _of(parcel, lanes)
    found: tuple[Tree, ...] = programs.count_chunks(
        parcel.zeros,
        mechanisms,
        np.int32(len(lanes)),
        programs.Scoring(parcel.attacks, states, layouts),
        programs.Origin(base_key(parcel.stream, parcel.prng), parcel.data[index], np.int32(index)),
        programs.Span(*(np.int32(number) for number in segment)),
        statistics=parcel.statistics,
        rows=parcel.rows,
        width=programs.chunks_at_once(parcel.rows * parcel.elements),
    )
    return found


def _of(parcel: Parcel, lanes: Sequence[int]) -> tuple[Any, Any, Any]:
    """Mechanisms, states and layouts, those of some lanes first; one program serves all."""
    if len(lanes) == parcel.lanes:
        return parcel.padded
    order = np.resize(np.array(lanes), len(jax.tree.leaves(parcel.zeros)[0]))
    found: tuple[Any, Any, Any] = jax.tree.map(lambda leaf: leaf[order], parcel.padded)
    return found
