"""Bayesian limits of the loss that one threshold shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dpframe import Estimate, Query
from dpframe.builtin.estimators.threshold._deciding import decisions
from dpframe.builtin.estimators.threshold._one_threshold import OneThreshold
from dpframe.stats.credible import Posterior, credible_epsilon, region_mass
from dpframe.stats.roots import crossing
from dpframe.stats.threshold import threshold_epsilon

if TYPE_CHECKING:
    from dpframe import Claim, Floats, Ints, Tree


class Credible(OneThreshold, name="credible"):
    """Credible limits of ε from the posterior of both error rates; Bayesian, certifies nothing.

    FPR and FNR of one threshold have independent posteriors under Jeffreys' prior, and the limits
    of ε are where the region of error rates that (ε, δ)-DP allows has a given posterior mass
    [Zanella2023]. The point value is where it has half of it. The region is the same for both
    directions of an attack. Where something is claimed, a note gives the posterior mass of the
    claimed region [Koskela2024, equation 2.5].

    A credible limit is what to believe after these counts with this prior. It does not promise to
    be right in a stated share of audits, so there is no bound, no p-value and no verdict. Any two
    error rates leave a lower limit above 0, those of chance included.
    """

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = (
        "Bayesian, with Jeffreys' prior on both error rates; independent, identically distributed "
        "outputs"
    )
    reference: ClassVar[str] = (
        "[Zanella2023] (arXiv:2206.05199); [Koskela2024, equation 2.5] (arXiv:2406.04827)"
    )

    sides: Literal["both", "lower"] = "both"
    """An interval with equal mass on both sides, or a lower limit alone."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        def loss(fpr: Floats, fnr: Floats) -> Floats:
            return threshold_epsilon(fpr, fnr, query.delta)

        # For a given threshold "up" is as good as "down"; a pilot may choose.
        (way,) = decisions(layout, counts, "either" if layout else "up", loss, query)
        fp, fn = way.wrong.tolist()
        n0, n1 = way.trials.tolist()
        posterior = Posterior(fn, n1 - fn, fp, n0 - fp)
        error = 1 - query.confidence
        levels = [error / 2, 0.5, 1 - error / 2] if self.sides == "both" else [error, 0.5]
        low, middle, *high = credible_epsilon(posterior, query.delta, levels)
        notes = ["credible limits, no bound: what to believe under Jeffreys' prior"]
        if way.when:
            notes.append(f"threshold chosen by the pilot: scores {way.when} mean D′")
        if query.claim is not None:
            mass = claimed_mass(posterior, query.claim)
            # It is one minus the mass outside: below this it is rounding.
            said = f"{mass:.6g}" if mass > 1e-12 else "below 1e-12"
            notes.append(f"posterior mass of what the claim allows: {said}")
        return Estimate(middle, interval=(low, high[0] if high else np.inf), notes=tuple(notes))


def claimed_mass(posterior: Posterior, claim: Claim) -> float:
    """P_f for the curve of a claim [Koskela2024, equation 2.5]."""

    def above_diagonal(fpr: float) -> float:
        return fpr - float(claim.tradeoff(np.array([fpr]))[0])

    # Curves that are not smooth have their kink where they meet their own reflection.
    corner = crossing(above_diagonal, guess=0.25, spread=0.25, most=1.0)
    return region_mass(posterior, claim.tradeoff, [corner])
