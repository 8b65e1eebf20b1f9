"""The Gaussian curve that touches the histograms' privacy profile from above."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from dpframe import Estimate, Gt, Lt, Query
from dpframe.builtin.estimators.histogram._binned import Binned
from dpframe.builtin.estimators.histogram._bins import grouped
from dpframe.builtin.estimators.histogram._profile import POINTS, RATES, points
from dpframe.stats.gaussian import gaussian_delta, gaussian_epsilon, gaussian_tradeoff
from dpframe.stats.hockeystick import privacy_profile
from dpframe.stats.profile_fit import fit_gdp_mu

if TYPE_CHECKING:
    from dpframe import Floats, Ints, Tree


LARGEST = 1e3
"""A μ from which on nothing is private; histograms without a common bin have μ = ∞."""


class GDPFit(Binned, name="gdp-fit"):
    """μ-GDP fitted to the histograms' profile over a stated range, and its ε(δ).

    μ is the smallest one whose curve is nowhere below the profile of the histograms for ε from 0 to
    the end of the range (after [Koskela2024, Appendix A]). For a mechanism that is
    not Gaussian, μ grows with the range and says nothing about ε outside of it; of a subsampled
    Gaussian it reaches 1/σ in the end, as if nothing were sampled. The notes name the range. No
    bound, and no verdict.
    """

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "a Gaussian curve beyond the range of the fit"
    reference: ClassVar[str] = "[Koskela2024, Appendix A] (arXiv:2406.04827), adapted"

    epsilon_max: Annotated[float, Gt(0)] = 2.0
    """The range ends here, or earlier."""
    delta_min: Annotated[float, Gt(0), Lt(1)] = 0.01
    """It ends where the profile falls below this δ."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        found = grouped(layout, counts, query.trials)

        def profile(epsilons: Floats) -> Floats:
            return privacy_profile(found.p, found.q, epsilons)

        fit = fit_gdp_mu(
            profile, epsilon_max=self.epsilon_max, delta_min=self.delta_min, places=POINTS
        )
        epsilons = np.linspace(0.0, max(1.0, fit.epsilon_max), POINTS)
        drawn = min(fit.mu, LARGEST)
        return Estimate(
            epsilon=float(gaussian_epsilon(query.delta, drawn)) if drawn < LARGEST else math.inf,
            tradeoff=points(RATES, gaussian_tradeoff(RATES, drawn)),
            profile=points(epsilons, gaussian_delta(epsilons, drawn)),
            notes=(
                f"mu {fit.mu:.4g} over 0 ≤ ε ≤ {fit.epsilon_max:.4g}, touching at "
                f"{fit.epsilon:.4g}; {found.bins} bins",
            ),
        )
