"""Adjustment of p-values for the number of claims tested."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def holm(p_values: npt.ArrayLike, m: int) -> Floats:
    """Adjusted p-values of Holm's step-down procedure [Holm1979].

    Valid under any dependence. A claim is rejected at family-wise level α where its adjusted
    p-value is at most α.

    Args:
        p_values: shape [k], k ≤ m; the other m − k tests count as never rejected.
        m: number of tests planned.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * (m - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def bonferroni(p_values: npt.ArrayLike, m: int) -> Floats:
    """Adjusted p-values of Bonferroni's procedure: p·m, at most 1.

    Args:
        p_values: shape [k].
        m: number of tests planned.
    """
    return np.minimum(np.asarray(p_values, np.float64) * m, 1.0)
