"""What mechanisms need to know of a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpframe import Pair


def sensitivity_or_distance(given: float | None, pair: Pair, p: float) -> float:
    """The sensitivity the user gave, else the pair's l_p distance."""
    found = pair.distance(p) if given is None else given
    if found == 0:
        raise ValueError("D and D′ are equal: say which sensitivity the noise is for")
    return found


def known(value: float | None) -> float:
    """A parameter that `resolve` has filled."""
    if value is None:
        raise ValueError("the noise is not known before the mechanism meets its pair")
    return value


def lone_difference(pair: Pair) -> float | None:
    """By how much D and D′ differ, if they differ in one coordinate at most; else None.

    Noise that is independent from coordinate to coordinate tells only there anything about which
    of the two it was.
    """
    d0, d1 = (np.asarray(data) for data in (pair.d0, pair.d1))
    if d0.shape != d1.shape or not all(data.dtype.kind in "biuf" for data in (d0, d1)):
        return None
    difference = np.abs(d1.astype(np.float64) - d0.astype(np.float64))
    return float(difference.sum()) if np.count_nonzero(difference) <= 1 else None
