"""How the answers of a black box on one pair are cut into chunks, and these into rounds.

A slow box should show in a few calls what it shows at once, and a fast one should not be asked for
eight answers at a time. So chunks grow with their number: which chunk an answer belongs to, and so
its address, does not depend on how fast the machine is.
"""

from __future__ import annotations

from dpframe.engine.search.box_parts import Part

FIRST = 8
"""Rows of the first chunks."""

LEVEL = 32
"""Chunks of one size."""

STEP = 4
"""How much larger those after them are."""

LARGEST = 1 << 12
"""Rows of a chunk, at most."""

LEVELS = 6

NBYTES = 1 << 23
"""Bytes of the rows of a chunk, at most, once it is known how wide they are."""


class Sizes:
    """Of the chunks of one pair.

    Args:
        rows: of every chunk, where the spec or the box says so; else they grow.
    """

    def __init__(self, rows: int | None) -> None:
        self._rows = rows
        self.widest: int | None = None
        """Bytes of a row, once the first chunks are there."""

    def rows_of(self, chunk: int) -> int:
        """Answers of a chunk of each dataset."""
        if self._rows is not None:
            return self._rows
        rows: int = FIRST * STEP ** min(chunk // LEVEL, LEVELS)
        fits = LARGEST if self.widest is None else max(FIRST, NBYTES // self.widest)
        return min(rows, LARGEST, 1 << (fits.bit_length() - 1))

    def until(self, first: int, draws: int, most: int) -> int:
        """Where a round ends that begins at a chunk.

        Args:
            first: number of its first chunk.
            draws: how many answers are wanted, about.
            most: how many there may be.

        Returns:
            Number of the chunk after its last one; `first` itself if none fits.
        """
        stop, got = first, 0
        while got < draws and got + self.rows_of(stop) <= most:
            got += self.rows_of(stop)
            stop += 1
        return stop

    def draws(self, first: int, stop: int) -> int:
        """Answers of some chunks of each dataset."""
        return sum(part.draws for part in self.parts(0, first, stop))

    def parts(self, dataset: int, first: int, stop: int) -> list[Part]:
        """Chunks, those of one size together."""
        parts: list[Part] = []
        for chunk in range(first, stop):
            rows = self.rows_of(chunk)
            if parts and parts[-1].rows == rows:
                parts[-1] = parts[-1]._replace(stop=chunk + 1)
            else:
                parts.append(Part(dataset, chunk, chunk + 1, rows))
        return parts
