"""What the bets of one search have earned: against its claim, and against each ε of a grid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.stats.betting import Bet, choose, events, pay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.types import Ints

LARGEST = 500.0
"""A loss beyond which nothing is bet on: its exponential, and δ beside it, have no float."""

GRID = np.concatenate([[0.0], np.geomspace(0.01, 40.0, 560)])
"""Losses that bounds are taken from: 1.5 % apart."""


class Seen(NamedTuple):
    """Draws of one arm under one set of cuts."""

    above: Ints
    """At or above each cut, shape [2, cuts]: on D, on D′."""
    trials: int
    """Draws on each side."""


class Point(NamedTuple):
    """One (ε, δ) that follows from a claim."""

    epsilon: float
    delta: float


class Guess(NamedTuple):
    """The event that lies farthest outside of a claim, at the point of it where it does."""

    point: Point
    bet: Bet

    @property
    def z(self) -> float:
        """By how many standard errors."""
        return float(self.bet.z[0])


def farthest(seen: Seen, points: Sequence[Point]) -> Guess | None:
    """What to bet on against a claim; None where nothing can be.

    Args:
        seen: what an arm has shown until now.
        points: of the claim.
    """
    usable = [p for p in points if p.epsilon <= LARGEST and p.delta < 1]
    guesses = [Guess(p, choose(*seen, np.exp([p.epsilon]), p.delta)) for p in usable]
    return max(guesses, key=lambda guess: guess.z, default=None)


class Wealth:
    """Grows by bets on rounds that were not seen when they were chosen.

    Args:
        delta: δ of the bounds.
    """

    def __init__(self, delta: float) -> None:
        self.delta = delta
        self.against_claim = np.zeros(2)
        self.best = 0.0
        """Largest logarithm of the wealth against the claim."""
        self.history: list[tuple[int, float]] = []
        """(draws per dataset, logarithm of the wealth against the claim) after each round."""
        self._of_grid = np.zeros((2, len(GRID)))
        self._best_of_grid = np.zeros(len(GRID))

    def bet(
        self, before: Seen, fresh: Seen, points: Sequence[Point], scale: float, drawn: int
    ) -> float:
        """Bets on a round.

        Args:
            before: what the arm had shown before the round.
            fresh: the round.
            points: of the claim, for the pair of the arm; empty if nothing is claimed.
            scale: loss claimed for this pair, as a multiple of the first one's.
            drawn: draws per dataset of all rounds, this one included.

        Returns:
            What the round has earned against the claim, as a logarithm.
        """
        earned = self._bet_against_claim(before, fresh, points)
        self._bet_against_grid(before, fresh, scale)
        self.history.append((drawn, self.log_wealth))
        return earned

    @property
    def log_wealth(self) -> float:
        """Logarithm of the wealth against the claim: the mean of two ways to bet."""
        return float(np.logaddexp(*self.against_claim) - math.log(2))

    def bound(self, error: float) -> float:
        """The loss of some pair is at least this, in the units of the first pair's claim.

        Args:
            error: with which probability this may be wrong, at all times together.
        """
        return float(GRID[max(0, self._first_held(error) - 1)])

    def open(self, error: float) -> float:
        """The first loss that is not refuted."""
        return float(GRID[min(len(GRID) - 1, self._first_held(error))])

    def _first_held(self, error: float) -> int:
        held = np.flatnonzero(self._best_of_grid < -math.log(error))
        return int(held[0]) if len(held) else len(GRID)

    def _bet_against_claim(self, before: Seen, fresh: Seen, points: Sequence[Point]) -> float:
        guess = farthest(before, points)
        if guess is None or guess.z <= 0:
            return 0.0
        old = self.log_wealth
        slope = np.exp([guess.point.epsilon])
        paid = pay(fresh.above, fresh.trials, guess.bet, slope, guess.point.delta)
        self.against_claim = self.against_claim + paid[:, 0]
        self.best = max(self.best, self.log_wealth)
        return self.log_wealth - old

    def _bet_against_grid(self, before: Seen, fresh: Seen, scale: float) -> None:
        losses = GRID * scale
        hopeful = (losses <= min(largest_loss(before, self.delta), LARGEST)) & (self.delta < 1)
        # What is refuted stays so, whatever it is bet against later.
        at = np.flatnonzero(hopeful & (self._best_of_grid < RUINED))
        if not len(at):
            return
        slope: Any = np.exp(losses[at])
        bet = choose(*before, slope, self.delta)
        self._of_grid[:, at] += pay(fresh.above, fresh.trials, bet, slope, self.delta)
        wealth = np.logaddexp(*self._of_grid[:, at]) - math.log(2)
        self._best_of_grid[at] = np.maximum(self._best_of_grid[at], wealth)


RUINED = 100.0
"""Logarithm of a wealth against which no audit holds a loss any longer."""


def largest_loss(seen: Seen, delta: float) -> float:
    """The largest loss that any event suggests; −inf if none suggests one."""
    q, p = ((events(*seen) + 0.5) / (seen.trials + 1)).T
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(p > delta, np.log((p - delta) / q), -np.inf)))
