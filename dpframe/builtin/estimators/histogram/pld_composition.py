"""A privacy loss distribution from two histograms, composed with itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from dpframe import Estimate, Ge, Query
from dpframe.builtin.estimators.histogram._binned import Binned
from dpframe.builtin.estimators.histogram._bins import grouped
from dpframe.builtin.estimators.histogram._profile import LINES, POINTS, RATES, points
from dpframe.stats.tradeoff import tradeoff_of_profile

if TYPE_CHECKING:
    from dpframe import Floats, Ints, Tree

DISCRETIZATION = 1e-4
"""Spacing of the grid of privacy losses, that of dp-accounting itself."""

BIASED = (
    "an estimate and never a bound: sampling noise in the histograms biases it upward, and bins "
    "that are wide or merged hide loss"
)


class PLDComposition(Binned, name="pld-composition"):
    """ε(δ) after several releases, from the privacy loss distribution of one (section 9.2).

    The distribution has mass p̂_j at ln(p̂_j/q̂_j), and q̂_j at ln(q̂_j/p̂_j) in the other
    direction. dp-accounting convolves it with itself and integrates [Koskela2024, equation 9.1]; of
    the two directions the larger ε counts.

    The estimate errs on both sides. Where p̂_j and q̂_j differ by chance, that counts as loss, and
    for few compositions it counts most; wide bins hide loss. Bins that only one dataset hit would
    be an infinite loss. They are merged with a neighbour, which makes the histograms coarser and
    can hide loss; or left out, with the mass that they hold; or they stay, as infinite losses.
    Where merging or leaving out would leave nothing to tell the datasets apart by, they stay too.
    """

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "releases that are independent and alike; errs on both sides"
    reference: ClassVar[str] = "[Koskela2024, equation 9.1] (arXiv:2406.04827)"

    compositions: Annotated[int, Ge(1)] = 1
    """How many releases."""
    empty: Literal["merge", "drop", "infinity"] = "merge"
    """What becomes of bins that one dataset never hit."""

    def estimate(self, layout: Tree, counts: Ints, query: Query) -> Estimate:
        found = grouped(layout, counts, query.trials)
        kept = without_empty(found.counts, self.empty)
        pld = loss_distribution(*(kept / found.trials[:, None]))
        # dp-accounting rounds far tails up to infinite losses as it composes; losses just add up.
        at_zero = self.compositions * float(pld.get_epsilon_for_delta(0.0))
        if self.compositions > 1:
            pld = pld.self_compose(self.compositions)
        epsilon = min(at_zero, float(pld.get_epsilon_for_delta(query.delta)))

        def profile(epsilons: Floats) -> Floats:
            return np.asarray(np.clip(pld.get_delta_for_epsilon(epsilons), 0.0, 1.0), np.float64)

        epsilons = np.linspace(0.0, max(1.0, epsilon if epsilon < math.inf else 0.0), LINES)
        deltas = profile(epsilons)
        one_sided = found.counts[:, (found.counts == 0).any(axis=0)].sum(axis=1) / found.trials
        return Estimate(
            epsilon=epsilon,
            tradeoff=points(RATES, tradeoff_of_profile(RATES, epsilons, deltas)),
            profile=points(epsilons[:: LINES // POINTS], deltas[:: LINES // POINTS]),
            notes=(
                BIASED,
                f"{self.compositions} of the same; bins hit by one dataset only ({self.empty}) "
                f"hold {one_sided[0]:.2g} of D and {one_sided[1]:.2g} of D′",
            ),
        )


def without_empty(counts: Ints, how: str) -> Ints:
    """Counts without bins that one dataset never hit, shape [2, fewer]; see the class.

    Args:
        counts: shape [2, k].
        how: "merge", "drop" or "infinity".
    """
    counts = counts[:, counts.any(axis=0)]
    if how == "infinity":
        return counts
    if how == "drop":
        kept = counts[:, counts.all(axis=0)]
        return kept if kept.size else counts
    # From left to right, a bin ends once both datasets have hit it; what is left joins the last.
    ends, held = [0], np.zeros(2, np.int64)
    for place, column in enumerate(counts.T, start=1):
        held = held + column
        if held.all():
            ends.append(place)
            held = np.zeros(2, np.int64)
    starts = ends[:-1]
    return np.add.reduceat(counts, starts, axis=1) if len(starts) > 1 else counts


def loss_distribution(without: Floats, with_record: Floats) -> Any:
    """The privacy loss distributions of both directions, as one of dp-accounting's.

    Args:
        without: frequencies on D, shape [k].
        with_record: frequencies on D′, shape [k].
    """
    from dp_accounting.pld import privacy_loss_distribution

    lower, upper = (
        {bin_: math.log(mass) for bin_, mass in enumerate(masses.tolist()) if mass > 0}
        for masses in (without, with_record)
    )
    return privacy_loss_distribution.from_two_probability_mass_functions(
        lower, upper, value_discretization_interval=DISCRETIZATION, symmetric=False
    )
