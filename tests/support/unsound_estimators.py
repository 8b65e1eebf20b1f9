"""Estimators with a known mistake, for checks that have to find it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpframe import Estimate, Estimator, GaussianDP, Query, clopper_pearson_upper
from dpframe.builtin.events import PilotGrid
from dpframe.stats.gaussian import gaussian_epsilon, gaussian_mu

if TYPE_CHECKING:
    from dpframe.common.types import Ints, Tree


class AbsoluteMu(Estimator, name="absolute-mu"):
    """`epsilon_from_gdp` of jax-privacy 2.0.0, from its formula: claims to certify, and does not.

    At each of m thresholds it takes upper limits of FPR and FNR, at 1/2m of the error, leaves out
    pairs of which one limit is above 1 − δ, and reports ε(δ) of the largest |μ|, with
    μ = Φ⁻¹(1 − FPR) − Φ⁻¹(FNR). Equation 2.4 has no absolute value: where the limits lie above the
    diagonal, μ is negative, and the farther the larger the limits are. For the other direction it
    would take lower limits. So it reports what its limits fail to exclude.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "Gaussian noise; independent, identically distributed outputs"

    def statistic(self) -> PilotGrid:
        return PilotGrid()

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        mu = self.largest_mu(counts, query)
        epsilon = float(gaussian_epsilon(query.delta, mu))
        p_value = None
        if isinstance(query.claim, GaussianDP):
            p_value = 1e-3 if mu > query.claim.mu else 1.0
        return Estimate(epsilon, epsilon_lower=epsilon, p_value=p_value, p_resolved=p_value)

    def largest_mu(self, counts: Ints, query: Query) -> float:
        """The largest |μ| over all thresholds between bins."""
        beyond = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
        n = counts.sum(axis=1)
        level = (1 - query.confidence) / (2 * counts.shape[1])
        fpr = clopper_pearson_upper(beyond[0], n[0], level)
        fnr = clopper_pearson_upper(n[1] - beyond[1], n[1], level)
        kept = np.maximum(fpr, fnr) < 1 - query.delta
        return float(np.abs(gaussian_mu(fpr[kept], fnr[kept])).max(initial=0.0))

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        counts = np.zeros((2, np.asarray(layout["pilot"]).shape[1]), np.int64)
        counts[0, 0], counts[1, -1] = trials
        return counts
