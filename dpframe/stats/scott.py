"""How wide the bins of a histogram should be [Scott1979]."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

NORMAL = 2 * 3 ** (1 / 3) * math.pi ** (1 / 6)
"""3.4908…: width = NORMAL · σ · n^{−1/3} for two normal distributions (equation 4.2)."""

SMALLEST = 1e-100
"""Deviations below it count as this, so that their cubes stay finite."""


def scott_width(
    roughness_p: npt.ArrayLike, roughness_q: npt.ArrayLike, trials: npt.ArrayLike
) -> Floats:
    """(12/(∫p′² + ∫q′²))^{1/3} n^{−1/3}: the best width for the sum of both densities' errors.

    Equation 4.1 of [Koskela2024]: with it the hockey-stick divergence of the histograms approaches
    the true one in the mean as n^{−1/3}, for every order (theorem 4).

    Args:
        roughness_p: ∫p′², positive.
        roughness_q: ∫q′², positive.
        trials: n per distribution; all three broadcast.
    """
    total = np.asarray(roughness_p, np.float64) + np.asarray(roughness_q, np.float64)
    return np.asarray(np.cbrt(12 / (total * np.asarray(trials, np.float64))))


def normal_roughness(sigma: npt.ArrayLike) -> Floats:
    """∫p′² of a normal density: 1/(4 √π σ³)."""
    cube = np.asarray(sigma, np.float64) ** 3
    return np.asarray(1 / (4 * math.sqrt(math.pi) * cube))


def common_deviation(sigma_p: float, sigma_q: float) -> float:
    """The σ that, for both densities, gives the width that two normal ones of their own σ need.

    (2/(σ_P^{−3} + σ_Q^{−3}))^{1/3}, between the smaller one and 1.26 times it. A distribution
    without any spread is left out; 0 if neither has one.
    """
    found = [sigma for sigma in (sigma_p, sigma_q) if sigma > SMALLEST]
    if not found:
        return 0.0
    least = min(found)
    return least * float(np.cbrt(len(found) / sum((least / sigma) ** 3 for sigma in found)))
