"""Confidence limits for a binomial probability."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import special

from dpframe.stats.roots import bisection_each

# Exact one-sided confidence limits for a binomial probability [Clopper1934].


if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
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
    """Upper limit of p: Pr[p ≤ limit] ≥ 1 − error, whatever p is.

    The limit is the p at which Pr[Bin(n, p) ≤ k] = error, that is the 1 − error quantile of
    Beta(k + 1, n − k); 1 at k = n.

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
    """Lower limit of p: Pr[p ≥ limit] ≥ 1 − error, whatever p is.

    The limit is the p at which Pr[Bin(n, p) ≥ k] = error, that is the error quantile of
    Beta(k, n − k + 1); 0 at k = 0.

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
    """The entries inside, flat."""
    everything = inside.all()
    return tuple(array.ravel() if everything else array[inside] for array in every)


def _filled(inside: Bools, limits: Floats, otherwise: float) -> Floats:
    """Limits of the entries inside, and what the others are."""
    if inside.all():
        return limits.reshape(inside.shape)
    filled = np.full(inside.shape, otherwise)
    filled[inside] = limits
    return filled


def _checked(found: Floats, tail: Callable[[Floats, Indices], Floats], error: Floats) -> Floats:
    """Limits whose tail probability really is the error.

    SciPy's inverse of the beta distribution is wrong in places (1.17: where a parameter is exactly
    1000; NaN near errors of 1e-300), its forward function is not. Where the two disagree the limit
    is bisected, and ends on its conservative side.

    Args:
        found: limits from the inverse.
        tail: tail probability at a limit, for the entries with the given indices; monotone.
        error: what it should be.
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


# Limits for a binomial probability from its posterior under Jeffreys' prior.


if TYPE_CHECKING:
    import numpy.typing as npt

    JeffreysFloats = npt.NDArray[np.float64]


def jeffreys_upper(
    successes: npt.ArrayLike, trials: npt.ArrayLike, error: npt.ArrayLike
) -> JeffreysFloats:
    """The 1 − error quantile of Beta(k + ½, n − k + ½), the posterior of p given k of n.

    Approximate: over all p its coverage scatters around 1 − error and dips below [Brown2001]. As
    they advise it is 1 at k = n, so that it never is below k/n for an error below ½.

    Args:
        successes: k, counts in [0, n].
        trials: n ≥ 0.
        error: one-sided error, in [1e-100, 1]; all three broadcast.
    """
    k, n, a = (np.asarray(value, np.float64) for value in (successes, trials, error))
    # The complemented form keeps its accuracy for errors near 0, where 1 - error would be 1.
    return np.where(k == n, 1.0, special.betainccinv(k + 0.5, n - k + 0.5, a))


def jeffreys_lower(
    successes: npt.ArrayLike, trials: npt.ArrayLike, error: npt.ArrayLike
) -> JeffreysFloats:
    """The `error` quantile of Beta(k + ½, n − k + ½), and 0 at k = 0.

    Args:
        successes: k, counts in [0, n].
        trials: n ≥ 0.
        error: one-sided error, in [1e-100, 1]; all three broadcast.
    """
    k, n, a = (np.asarray(value, np.float64) for value in (successes, trials, error))
    return np.where(k == 0, 0.0, special.betaincinv(k + 0.5, n - k + 0.5, a))


# Limits for a probability from several exchangeable tests per trial [Pillutla2023].
#
# Each trial puts K canaries into the data and tests each of them. The tests of a trial are
# dependent,
# but exchangeable, so their mean varies less than a single test, and its variance is known from
# the
# moments of a few of them. Limits are those of [Wilson1927], so they hold for many trials only.


if TYPE_CHECKING:
    import numpy.typing as npt

    LidpFloats = npt.NDArray[np.float64]


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


# How often something happened that should not, and whether that can be chance.


class Exceedance(NamedTuple):
    """A rate of failures, with an interval around it."""

    rate: float
    low: float
    high: float
    alarm: int | None
    """Fewest failures that would have shown a broken promise; None if no number would."""
    broken: bool
    """Whether the interval lies above what was promised."""


def exceedance(failures: int, repeats: int, promised: float, error: float) -> Exceedance:
    """Compares a number of failures with what was promised.

    The interval is that of [Clopper1934], half of the error on each side. So a kept promise is
    called broken with probability at most error / 2.

    Args:
        failures: how often a bound exceeded the truth.
        repeats: of how many.
        promised: highest failure rate that was promised, in (0, 1).
        error: 1 − confidence of the interval.
    """
    low = float(clopper_pearson_lower(failures, repeats, error / 2))
    high = float(clopper_pearson_upper(failures, repeats, error / 2))
    alarm = _alarm(repeats, promised, error / 2)
    return Exceedance(failures / repeats, low, high, alarm, low > promised)


def _alarm(repeats: int, promised: float, error: float) -> int | None:
    """Fewest failures whose lower limit lies above what was promised; the limit rises with them."""

    def shown(failures: int) -> bool:
        return float(clopper_pearson_lower(failures, repeats, error)) > promised

    fewest = bisect.bisect_left(range(repeats + 1), x=True, key=shown)
    return fewest if fewest <= repeats else None
