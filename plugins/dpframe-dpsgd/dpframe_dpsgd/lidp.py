"""Limits of a probability from several exchangeable tests per trial, for many trained models.

They are only asymptotic, so no estimator uses them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special


class Limits(NamedTuple):
    """One-sided limits of a probability. Each holds alone at its level, but not both together."""

    lower: float
    upper: float


def exchangeable_moments(tests: npt.ArrayLike) -> tuple[float, float, float, float]:
    """Estimate μ_j = Pr[j fixed tests of one trial are all 1] without bias, for j = 1 … 4.

    Args:
        tests: zeros and ones, shape [n, K], K ≥ 1.

    Returns:
        NaN for j above K.
    """
    matrix = np.asarray(tests, np.float64)
    k, ones = matrix.shape[1], matrix.sum(axis=1)
    found, product = [], np.ones(len(ones))
    for j in range(4):
        product = product * (ones - j) / (k - j) if k > j else np.full(len(ones), np.nan)
        found.append(float(product.mean()))
    return found[0], found[1], found[2], found[3]


def exchangeable_limits(tests: npt.ArrayLike, error: float, order: int) -> Limits:
    """Return asymptotic limits of the probability that a test is 1 [Pillutla2023, section 4].

    Each trial tests each of its K canaries. The tests of a trial are exchangeable, so their mean
    varies less than a single test, and moments of a few of them bound its variance. The limits are
    computed as in [Wilson1927]. Order 1 uses the largest possible variance, that of tests that all
    agree within a trial. Order 2 uses an upper limit of μ₂, the probability that two tests are both
    1, at half of the error. Order 4 bounds μ₂ in the same way from upper limits of μ₃ and μ₄, each
    at a quarter of the error.

    Args:
        tests: zeros and ones, shape [n, K]; K ≥ order.
        error: of each limit, in (0, ½).
        order: 1, 2 or 4.

    Raises:
        ValueError: the order is unknown or above K.
    """
    n, k = np.shape(tests)
    if order not in (1, 2, 4):
        raise ValueError(f"the order is 1, 2 or 4, got {order}")
    if order > k:
        raise ValueError(f"order {order} needs as many tests per trial, got {k}")
    one, two, three, four = exchangeable_moments(tests)
    if order == 1:
        return _wilson(one, n, error, linear=1.0, constant=0.0)
    part = error / order
    if order == 2:
        most = _wilson(two, n, part, linear=1.0, constant=0.0).upper
    else:
        third, fourth = (
            _wilson(moment, n, part, linear=1.0, constant=0.0).upper for moment in (three, four)
        )
        # The variance of the mean over pairs, E[m₂²] − μ₂², by how many tests two pairs share.
        pairs = k * (k - 1)
        constant = (4 * (k - 2) * third + (k - 2) * (k - 3) * fourth) / pairs
        most = _wilson(two, n, part, linear=2 / pairs, constant=constant).upper
    return _wilson(one, n, part, linear=1 / k, constant=(k - 1) / k * most)


def lidp_epsilon(present: Limits, absent: Limits, delta: float) -> float:
    """Return ln((p₁ − δ)/p₀), at least 0: a lower limit of lifted ε [Pillutla2023, definition 2].

    p₁ is the lower limit of the probability that the test of a canary is 1 if all K canaries are
    included. p₀ is the upper limit for an excluded canary, with the other K − 1 included.
    """
    above = present.lower - delta
    if above <= absent.upper:
        return 0.0
    return math.log(above / absent.upper) if absent.upper > 0 else math.inf


def _wilson(mean: float, n: int, error: float, *, linear: float, constant: float) -> Limits:
    """Solve n (μ − mean)² = z² v(μ) for a variance v(μ) = linear μ + constant − μ², at most ¼."""
    z = -float(special.ndtri(error))
    a = n + z * z
    b = 2 * n * mean + z * z * linear
    c = n * mean * mean - z * z * constant
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    most = z / math.sqrt(4 * n)
    lower = max((b - root) / (2 * a), mean - most, 0.0)
    upper = min((b + root) / (2 * a), mean + most, 1.0)
    return Limits(min(lower, mean), max(upper, mean))  # whatever rounding does
