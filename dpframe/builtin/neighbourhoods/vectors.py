"""Neighbourhoods of vectors in a box."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from dpframe import Ge, Gt, Le, Neighbourhood, Values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dpframe import Earned, Floats, HostArray, Pair


# What neighbourhoods of vectors in a box share: domain, adjacency, no pair twice.


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


# All pairs on a grid.


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


# Eight ways in which D and D′ differ that find most mistakes.


class Patterns(Box, name="patterns"):
    """The eight patterns of StatDP [Ding2018], drawn in to the box.

    Where D is constant, D′ has one entry above, one below, one above and the rest below, one below
    and the rest above, half of them below and half above, all above, or all below; and two halves
    that change places. Where one entry may differ, it does so among others that stand in these
    ways. First round the middle of the box; when asked again, near its ends and with the entries
    in reverse order.
    """

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        fresh = Fresh(self.words, history)
        for turn in (1, -1):
            for centres in self.places():
                for centre in centres:
                    for d0, d1 in self.around(centre):
                        fresh.add(*self.inside(d0[::turn], d1[::turn]))
                if fresh.pairs:
                    return fresh.pairs
        return ()

    def places(self) -> list[list[float]]:
        """Where the patterns lie, one round after the other."""
        (low, high), reach = self.ends, self.reach
        if high - low < 2 * reach:
            # Nothing is above and below at the full step, so D lies at an end, and half of the
            # patterns fall together.
            return [[high, low], [(low + high) / 2]]
        middle = low + reach * math.floor((high - low) / (2 * reach))
        return [[middle], [low + reach, high - reach], [low, high]]

    def around(self, centre: float) -> Iterator[tuple[Floats, Floats]]:
        """D and D′ of all patterns, not yet drawn in."""
        n, step = self.length, self.reach
        first, front = np.arange(n) == 0, np.arange(n) < (n + 1) // 2
        flat, halves = np.zeros(n), np.where(front, -1.0, 1.0)
        if self.adjacency == "one-by-one":
            for others in (flat, flat - 1, flat + 1, halves):
                d0 = centre + step * np.where(first, 0.0, others)
                yield d0, d0 + step * first
                yield d0, d0 - step * first
            return
        one, rest = np.where(first, 1.0, 0.0), np.where(first, 1.0, -1.0)
        for change in (one, -one, rest, -rest, halves, flat + 1, flat - 1):
            yield flat + centre, centre + step * change
        low = flat + max(centre - step, self.ends[0])
        yield low + step * front, low + step * ~front


# Pairs by chance: in a box, or of given records.


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


# Pairs made of those that earned most.


class Climb(Box, name="climb"):
    """Begins with patterns and pairs by chance, then changes and mixes those that earned most.

    A child has every entry, in D and D′, from one of two parents, or lies in part elsewhere. As
    many are made by chance, so that it does not stay where it began.
    """

    batch: Annotated[int, Ge(1), Le(1000)] = 8
    """Pairs to propose at a time."""
    parents: Annotated[int, Ge(1)] = 4
    """How many of those that earned most have children."""
    fresh: Annotated[float, Ge(0), Le(1)] = 0.25
    """Share of pairs that are made by chance."""

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        found = Fresh(self.words, history)
        if not history:
            for pair in self.patterns().propose(rng, ()):
                found.add(pair.d0, pair.d1)
        best = sorted(
            (earned for earned in history if earned.growth > 0),
            key=lambda earned: -earned.growth,
        )[: self.parents]
        wanted = len(found) + self.batch
        for _ in range(TRIES * self.batch):
            if len(found) == wanted:
                break
            chance = not best or rng.random() < self.fresh
            found.add(*(self.by_chance(rng) if chance else self.child(best, rng)))
        return found.pairs

    def patterns(self) -> Patterns:
        """The patterns in the same box."""
        shared: Any = {name: getattr(self, name) for name in SHARED}
        return Patterns(**shared)

    def by_chance(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """A pair without parents."""
        return changed(self, at_random(self, rng), rng)

    def child(self, best: Sequence[Earned], rng: np.random.Generator) -> tuple[Floats, Floats]:
        """A pair made of those that earned most; the better, the more often."""
        weights = 1.0 / np.arange(1, len(best) + 1)
        one, other = (best[at].pair for at in rng.choice(len(best), 2, p=weights / weights.sum()))
        either = rng.random(self.length) < 0.5
        d0, d1 = (np.where(either, getattr(one, d), getattr(other, d)) for d in ("d0", "d1"))
        mutated = rng.random(self.length) < 1.0 / self.length
        match rng.integers(4):
            case 0:  # both move, as far apart as before
                move = rng.normal(0, self.reach / 2, self.length) * mutated
                return self.inside(d0 + move, d1 + move)
            case 1:  # some entries of D lie elsewhere
                return self.inside(np.where(mutated, at_random(self, rng), d0), d1)
            case 2:  # some differ in another way
                return self.inside(d0, np.where(mutated, changed(self, d0, rng)[1], d1))
            case _:
                order = rng.permutation(self.length) if rng.random() < 0.5 else slice(None)
                return self.inside(d0[order], d1[order])


SHARED = ("length", "low", "high", "adjacency", "step", "whole")
"""Parameters of every box."""
