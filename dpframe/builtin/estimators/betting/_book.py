"""Bets against what is claimed: a wealth, and how it grew."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpframe.stats.betting import Bet, earned, events
from dpframe.stats.betting_bound import MOST_AT_ONCE, History, suspected

if TYPE_CHECKING:
    from dpframe import Claim, Floats

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
    def p_values(self) -> tuple[float, float]:
        """Valid at every number of draws at once."""
        exact, widened = (max(math.exp(-w) if w < MOST else 0.0, TINY) for w in self.best.tolist())
        return min(exact, 1.0), min(max(exact, widened), 1.0)

    def played(self, lines: Lines, past: History) -> tuple[Book, Floats]:
        """Bets on rounds: in each against the line that the draws before it contradict most.

        Args:
            lines: of the claim; against none of them nothing is bet.
            past: the rounds, each with what came before it.

        Returns:
            The new book, and the logarithm of the wealth after each round, shape [rounds, 2].
        """
        groups = _some(lines.group)
        factors = np.zeros((2, len(past.trials), 2))
        size = max(1, MOST_AT_ONCE // (4 * past.above.shape[2] * max(1, len(lines.slope))))
        for at in range(0, len(past.trials) if groups else 0, size):
            block = History(*(part[at : at + size] for part in past))
            factors[:, at : at + size, : len(groups)] = _factors(lines, groups, block)
        grown = np.cumsum(np.concatenate([self.log_wealth[:, None], factors], axis=1), axis=1)
        path = np.logaddexp(*grown[:, 1:]) - math.log(2)
        return Book(grown[:, -1], np.maximum(self.best, path.max(axis=0, initial=0.0))), path


def _factors(lines: Lines, groups: list[slice], past: History) -> Floats:
    """Logarithms of what rounds pay, shape [2, rounds, groups]."""
    guess, z = suspected(past, lines.slope, lines.delta)
    rounds, places = np.arange(len(z))[:, None], []
    for group in groups:
        among = z[:, :, group]
        event, line = np.divmod(among.reshape(len(z), -1).argmax(axis=1), among.shape[2])
        places.append((event, line + group.start))
    event, line = (np.stack(part, axis=-1) for part in zip(*places, strict=True))
    drawn = events(past.above, past.trials)
    q, p = guess[rounds, event, 0], guess[rounds, event, 1]
    bet = Bet(event, q, p, z[rounds, event, line])
    of = (lines.slope[line], lines.delta[line])
    return earned(drawn[rounds, event], past.trials[:, None], bet, *of)


def _some(groups: tuple[slice, slice]) -> list[slice]:
    """Those that are not empty; the widened ones are empty first."""
    return [group for group in groups if group.stop > group.start]
