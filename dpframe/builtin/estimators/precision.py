"""The estimate of the DPText paper, with a certified bound beside it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpframe import DecisionCounts, Estimate, Estimator, Query, Statistic, estimate_from_boxes
from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper

if TYPE_CHECKING:
    from dpframe import Floats, Ints, Tree

LIMITS = 4
"""One-sided limits that share the error: lower and upper of Pr[1|D] and of Pr[1|D′]."""


class Precision(Estimator, name="precision"):
    """Compares the precision of the attack's two guesses [Habernal2022, section 4].

    With r and r′ the rates at which the attack decides D′ on D and on D′, the point value is the
    largest |ln(Pr[D | guess] / Pr[D′ | guess])|, that is of |ln(r/r′)| and |ln((1−r)/(1−r′))|; it
    is inf when a guess occurs on one side only. The bound comes from four one-sided
    Clopper-Pearson limits, each at a quarter of the error, so it holds for both guesses and both
    directions at once. With δ > 0 the ratios are (r − δ)/r′ and their like.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    reference: ClassVar[str] = (
        "[Habernal2022, section 4] (arXiv:2202.12138) for the point value; exact binomial limits "
        "[Clopper1934] (doi:10.1093/biomet/26.4.404)"
    )

    def statistic(self) -> Statistic:
        return DecisionCounts()

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        zeros, ones = counts[:, 0], counts[:, 1]
        trials = counts.sum(axis=1)
        at_level = (1 - query.confidence) / LIMITS

        def boxes(error: float) -> Floats:
            # Deciding as the attack says, and the other way round.
            return clopper_pearson_upper(errors, trials, error / LIMITS)

        errors = np.array([[ones[0], zeros[1]], [zeros[0], ones[1]]])
        guesses = np.stack([zeros, ones])
        low = clopper_pearson_lower(guesses, trials, at_level)
        high = clopper_pearson_upper(guesses, trials, at_level)
        rates = guesses / np.maximum(trials, 1)
        return estimate_from_boxes(
            boxes,
            query,
            epsilon=largest_loss(rates, rates, query.delta),
            epsilon_upper=largest_loss(high, low, query.delta),
            shares=(0.5, 0.5),
            epsilon_upper_of="every event",
        )

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        return np.array([[trials[0], 0], [0, trials[1]]], np.int64)


def largest_loss(numerators: Floats, denominators: Floats, delta: float) -> float:
    """Largest ln((Pr[guess|one] − δ)/Pr[guess|other]) over both guesses and both directions.

    Args:
        numerators: Pr[guess|dataset], shape [guess, dataset].
        denominators: the same, for use below the bar.
        delta: in [0, 1).

    Returns:
        At least 0; inf where a guess that occurs on one side never occurs on the other.
    """
    losses = [0.0]
    for guess in (0, 1):
        for dataset in (0, 1):
            above = numerators[guess, dataset] - delta
            below = denominators[guess, 1 - dataset]
            if above > 0:
                losses.append(math.log(above / below) if below > 0 else math.inf)
    return max(losses)
