"""What may be hoped for of a pair that has shown little."""

from __future__ import annotations

import math

FARTHEST = -4.0
"""Standard errors inside of the claim beyond which all pairs are alike."""


def hoped(z: float) -> float:
    """Mean of the square of what is positive of a normal variable.

    Args:
        z: its mean, in units of its standard deviation.
    """
    z = max(z, FARTHEST)
    density = math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return (1 + z**2) * math.erfc(-z / math.sqrt(2)) / 2 + z * density
