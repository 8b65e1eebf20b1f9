"""Canaries of one run against (ε, δ)-DP."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from dpframe import Contrast, Query
from dpframe.builtin.estimators.one_run._best import Guessed, Guesses
from dpframe.stats.one_run import one_run_epsilon, one_run_p_value

if TYPE_CHECKING:
    from dpframe import Claim


class OneRun(Guesses, name="one-run"):
    """How many guesses about the canaries of one run are right, against what ε allows.

    Each of m canaries was in the data with probability ½. Of those whose scores are highest it is
    guessed that they were in, of the lowest that they were not. If whether one of them is in
    changes the output by no more than (ε, δ), the number of right guesses is about Bin(r, q) at
    most, q = e^ε/(1 + e^ε), and a little above for δ [Steinke2023, theorem 5.2]. How many guesses
    to make is chosen among several, which share the error.

    The bound holds for the whole algorithm that included the canaries, trained and released. It is
    about one canary's presence, so it goes with claims about adding or removing a record. It
    assumes fair, independent coins; memberships that coins would make with probability below 1e-6
    are refused. m canaries limit what can be shown at all, however much there is.
    """

    reference: ClassVar[str] = "[Steinke2023, theorem 5.2] (arXiv:2305.08846)"

    def lower(self, one: Guessed, delta: float, error: float, least: float) -> float:
        counts = one.canaries, one.guesses, one.correct
        if one_run_p_value(*counts, least, delta) > error:
            return least
        return one_run_epsilon(*counts, delta, error)

    def level(self, one: Guessed, claim: Claim, most: float, query: Query, slack: float) -> float:
        return min(_level(one, claim, delta, slack) for delta in _deltas(claim, query))

    def contrast(
        self, each: list[Guessed], telling: Guessed, claim: Claim, query: Query
    ) -> Contrast | None:
        delta = min(_deltas(claim, query), key=lambda delta: _level(telling, claim, delta, 0.0))
        bound, _ = self.largest(each, delta, 1 - query.confidence)
        return Contrast(delta, bound, claim.epsilon_at(delta))


def _deltas(claim: Claim, query: Query) -> tuple[float, ...]:
    """Points of the claimed curve.

    The theorem holds at each for every number of right guesses, so the smallest of their p-values
    costs nothing more.
    """
    return tuple(dict.fromkeys((query.delta, *claim.telling_deltas)))


def _level(one: Guessed, claim: Claim, delta: float, slack: float) -> float:
    epsilon = claim.epsilon_at(delta)
    raised = delta + slack * (1 + math.exp(min(epsilon, 700.0)))
    if epsilon == math.inf or raised >= 1:
        return 1.0
    return one_run_p_value(one.canaries, one.guesses, one.correct, epsilon, raised)
