"""The histogram method: both densities in bins, and the hockey-stick divergence of the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dpframe import (
    Claim,
    Estimate,
    Query,
    epsilon_of,
    estimate_from_boxes,
)
from dpframe.builtin.estimators.histogram._binned import Binned
from dpframe.builtin.estimators.histogram._bins import Histograms, grouped
from dpframe.builtin.estimators.histogram._profile import estimated_curve, profile_of
from dpframe.stats.canonne import canonne_radius, one_sided_radius
from dpframe.stats.hockeystick import (
    best_events,
    histogram_epsilon,
    privacy_profile,
    total_variation,
)
from dpframe.stats.hull import tradeoff_hull

if TYPE_CHECKING:
    from dpframe import Floats, Ints, Tree

UNSOUND = (
    "mode paper: not valid at the stated confidence. Both histograms must lie within the radius at "
    "once, and the error pays for one; trade-off points by lemma 7 from a lowered profile are no "
    "upper bound of the curve"
)


class Histogram(Binned, name="histogram"):
    """The hockey-stick divergence of two histograms [Koskela2024, Algorithm 2].

    Scores are put into bins of equal width, the outermost two open. The point value is the ε at
    which the divergence of the histograms falls to δ, the larger one of both directions.

    In mode "sound", the default, each histogram lies within a radius τ of its true distribution, in
    total variation, at half of the error (lemma 2). A distance in total variation bounds the
    probabilities of all events at once: Q(E) ≤ Q̂(E) + τ_Q and P(E) ≥ P̂(E) − τ_P, so every event
    gives a box. Only unions of the first bins by falling p̂/q̂ matter, because for each ε one of them
    maximises P̂(E) − e^ε Q̂(E). So the bound of these boxes is exactly that of lemma 3,
    sup {ε: H_{e^ε}(P̂‖Q̂) − τ_P − e^ε τ_Q > δ}, in both directions, and a claim δ(·) is rejected if
    the left side exceeds δ(ε) for any ε.

    In mode "paper" the paper's interval is given, without a bound, a p-value or a verdict.
    """

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = "independent, identically distributed outputs"
    reference: ClassVar[str] = (
        "[Koskela2024, lemmas 2 and 3, algorithm 2] (arXiv:2406.04827); radius after "
        "[Canonne2020, theorem 1] (arXiv:2002.11457)"
    )

    mode: Literal["sound", "paper"] = "sound"
    """Whether the bound is valid at finite samples, or the paper's interval."""
    sharp: bool | None = None
    """Whether the radius is the sharper, one-sided one; default: in mode "sound"."""

    def certifies_against(self, claim: Claim | None) -> bool:
        return self.mode == "sound"

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        found = grouped(layout, counts, query.trials)
        if self.mode == "paper":
            return self._of_the_paper(found, query)

        def boxes(error: float) -> Floats:
            return widened(found, self.radii(found, error / 2))

        q_radius, p_radius = self.radii(found, (1 - query.confidence) / 2)
        estimate = estimate_from_boxes(
            boxes,
            query,
            epsilon=histogram_epsilon(found.p, found.q, query.delta),
            epsilon_upper=np.inf,
            profile=profile_of(found),
            notes=(
                f"{found.bins} bins; all of their events within {q_radius:.3g} on D and "
                f"{p_radius:.3g} on D′",
                f"total variation {total_variation(found.p, found.q):.6g}",
            ),
        )
        return estimate._replace(tradeoff=tuple(tradeoff_hull(estimate.tradeoff)))

    def radii(self, found: Histograms, error: float) -> tuple[float, float]:
        """How far the histograms on D and on D′ may be off, each at this error."""
        sharp = self.mode == "sound" if self.sharp is None else self.sharp
        radius = one_sided_radius if sharp else canonne_radius
        q_radius, p_radius = radius(found.trials, found.bins, error).tolist()
        return q_radius, p_radius

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        counts = np.zeros((2, len(layout["edges"]) + 2), np.int64)
        counts[0, 1], counts[1, -1] = trials
        return counts

    def _of_the_paper(self, found: Histograms, query: Query) -> Estimate:
        """The interval of section 4.3: one radius for both histograms, at all of the error."""
        radius = max(self.radii(found, 1 - query.confidence))

        def lowered(epsilons: Floats) -> Floats:
            deltas = privacy_profile(found.p, found.q, epsilons) - (1 + np.exp(epsilons)) * radius
            return np.maximum(deltas, 0.0)

        return Estimate(
            epsilon=histogram_epsilon(found.p, found.q, query.delta),
            interval=(epsilon_of(widened(found, (radius, radius)), query.delta), np.inf),
            tradeoff=estimated_curve(lowered, found),
            profile=profile_of(found),
            notes=(
                f"{found.bins} bins; radius {radius:.3g}",
                f"total variation {total_variation(found.p, found.q):.6g}",
                UNSOUND,
            ),
        )


def widened(found: Histograms, radii: tuple[float, float]) -> Floats:
    """Boxes of the best events, shape [k + 1, 2], if the histograms are off by no more than radii.

    In the reverse direction, where an event says D, its complement has the very same box.
    """
    events = best_events(found.p, found.q)
    return np.minimum(np.stack([events.fpr + radii[0], events.fnr + radii[1]], axis=1), 1.0)
