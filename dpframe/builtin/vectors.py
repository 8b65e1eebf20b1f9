"""Neighbourhoods of vectors in a box."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal

import numpy as np

from dpframe.plugins import Earned, Floats, Ge, Gt, HostArray, Le, Neighbourhood, Pair, Values

FINENESS = 1024
"""Numbers are multiples of `step` / FINENESS. So sums and differences are exact even in float32,
and rounding cannot put D and D′ too far apart."""

WIDEST = 2**20  # most steps from `low` to `high`; float32 does not resolve more
TRIES = 20  # draws for each wanted pair before giving up

Adjacency = Literal["each-by-one", "one-by-one", "any"]


class Vectors(Neighbourhood):
    """Vectors of one length between two bounds."""

    length: Annotated[int, Ge(1)] = 5
    """Number of entries."""
    low: float = 0.0
    """Lower bound of an entry."""
    high: float = 1.0
    """Upper bound of an entry."""
    adjacency: Adjacency = "each-by-one"
    """each-by-one: every entry may differ, each by at most `step`; one-by-one: one entry differs,
    by at most `step`; any: any two vectors are neighbours, as in local privacy."""
    step: Annotated[float, Gt(0)] = 1.0
    """Largest difference of an entry between D and D′."""
    whole: bool = False
    """True if all entries are whole numbers."""

    def check(self) -> None:
        low, high = self.ends
        numbers = "whole numbers" if self.whole else "numbers"
        if low >= high:
            raise ValueError(f"low {self.low:g}, high {self.high:g}: no two {numbers} between them")
        if not self.reach > 0:
            raise ValueError(f"no two {numbers} are at most {self.step:g} apart")
        if high - low > WIDEST * self.reach:
            raise ValueError(f"low and high are more than {WIDEST} steps of {self.step:g} apart")

    @property
    def ends(self) -> tuple[float, float]:
        """Smallest and largest value of an entry."""
        if self.whole:
            return float(np.ceil(self.low)), float(np.floor(self.high))
        return self.low, self.high

    @property
    def reach(self) -> float:
        """Largest difference of two entries, at most `high` − `low`."""
        width = self.ends[1] - self.ends[0]
        reach = width if self.adjacency == "any" else min(self.step, width)
        return math.floor(reach) if self.whole else reach

    @property
    def words(self) -> str:
        """The relation in words, for its pairs."""
        if self.adjacency == "any":
            return "any two vectors"
        who = "every entry differs" if self.adjacency == "each-by-one" else "one entry differs"
        return f"{who} by at most {self.step:g}"

    def inside(self, d0: Floats, d1: Floats) -> tuple[Floats, Floats]:
        """Move D into the bounds, and D′ to a neighbour of D."""
        d0, d1 = self.held(d0), self.held(d1)
        changes = np.clip(d1 - d0, -self.reach, self.reach)
        if self.adjacency == "one-by-one":
            changes = np.where(np.arange(len(changes)) == np.argmax(np.abs(changes)), changes, 0.0)
        return d0, np.clip(d0 + changes, *self.ends)

    def held(self, numbers: Floats) -> Floats:
        """Round numbers to the fineness, and clip them to the bounds."""
        low, high = self.ends
        fine = 1.0 if self.whole else self.reach / FINENESS
        return np.clip(low + np.round((numbers - low) / fine) * fine, low, high)


def new_pairs(
    drawn: Iterable[tuple[Floats, Floats]],
    adjacency: str,
    history: Iterable[Earned],
    number: int | None = None,
) -> list[Values]:
    """Return the first pairs, D ≠ D′, that were not proposed before in either order; or all."""
    seen = {_key(earned.pair.d0, earned.pair.d1) for earned in history}
    pairs: list[Values] = []
    for both in drawn:
        d0, d1 = (part + 0.0 for part in both)  # turns −0 into 0
        key = _key(d0, d1)
        if len(key) == 2 and key not in seen:
            seen.add(key)
            pairs.append(Values(d0=d0, d1=d1, adjacency=adjacency))
            if len(pairs) == number:
                break
    return pairs


def _key(d0: HostArray, d1: HostArray) -> frozenset[bytes]:
    return frozenset({np.asarray(d0, np.float64).tobytes(), np.asarray(d1, np.float64).tobytes()})


MOST_PAIRS = 20_000  # most pairs of a grid; random pairs are better for a larger search
ORDER = 12  # seed of their order


class Grid(Vectors, name="grid"):
    """Every pair of neighbours on a grid over the box, the ends included.

    Their order is random but fixed, so that the pairs of a short search lie everywhere.
    """

    points: Annotated[int, Ge(2)] = 2
    """Number of values of every entry, evenly spaced from `low` to `high`."""
    batch: Annotated[int, Ge(1), Le(1000)] = 16
    """Pairs to propose at a time."""

    def check(self) -> None:
        super().check()
        moves = self.moves()
        levels, near = len(moves), sum(map(len, moves))
        size = (levels + near) ** self.length - levels**self.length  # in both orders
        if self.adjacency == "one-by-one":
            size = levels ** (self.length - 1) * self.length * near
        if not size:
            raise ValueError(f"no two of the {self.points} points are at most {self.step:g} apart")
        if size > MOST_PAIRS:
            raise ValueError(
                f"the grid has {size} pairs, counted in both orders, and at most {MOST_PAIRS} "
                "can be proposed; 'random' and 'climb' choose among them"
            )

    def levels(self) -> Floats:
        """Return the values of an entry; whole numbers may coincide."""
        levels = np.linspace(*self.ends, self.points)
        return np.unique(np.round(levels)) if self.whole else levels

    def moves(self) -> list[list[int]]:
        """Return for every level the other levels that the entry may have in D′."""
        levels = self.levels()
        near = np.abs(levels[:, None] - levels) <= self.reach * (1 + 1e-12)
        return [
            [at for at in np.flatnonzero(row).tolist() if at != i] for i, row in enumerate(near)
        ]

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        return new_pairs(self.pairs(), self.words, history, self.batch)

    def pairs(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield all pairs in their order."""
        levels, moves = self.levels(), self.moves()
        vectors = itertools.product(range(len(levels)), repeat=self.length)
        pairs = [(d0, d1) for d0 in vectors for d1 in self.beside(d0, moves)]
        for at in np.random.default_rng(ORDER).permutation(len(pairs)):
            d0, d1 = (levels[list(part)] for part in pairs[at])
            yield d0, d1

    def beside(self, d0: tuple[int, ...], moves: list[list[int]]) -> Iterator[tuple[int, ...]]:
        """Yield the neighbours of a vector, as numbers of levels."""
        if self.adjacency == "one-by-one":
            for at, level in enumerate(d0):
                yield from ((*d0[:at], other, *d0[at + 1 :]) for other in moves[level])
            return
        yield from itertools.product(*([level, *moves[level]] for level in d0))


class Patterns(Vectors, name="patterns"):
    """The eight patterns of StatDP [Ding2018], moved into the box.

    For a constant D, D′ has one entry above, one below, one above and the rest below, one below
    and the rest above, half of them below and half above, all above, or all below; the last
    pattern swaps two halves. If only one entry may differ, the other entries form these patterns.
    The first pairs lie around the middle of the box, later ones near its ends and with the entries
    in reverse order.
    """

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        for turn in (1, -1):
            for centres in self.places():
                drawn = (both for centre in centres for both in self.around(centre))
                moved = (self.inside(d0[::turn], d1[::turn]) for d0, d1 in drawn)
                if pairs := new_pairs(moved, self.words, history):
                    return pairs
        return ()

    def places(self) -> list[list[float]]:
        """Return the centres of the patterns, round by round."""
        (low, high), reach = self.ends, self.reach
        if high - low < 2 * reach:
            # No centre has room for a full step above and below, so D lies at an end, and half of
            # the patterns coincide.
            return [[high, low], [(low + high) / 2]]
        middle = low + reach * math.floor((high - low) / (2 * reach))
        return [[middle], [low + reach, high - reach], [low, high]]

    def around(self, centre: float) -> Iterator[tuple[Floats, Floats]]:
        """Yield D and D′ of all patterns, not yet moved into the bounds."""
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


class Random(Vectors, name="random"):
    """Random vectors in a box, and random neighbours of them.

    An entry lies at an end of the box or uniformly inside, equally often, because losses are often
    largest at the ends. D′ differs by the full step in all entries that may differ, or in some, or
    by less. With `records`, D has `length` of them, and D′ has one of them replaced by another.
    """

    batch: Annotated[int, Ge(1), Le(1000)] = 16
    """Pairs to propose at a time."""
    records: tuple[float | tuple[float, ...], ...] = ()
    """The possible records of D and D′; if given, `low`, `high`, `step` and `adjacency` are
    ignored."""

    def check(self) -> None:
        super().check()
        if len({np.shape(record) for record in self.records}) > 1:
            raise ValueError("records differ in length")
        if len(set(self.records)) == 1:
            raise ValueError("there is only one record, so nothing can replace it")

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        drawn = (
            self.replaced(rng) if self.records else random_pair(self, rng)
            for _ in range(TRIES * self.batch)
        )
        words = "replace one record" if self.records else self.words
        return new_pairs(drawn, words, history, self.batch)

    def replaced(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw D and D′ of `length` records each."""
        records = np.asarray(self.records, np.float64)
        chosen = rng.integers(len(records), size=self.length)
        other = chosen.copy()
        other[rng.integers(self.length)] = rng.integers(len(records))
        return records[chosen], records[other]


def random_pair(box: Vectors, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw D, and a neighbour of it."""
    return changed(box, at_random(box, rng), rng)


def at_random(box: Vectors, rng: np.random.Generator) -> Floats:
    """Draw a vector: entries uniformly in the box, or at one of its ends."""
    low, high = box.ends
    anywhere = rng.uniform(low, high, box.length)
    end = np.where(rng.random(box.length) < 0.5, low, high)
    return np.where(rng.random(box.length) < rng.choice([0.0, 0.5, 1.0]), end, anywhere)


def changed(box: Vectors, d0: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return a vector with a random neighbour."""
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


class Climb(Vectors, name="climb"):
    """Begins with patterns and random pairs, then changes and mixes those that earned most.

    A child takes each entry, in D and D′, from one of two parents, and some entries are mutated.
    Some pairs stay random, so that the search does not stay near its start.
    """

    batch: Annotated[int, Ge(1), Le(1000)] = 8
    """Pairs to propose at a time."""
    parents: Annotated[int, Ge(1)] = 4
    """Number of pairs to mutate and mix: those with the strongest evidence."""
    fresh: Annotated[float, Ge(0), Le(1)] = 0.25
    """Share of pairs that are random."""

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        first: list[Pair] = []
        if not history:
            shared: Any = {field.name: getattr(self, field.name) for field in fields(Vectors)}
            first += Patterns(**shared).propose(rng, ())
        earning = (earned for earned in history if earned.growth > 0)
        best = sorted(earning, key=lambda earned: -earned.growth)[: self.parents]
        drawn = (
            random_pair(self, rng)
            if not best or rng.random() < self.fresh
            else self.child(best, rng)
            for _ in range(TRIES * self.batch)
        )
        known = (*history, *(Earned(pair, 0, 0.0) for pair in first))
        return [*first, *new_pairs(drawn, self.words, known, self.batch)]

    def child(self, best: Sequence[Earned], rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Mix two of the pairs with the most evidence; better pairs have more children."""
        weights = 1.0 / np.arange(1, len(best) + 1)
        one, other = (best[at].pair for at in rng.choice(len(best), 2, p=weights / weights.sum()))
        either = rng.random(self.length) < 0.5
        d0, d1 = (np.where(either, getattr(one, d), getattr(other, d)) for d in ("d0", "d1"))
        mutated = rng.random(self.length) < 1.0 / self.length
        match rng.integers(4):
            case 0:  # move both, at their distance
                move = rng.normal(0, self.reach / 2, self.length) * mutated
                return self.inside(d0 + move, d1 + move)
            case 1:  # move some entries of D
                return self.inside(np.where(mutated, at_random(self, rng), d0), d1)
            case 2:  # change some differences
                return self.inside(d0, np.where(mutated, changed(self, d0, rng)[1], d1))
            case _:
                order = rng.permutation(self.length) if rng.random() < 0.5 else slice(None)
                return self.inside(d0[order], d1[order])
