"""The published tests of the number of right guesses in one run, which `one-run` replaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from dpframe.plugins import Claim, Guessed, Guesses, Query
from dpframe.stats import one_run
from dpframe.stats.gaussian import gaussian_epsilon

Prices = tuple[tuple[float, float], ...]

DIGITS = 2.0**-52
"""Spacing of float64 near 1. It is added to 1 − x: curves are lower there, so they refute less."""


class OneRunSteinke(Guesses, name="one-run-steinke"):
    """The number of right guesses, dominated by a binomial number and δ leaks.

    Among r guesses about Bin(r, q) are right at most, q = e^ε/(1 + e^ε), and slightly more for
    δ > 0 [Steinke2023, theorem 5.2]. m, m/2, m/4, … guesses share the error.
    """

    reference: ClassVar[str] = "[Steinke2023, theorem 5.2] (arXiv:2305.08846)"
    theorem: ClassVar[str] = "one-run-steinke"

    def lower(self, one: Guessed, delta: float, error: float, least: float) -> float:
        if one_run.one_run_p_value(*one.result, least, delta) > error:
            return least
        return one_run.one_run_epsilon(*one.result, delta, error)

    def level(
        self,
        one: Guessed,
        claim: Claim,
        most: float,
        query: Query,
        slack: float,
        prices: dict[Guessed, Prices],
    ) -> float:
        deltas = dict.fromkeys((query.delta, *claim.telling_deltas))
        return min(_level(one, claim, delta, slack) for delta in deltas)


def _level(one: Guessed, claim: Claim, delta: float, slack: float) -> float:
    epsilon = claim.epsilon_at(delta)
    raised = delta + slack * (1 + math.exp(min(epsilon, 700.0)))
    if epsilon == math.inf or raised >= 1:
        return 1.0
    return one_run.one_run_p_value(*one.result, epsilon, raised)


class OneRunFDP(Guesses, name="one-run-fdp"):
    """The number of right guesses against a trade-off curve, by a recursion [Mahloujifar2024].

    The recursion over the number of right guesses applies the claimed curve to the exchange of one
    canary. The bound on ε comes from the curves of (ε, δ)-DP and holds for every mechanism. A note
    gives μ and its ε(δ), which hold only for Gaussian mechanisms. m, m/2, m/4, … guesses share the
    error.
    """

    reference: ClassVar[str] = "[Mahloujifar2024] (arXiv:2410.22235)"
    theorem: ClassVar[str] = "one-run-fdp"

    def lower(self, one: Guessed, delta: float, error: float, least: float) -> float:
        curve = one_run.approximate_blow_up(least, delta)
        if not one_run.one_run_rejects(*one.result, curve, error):
            return least
        return one_run.one_run_fdp_epsilon(*one.result, delta, error)

    def level(
        self,
        one: Guessed,
        claim: Claim,
        most: float,
        query: Query,
        slack: float,
        prices: dict[Guessed, Prices],
    ) -> float:
        blow_up = _blow_up(claim, slack)
        if not one_run.one_run_rejects(*one.result, blow_up, most):
            return most
        return one_run.one_run_fdp_p_value(*one.result, blow_up)

    def remarks(self, best: Guessed, error: float, query: Query) -> tuple[str, ...]:
        mu = one_run.one_run_gaussian_mu(*best.result, error * best.share)
        text = f"assuming Gaussian noise, μ is at least {mu:.4g}"
        if query.delta:
            text += f", ε at least {float(gaussian_epsilon(query.delta, mu)):.4g}"
        return (text,)


def _blow_up(claim: Claim, slack: float) -> Callable[[float], float]:
    """Return the map x ↦ f(1 − x) of a claimed curve, both error rates raised by the slack."""
    return lambda x: max(
        0.0, float(claim.tradeoff(np.array([min(1.0, 1 - x + DIGITS + slack)]))[0]) - slack
    )
