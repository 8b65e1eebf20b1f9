"""Exact one-sided confidence limits for a binomial probability [Clopper1934]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from dpframe.stats.roots import bisection_each

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
