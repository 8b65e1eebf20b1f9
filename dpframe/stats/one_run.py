"""Auditors of a single training run: many canaries, each in the data with probability ½.

A guesser says of r of m canaries whether they are in, abstains from the others, and is right about
v. How many guesses to make must be fixed beforehand or paid for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpframe.stats.roots import crossing

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


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


def one_run_rejects(
    canaries: int,
    guesses: int,
    correct: int,
    blow_up: Callable[[float], float],
    error: float,
    choices: int = 2,
) -> bool:
    """Whether a claimed trade-off curve is rejected [Mahloujifar2024].

    Suppose that so many guesses are right with probability at least the error. Their recursion
    then follows, from v correct guesses down to none, how much of the probability that a guess is
    right (r) and that it is wrong (h) this would take; more than there is, and the curve is
    refuted.

    Args:
        canaries: m.
        guesses: c′ ≤ m.
        correct: c ≤ c′.
        blow_up: the inverse blow-up function of the curve, increasing on [0, 1]:
            x ↦ Φ(Φ⁻¹(x) − μ) for μ-GDP.
        error: in (0, 1).
        choices: k, from which the canary was drawn: 2 for in or out.
    """
    right = error * correct / canaries
    wrong = error * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        larger = max(wrong, (choices - 1) * blow_up(right))
        if larger == wrong:  # nothing changes any more
            break
        right = min(1.0, right + i / (guesses - i) * (larger - wrong))
        wrong = larger
    return right + wrong > guesses / canaries


def one_run_gaussian_mu(canaries: int, guesses: int, correct: int, error: float) -> float:
    """Lower limit of μ, for mechanisms that are Gaussian: the smallest not rejected.

    Args:
        canaries: m.
        guesses: c′ ≤ m.
        correct: c ≤ c′.
        error: in (0, 1).
    """

    def excess(mu: float) -> float:
        def blow_up(x: float) -> float:
            return float(special.ndtr(special.ndtri(x) - mu))

        return -1.0 if one_run_rejects(canaries, guesses, correct, blow_up, error) else 1.0

    return crossing(excess)
