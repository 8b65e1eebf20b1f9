"""Confidence limits for a binomial probability: exact, Jeffreys', and for exchangeable tests."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from dpframe.common.types import Floats
from dpframe.stats.roots import bisection_each

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


TOLERANCE = 1e-6
"""Relative error of a limit's tail probability beyond which SciPy's inverse is not believed."""

STEPS = 200

LARGEST = 1e8
"""Up to so many trials 1 − p is exact enough for the mirrored form, which is much faster."""


def clopper_pearson_upper(
    successes: npt.ArrayLike, trials: npt.ArrayLike, error: npt.ArrayLike
) -> Floats:
    """Return the exact upper limit of p: Pr[p ≤ limit] ≥ 1 − error, whatever p is [Clopper1934].

    The limit is the p at which Pr[Bin(n, p) ≤ k] = error, the 1 − error quantile of Beta(k + 1, n −
    k); 1 at k = n.

    Args:
        successes: k, counts in [0, n].
        trials: n ≥ 1.
        error: one-sided error, in (0, 1]; all three broadcast.
    """
    every = _broadcast(successes, trials, error)
    inside = every[0] < every[1]
    k, n, a = _where(inside, every)
    # The complemented form keeps its accuracy for errors near 0, where 1 - error would be 1.
    found = special.betainccinv(k + 1, n - k, a)

    def tail(p: Floats, i: Indices) -> Floats:
        if n.max(initial=0) <= LARGEST:
            return np.asarray(special.betainc(n[i] - k[i], k[i] + 1, 1 - p), np.float64)
        return np.asarray(special.betaincc(k[i] + 1, n[i] - k[i], p), np.float64)

    return _filled(inside, _checked(np.asarray(found, np.float64), tail, a), 1.0)


def clopper_pearson_lower(
    successes: npt.ArrayLike, trials: npt.ArrayLike, error: npt.ArrayLike
) -> Floats:
    """Return the exact lower limit of p: Pr[p ≥ limit] ≥ 1 − error, whatever p is [Clopper1934].

    The limit is the p at which Pr[Bin(n, p) ≥ k] = error, the error quantile of Beta(k, n − k + 1);
    0 at k = 0.

    Args:
        successes: k, counts in [0, n].
        trials: n ≥ 1.
        error: one-sided error, in (0, 1]; all three broadcast.
    """
    every = _broadcast(successes, trials, error)
    inside = every[0] > 0
    k, n, a = _where(inside, every)
    found = special.betaincinv(k, n - k + 1, a)

    def tail(p: Floats, i: Indices) -> Floats:
        return np.asarray(special.betainc(k[i], n[i] - k[i] + 1, p), np.float64)

    return _filled(inside, _checked(np.asarray(found, np.float64), tail, a), 0.0)


def _broadcast(*values: npt.ArrayLike) -> tuple[Floats, ...]:
    arrays = [np.asarray(value, np.float64) for value in values]
    shape = (arrays[0] + arrays[1] + arrays[2]).shape
    return tuple(array if array.shape == shape else array + np.zeros(shape) for array in arrays)


def _where(inside: Bools, every: tuple[Floats, ...]) -> tuple[Floats, ...]:
    """Select the entries inside, flat."""
    everything = inside.all()
    return tuple(array.ravel() if everything else array[inside] for array in every)


def _filled(inside: Bools, limits: Floats, otherwise: float) -> Floats:
    """Scatter the limits of the entries inside; `otherwise` for the others."""
    if inside.all():
        return limits.reshape(inside.shape)
    filled = np.full(inside.shape, otherwise)
    filled[inside] = limits
    return filled


def _checked(found: Floats, tail: Callable[[Floats, Indices], Floats], error: Floats) -> Floats:
    """Replace limits whose tail probability is not the error.

    SciPy's inverse of the beta distribution is wrong in places (1.17: where a parameter is exactly
    1000; NaN near errors of 1e-300), its forward function is not. If the two disagree, the limit is
    bisected and ends on its conservative side. `tail` is monotone and takes limits and indices of
    entries.
    """
    everything: Any = slice(None)
    with np.errstate(invalid="ignore"):
        right = np.abs(tail(found, everything) / error - 1) <= TOLERANCE
    if right.all():
        return found
    at = np.flatnonzero(~right)
    rising = tail(np.full(at.size, 0.0), at) < tail(np.full(at.size, 1.0), at)

    def beyond(log_p: Floats) -> Bools:
        return np.asarray((tail(np.exp(log_p), at) > error[at]) == rising)

    # In the logarithm of p: limits of interest lie anywhere between 1e-300 and 1.
    low, high = bisection_each(beyond, np.full(at.size, -700.0), np.zeros(at.size), steps=STEPS)
    fixed = found.copy()
    fixed[at] = np.exp(np.where(rising, low, high))
    return fixed


def jeffreys_upper(successes: npt.ArrayLike, trials: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """Return the 1 − error quantile of Beta(k + ½, n − k + ½), the posterior of p given k of n.

    Approximate: over all p its coverage scatters around 1 − error and dips below [Brown2001]. As
    they advise it is 1 at k = n, so it is never below k/n for an error below ½.

    Args:
        successes: k, counts in [0, n].
        trials: n ≥ 0.
        error: one-sided error, in [1e-100, 1]; all three broadcast.
    """
    k, n, a = (np.asarray(value, np.float64) for value in (successes, trials, error))
    # The complemented form keeps its accuracy for errors near 0, where 1 - error would be 1.
    return np.where(k == n, 1.0, special.betainccinv(k + 0.5, n - k + 0.5, a))


def jeffreys_lower(successes: npt.ArrayLike, trials: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """Return the `error` quantile of Beta(k + ½, n − k + ½), and 0 at k = 0; arguments as above."""
    k, n, a = (np.asarray(value, np.float64) for value in (successes, trials, error))
    return np.where(k == 0, 0.0, special.betaincinv(k + 0.5, n - k + 0.5, a))


class Limits(NamedTuple):
    """One-sided limits of a probability; each alone holds at its level, not both together."""

    lower: float
    upper: float


def exchangeable_moments(tests: npt.ArrayLike) -> tuple[float, float, float, float]:
    """Estimate μ_j = Pr[j given tests of one trial are all 1] without bias, for j = 1 … 4.

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
    varies less than a single test, and moments of a few of them bound its variance; limits as in
    [Wilson1927]. Order 1 allows for the variance if all tests of a trial agree. Order 2 uses an
    upper limit of μ₂, the probability that two tests are both 1, at half of the error. Order 4
    bounds μ₂ in the same way from upper limits of μ₃ and μ₄, each at a quarter of the error.

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

    p₁ is the lower limit of the probability that a canary tests 1 if all K canaries are in, p₀ the
    upper limit for a canary left out, with the other K − 1 in.
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


class Exceedance(NamedTuple):
    """A rate of failures, with an interval around it."""

    rate: float
    low: float
    high: float
    alarm: int | None
    """Fewest failures that would have shown a broken promise; None if no number would."""
    broken: bool  # whether the interval lies above what was promised


def exceedance(failures: int, repeats: int, promised: float, error: float) -> Exceedance:
    """Compare a number of failures out of `repeats` with the promised rate, in (0, 1).

    The interval, at 1 − error, is that of [Clopper1934] with half of the error on each side, so a
    kept promise is called broken with probability at most error / 2.
    """
    low = float(clopper_pearson_lower(failures, repeats, error / 2))
    high = float(clopper_pearson_upper(failures, repeats, error / 2))
    alarm = _alarm(repeats, promised, error / 2)
    return Exceedance(failures / repeats, low, high, alarm, low > promised)


def _alarm(repeats: int, promised: float, error: float) -> int | None:
    """Fewest failures whose lower limit, which rises with them, exceeds the promise."""

    def shown(failures: int) -> bool:
        return float(clopper_pearson_lower(failures, repeats, error)) > promised

    fewest = bisect.bisect_left(range(repeats + 1), x=True, key=shown)
    return fewest if fewest <= repeats else None
