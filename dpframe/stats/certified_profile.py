"""A certified privacy profile: what limits on error rates say about δ(ε), for every ε at once."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


POINTS = 21
"""Of a written profile."""
DIGITS = 6
"""Of what is written; δ is rounded down."""
LARGEST = 700.0
"""e^700 is finite in float64."""


def certified_profile(staircases: npt.ArrayLike) -> tuple[tuple[float, float], ...]:
    """Points (ε, δ) of `certified_delta`, from ε = 0 to where it reaches 0.

    Between two points the δ of the right one holds, because a profile does not increase.

    Args:
        staircases: upper limits (FPR, FNR), shape [k, corners, 2], or [k, 2] for boxes.

    Returns:
        By ascending ε; none if nothing is certified at any δ.
    """
    limits = np.asarray(staircases, np.float64)
    limits = np.clip(limits[:, None, :] if limits.ndim == 2 else limits, 0.0, 1.0)
    both = np.stack([limits, limits[..., ::-1]])
    with np.errstate(divide="ignore", invalid="ignore"):  # a limit that is rounded to 0
        ratios = np.where(both[..., 1] < 1, (1 - both[..., 1]) / both[..., 0], 0.0)
    worst = ratios.max(axis=0).min(axis=1)
    telling = np.isfinite(worst) & (worst > 1)  # one without any limit says nothing
    if not telling.any():
        return ()
    end = min(float(np.log(worst[telling].max())), LARGEST)
    epsilons = [float(f"{epsilon:.{DIGITS}g}") for epsilon in np.linspace(0, end, POINTS)]
    deltas = certified_delta(limits[telling], epsilons).tolist()
    return tuple((e, _rounded_down(d)) for e, d in zip(epsilons, deltas, strict=True))


def _rounded_down(value: float) -> float:
    exact = Decimal(value)
    return float(exact.quantize(Decimal((0, (1,), exact.adjusted() - DIGITS + 1)), ROUND_FLOOR))


def certified_delta(staircases: npt.ArrayLike, epsilons: npt.ArrayLike) -> Floats:
    """max_j min over corners (x, y) of max(1 − y − e^ε x, 1 − x − e^ε y), and at least 0.

    The error rates of event j lie below or on one of its corners, it is not said which; and δ(ε) is
    at least 1 − FNR − e^ε FPR for any event, in both directions [Kairouz2015, theorem 2.1]. So if
    the staircases hold together with some probability, δ(ε) ≥ this holds with it for all ε at once.

    Args:
        staircases: upper limits (FPR, FNR), shape [k, corners, 2].
        epsilons: at least 0 and at most 700, shape [m].

    Returns:
        Lower bounds on δ, non-increasing in ε, shape [m].
    """
    corners = np.clip(np.asarray(staircases, np.float64), 0.0, 1.0)
    growth = np.exp(np.asarray(epsilons, np.float64))
    if not corners.size:
        return np.zeros(len(growth))
    x, y = corners[..., 0, None], corners[..., 1, None]
    either = np.maximum(1 - y - growth * x, 1 - x - growth * y)
    return np.asarray(np.maximum(either.min(axis=1).max(axis=0), 0.0))
