"""One number says all: from the total variation distance to the noise of a Gaussian mechanism."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

ROOT_8 = math.sqrt(8)


def gaussian_total_variation(sigma: npt.ArrayLike, sampling_probability: float = 1.0) -> Floats:
    """TV = q (2 Φ(1/(2σ)) − 1) of N(0, σ²) and (1 − q) N(0, σ²) + q N(1, σ²).

    Equation 5.1 of [Koskela2024], and Figure 14 with q below 1.

    Args:
        sigma: positive.
        sampling_probability: q in (0, 1].
    """
    return np.asarray(sampling_probability * special.erf(1 / (ROOT_8 * np.asarray(sigma))))


def sigma_of_total_variation(tv: npt.ArrayLike, sampling_probability: float = 1.0) -> Floats:
    """The inverse: σ = 1/(2 Φ⁻¹((TV/q + 1)/2)) (section 7).

    Args:
        tv: at least 0.
        sampling_probability: q in (0, 1].

    Returns:
        Inf at TV = 0; 0 where TV is q or more, which no noise explains.
    """
    share = np.clip(np.asarray(tv, np.float64) / sampling_probability, 0.0, 1.0)
    slope = special.erfinv(share)
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (ROOT_8 * slope))


def hockey_stick_slope(epsilon: npt.ArrayLike, sigma: npt.ArrayLike) -> Floats:
    """∂H_{e^ε}/∂σ = −φ(1/(2σ) − εσ)/σ² of N(0, σ²) and N(1, σ²).

    Negative everywhere: each order alone determines σ (lemma 1 of section 7). An error in the
    divergence becomes an error in σ by its inverse (equation 7.1).

    Args:
        epsilon: at least 0.
        sigma: positive; both broadcast.
    """
    e, s = np.asarray(epsilon, np.float64), np.asarray(sigma, np.float64)
    z = 1 / (2 * s) - e * s
    return np.asarray(-np.exp(-(z * z) / 2) / (math.sqrt(2 * math.pi) * s * s))


def most_sensitive_order(sigma: npt.ArrayLike) -> Floats:
    """α* = e^{1/(2σ²)}, where the divergence of order α changes most with σ (Figure 7).

    It is where the slope's exponent vanishes. An error of the divergence that grows as 1 + α, as
    in lemma 3, moves the optimum to α = 1: the total variation distance.

    Args:
        sigma: positive.
    """
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(1 / (2 * np.asarray(sigma, np.float64) ** 2)))
