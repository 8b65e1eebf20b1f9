"""How draws are cut into chunks. A chunk is the unit of randomness, never of convenience."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK_ELEMENTS = 1 << 16
"""Output coordinates per chunk; a chunk of float32 then stays in the cache of one core."""

SEGMENT_ELEMENTS = 1 << 28
"""Output coordinates per device call: about a second of work, so that progress is smooth."""

HOST_ROWS = 16
"""Releases per chunk of a black box, each of which may take a second; what is begun is drawn whole,
and what is interrupted is lost. Few if a release is cheap: `[run] chunk` asks for more."""


class Segment(NamedTuple):
    """Consecutive chunks that one device call draws."""

    first: int
    stop: int
    limit: int
    """Rows counted of each chunk; below the chunk's rows only for a tail."""
    slices: tuple[tuple[int, int], ...] = ()
    """Rows of its only chunk that are counted apart, from the first up to the last of each; the
    counts then have one more axis, before all others."""


def rows_per_chunk(output_shape: tuple[int, ...], *, on_host: bool = False) -> int:
    """Rows of a chunk: a power of two, from the output's shape alone.

    Neither memory nor device may change it, because it is part of the address of every draw.

    Args:
        output_shape: of one output.
        on_host: whether plain Python makes it.
    """
    most = CHUNK_ELEMENTS // max(1, math.prod(output_shape))
    if on_host:
        most = min(most, HOST_ROWS)
    return 1 << max(0, most.bit_length() - 1)


def pieces(rows: int, elements: int) -> int:
    """Chunks that one call of a device draws, for about a second of work.

    Args:
        rows: rows per chunk.
        elements: coordinates per row.
    """
    return max(1, SEGMENT_ELEMENTS // (rows * max(1, elements)))


def segments(
    trials: int,
    rows: int,
    elements: int,
    done: int = 0,
    *,
    slow: bool = False,
    times: int = 1,
) -> Iterator[Segment]:
    """Cuts the chunks from `done` on into segments; a tail chunk is drawn whole and cut.

    Args:
        trials: rows wanted in all.
        rows: rows per chunk.
        elements: coordinates per row.
        done: whole chunks already counted.
        slow: whether every chunk is a segment of its own.
        times: how many times as large as usual segments are.
    """
    whole, tail = divmod(trials, rows)
    step = times * (1 if slow else pieces(rows, elements))
    for first in range(done, whole, step):
        yield Segment(first, min(first + step, whole), rows)
    if tail:
        yield Segment(whole, whole + 1, tail)
