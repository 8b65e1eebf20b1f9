"""One training run against a whole trade-off curve [Mahloujifar2024].

A claimed curve f enters by its inverse blow-up function x ↦ f(1 − x): at least so probable is, with
the record exchanged, an event of probability x.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scipy import special

from dpframe.stats.roots import crossing

if TYPE_CHECKING:
    from collections.abc import Callable

SMALLEST_ERROR = 1e-12
"""No p-value is below; so near to 1 a curve that is given as 1 − x has lost its digits."""


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
        guesses: c′ ≤ m, the most that are made.
        correct: c ≤ c′.
        blow_up: the inverse blow-up function of the curve, convex and increasing on [0, 1]:
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
        if right + wrong > guesses / canaries:  # neither ever falls
            return True
    return right + wrong > guesses / canaries


def one_run_fdp_p_value(
    canaries: int, guesses: int, correct: int, blow_up: Callable[[float], float]
) -> float:
    """Smallest error at which a claimed curve is rejected, at least `SMALLEST_ERROR`.

    Args:
        canaries: m.
        guesses: c′ ≤ m.
        correct: c ≤ c′.
        blow_up: see `one_run_rejects`.
    """
    origin = math.log(SMALLEST_ERROR)

    def rejected(log_ratio: float) -> float:
        error = min(1.0, math.exp(origin + log_ratio))
        return 1.0 if one_run_rejects(canaries, guesses, correct, blow_up, error) else -1.0

    if rejected(-origin) < 0:
        return 1.0
    width = 1e-6  # of the logarithm; the crossing is from below, a p-value goes up
    return min(1.0, math.exp(origin + crossing(rejected, most=-origin, tolerance=width) + 3e-5))


def one_run_fdp_epsilon(
    canaries: int, guesses: int, correct: int, delta: float, error: float
) -> float:
    """Lower limit of ε at δ: the curves of (ε, δ)-DP are rejected up to there.

    Holds for any mechanism; `one_run_gaussian_mu` does not.

    Args:
        canaries: m.
        guesses: c′ ≤ m.
        correct: c ≤ c′.
        delta: in [0, 1).
        error: in (0, 1).
    """
    return _rejected_up_to(
        canaries, guesses, correct, error, lambda e: lambda x: approximate_blow_up(x, e, delta)
    )


def one_run_gaussian_mu(canaries: int, guesses: int, correct: int, error: float) -> float:
    """Lower limit of μ, for mechanisms that are Gaussian: the smallest not rejected.

    Args:
        canaries: m.
        guesses: c′ ≤ m.
        correct: c ≤ c′.
        error: in (0, 1).
    """
    return _rejected_up_to(
        canaries, guesses, correct, error, lambda mu: lambda x: gaussian_blow_up(x, mu)
    )


def approximate_blow_up(x: float, epsilon: float, delta: float) -> float:
    """The inverse blow-up function of (ε, δ)-DP: max{0, 1 − δ − e^ε (1 − x), e^−ε (x − δ)}."""
    steep = 1 - delta - math.exp(min(epsilon, 700.0)) * (1 - x)
    return max(0.0, steep, math.exp(-epsilon) * (x - delta))


def gaussian_blow_up(x: float, mu: float) -> float:
    """The inverse blow-up function of μ-GDP: Φ(Φ⁻¹(x) − μ)."""
    return float(special.ndtr(special.ndtri(x) - mu))


def _rejected_up_to(
    canaries: int,
    guesses: int,
    correct: int,
    error: float,
    curves: Callable[[float], Callable[[float], float]],
) -> float:
    """The parameter up to which the curves of a family are rejected."""

    def excess(parameter: float) -> float:
        blow_up = curves(parameter)
        return -1.0 if one_run_rejects(canaries, guesses, correct, blow_up, error) else 1.0

    return crossing(excess)
