"""Pairs made of those that earned most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from dpframe import Ge, Le
from dpframe.builtin.neighbourhoods._box import Box, Fresh
from dpframe.builtin.neighbourhoods.patterns import Patterns
from dpframe.builtin.neighbourhoods.random import TRIES, at_random, changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Earned, Floats, Pair


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
