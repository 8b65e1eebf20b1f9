"""Confidence regions of error rates against claims."""

import numpy as np

from dpframe.claims import Claim
from dpframe.common.types import Floats


def rejects(regions: Floats, claim: Claim) -> bool:
    """True if a box [2], or a whole staircase [corners, 2], lies strictly below a claimed curve."""
    corners = np.clip(regions, 0.0, 1.0)
    below = claim.tradeoff(corners[..., 0]) > corners[..., 1]
    return bool(below.any() if below.ndim == 1 else below.all(axis=1).any())
