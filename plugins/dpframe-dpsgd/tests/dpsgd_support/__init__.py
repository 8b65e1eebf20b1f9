"""Helpers that tests share."""

SMALL = {"width": 8, "steps": 3, "batch": 10, "noise_multiplier": 2.0, "clip": 0.5}
"""A trainer that takes no time."""
FAR = 4.9
"""Standard deviations that correct code exceeds once in a million times."""


def near(values, mean, deviation):
    """True if the mean of independent values is the expected one."""
    return abs(values.mean() - mean) <= FAR * deviation / values.size**0.5
