"""Confidence regions for two error rates at once, tighter than two intervals.

A bound on ε needs an upper limit of one rate and a lower limit of another. Two limits that hold
together at α/2 each cover the case that both are at their worst; a joint test need not, and gains
what a sum of two standard errors loses against the root of their squares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

CAP = 0.1
"""Share of the error spent on each rate alone; the rest goes to their weighted sum.

The two caps keep the region small where the weights turn out wrong. Between 0.02 and 0.2 the share
hardly matters.
"""

CORNERS = 64
"""Steps of the staircase that covers a region."""


def joint_staircases(
    false: npt.ArrayLike,
    trials_false: npt.ArrayLike,
    true: npt.ArrayLike,
    trials_true: npt.ArrayLike,
    weight: npt.ArrayLike,
    error: npt.ArrayLike,
) -> Floats:
    """Staircases that contain (FPR, FNR) with probability at least 1 − error, for each event.

    Let U(x) = Pr[Bin(n, x) ≤ false] and V(p) = Pr[Bin(n′, p) ≥ true] be the exact one-sided
    p-values of the two rates. They are independent, and at the true rates each is at most u with
    probability at most u. A pair (x, p) is outside of the region if U(x) ≤ κa, or V(p) ≤ κa, or

        w Φ⁻¹(1 − U(x)) + √(1 − w²) Φ⁻¹(1 − V(p)) ≥ Φ⁻¹(1 − (1 − 2κ)a).

    The sum on the left is at most as large as a standard normal variable (Stouffer's combination
    with weights [Liptak1958]), so the three together happen with probability at most a at the true
    rates, whatever they are. κ is `CAP`. The region shrinks as a grows.

    The same holds if the event is {score > t} with t the r-th largest of the n scores on which it
    is false, and `false` is r − 1: then 1 − F(t) is at most a Beta(r, n − r + 1) variable, of which
    U(x) is the upper tail, and given t the other count is binomial.

    Args:
        false: how often the event happened where it should not, integers, shape [k].
        trials_false: out of how many.
        true: how often it happened where it should, shape [k].
        trials_true: out of how many.
        weight: w in (0, 1), the share of the false positives; must not depend on these counts.
        error: a in (0, 1]; all broadcast.

    Returns:
        Shape [k, corners, 2]: the region lies in the union of the boxes [0, x] × [0, y].
    """
    columns = np.broadcast_arrays(false, trials_false, true, trials_true, weight, error)
    k, n, hits, n_true, w, a = (np.asarray(c, np.float64).reshape(-1, 1) for c in columns)
    v = np.sqrt(1 - w * w)
    cap = -special.ndtri(CAP * a)
    critical = -special.ndtri((1 - 2 * CAP) * a)
    # Along the edge of the region: from where the cap of the true rate ends it to the other cap.
    first = np.minimum((critical - v * cap) / w, cap)
    z = first + (cap - first) * np.linspace(0, 1, CORNERS + 1)
    z_true = np.minimum((critical - w * z) / v, cap)
    fpr = clopper_pearson_upper(k, n, special.ndtr(-z[:, 1:]))
    tpr = clopper_pearson_lower(hits, n_true, special.ndtr(-z_true[:, :-1]))
    return np.stack([fpr, 1 - tpr], axis=-1)
