"""Exposure: how far a canary's score stands out among those of canaries that were left out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def exposures(scores: npt.ArrayLike, reference: npt.ArrayLike) -> Floats:
    """log₂ n − log₂ rank of each score among n reference scores, in bits [Carlini2019].

    The rank is 1 plus the number of reference scores that are at least as large, but no more than
    n: ties count against the canary. So an exposure is between 0 and log₂ n; without any leak it is
    about 1 bit in the median and log₂ e = 1.44 bits in the mean.

    Args:
        scores: with the canary, shape [k]; larger means more like the canary being in. NaN is
            smaller than everything else.
        reference: without it, shape [n], n ≥ 1.
    """
    values, others = _sortable(scores), np.sort(_sortable(reference))
    n = len(others)
    above = n - np.searchsorted(others, values, side="left")
    return np.asarray(math.log2(n) - np.log2(np.minimum(above + 1, n)), np.float64)


def binned_exposures(counts: npt.ArrayLike) -> tuple[Floats, Floats]:
    """The same from counts: exposures of the bins and how many scores have each.

    All scores of a bin count as ties, so exposures come out too small rather than too large.

    Args:
        counts: shape [2, bins], bins in ascending order of scores; row 0 without the canary, with
            at least one score, row 1 with it.

    Returns:
        Exposures in bits, ascending, and the counts of row 1.
    """
    reference, canaries = np.asarray(counts, np.float64)
    n = reference.sum()
    at_least = np.cumsum(reference[::-1])[::-1]
    return math.log2(n) - np.log2(np.minimum(at_least + 1, n)), canaries


def exposure_epsilon(exposure: float, delta: float = 0.0) -> float:
    """The loss that a median exposure stands for [Jagielski2023]: ln((½ − δ) 2^exposure).

    With the median of the canaries' scores as threshold, TPR is ½ and FPR is 2^−exposure. So the
    loss is (exposure − 1) ln 2 at δ = 0: the first bit is chance. An estimate, no bound.

    Args:
        exposure: the median exposure, in bits.
        delta: in [0, 1).

    Returns:
        At least 0.
    """
    if delta >= 0.5:
        return 0.0
    return max(0.0, math.log(0.5 - delta) + exposure * math.log(2))


def _sortable(scores: npt.ArrayLike) -> Floats:
    """Scores in which NaN is smaller than everything else, −inf included."""
    values = np.array(scores, np.float64)
    values[values == -np.inf] = np.finfo(np.float64).min
    values[np.isnan(values)] = -np.inf
    return values
