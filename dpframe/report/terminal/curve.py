"""A claimed trade-off curve and what was certified along it, from the record."""

from __future__ import annotations

import bisect
import math
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from dpframe.stats.hull import tradeoff_hull

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.record.model import CellRecord

Point = tuple[float, float]

ENDS = ((0.0, 1.0), (1.0, 0.0))
"""What an attack reaches without looking: it never guesses D′, or always."""

NORMAL = NormalDist()
NEAREST = 1e-15
"""Rates are told apart from 0 and 1 down to this."""


class Curve(NamedTuple):
    """A claimed curve through recorded points (FPR, FNR), by ascending FPR."""

    points: tuple[Point, ...]

    def at(self, fpr: float) -> float:
        """FNR at a false-positive rate.

        Between recorded points the curve is drawn as that of two normal distributions, which is a
        straight line in the quantiles of both rates: recorded points may lie decades apart.
        """
        places = [x for x, _ in self.points]
        right = min(max(bisect.bisect_left(places, fpr), 1), len(places) - 1)
        (x0, y0), (x1, y1) = self.points[right - 1 : right + 1]
        if not x0 < fpr < x1:
            return y1 if fpr >= x1 else y0
        if x0 > 0 and x1 < 1 and y1 > 0 and y0 < 1:
            share = (_quantile(fpr) - _quantile(x0)) / (_quantile(x1) - _quantile(x0))
            return NORMAL.cdf(_quantile(y0) + share * (_quantile(y1) - _quantile(y0)))
        # At an end the neighbour's distance goes on, and the end itself is a limit.
        x, y = (x1, y1) if x0 <= 0 or y0 >= 1 else (x0, y0)
        distance = -_quantile(x) - _quantile(y)
        return min(max(NORMAL.cdf(-_quantile(fpr) - distance), y1), y0)


class Plotted(NamedTuple):
    """One cell, as a plot shows it."""

    cell: CellRecord
    claimed: Curve
    certified: tuple[Point, ...]
    """Points (FPR, FNR) that say something: the lower convex hull of all."""

    @property
    def gap(self) -> float:
        """How far the deepest point lies below the claimed curve, in quantiles of the FNR."""
        return max(_quantile(self.claimed.at(fpr)) - _quantile(fnr) for fpr, fnr in self.certified)


def evidence(cell: CellRecord) -> Plotted | None:
    """What a cell has to show; None without a claimed curve or without certified points."""
    estimate, claim = cell.estimate, cell.claim
    if estimate is None or claim is None or not estimate.certified:
        return None
    claimed = _points(claim.tradeoff or [])
    certified = useful(estimate.tradeoff)
    if len(claimed) < 2 or not certified:
        return None
    return Plotted(cell, Curve(tuple(sorted(claimed))), tuple(certified))


def useful(listed: Sequence[Sequence[float]]) -> list[Point]:
    """The points that no line between two others, or the ends of guessing, runs below."""
    hull = tradeoff_hull(point for point in _points(listed) if sum(point) < 1)
    return [point for point in hull if point not in ENDS]


def _points(listed: Sequence[Sequence[float]]) -> list[Point]:
    return [(x, y) for x, y in listed if math.isfinite(x + y)]


def _quantile(probability: float) -> float:
    return NORMAL.inv_cdf(min(max(probability, NEAREST), 1 - NEAREST))
