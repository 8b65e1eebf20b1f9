"""Limits for a probability from several exchangeable tests per trial [Pillutla2023].

Each trial puts K canaries into the data and tests each of them. The tests of a trial are dependent,
but exchangeable, so their mean varies less than a single test, and its variance is known from the
moments of a few of them. Limits are those of [Wilson1927], so they hold for many trials only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


class Limits(NamedTuple):
    """One-sided limits of a probability; each alone holds at its level, not both together."""

    lower: float
    upper: float


def exchangeable_moments(tests: npt.ArrayLike) -> tuple[float, float, float, float]:
    """Unbiased estimates of μ_j = Pr[j given tests of one trial are all 1], for j = 1 … 4.

    Args:
        tests: zeros and ones, shape [n, K], K ≥ 1.

    Returns:
        NaN where j is above K.
    """
    matrix = np.asarray(tests, np.float64)
    k, ones = matrix.shape[1], matrix.sum(axis=1)
    found, product = [], np.ones(len(ones))
    for j in range(4):
        product = product * (ones - j) / (k - j) if k > j else np.full(len(ones), np.nan)
        found.append(float(product.mean()))
    return found[0], found[1], found[2], found[3]


def exchangeable_limits(tests: npt.ArrayLike, error: float, order: int) -> Limits:
    """Asymptotic limits of the probability that a test is 1 [Pillutla2023, section 4].

    Order 1 allows for the variance that the mean of a trial has if all its tests agree. Order 2
    uses an upper limit of μ₂, the probability that two tests agree in being 1, at half of the
    error. Order 4 finds that limit in the same way from upper limits of μ₃ and μ₄, all at a quarter
    of the error.

    Args:
        tests: zeros and ones, shape [n, K]; K ≥ order.
        error: of each limit, in (0, ½).
        order: 1, 2 or 4.

    Raises:
        ValueError: there is no such order, or it is above K.
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
    """ln((p₁ − δ)/p₀) with a lower limit of p₁ and an upper limit of p₀; at least 0.

    Lifted (ε, δ)-DP bounds it by ε [Pillutla2023, definition 2].

    Args:
        present: of the probability that the test of a canary is 1, with all K canaries in.
        absent: the same of a canary that was left out, with the other K − 1 in.
        delta: in [0, 1).
    """
    above = present.lower - delta
    if above <= absent.upper:
        return 0.0
    return math.log(above / absent.upper) if absent.upper > 0 else math.inf


def _wilson(mean: float, n: int, error: float, *, linear: float, constant: float) -> Limits:
    """Where n (μ − mean)² = z² v(μ), for a variance v(μ) = linear μ + constant − μ².

    No variance is above ¼, so the limits are no wider than that.
    """
    z = -float(special.ndtri(error))
    a = n + z * z
    b = 2 * n * mean + z * z * linear
    c = n * mean * mean - z * z * constant
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    most = z / math.sqrt(4 * n)
    lower = max((b - root) / (2 * a), mean - most, 0.0)
    upper = min((b + root) / (2 * a), mean + most, 1.0)
    return Limits(min(lower, mean), max(upper, mean))  # whatever rounding does
