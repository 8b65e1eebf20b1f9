"""A claim in the record: its parameters, its ε at the cell's δ, and points of its curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.record.model import ClaimRecord
from dpframe.record.plain import plain

if TYPE_CHECKING:
    from dpframe.claims import Claim
    from dpframe.types import Floats

FARTHEST = 1e-12
"""The smallest false-positive rate above 0 at which a curve is written down."""


def claim_record(claim: Claim | None, delta: float) -> ClaimRecord | None:
    """What is claimed, at the δ at which ε is estimated.

    Args:
        claim: None if nothing is claimed.
        delta: of the cell.
    """
    if claim is None:
        return None
    # Of a claim at a single δ, ε and δ are the whole curve.
    is_curve = len(claim.telling_deltas) > 1
    return ClaimRecord(
        kind=claim.kind,
        epsilon=float(claim.epsilon_at(delta)),
        delta=delta,
        parameters=plain(claim.parameters()),
        tradeoff=curve_points(claim) if is_curve else None,
        profile=profile_points(claim) if is_curve else None,
    )


def curve_points(claim: Claim) -> list[list[float]]:
    """Points (FPR, FNR) of the claimed curve, from end to end, dense where it bends."""
    fpr = _places(claim)
    return [[float(x), float(y)] for x, y in zip(fpr, claim.tradeoff(fpr), strict=True)]


def _places(claim: Claim) -> Floats:
    """False-positive rates: on a logarithmic scale up to 0.1, then on a linear one."""
    # A curve is its own inverse: this is where it has fallen by a thousandth.
    begin = float(claim.tradeoff(np.array([0.999]))[0])
    rare = np.geomspace(min(max(begin, FARTHEST), 0.01), 0.1, 16)
    return np.concatenate([[0.0], rare, np.linspace(0.1, 1, 17)[1:]])


RARE_DELTAS = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10)
"""δ at which a profile is written down."""


def profile_points(claim: Claim) -> list[list[float]]:
    """Points (ε, δ) of the claimed profile, from ε = 0: evenly placed, and where δ is rare."""
    named = [claim.epsilon_at(delta) for delta in RARE_DELTAS]
    known = [epsilon for epsilon in named if np.isfinite(epsilon)]
    even = np.linspace(0.0, max(known, default=0.0), 17).tolist()
    return [[e, float(claim.delta_at(e))] for e in sorted({*even, *map(float, known)})]
