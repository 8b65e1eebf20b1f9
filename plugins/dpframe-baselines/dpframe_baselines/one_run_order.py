"""The law of the number of wrong guesses about the clearest canaries [Xiang2025, theorem 2].

Scores of m canaries are independent given the coins, and a guesser releases the r clearest ones. If
S is the quantile, counted from the clearest, of the (r + 1)-th clearest score, it has the law
Beta(r + 1, m − r); given S the r guesses are independent, each wrong with the mean probability of
scores clearer than S. With dependent scores the law does not hold, and bounds from it may exceed
the true loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from dpframe.plugins import Floats
from dpframe.stats.roots import bisection_each, crossing

NODES = 1001  # of the law of the quantile; doubling them changes p-values by less than 1e-4 of them
NEGLIGIBLE = 1e-13  # probability of quantiles outside the nodes, on either side
CLEAREST = 1e4  # a log-likelihood ratio that is never reached
LEAST_MU, MOST_MU = 1e-6, 64.0  # bounds outside are not searched for


class Guesses(NamedTuple):
    """The probabilities that a canary is clearer than a threshold, and the guess about it right."""

    right: Floats
    wrong: Floats


Profile = Callable[[Floats], Guesses]
"""Maps thresholds of the absolute log-likelihood ratio, shape [k], to guesses beyond them."""


def gaussian_profile(mu: float) -> Profile:
    """Return the profile of N(0, 1) against N(μ, 1), μ > 0."""

    def beyond(threshold: Floats) -> Guesses:
        distance = threshold / mu
        return Guesses(special.ndtr(mu / 2 - distance), special.ndtr(-mu / 2 - distance))

    return beyond


def subsampled_profile(mu: float, rate: float) -> Profile:
    """Return the profile of N(0, 1) against (1 − q) N(0, 1) + q N(μ, 1), μ > 0, 0 < q < 1."""

    def score(ratio: Floats) -> Floats:
        """Return the place where the likelihood ratio has this value; −inf if it is larger."""
        excess = np.maximum(ratio - (1 - rate), 0.0) / rate
        with np.errstate(divide="ignore"):
            return (np.log(excess) + mu * mu / 2) / mu

    def beyond(threshold: Floats) -> Guesses:
        with np.errstate(over="ignore"):
            high, low = score(np.exp(threshold)), score(np.exp(-threshold))
        above = special.ndtr(-high), special.ndtr(mu - high)
        below = special.ndtr(low), special.ndtr(low - mu)
        mixed_above, mixed_below = (
            (1 - rate) * plain + rate * shifted for plain, shifted in (above, below)
        )
        return Guesses((mixed_above + below[0]) / 2, (above[0] + mixed_below) / 2)

    return beyond


def wrong_guesses_p_value(canaries: int, guesses: int, wrong: int, profile: Profile) -> float:
    """Return the probability of at most this many wrong guesses [Xiang2025, theorem 2].

    By the trapezoidal rule, after the substitution of the quantile by the threshold.

    Args:
        canaries: m.
        guesses: r ≤ m, about the clearest scores.
        wrong: T ≤ r.
        profile: of a mechanism; one that is dominated by it has at least as many wrong guesses.
    """
    if guesses == canaries:
        return float(special.bdtr(wrong, guesses, profile(np.zeros(1)).wrong[0]))
    law = guesses + 1, canaries - guesses
    ends = np.array([special.betaincinv(*law, NEGLIGIBLE), special.betainccinv(*law, NEGLIGIBLE)])
    low, high = np.zeros(2), np.full(2, CLEAREST)
    _, high = bisection_each(lambda t: np.add(*profile(t)) < ends, low, high, steps=80)
    thresholds = np.linspace(high[1], high[0], NODES)
    right, miss = profile(thresholds)
    shares = right + miss
    reached = special.betainc(*law, np.minimum(shares, 1.0))  # falls with the threshold
    at_most = special.bdtr(wrong, guesses, miss / shares)
    return float(min(1.0, -np.trapezoid(at_most, reached)))


def wrong_guesses_mu(
    canaries: int,
    guesses: int,
    wrong: int,
    error: float,
    family: Callable[[float], Profile] = gaussian_profile,
) -> float:
    """Return the largest μ of a family that this many wrong guesses refute; 0 if none."""

    def excess(mu: float) -> float:
        profile = family(max(mu, LEAST_MU))
        return wrong_guesses_p_value(canaries, guesses, wrong, profile) - error

    mu = crossing(excess, most=MOST_MU, tolerance=1e-8)
    return mu if mu > LEAST_MU else 0.0
