"""How far a histogram is from the distribution it was drawn from, in total variation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def canonne_radius(trials: npt.ArrayLike, bins: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """τ with Pr[TV(P, P̂) > τ] ≤ error: √(max{k, 2 ln(2/error)}/n).

    Lemma 2 of [Koskela2024], after theorem 1 of [Canonne2020]: the mean of TV is at most ½√(k/n),
    and McDiarmid's inequality bounds how far it is exceeded.

    Args:
        trials: n ≥ 1.
        bins: k ≥ 1, empty ones included.
        error: in (0, 1]; all three broadcast.

    Returns:
        Above 0, and at most 1, which no distance exceeds.
    """
    n, k, a = (np.asarray(value, np.float64) for value in (trials, bins, error))
    return np.asarray(np.minimum(np.sqrt(np.maximum(k, 2 * np.log(2 / a)) / n), 1.0))


def one_sided_radius(trials: npt.ArrayLike, bins: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """The same with ½√(k/n) + √(ln(1/error)/(2n)), never larger than `canonne_radius`.

    One score moves TV by at most 1/n, so TV exceeds its mean by t with probability at most
    exp(−2nt²) [McDiarmid1989]. Only the upper tail counts; nothing is rounded up to τ/2.

    Args:
        trials: n ≥ 1.
        bins: k ≥ 1, empty ones included.
        error: in (0, 1]; all three broadcast.
    """
    n, k, a = (np.asarray(value, np.float64) for value in (trials, bins, error))
    return np.asarray(np.minimum(np.sqrt(k / n) / 2 + np.sqrt(-np.log(a) / (2 * n)), 1.0))


def free_bins(error: float) -> int:
    """How many bins cost `canonne_radius` nothing: ⌊2 ln(2/error)⌋."""
    return math.floor(2 * math.log(2 / error))
