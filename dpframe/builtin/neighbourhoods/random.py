"""Pairs by chance: in a box, or of given records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from dpframe import Ge, Le
from dpframe.builtin.neighbourhoods._box import Box, Fresh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Earned, Floats, Pair

TRIES = 20
"""Draws for each pair that is wanted, before it gives up finding another new one."""


class Random(Box, name="random"):
    """Vectors in a box by chance, and neighbours of them that differ by chance.

    Losses are often largest at the ends: an entry lies at an end of the box or evenly anywhere,
    each as often, and D′ differs by the full step in every entry that may, or in some, or by less.
    With `records` D has `length` of these, and one is replaced by another in D′.
    """

    batch: Annotated[int, Ge(1), Le(1000)] = 16
    """Pairs to propose at a time."""
    records: tuple[float | tuple[float, ...], ...] = ()
    """Records that D and D′ consist of; `low`, `high`, `step` and `adjacency` then do not count."""

    def check(self) -> None:
        super().check()
        if len({np.shape(record) for record in self.records}) > 1:
            raise ValueError("records differ in length")
        if len(set(self.records)) == 1:
            raise ValueError("one record is given, so there is nothing to replace it by")

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        fresh = Fresh("replace one record" if self.records else self.words, history)
        for _ in range(TRIES * self.batch):
            if len(fresh) == self.batch:
                break
            fresh.add(*(self.replaced(rng) if self.records else self.drawn(rng)))
        return fresh.pairs

    def replaced(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """D and D′, of `length` records each."""
        records = np.asarray(self.records, np.float64)
        chosen = rng.integers(len(records), size=self.length)
        other = chosen.copy()
        other[rng.integers(self.length)] = rng.integers(len(records))
        return records[chosen], records[other]

    def drawn(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """D and D′ in the box."""
        return changed(self, at_random(self, rng), rng)


def at_random(box: Box, rng: np.random.Generator) -> Floats:
    """A vector: entries evenly in the box, or at one of its ends."""
    low, high = box.ends
    anywhere = rng.uniform(low, high, box.length)
    end = np.where(rng.random(box.length) < 0.5, low, high)
    return np.where(rng.random(box.length) < rng.choice([0.0, 0.5, 1.0]), end, anywhere)


def changed(box: Box, d0: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """A vector in the box, and a neighbour that differs by chance."""
    (low, high), n = box.ends, box.length
    signs = rng.choice([-1.0, 1.0], n)
    room = np.where(signs > 0, high - d0, d0 - low)
    signs = np.where((room < box.reach) & (rng.random(n) < 0.75), -signs, signs)
    if box.adjacency == "one-by-one":
        which = np.arange(n) == rng.integers(n)
    else:
        which = rng.random(n) < rng.choice([0.3, 1.0])
    size = rng.uniform(0, 1, n) if rng.random() < 0.25 else 1.0
    return box.inside(d0, d0 + box.reach * signs * which * size)
