"""Auditors of a single training run: many canaries, each in the data with probability ½.

A guesser says of r of m canaries whether they are in, abstains from the others, and is right about
v. How many guesses to make must be fixed beforehand or paid for.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from dpframe.stats.roots import crossing


def one_run_p_value(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """p-value of the claim of (ε, δ)-DP [Steinke2023, theorem 5.2].

    p = β(v) + 2mδ max_{1 ≤ i ≤ v} (β(v − i) − β(v))/i, at most 1, where β(w) = Pr[Bin(r, q) ≥ w]
    and q = e^ε/(1 + e^ε).

    Args:
        canaries: m, each included independently with probability ½.
        guesses: r ≤ m.
        correct: v ≤ r.
        epsilon: at least 0.
        delta: in [0, 1).
    """
    wins = np.arange(correct, -1, -1, dtype=np.float64)
    tail = np.ones(len(wins))
    some = wins > 0
    success = special.expit(epsilon)
    tail[some] = special.betainc(wins[some], guesses - wins[some] + 1, success)
    gains = (tail[1:] - tail[0]) / np.arange(1, correct + 1)
    return float(min(1.0, tail[0] + 2 * canaries * delta * gains.max(initial=0.0)))


def one_run_epsilon(canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    """Lower limit of ε at δ: up to there every p-value is at most the error [Steinke2023].

    Args:
        canaries: m.
        guesses: r ≤ m.
        correct: v ≤ r.
        delta: in [0, 1).
        error: in (0, 1).
    """

    def excess(epsilon: float) -> float:
        return one_run_p_value(canaries, guesses, correct, epsilon, delta) - error

    return crossing(excess)
