"""Choose the score, among many, that refutes a claim most clearly."""

from __future__ import annotations

import numpy as np

from dpframe.plugins import Claim, Floats, HostArray


def strongest(scores0: HostArray, scores1: HostArray, claim: Claim | None) -> tuple[int, float]:
    """Return the column whose error rates lie furthest below the claimed trade-off curve.

    Args:
        scores0: on D, shape [n, candidates].
        scores1: on D′, shape [m, candidates].
        claim: gives the curve; None means the curve of outputs that do not depend on the data.

    Returns:
        The column, and 1.0 if larger values indicate D′, or −1.0 if smaller values do.
    """
    found = [
        (_distance(sign * scores0[:, k], sign * scores1[:, k], claim), -k, sign)
        for k in range(scores0.shape[1])
        for sign in (1.0, -1.0)
    ]
    _, column, sign = max(found)
    return -column, sign


def _distance(scores0: Floats, scores1: Floats, claim: Claim | None) -> float:
    """Return the largest distance below the curve over all thresholds, in standard deviations."""
    if not (np.isfinite(scores0).all() and np.isfinite(scores1).all()):
        return -np.inf
    n, m = len(scores0), len(scores1)
    cuts = np.unique(scores1)
    above = n - np.searchsorted(np.sort(scores0), cuts)
    below = np.searchsorted(np.sort(scores1), cuts)
    # Two hits and two misses are added [Agresti1998], so that few draws prove little.
    fpr, fnr = (above + 2) / (n + 4), (below + 2) / (m + 4)
    curve = (lambda a: 1 - a) if claim is None else claim.tradeoff
    step = np.sqrt(fpr * (1 - fpr) / n)
    slack = curve(np.maximum(fpr - step, 0.0)) - curve(np.minimum(fpr + step, 1.0))
    deviation = np.sqrt(fnr * (1 - fnr) / m + (slack / 2) ** 2)
    return float(np.max((curve(fpr) - fnr) / deviation))
