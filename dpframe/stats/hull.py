"""The lower convex hull of points, the one shape behind profiles, bands and plots."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    Point = tuple[float, float]


def falling_hull(points: Iterable[Point]) -> list[Point]:
    """The falling part of the lower convex hull, by ascending x.

    It begins at the leftmost point, the lowest of several, and ends at the lowest one. A point on
    the segment between two others is left out (monotone chain [Andrew1979]).

    Args:
        points: (x, y), any order, at least one.
    """
    hull: list[Point] = []
    for point in sorted(points):
        if hull and point[1] >= hull[-1][1]:
            continue  # not lower than a point to its left
        while len(hull) > 1 and _is_above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def tradeoff_hull(points: Iterable[Point]) -> list[Point]:
    """The lower convex hull of points (FPR, FNR) and of (0, 1) and (1, 0), by ascending FPR.

    A trade-off curve is convex, starts at or below (0, 1) and ends at (1, 0) [Dong2022, proposition
    2.2]. So if it passes below or through every point, it does not rise above the hull: unlike
    lemma 7 applied to a lowered profile, this is a rigorous upper bound.

    Args:
        points: in [0, 1] × [0, 1].

    Returns:
        Corners of the hull, from (0, ≤ 1) to (1, 0).
    """
    hull = falling_hull([*points, (0.0, 1.0), (1.0, 0.0)])
    if hull[-1][0] < 1:  # an FNR of 0 was reached before (1, 0)
        hull.append((1.0, 0.0))
    return hull


def _is_above(a: Point, b: Point, c: Point) -> bool:
    """Whether b is on or above the segment from a to c."""
    return (a[1] - b[1]) * (c[0] - b[0]) <= (b[1] - c[1]) * (b[0] - a[0])
