"""The privacy profile of two histograms, and the curve that it makes: estimates, no bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.stats.hockeystick import privacy_profile
from dpframe.stats.tradeoff import tradeoff_of_profile

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe import Floats
    from dpframe.builtin.estimators.histogram._bins import Histograms

    Points = tuple[tuple[float, float], ...]

POINTS = 200
"""Points of a profile. With 25 a curve made from it would be up to 0.003 too low."""

LINES = 400
"""Points of a profile from which a curve is made here."""

RATES = np.concatenate([[0.0], np.geomspace(1e-5, 0.1, 9), np.linspace(0.15, 1.0, 18)])
"""False-positive rates at which an estimated curve is given."""


def largest_epsilon(found: Histograms) -> float:
    """The largest ln of a ratio of two counted frequencies, at least 1: beyond it nothing falls."""
    both = (found.p > 0) & (found.q > 0)
    ratios = np.abs(np.log(found.p[both] / found.q[both]))
    return max(1.0, float(ratios.max(initial=0.0)))


def points(x: Floats, y: Floats) -> Points:
    """Pairs of plain numbers."""
    return tuple(zip(x.tolist(), y.tolist(), strict=True))


def profile_of(found: Histograms) -> Points:
    """Points (ε, δ) of the larger divergence of both directions."""
    epsilons = np.linspace(0.0, largest_epsilon(found), POINTS)
    return points(epsilons, privacy_profile(found.p, found.q, epsilons))


def estimated_curve(profile: Callable[[Floats], Floats], found: Histograms) -> Points:
    """Points (FPR, FNR) of the curve that lemma 7 makes of a profile."""
    epsilons = np.linspace(0.0, largest_epsilon(found), LINES)
    return points(RATES, tradeoff_of_profile(RATES, epsilons, profile(epsilons)))
