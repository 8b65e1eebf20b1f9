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

    Approximate: over all p its coverage scatters around 1 − error and dips below (Brown, Cai and
    DasGupta 2001). Below 1 even at k = n.

    Args:
        successes: k, counts in [0, n].
        trials: n ≥ 1.
        error: one-sided error, in (0, 1]; all three broadcast.
    """
    k, n, a = (np.asarray(value, np.float64) for value in (successes, trials, error))
    # The complemented form keeps its accuracy for errors near 0, where 1 - error would be 1.
    return np.asarray(special.betainccinv(k + 0.5, n - k + 0.5, a), np.float64)


def jeffreys_lower(successes: npt.ArrayLike, trials: npt.ArrayLike, error: npt.ArrayLike) -> Floats:
    """The `error` quantile of Beta(k + ½, n − k + ½); above 0 even at k = 0.

    Args:
        successes: k, counts in [0, n].
        trials: n ≥ 1.
        error: one-sided error, in (0, 1]; all three broadcast.
    """
    k, n, a = (np.asarray(value, np.float64) for value in (successes, trials, error))
    return np.asarray(special.betaincinv(k + 0.5, n - k + 0.5, a), np.float64)
