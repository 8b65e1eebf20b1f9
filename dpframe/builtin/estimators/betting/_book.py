"""Bets against what is claimed: a wealth, and how it grew."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpframe.stats.betting import Bet, choose, earned, events

if TYPE_CHECKING:
    from dpframe import Claim, Floats, Ints

TINY = 1e-300
"""No p-value is below."""

MOST = 690.0
"""Logarithms of larger wealths give smaller ones."""

MOST_GROWTH = 600.0
"""ε whose exponential is still far from the largest float."""


class Lines(NamedTuple):
    """Half-planes p ≤ e^ε q + δ in which a claim holds every event."""

    slope: Floats
    delta: Floats
    group: tuple[slice, slice]
    """Those of the claim as it is, and of the claim widened by what is not resolved."""


@functools.lru_cache(maxsize=256)
def lines(claim: Claim, resolution: float) -> Lines:
    """What a claim says at each δ, exactly and where rates are known up to `resolution` only."""
    said = [(claim.epsilon_at(delta), delta) for delta in claim.telling_deltas]
    said = [(epsilon, delta) for epsilon, delta in said if epsilon <= MOST_GROWTH]
    slope = np.exp(np.array([epsilon for epsilon, _ in said], np.float64))
    exact = np.array([delta for _, delta in said], np.float64)
    widened = exact + resolution * (1 + slope)
    usable, left = exact < 1, widened < 1
    number = int(usable.sum())
    return Lines(
        np.concatenate([slope[usable], slope[left]]),
        np.concatenate([exact[usable], widened[left]]),
        (slice(0, number), slice(number, number + int(left.sum()))),
    )


class Book(NamedTuple):
    """What bets against a claim have earned, as it is and widened."""

    log_wealth: Floats = np.zeros((2, 2))
    """Of each of the two ways to guess, shape [ways, 2]."""
    best: Floats = np.zeros(2)
    """Largest logarithm of their mean so far."""

    @property
    def now(self) -> Floats:
        """Logarithm of the mean."""
        return np.asarray(np.logaddexp(*self.log_wealth) - math.log(2), np.float64)

    @property
    def p_values(self) -> tuple[float, float]:
        """Valid at every number of draws at once."""
        exact, widened = (max(math.exp(-w) if w < MOST else 0.0, TINY) for w in self.best.tolist())
        return min(exact, 1.0), min(max(exact, widened), 1.0)

    def played(self, lines: Lines, before: Ints, drawn: int, above: Ints, trials: int) -> Book:
        """Bets on a round: each against the line that the draws before it contradict most.

        Args:
            lines: of the claim; against none of them nothing is bet.
            before: draws at or above each cut before the round, shape [2, cuts].
            drawn: how many they are, on each side.
            above: draws of the round at or above each cut.
            trials: how many they are.
        """
        if not len(lines.slope):
            return self
        found = choose(before, drawn, lines.slope, lines.delta)
        chosen = [group.start + int(np.argmax(found.z[group])) for group in _some(lines.group)]
        if not np.any(found.z[chosen] > 0):
            return self
        bet = Bet(found.event[chosen], found.q[chosen], found.p[chosen], found.z[chosen])
        hits = events(above, trials)[bet.event]
        log_wealth = self.log_wealth.copy()
        log_wealth[:, : len(chosen)] += earned(
            hits, trials, bet, lines.slope[chosen], lines.delta[chosen]
        )
        book = Book(log_wealth, self.best)
        return book._replace(best=np.maximum(self.best, book.now))


def _some(groups: tuple[slice, slice]) -> list[slice]:
    """Those that are not empty; the widened ones are empty first."""
    return [group for group in groups if group.stop > group.start]
