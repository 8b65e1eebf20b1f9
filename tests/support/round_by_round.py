"""Wealth against a grid of ε, round by round: the reference for bounds made of whole histories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpframe import Floats, Ints
from dpframe.stats.betting import choose, pay


class Evidence(NamedTuple):
    """The earnings of bets against each of several ε."""

    above: Ints  # draws at or above each cut in the rounds so far, shape [2, cuts]: on D, on D′
    trials: int  # draws so far, on each side
    log_wealth: Floats  # for each way to guess, against each ε, shape [2, ε]
    best: Floats  # largest logarithm of their mean so far, shape [ε]


def nothing(cuts: int, epsilons: int) -> Evidence:
    """Before the first round: a wealth of 1 against every ε."""
    zeros = np.zeros((2, epsilons))
    return Evidence(np.zeros((2, cuts), np.int64), 0, zeros, np.zeros(epsilons))


def played(
    evidence: Evidence, above: Ints, trials: int, epsilons: Floats, delta: float
) -> Evidence:
    """Bet on one round of `trials` draws on each side, and keep them for what is chosen next."""
    log_wealth, best = evidence.log_wealth, evidence.best
    if evidence.trials:
        slope = np.exp(np.asarray(epsilons, np.float64))
        bet = choose(evidence.above, evidence.trials, slope, delta)
        log_wealth = log_wealth + pay(above, trials, bet, slope, delta)
        best = np.maximum(best, np.logaddexp(*log_wealth) - np.log(2))
    return Evidence(evidence.above + above, evidence.trials + trials, log_wealth, best)


def refuted(evidence: Evidence, error: float) -> npt.NDArray[np.bool_]:
    """Return the ε that are refuted at an error level, shape [ε]."""
    return np.asarray(evidence.best >= -np.log(error))


def lower_bound(evidence: Evidence, epsilons: Floats, error: float) -> float:
    """The last ε of an ascending grid below which every one is refuted; 0 if the first is not."""
    kept = np.flatnonzero(~refuted(evidence, error))
    first = int(kept[0]) if len(kept) else len(epsilons)
    return float(max(0.0, epsilons[first - 1])) if first else 0.0
