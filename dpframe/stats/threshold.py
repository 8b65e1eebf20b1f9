"""The loss that one way of deciding shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def threshold_epsilon(fpr: npt.ArrayLike, fnr: npt.ArrayLike, delta: npt.ArrayLike) -> Floats:
    """max{0, ln((1 − δ − FNR)/FPR), ln((1 − δ − FPR)/FNR)}, in nats.

    Equation 6.2 of [Koskela2024], after [Kairouz2015, theorem 2.1]: no (ε, δ)-DP mechanism with a
    smaller ε has these error rates. With upper limits of both rates it is a lower limit of ε
    [Jagielski2020]; with lower limits it is an upper limit of what this way of deciding shows.

    Args:
        fpr: in [0, 1].
        fnr: in [0, 1].
        delta: in [0, 1); all broadcast.

    Returns:
        inf where a rate is 0 and the other leaves something above δ.
    """
    x, y, d = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in (fpr, fnr, delta)))
    above, below = np.stack([1 - d - y, 1 - d - x]), np.stack([x, y])
    shows = above > below  # the others show no loss, and may have no logarithm
    with np.errstate(divide="ignore"):
        losses = np.log(np.where(shows, above, 1.0)) - np.log(np.where(shows, below, 1.0))
    return np.asarray(losses.max(axis=0), np.float64)
