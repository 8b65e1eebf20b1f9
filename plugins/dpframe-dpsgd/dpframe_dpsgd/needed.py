"""Compute the number of models needed to detect a mistake, from exact curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.plugins import Floats

    Curve = Callable[[Floats], Floats]

RAREST = 1e-4
"""Smallest error rate of an attack that is considered."""


def models_needed(truth: Curve, claim: Curve, confidence: float) -> float:
    """Return the number of models per dataset from which the best threshold refutes a claim.

    Let a trainer have the error rates (a, f(a)) of the claim. Among n models the rates (x, y) of
    the true curve occur with probability about e⁻ⁿᴷ, where K = kl(x, a) + kl(y, f(a)) and kl is the
    divergence of two coins [Hoeffding1963, theorem 1]. The claim is refuted if this probability is
    below 1 − confidence for the a that maximises it. The threshold is the best one.

    Args:
        truth: false-negative rate of the best attack at each false-positive rate.
        claim: the claimed trade-off curve.
        confidence: of the verdict.

    Returns:
        The number; inf if the true curve is nowhere below the claimed one. A real audit needs
        slightly more, because it does not know the best threshold and may miss in half of the
        cases.
    """
    grid = np.unique(np.append(np.geomspace(1e-7, 0.5, 4000), 1 - np.geomspace(1e-7, 0.5, 4000)))
    allowed = np.clip(claim(grid), 1e-300, 1.0)
    best = 0.0
    for x in np.unique(np.append(np.geomspace(RAREST, 0.5, 80), 1 - np.geomspace(RAREST, 0.5, 80))):
        y = float(truth(np.array([x]))[0])
        if y >= RAREST and y < float(claim(np.array([x]))[0]):
            best = max(best, float(np.min(_kl(x, grid) + _kl(y, allowed))))
    return -math.log1p(-confidence) / best if best > 0 else math.inf


def _kl(p: float, q: Floats) -> Floats:
    """Return the Kullback-Leibler divergence of two coins, in nats."""
    return np.asarray(special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q), np.float64)
