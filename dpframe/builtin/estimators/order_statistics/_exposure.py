"""Exposure as a remark in a report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpframe.stats.exposure import binned_exposures, exposure_epsilon

if TYPE_CHECKING:
    import numpy.typing as npt


def exposure_note(counts: npt.ArrayLike, delta: float = 0.0) -> str:
    """Median and mean exposure of the scores on D′ among those on D, as one line.

    [Carlini2019]; the loss beside it is that of [Jagielski2023].

    Args:
        counts: scores in bins, shape [2, bins], bins in ascending order; at least one on each.
        delta: δ of that loss.
    """
    most = math.log2(np.asarray(counts, np.float64)[0].sum())
    exposures, weights = binned_exposures(counts)
    middle = int(np.searchsorted(np.cumsum(weights), weights.sum() / 2))
    median, mean = float(exposures[middle]), float(exposures @ weights / weights.sum())
    return (
        f"exposure of D′ among D: median {median:.3g} bits, mean {mean:.3g}, of at most "
        f"{most:.3g} (1 and 1.44 by chance); the median stands for "
        f"ε = {exposure_epsilon(median, delta):.3g} at δ = {delta:.3g}, an estimate"
    )
