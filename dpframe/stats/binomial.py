"""Confidence limits for a binomial probability, exact and Jeffreys', and sums over two of them."""

import bisect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from dpframe.common.types import Bools, Floats
from dpframe.stats.roots import bisection_each

Indices = npt.NDArray[np.intp]


TOLERANCE = 1e-6
"""Largest accepted relative error of the tail probability at a limit found by SciPy's inverse."""

HALVINGS = 200

LARGEST = 1e8
"""Most trials for which 1 − p is exact enough for the mirrored form, which is much faster."""


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
    columns = _broadcast(successes, trials, error)
    inside = columns[0] < columns[1]
    k, n, a = _where(inside, columns)
    # The complemented form keeps its accuracy for errors near 0, where 1 - error would be 1.
    limit = special.betainccinv(k + 1, n - k, a)

    def tail(p: Floats, i: Indices) -> Floats:
        if n.max(initial=0) <= LARGEST:
            return np.asarray(special.betainc(n[i] - k[i], k[i] + 1, 1 - p), np.float64)
        return np.asarray(special.betaincc(k[i] + 1, n[i] - k[i], p), np.float64)

    return _filled(inside, _checked(np.asarray(limit, np.float64), tail, a), 1.0)


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
    columns = _broadcast(successes, trials, error)
    inside = columns[0] > 0
    k, n, a = _where(inside, columns)
    limit = special.betaincinv(k, n - k + 1, a)

    def tail(p: Floats, i: Indices) -> Floats:
        return np.asarray(special.betainc(k[i], n[i] - k[i] + 1, p), np.float64)

    return _filled(inside, _checked(np.asarray(limit, np.float64), tail, a), 0.0)


def _broadcast(*values: npt.ArrayLike) -> tuple[Floats, ...]:
    arrays = [np.asarray(value, np.float64) for value in values]
    shape = (arrays[0] + arrays[1] + arrays[2]).shape
    return tuple(array if array.shape == shape else array + np.zeros(shape) for array in arrays)


def _where(inside: Bools, columns: tuple[Floats, ...]) -> tuple[Floats, ...]:
    """Select the entries inside, flat."""
    everything = inside.all()
    return tuple(array.ravel() if everything else array[inside] for array in columns)


def _filled(inside: Bools, limits: Floats, otherwise: float) -> Floats:
    """Scatter the limits of the entries inside; `otherwise` for the others."""
    if inside.all():
        return limits.reshape(inside.shape)
    filled = np.full(inside.shape, otherwise)
    filled[inside] = limits
    return filled


def _checked(limit: Floats, tail: Callable[[Floats, Indices], Floats], error: Floats) -> Floats:
    """Replace limits whose tail probability is not the error.

    SciPy's inverse of the beta distribution is wrong in places (1.17: where a parameter is exactly
    1000; NaN near errors of 1e-300); its forward function is not. If the two disagree, the limit is
    bisected and ends on its conservative side. `tail` is monotone and takes limits and indices of
    entries.
    """
    everything: Any = slice(None)
    with np.errstate(invalid="ignore"):
        right = np.abs(tail(limit, everything) / error - 1) <= TOLERANCE
    if right.all():
        return limit
    at = np.flatnonzero(~right)
    rising = tail(np.full(at.size, 0.0), at) < tail(np.full(at.size, 1.0), at)

    def beyond(log_p: Floats) -> Bools:
        return np.asarray((tail(np.exp(log_p), at) > error[at]) == rising)

    # In the logarithm of p: limits of interest lie anywhere between 1e-300 and 1.
    low, high = bisection_each(beyond, np.full(at.size, -700.0), np.zeros(at.size), steps=HALVINGS)
    fixed = limit.copy()
    fixed[at] = np.exp(np.where(rising, low, high))
    return fixed


def jeffreys_upper(successes: npt.ArrayLike, trials: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """Return the 1 − error quantile of Beta(k + ½, n − k + ½), the posterior of p given k of n.

    Approximate: over all p its coverage scatters around 1 − error and dips below [Brown2001]. As
    they advise it is 1 at k = n, so it is never below k/n for an error up to 0.42.

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


class Exceedance(NamedTuple):
    """A rate of failures, with an interval around it."""

    rate: float
    low: float
    high: float
    alarm: int | None
    """Fewest failures that show a broken promise; None if no number of failures does."""
    broken: bool  # True if the interval lies above the promised rate


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
    """Return the fewest failures whose lower limit exceeds the promise; None if none does."""

    def shown(failures: int) -> bool:
        return float(clopper_pearson_lower(failures, repeats, error)) > promised

    fewest = bisect.bisect_left(range(repeats + 1), x=True, key=shown)
    return fewest if fewest <= repeats else None


# The probability of a set of counts at the corner of ε-DP, exact for any number of draws.
#
# The trade-off curve of ε-DP has a corner, FPR = FNR = 1/(1 + e^ε), and a mechanism with two
# outputs attains it. The counts of its outputs are two binomial numbers, so every probability is
# a finite sum.


REACH = 6.0  # standard deviations around the mean within which counts are enumerated
PROBABILITY_ROUNDING = 1e-5  # relative error of a probability that counts as rounding


def probability_of(
    hit: Callable[[int, int], bool], trials: int, rate: float, promised: float
) -> float:
    """Return the probability of the counts that hit, without those beyond `REACH`.

    Fewer errors give a higher bound, so the counts that hit lie below an edge. If their probability
    exceeds the promise, it is verified count by count, likely counts first.

    Args:
        hit: True if a number of false positives and one of false negatives count.
        trials: draws per dataset.
        rate: probability of an error on either of them.
        promised: the largest allowed probability.
    """
    n = trials
    deviation = math.sqrt(n * rate * (1 - rate))
    low = max(0, math.floor(n * rate - REACH * deviation))
    high = min(n, math.ceil(n * rate + REACH * deviation))
    edge = _edge(hit, low, high)
    below = special.bdtr(np.arange(high + 1), n, rate)
    mass = np.diff(below, prepend=0.0)
    total = math.fsum(mass[k] * below[u] for k, u in edge.items())
    if total <= promised:
        return total
    points = [(mass[k] * mass[u], k, u) for k, top in edge.items() for u in range(low, top + 1)]
    seen = 0.0
    for probability, k, u in sorted(points, reverse=True):
        seen += float(probability) if hit(k, u) else 0.0
        if seen > promised * (1 + 2 * PROBABILITY_ROUNDING):
            return total
    return seen


def _edge(hit: Callable[[int, int], bool], low: int, high: int) -> dict[int, int]:
    """Return, for each k, the largest u whose counts hit; `hit` is true below a falling edge."""
    k, u = low, high
    edge: dict[int, int] = {}
    while k <= high and u >= low:
        if hit(k, u):
            edge[k] = u
            k += 1
        else:
            u -= 1
    return edge
