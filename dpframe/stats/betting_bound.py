"""A bound from bets: which ε of a fixed grid the wealth refutes.

Bets against ε are bets against every smaller ε as well, whose claims allow less. So a grid can be
coarse and fine at once: each point of the fine one is bet against by its own bets and, with a
hundredth of the wealth, by those against the end of its part of the coarse one. Where these alone
earn enough the whole part is refuted, and the fine points in it need not be looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpframe.stats.betting import Bet, earned, events

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

COARSE = np.concatenate([[0.0], 0.01 * 1.08 ** np.arange(108)])
"""ε from 0 to 38: ends of the parts."""

FINE = 64
"""Points of each part: a bound is rounded down by about a thousandth of itself."""

SHARED = 0.01
"""Share of the wealth against a fine point that bets against the end of its part."""

MOST_AT_ONCE = 2_000_000
"""Numbers of events, rounds and ε that are looked at together."""


class History(NamedTuple):
    """What came before each round, and what came in it."""

    before: Ints
    """Draws at or above each cut before it, shape [rounds, 2, cuts]."""
    drawn: Ints
    """Draws before it on each side, shape [rounds]."""
    above: Ints
    """Those of the round, shape [rounds, 2, cuts]."""
    trials: Ints
    """Draws of the round, shape [rounds]."""


def history(rounds: list[tuple[Ints, int]]) -> History:
    """Of rounds in order; nothing is bet on the first.

    Args:
        rounds: draws at or above each cut, shape [2, cuts], and how many draws on each side.
    """
    above = np.stack([one for one, _ in rounds]).astype(np.int64)
    trials = np.array([size for _, size in rounds], np.int64)
    before = np.cumsum(above, axis=0)[:-1]
    return History(before, np.cumsum(trials)[:-1], above[1:], trials[1:])


def best_wealth(past: History, epsilons: Floats, delta: float) -> tuple[Floats, Floats]:
    """Wealth against each ε over time, as `betting.played` earns it.

    Returns:
        Logarithms, shape [rounds, ε], and the same of the largest so far.
    """
    path = _path(past, epsilons, delta)
    return path, np.maximum.accumulate(path, axis=0)


def bound(past: History, delta: float, error: float) -> float:
    """The loss is at least this, with probability 1 − error at all times together."""
    if not len(past.trials):
        return 0.0
    wanted = -np.log(error)
    # Against a loss that no round was told of nothing is bet.
    ends = COARSE[: np.searchsorted(COARSE, _largest_loss(past, delta)) + 2]
    coarse = _path(past, ends, delta)
    surely = coarse.max(axis=0) + np.log(SHARED) >= wanted
    if coarse[:, 0].max() < wanted:
        return 0.0
    found = 0.0
    for part in range(1, len(ends)):
        if surely[part]:
            found = ends[part]
            continue
        points = np.linspace(ends[part - 1], ends[part], FINE + 1)[1:]
        own = _path(past, points, delta)
        mixed = np.logaddexp(own + np.log1p(-SHARED), coarse[:, part, None] + np.log(SHARED))
        kept = np.flatnonzero(mixed.max(axis=0) < wanted)
        if len(kept):
            return float(points[kept[0] - 1]) if kept[0] else float(found)
        found = ends[part]
    return float(found)


def _largest_loss(past: History, delta: float) -> float:
    """The largest that the draws before any round suggest of any event."""
    guess = _guesses(past)
    excess = np.maximum(guess[..., 1] - delta, 1e-300)
    return float(np.log(excess / guess[..., 0]).max())


def _path(past: History, epsilons: Floats, delta: float) -> Floats:
    slope = np.exp(epsilons)
    cuts = past.above.shape[2]
    size = max(1, MOST_AT_ONCE // (4 * cuts * len(slope)))
    blocks = [
        _factors(History(*(part[at : at + size] for part in past)), slope, delta)
        for at in range(0, len(past.trials), size)
    ]
    log_wealth = np.cumsum(np.concatenate(blocks, axis=1), axis=1)
    return np.asarray(np.logaddexp(*log_wealth) - np.log(2), np.float64)


def suspected(past: History, slope: Floats, delta: Floats | float) -> tuple[Floats, Floats]:
    """What the draws before each round say of every event, as `betting.choose` sees it.

    Args:
        past: the rounds.
        slope: e^ε, shape [ε].
        delta: δ of all of them, or of each.

    Returns:
        The guesses, shape [rounds, events, 2], and by how many standard errors each lies outside of
        each claim, shape [rounds, events, ε].
    """
    guess = _guesses(past)
    q, p = guess[..., 0, None], guess[..., 1, None]
    noise = slope**2 * (q * (1 - q)) + p * (1 - p)
    return guess, np.asarray((p - slope * q - delta) / np.sqrt(noise), np.float64)


def _guesses(past: History) -> Floats:
    return np.asarray((events(past.before, past.drawn) + 0.5) / (past.drawn[:, None, None] + 1))


def _factors(past: History, slope: Floats, delta: float) -> Floats:
    """Logarithms of what rounds pay, shape [2, rounds, ε]."""
    guess, z = suspected(past, slope, delta)
    event = np.argmax(z, axis=1)
    rounds = np.arange(len(event))[:, None]
    hits = events(past.above, past.trials)[rounds, event]
    bet = Bet(event, guess[rounds, event, 0], guess[rounds, event, 1], np.max(z, axis=1))
    return earned(hits, past.trials[:, None], bet, slope, delta)
