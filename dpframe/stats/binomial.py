"""Exact one-sided confidence limits for a binomial probability (Clopper and Pearson 1934)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


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
    k, n, a = np.broadcast_arrays(
        np.asarray(successes, np.float64), np.asarray(trials, np.float64), np.asarray(error)
    )
    inside = k < n
    limit = np.ones(k.shape)
    # The complemented form keeps its accuracy for errors near 0, where 1 - error would be 1.
    limit[inside] = special.betainccinv(k[inside] + 1, n[inside] - k[inside], a[inside])
    # Errors near 1e-300 defeat the library here and there; 1 is a valid, if loose, upper limit.
    return np.where(np.isnan(limit), 1.0, limit)


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
    k, n, a = np.broadcast_arrays(
        np.asarray(successes, np.float64), np.asarray(trials, np.float64), np.asarray(error)
    )
    inside = k > 0
    limit = np.zeros(k.shape)
    limit[inside] = special.betaincinv(k[inside], n[inside] - k[inside] + 1, a[inside])
    # The same as above: 0 is a valid, if loose, lower limit.
    return np.where(np.isnan(limit), 0.0, limit)
