"""Limits for a binomial probability from its posterior under Jeffreys' prior."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def jeffreys_upper(successes: npt.ArrayLike, trials: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
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


def jeffreys_lower(successes: npt.ArrayLike, trials: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """The `error` quantile of Beta(k + ½, n − k + ½), and 0 at k = 0.

    Args:
        successes: k, counts in [0, n].
        trials: n ≥ 0.
        error: one-sided error, in [1e-100, 1]; all three broadcast.
    """
    k, n, a = (np.asarray(value, np.float64) for value in (successes, trials, error))
    return np.where(k == 0, 0.0, special.betaincinv(k + 0.5, n - k + 0.5, a))
