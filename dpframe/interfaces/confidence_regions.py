"""Bounds on ε, p-values and trade-off points from joint limits on both error rates.

A box is a pair (FPR_up, FNR_up) of upper limits for one way of deciding between D and D′. A
staircase is a union of boxes; the error rates lie in one of them. If a set of them holds
simultaneously with probability 1 − a, everything derived from it here does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dpframe.claims import Claim
from dpframe.common.types import Floats
from dpframe.interfaces.estimator import Contrast, Estimate, Query, Share, UpperOf
from dpframe.stats.roots import crossing_between
from dpframe.stats.tradeoff import certified_profile

SMALLEST_P = 1e-300  # p-values are floored here, never 0
TOLERANCE = 1e-12  # of the logarithm of a p-value, relative to 1 + how far it is above the smallest


def estimate_from_boxes(
    boxes: Callable[[float], Floats],
    query: Query,
    *,
    epsilon: float,
    epsilon_upper: float | None = None,
    epsilon_upper_of: UpperOf = "chosen thresholds",
    profile: tuple[tuple[float, float], ...] = (),
    notes: tuple[str, ...] = (),
    shares: Sequence[float] = (),
) -> Estimate:
    """Build a certified estimate.

    Args:
        boxes: maps an error level a in (0, 1] to upper limits (FPR, FNR), shape [k, 2] for k boxes
            or [k, corners, 2] for k staircases, that hold together with probability at least 1 − a,
            every choice made on the way paid for. Must shrink as a grows.
        query: what is asked.
        epsilon: the point value.
        epsilon_upper: the most that this attack can show, at the same confidence.
        epsilon_upper_of: what that limits.
        profile: points (ε, δ) of the estimated privacy profile.
        notes: remarks for the record.
        shares: of the error, one per box or staircase, if each alone fails with no more than its
            share of it; sum to at most 1.
    """
    at_level = boxes(1 - query.confidence)
    claim = query.claim
    p_value = p_resolved = contrast = None
    if claim is not None:
        p_value = _smallest_level(boxes, claim, 0.0)
        p_resolved = (
            _smallest_level(boxes, claim, query.resolution, least=p_value)
            if query.resolution
            else p_value
        )
        contrast = _clearest(at_level, claim)
    return Estimate(
        epsilon=epsilon,
        epsilon_lower=epsilon_of(at_level, query.delta),
        epsilon_upper=epsilon_upper,
        epsilon_upper_of=epsilon_upper_of,
        p_value=p_value,
        p_resolved=p_resolved,
        contrast=contrast,
        tradeoff=tuple((float(x), float(y)) for x, y in _staircases(at_level).max(axis=1)),
        profile=profile,
        profile_lower=certified_profile(at_level),
        notes=notes,
        shares=tuple(
            Share(share, epsilon_of(box[None], query.delta))
            for share, box in zip(shares, at_level, strict=bool(shares))
        ),
    )


def epsilon_of(boxes: Floats, delta: float) -> float:
    """Return the largest ε ≥ 0 that the boxes rule out at δ: sup {ε : some box lies below f_{ε,δ}}.

    max over boxes (x, y) of ln((1 − δ − y)/x) and ln((1 − δ − x)/y) [Kairouz2015, theorem 2.1]
    [Koskela2024, equation 6.2]; of a staircase, the least over its corners.

    Args:
        boxes: shape [k, 2] or [k, corners, 2].
        delta: in [0, 1).
    """
    corners = _staircases(boxes)
    if not corners.size:
        return 0.0
    both = np.stack([corners, corners[..., ::-1]])
    heights = 1 - delta - both[..., 1]
    useful = heights > 0
    with np.errstate(divide="ignore"):  # a limit that is rounded to 0
        ratios = np.where(useful, heights, 0.0) / np.where(useful, both[..., 0], 1.0)
    # Per corner the better direction, per staircase its worst corner, of all the best staircase.
    worst = ratios.max(axis=0).min(axis=1)
    best = float(worst[np.isfinite(worst)].max(initial=0.0))  # one without any limit says nothing
    return math.log(best) if best > 1 else 0.0


def rejects(boxes: Floats, claim: Claim) -> bool:
    """True if a box, or a whole staircase, lies strictly below the claimed trade-off curve."""
    return _depth(boxes, claim) > 0


def _depth(boxes: Floats, claim: Claim) -> float:
    """Return how far the lowest box or staircase lies below the claim; not above 0 if none does."""
    if not boxes.size:
        return -math.inf
    corners = np.minimum(np.maximum(_staircases(boxes), 0.0), 1.0)  # faster than np.clip
    below = claim.tradeoff(corners[..., 0]) - corners[..., 1]
    return float(below.min(axis=1).max())


def _staircases(boxes: Floats) -> Floats:
    """Boxes as staircases with one corner, shape [k, corners, 2]."""
    return boxes[:, None, :] if boxes.ndim == 2 else boxes


def _clearest(boxes: Floats, claim: Claim) -> Contrast:
    """Compare bound and claim at the δ at which the bound exceeds the claim most."""
    contrasts = [
        Contrast(delta, epsilon_of(boxes, delta), claim.epsilon_at(delta))
        for delta in claim.telling_deltas
    ]
    return max(contrasts, key=lambda contrast: contrast.lower - contrast.claimed)


def _smallest_level(
    boxes: Callable[[float], Floats], claim: Claim, slack: float, least: float = SMALLEST_P
) -> float:
    """Find the least a ≥ `least` at which `boxes(a) + slack` rejects the claim."""
    origin = math.log(least)

    def depth(log_ratio: float) -> float:
        return _depth(boxes(min(1.0, math.exp(origin + log_ratio))) + slack, claim)

    low, high = (0.0, depth(0.0)), (-origin, depth(-origin))
    if not high[1] > 0:
        return 1.0
    if low[1] > 0:
        return least
    found = crossing_between(depth, high, low, tolerance=TOLERANCE)
    return math.exp(origin + found[1])
