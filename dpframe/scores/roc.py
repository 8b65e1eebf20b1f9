"""What thresholds on scores give: true positives against false positives, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpframe.types import HostArray, Ints

MOST = 200
"""Ranks of each side at which a threshold is placed, if there are more."""


def roc(outside: HostArray, inside: HostArray) -> list[list[float]]:
    """Points (FPR, TPR) of deciding "with the record" from some score up.

    Of many scores only some are thresholds, on both sides: ranks that lie evenly, and evenly on a
    logarithmic scale from both ends, so that rare errors are resolved. NaN is below every number.

    Args:
        outside: scores on D, shape [n].
        inside: scores on D′, shape [m].

    Returns:
        Shape [k][2], from (0, 0) to (1, 1), rising in both; empty if a side is. Frequencies, and no
        bound.
    """
    if not (len(outside) and len(inside)):
        return []
    sides = [np.sort(_ordered(values)) for values in (outside, inside)]
    places = np.unique(np.concatenate([values[_ranks(len(values))] for values in sides]))
    fpr, tpr = ((len(v) - np.searchsorted(v, places)) / len(v) for v in sides)
    points = np.unique(np.stack([fpr, tpr], axis=1), axis=0).tolist()
    return [[0.0, 0.0], *points]


def _ordered(values: HostArray) -> HostArray:
    if values.dtype.kind != "f":
        return values.astype(np.float32)
    return np.where(np.isnan(values), -np.inf, values)


def _ranks(count: int) -> Ints:
    """Places in a sorted column: all, or some."""
    if count <= 3 * MOST:
        return np.arange(count)
    near = np.unique(np.geomspace(1, count, MOST).astype(np.int64))
    even = np.linspace(0, count - 1, MOST).astype(np.int64)
    return np.unique(np.concatenate([near - 1, even, count - near]))
