"""Number of models that are needed to see a mistake, from exact curves."""

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
"""Smallest error rate of an attack that is tried."""


def models_needed(truth: Curve, claim: Curve, confidence: float) -> float:
    """Models per dataset from which on the best threshold refutes a claim.

    Whoever has the error rates (x, y) of the true curve sees them among n models of a trainer whose
    rates are (a, f(a)) with a probability of about e⁻ⁿᴷ, where K = kl(x, a) + kl(y, f(a)) and kl
    is the divergence of two coins [Hoeffding1963, theorem 1]. The claim is refuted when that is
    below 1 − confidence for the a for which it is largest; the threshold is the best one.

    Args:
        truth: false-negative rate of the best attack at each false-positive rate.
        claim: the claimed trade-off curve.
        confidence: of the verdict.

    Returns:
        The number, inf where the true curve is nowhere below the claimed one. A real audit needs
        some more: it does not know the best threshold, and may miss with half of its draws.
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
    """Kullback-Leibler divergence of coins, in nats."""
    return np.asarray(special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q), np.float64)
