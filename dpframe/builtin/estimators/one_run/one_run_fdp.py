"""Canaries of one run against a whole trade-off curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpframe import Query
from dpframe.builtin.estimators.one_run._best import Guessed, Guesses
from dpframe.stats.gaussian import gaussian_epsilon
from dpframe.stats.one_run_fdp import (
    approximate_blow_up,
    one_run_fdp_epsilon,
    one_run_fdp_p_value,
    one_run_gaussian_mu,
    one_run_rejects,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe import Claim

DIGITS = 2.0**-52
"""Next to 1 a float64 has no more: 1 − x is rounded up, where a curve is lower and refutes less."""


class OneRunFDP(Guesses, name="one-run-fdp"):
    """How many guesses about the canaries of one run are right, against a whole trade-off curve.

    As `one-run`, but the claim is tested as the curve that it is [Mahloujifar2024]: a
    recursion over the number of right guesses follows what a curve allows when one canary is
    exchanged. The bound on ε is that of the curves of (ε, δ)-DP, and holds for every mechanism. μ
    and its ε(δ), in a note, hold only for mechanisms that are Gaussian, as trained models need not
    be; the claim of μ-GDP is tested without that.
    """

    reference: ClassVar[str] = "[Mahloujifar2024] (arXiv:2410.22235)"

    def lower(self, one: Guessed, delta: float, error: float, least: float) -> float:
        counts = one.canaries, one.guesses, one.correct

        def blow_up(x: float) -> float:
            return approximate_blow_up(x, least, delta)

        if not one_run_rejects(*counts, blow_up, error):
            return least
        return one_run_fdp_epsilon(*counts, delta, error)

    def level(self, one: Guessed, claim: Claim, most: float, query: Query, slack: float) -> float:
        counts, blow_up = (one.canaries, one.guesses, one.correct), _blow_up(claim, slack)
        if not one_run_rejects(*counts, blow_up, most):
            return most
        return one_run_fdp_p_value(*counts, blow_up)

    def remarks(self, best: Guessed, error: float, query: Query) -> tuple[str, ...]:
        mu = one_run_gaussian_mu(best.canaries, best.guesses, best.correct, error * best.share)
        text = f"assuming Gaussian noise, μ is at least {mu:.4g}"
        if query.delta:
            text += f", ε at least {float(gaussian_epsilon(query.delta, mu)):.4g}"
        return (text,)


def _blow_up(claim: Claim, slack: float) -> Callable[[float], float]:
    """The map x ↦ f(1 − x) of a claimed curve, both error rates raised by the slack."""

    def blow_up(x: float) -> float:
        place = np.array([min(1.0, 1 - x + DIGITS + slack)])
        return max(0.0, float(claim.tradeoff(place)[0]) - slack)

    return blow_up
