"""What neighbourhoods of vectors in a box share: domain, adjacency, no pair twice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from dpframe import Ge, Gt, Neighbourhood, Values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpframe import Earned, Floats, HostArray

FINENESS = 1024
"""Numbers are multiples of a step over this: sums and differences are exact for round steps, also
in float32, and D and D′ are not further apart than they may be by the last bit."""

WIDEST = 2**20
"""Steps from one end of a box to the other, at most: more are beyond what float32 resolves."""

Adjacency = Literal["each-by-one", "one-by-one", "any"]


class Box(Neighbourhood):
    """Vectors of one length in a box."""

    length: Annotated[int, Ge(1)] = 5
    """Number of entries."""
    low: float = 0.0
    """The least that an entry may be."""
    high: float = 1.0
    """The most that an entry may be."""
    adjacency: Adjacency = "each-by-one"
    """each-by-one: every entry may differ, each by at most `step`; one-by-one: one entry differs,
    by at most `step`; any: any two vectors are neighbours, as in local privacy."""
    step: Annotated[float, Gt(0)] = 1.0
    """How far apart entries of D and D′ may be."""
    whole: bool = False
    """Whether all entries are whole numbers."""

    def check(self) -> None:
        low, high = self.ends
        numbers = "whole numbers" if self.whole else "numbers"
        if low >= high:
            raise ValueError(f"low {self.low:g}, high {self.high:g}: no two {numbers} between them")
        if not self.reach > 0:
            raise ValueError(f"no two {numbers} are at most {self.step:g} apart")
        if high - low > WIDEST * self.reach:
            raise ValueError(f"from low to high are more than {WIDEST} steps of {self.step:g}")

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the most that an entry can be."""
        if self.whole:
            return float(np.ceil(self.low)), float(np.floor(self.high))
        return self.low, self.high

    @property
    def reach(self) -> float:
        """How far apart two entries can be: no further than the box is wide."""
        width = self.ends[1] - self.ends[0]
        reach = width if self.adjacency == "any" else min(self.step, width)
        return math.floor(reach) if self.whole else reach

    @property
    def words(self) -> str:
        """The relation in words, as its pairs have it."""
        if self.adjacency == "any":
            return "any two vectors"
        who = "every entry differs" if self.adjacency == "each-by-one" else "one entry differs"
        return f"{who} by at most {self.step:g}"

    def inside(self, d0: Floats, d1: Floats) -> tuple[Floats, Floats]:
        """D drawn in to the box, and D′ to where it is a neighbour of it."""
        d0, d1 = self.held(d0), self.held(d1)
        changes = np.clip(d1 - d0, -self.reach, self.reach)
        if self.adjacency == "one-by-one":
            changes = np.where(np.arange(len(changes)) == np.argmax(np.abs(changes)), changes, 0.0)
        return d0, np.clip(d0 + changes, *self.ends)

    def held(self, numbers: Floats) -> Floats:
        """Numbers as multiples of the fineness, in the box."""
        low, high = self.ends
        fine = 1.0 if self.whole else self.reach / FINENESS
        return np.clip(low + np.round((numbers - low) / fine) * fine, low, high)


class Fresh:
    """Pairs that were not proposed before."""

    def __init__(self, adjacency: str, history: Iterable[Earned] = ()) -> None:
        """Args are the relation in words, and what was proposed before."""
        self.adjacency = adjacency
        self.pairs: list[Values] = []
        self._seen = {_key(earned.pair.d0, earned.pair.d1) for earned in history}

    def add(self, d0: HostArray, d1: HostArray) -> bool:
        """Takes a pair, unless it was there already, in either order, or D is D′."""
        both = (d0 + 0.0, d1 + 0.0)  # which makes 0 of −0
        key = _key(*both)
        if len(key) == 1 or key in self._seen:
            return False
        self._seen.add(key)
        self.pairs.append(Values(d0=both[0], d1=both[1], adjacency=self.adjacency))
        return True

    def __len__(self) -> int:
        return len(self.pairs)


def _key(d0: HostArray, d1: HostArray) -> frozenset[bytes]:
    return frozenset({np.asarray(d0, np.float64).tobytes(), np.asarray(d1, np.float64).tobytes()})
