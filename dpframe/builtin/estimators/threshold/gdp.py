"""The parameter μ of a Gaussian mechanism, from one threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpframe import Estimate, GaussianDP, Query, estimate_from_boxes
from dpframe.builtin.estimators.threshold._deciding import (
    decisions,
    price,
)
from dpframe.builtin.estimators.threshold._limits import lower_rates, upper_rates
from dpframe.builtin.estimators.threshold._one_threshold import LimitedThreshold
from dpframe.stats.gaussian import gaussian_epsilon
from dpframe.stats.gdp import gaussian_mu

if TYPE_CHECKING:
    from dpframe import Claim, Ints, Tree


class GDP(LimitedThreshold, name="gdp"):
    """The loss of a Gaussian mechanism with the error rates of one threshold; assumes Gaussian.

    With upper limits of both rates, μ ≥ Φ⁻¹(1 − FPR) − Φ⁻¹(FNR) [Koskela2024, equation 2.4]
    [Nasr2023]. `epsilon` is ε(δ) of the point value of μ and `interval` that of its limits, each at
    the stated confidence. They are the loss of a mechanism that adds normal noise of one variance,
    at every δ, from one threshold. Of any other mechanism they can be several times the true loss:
    4.5 at δ = 1e-5 for Laplace noise with ε = 1. So they certify nothing.

    Against the claim of μ-GDP alone the same limits are a test that assumes nothing about the
    noise: error rates below the claimed curve refute it. There the estimator certifies, with a
    p-value, a verdict and, as `epsilon_lower`, the bound that holds for any mechanism with these
    error rates: that of the estimator threshold. Jeffreys limits are approximate and never certify.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = (
        "independent, identically distributed outputs; for the point value and the interval also "
        "Gaussian noise"
    )
    reference: ClassVar[str] = (
        "[Koskela2024, equation 2.4] (arXiv:2406.04827) with exact binomial limits "
        "[Clopper1934] (doi:10.1093/biomet/26.4.404) or Jeffreys limits [Brown2001] "
        "(doi:10.1214/ss/1009213286)"
    )

    def certifies_against(self, claim: Claim | None) -> bool:
        return self.limits == "clopper-pearson" and isinstance(claim, GaussianDP)

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        error = 1 - query.confidence
        ways = decisions(layout, counts, self.direction, gaussian_mu, query)
        rates = (
            upper_rates(ways, error, self.limits),
            np.stack([way.rates for way in ways]),
            lower_rates(ways, error, self.limits),
        )
        mu = [max(0.0, float(gaussian_mu(*each.T).max())) for each in rates]
        low, epsilon, high = (_epsilon(each, query.delta) for each in mu)
        notes = [
            price(ways),
            f"assuming Gaussian noise, μ is about {mu[1]:.4g}, from {mu[0]:.4g} to {mu[2]:.4g}",
        ]
        if not query.delta:
            notes.append("no Gaussian mechanism has a finite ε at δ = 0; ask at another δ")
        if not self.certifies_against(query.claim):
            return Estimate(epsilon, interval=(low, high), notes=tuple(notes))
        notes.append(
            "the bound and the verdict hold for any noise, the interval for Gaussian noise"
        )
        # At every δ the curve through a point shows at least what the point shows, so its ε limits
        # what this threshold can show, Gaussian or not. It is no lower limit.
        found = estimate_from_boxes(
            lambda level: upper_rates(ways, level, self.limits),
            query,
            epsilon=epsilon,
            epsilon_upper=high,
            notes=tuple(notes),
            shares=[1 / len(ways) for _ in ways],
        )
        return found._replace(interval=(low, high))


def _epsilon(mu: float, delta: float) -> float:
    """ε(δ) of μ-GDP; inf for an infinite μ."""
    return float(gaussian_epsilon(delta, mu)) if np.isfinite(mu) else np.inf
