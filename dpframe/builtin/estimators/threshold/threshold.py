"""The threshold attack: one way of deciding, and a limit of the loss that it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpframe import Estimate, Query, estimate_from_boxes
from dpframe.builtin.estimators.events.certificate import profile
from dpframe.builtin.estimators.threshold._deciding import (
    decisions,
    price,
)
from dpframe.builtin.estimators.threshold._limits import lower_rates, upper_rates
from dpframe.builtin.estimators.threshold._one_threshold import LimitedThreshold
from dpframe.stats.threshold import threshold_epsilon

if TYPE_CHECKING:
    from dpframe import Claim, Floats, Ints, Tree


class ThresholdLoss(LimitedThreshold, name="threshold"):
    """The loss that one threshold shows (equation 6.2), with limits of both error rates.

    The event {score ≥ threshold} says D′, and its complement D; with the direction "down" the
    other way round. Decisions are taken as they are. The point value is
    max{ln((1 − δ − FNR)/FPR), ln((1 − δ − FPR)/FNR)} [Koskela2024, section 6]. The bound puts upper
    limits in the place of the rates, each at half of the error [Jagielski2020], so it holds for
    both ratios at once; `epsilon_upper` has lower limits there, and limits what this threshold
    shows.

    A threshold that is not given is chosen by the pilot, which knows δ, the confidence and the
    number of trials: where the bound is expected to be largest. Nothing is paid for it. With the
    direction "either" the pilot chooses that too; where the threshold is given there is no pilot,
    so both directions are paid for.

    With Clopper-Pearson limits the bound is exact. Jeffreys limits are approximate: they give an
    interval, and no bound, p-value or verdict.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    reference: ClassVar[str] = (
        "[Kairouz2015, theorem 2.1] (arXiv:1311.0776) with exact binomial limits [Clopper1934] "
        "(doi:10.1093/biomet/26.4.404) or Jeffreys limits [Brown2001] "
        "(doi:10.1214/ss/1009213286)"
    )

    def certifies_against(self, claim: Claim | None) -> bool:
        return self.limits == "clopper-pearson"

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        delta, error = query.delta, 1 - query.confidence

        def loss(fpr: Floats, fnr: Floats) -> Floats:
            return threshold_epsilon(fpr, fnr, delta)

        ways = decisions(layout, counts, self.direction, loss, query)
        rates = np.stack([way.rates for way in ways])
        epsilon = float(loss(*rates.T).max())
        turned = np.concatenate([rates, rates[:, ::-1]])  # the complement says D
        shown = profile(np.stack([turned[:, 0], 1 - turned[:, 1]], axis=1))
        upper = float(loss(*lower_rates(ways, error, self.limits).T).max())
        if self.limits == "jeffreys":
            lower = float(loss(*upper_rates(ways, error, self.limits).T).max())
            return Estimate(
                epsilon,
                interval=(lower, upper),
                profile=shown,
                notes=(price(ways), "Jeffreys limits are approximate: an interval, no bound"),
            )
        return estimate_from_boxes(
            lambda level: upper_rates(ways, level, self.limits),
            query,
            epsilon=epsilon,
            epsilon_upper=upper,
            profile=shown,
            notes=(price(ways),),
            shares=[1 / len(ways) for _ in ways],
        )
