"""What points of a certified privacy profile have to be."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def profile_problem(points: Sequence[Sequence[float]]) -> str | None:
    """What keeps points (ε, δ) from being lower bounds on a privacy profile; None if nothing."""
    for epsilon, delta in points:
        if not (0 <= epsilon < math.inf and 0 <= delta <= 1):
            return f"has δ ≥ {delta} at ε = {epsilon}"
    for (e0, d0), (e1, d1) in itertools.pairwise(points):
        if e1 < e0 or d1 > d0:
            return f"does not fall from ε = {e0} to {e1}"
    return None
