"""The loss between two normal distributions that differ in mean and variance.

One-shot audits with random canaries [AndrewK2024] estimate it: the cosines of canaries with the
model are normal, N(0, 1/d) for those left out, with a fitted mean and variance for those in.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from dpframe.stats.roots import crossing


class Normal(NamedTuple):
    """A normal distribution."""

    mean: float
    deviation: float  # above 0

    def log_mass(self, low: float, high: float) -> float:
        left, right = (low - self.mean) / self.deviation, (high - self.mean) / self.deviation
        if left + right > 0:  # the tail that keeps its digits
            left, right = -right, -left
        most, least = float(special.log_ndtr(right)), float(special.log_ndtr(left))
        return most + math.log1p(-math.exp(least - most)) if least < most else -math.inf


def normals_epsilon(delta: float, first: Normal, second: Normal) -> float:
    """Return the smallest ε ≥ 0 with δ(ε) ≤ `delta` > 0 in both directions, at most 1e9."""

    def excess(epsilon: float) -> float:
        forth = normals_log_delta(epsilon, first, second)
        return math.log(delta) - max(forth, normals_log_delta(epsilon, second, first))

    return crossing(excess, most=1e9)


def normals_log_delta(epsilon: float, first: Normal, second: Normal) -> float:
    """Return the logarithm of δ(ε) = Pr₁[L > ε] − e^ε Pr₂[L > ε], L being the log-ratio."""
    pieces = _where_the_loss_exceeds(epsilon, first, second)
    ours, theirs = (
        float(np.logaddexp.reduce([law.log_mass(*piece) for piece in pieces], initial=-math.inf))
        for law in (first, second)
    )
    factor = epsilon + theirs - ours if ours > -math.inf else 0.0
    return ours + math.log1p(-math.exp(factor)) if factor < 0 else -math.inf


def _where_the_loss_exceeds(
    epsilon: float, first: Normal, second: Normal
) -> list[tuple[float, float]]:
    """Find where a y² + b y + c, the log-ratio of the densities less ε, is positive."""
    (m1, s1), (m2, s2) = first, second
    a = (s2**-2 - s1**-2) / 2
    b = m1 / s1**2 - m2 / s2**2
    c = ((m2 / s2) ** 2 - (m1 / s1) ** 2) / 2 + math.log(s2 / s1) - epsilon
    inside = b * b - 4 * a * c
    if inside <= 0:  # a ratio of densities is nowhere above e^ε, or (rounding) just touches it
        return []
    # The root that does not cancel gives the other one, which is infinite at equal variances.
    larger = -(b + math.copysign(math.sqrt(inside), b)) / 2
    near = c / larger
    far = larger / a if a else math.copysign(math.inf, b)
    low, high = min(near, far), max(near, far)
    if a > 0:
        return [(-math.inf, low), (high, math.inf)]
    return [(low, high)]
