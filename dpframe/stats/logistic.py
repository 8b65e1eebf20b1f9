"""Logistic regression with a ridge penalty."""

import numpy as np
from scipy import special

from dpframe.common.types import Floats

STEPS = 100
BLOCK = 1 << 14  # rows weighted at a time, because a weighted copy of all would double the memory
TOLERANCE = 1e-10


def logistic_regression(rows: Floats, labels: Floats, ridge: float) -> tuple[float, Floats]:
    """Maximise the mean log-likelihood less ½ ridge ‖w‖², by Newton's method with halved steps.

    Args:
        rows: features, shape [n, k]; best standardised.
        labels: 0 or 1, shape [n].
        ridge: above 0; without it separable data would have no maximum.

    Returns:
        Intercept, which is not penalised, and weights, shape [k].
    """
    k = rows.shape[1]
    penalty = np.append(np.full(k, ridge), 0.0)
    weights = np.zeros(k + 1)

    def loss(w: Floats) -> float:
        margins = (rows @ w[:k] + w[k]) * (1 - 2 * labels)
        return float(np.logaddexp(0, margins).mean() + 0.5 * np.sum(penalty * w * w))

    now = loss(weights)
    for _ in range(STEPS):
        gradient, curvature = _derivatives(rows, labels, weights)
        gradient += penalty * weights
        if np.abs(gradient).max() < TOLERANCE:
            break
        # One class alone has no curvature left at the far end of the intercept.
        curvature[np.diag_indices(k + 1)] += penalty + 1e-12
        step = np.linalg.solve(curvature, gradient)
        length = 1.0
        while (then := loss(weights - length * step)) > now and length > 1e-6:
            length /= 2
        if then >= now:
            break
        weights, now = weights - length * step, then
    return float(weights[k]), weights[:k]


def _derivatives(rows: Floats, labels: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return gradient and Hessian of the mean loss, the intercept last."""
    n, k = rows.shape
    gradient, curvature = np.zeros(k + 1), np.zeros((k + 1, k + 1))
    for start in range(0, n, BLOCK):
        part = np.column_stack([rows[start : start + BLOCK], np.ones(min(BLOCK, n - start))])
        odds = special.expit(part @ weights)
        gradient += (odds - labels[start : start + BLOCK]) @ part
        curvature += (part * (odds * (1 - odds))[:, None]).T @ part
    return gradient / n, curvature / n
