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


class Segment(NamedTuple):
    """Consecutive chunks that one device call draws."""

    first: int
    stop: int
    limit: int
    """Rows counted of each chunk; below the chunk's rows only for a tail."""


def rows_per_chunk(output_shape: tuple[int, ...]) -> int:
    """Rows of a chunk: a power of two, from the output's shape alone.

    Neither memory nor device may change it, because it is part of the address of every draw.
    """
    elements = max(1, math.prod(output_shape))
    return 1 << max(0, (CHUNK_ELEMENTS // elements).bit_length() - 1)


def segments(trials: int, rows: int, elements: int, done: int = 0) -> Iterator[Segment]:
    """Cuts the chunks from `done` on into segments; a tail chunk is drawn whole and cut.

    Args:
        trials: rows wanted in all.
        rows: rows per chunk.
        elements: coordinates per row.
        done: whole chunks already counted.
    """
    whole, tail = divmod(trials, rows)
    step = max(1, SEGMENT_ELEMENTS // (rows * max(1, elements)))
    for first in range(done, whole, step):
        yield Segment(first, min(first + step, whole), rows)
    if tail:
        yield Segment(whole, whole + 1, tail)
