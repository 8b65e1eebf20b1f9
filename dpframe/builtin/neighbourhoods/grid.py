"""All pairs on a grid."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated

import numpy as np

from dpframe import Ge, Le
from dpframe.builtin.neighbourhoods._box import Box, Fresh

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpframe import Earned, Floats, Pair

MOST = 20_000
"""Pairs of a grid, at most; a search of more is better left to chance."""

ORDER = 12
"""Seed of their order."""


class Grid(Box, name="grid"):
    """Every pair of neighbours on a grid over the box, the ends included.

    In an order that is mixed once and for all, so that what a search has come to lies everywhere.
    """

    points: Annotated[int, Ge(2)] = 2
    """Values of every entry, evenly from `low` to `high`."""
    batch: Annotated[int, Ge(1), Le(1000)] = 16
    """Pairs to propose at a time."""

    def check(self) -> None:
        super().check()
        size = self.size()
        if not size:
            raise ValueError(f"no two of the {self.points} points are at most {self.step:g} apart")
        if size > MOST:
            raise ValueError(
                f"the grid has {size} pairs, counted in both orders, and {MOST} can be proposed; "
                "'random' and 'climb' look for those that are worth it"
            )

    def levels(self) -> Floats:
        """The values of an entry; whole numbers may fall together."""
        found = np.linspace(*self.ends, self.points)
        return np.unique(np.round(found)) if self.whole else found

    def moves(self) -> list[list[int]]:
        """For every level, those that an entry of D′ may have beside it, itself left out."""
        levels = self.levels()
        near = np.abs(levels[:, None] - levels) <= self.reach * (1 + 1e-12)
        return [
            [at for at in np.flatnonzero(row).tolist() if at != i] for i, row in enumerate(near)
        ]

    def size(self) -> int:
        """How many pairs there are, in both orders."""
        moves = self.moves()
        levels, near = len(moves), sum(map(len, moves))
        if self.adjacency == "one-by-one":
            return int(levels ** (self.length - 1) * self.length * near)
        return int((levels + near) ** self.length - levels**self.length)

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        fresh = Fresh(self.words, history)
        for d0, d1 in self.pairs():
            fresh.add(d0, d1)
            if len(fresh) == self.batch:
                break
        return fresh.pairs

    def pairs(self) -> Iterator[tuple[Floats, Floats]]:
        """All of them, mixed."""
        levels, moves = self.levels(), self.moves()
        vectors = itertools.product(range(len(levels)), repeat=self.length)
        found = [(d0, d1) for d0 in vectors for d1 in self.beside(d0, moves)]
        for at in np.random.default_rng(ORDER).permutation(len(found)):
            d0, d1 = (levels[list(part)] for part in found[at])
            yield d0, d1

    def beside(self, d0: tuple[int, ...], moves: list[list[int]]) -> Iterator[tuple[int, ...]]:
        """The neighbours of a vector, as numbers of levels."""
        if self.adjacency == "one-by-one":
            for at, level in enumerate(d0):
                yield from ((*d0[:at], other, *d0[at + 1 :]) for other in moves[level])
            return
        yield from itertools.product(*([level, *moves[level]] for level in d0))
