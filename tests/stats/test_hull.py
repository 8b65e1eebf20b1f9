"""Lower convex hulls, against what makes a hull one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from dpframe.stats.gaussian import gaussian_tradeoff
from dpframe.stats.tradeoff import falling_hull, tradeoff_hull

thousandths = st.integers(0, 1000).map(lambda k: k / 1000)
rates = st.tuples(thousandths, thousandths)


@given(st.lists(rates, max_size=8))
def test_the_hull_is_convex_and_below_every_point(points: list[tuple[float, float]]) -> None:
    hull = np.array(tradeoff_hull(points))
    assert hull[0, 0] == 0.0
    assert hull[-1].tolist() == [1.0, 0.0]
    assert (np.diff(hull[:, 0]) > 0).all()
    slopes = np.diff(hull[:, 1]) / np.diff(hull[:, 0])
    assert (slopes <= 0).all()
    assert (np.diff(slopes) >= -1e-9).all()
    for x, y in [*points, (0.0, 1.0), (1.0, 0.0)]:
        assert np.interp(x, hull[:, 0], hull[:, 1]) <= y + 1e-9
    corners = {tuple(point) for point in [*points, (0.0, 1.0), (1.0, 0.0)]}
    assert all(tuple(corner) in corners for corner in hull.tolist())


def test_the_hull_of_points_on_a_curve_is_above_it() -> None:
    x = np.array([0.001, 0.01, 0.1, 0.4])
    hull = np.array(tradeoff_hull(zip(x, gaussian_tradeoff(x, 1.0), strict=True)))
    assert len(hull) == 6
    between = np.linspace(0, 1, 101)
    assert (
        np.interp(between, hull[:, 0], hull[:, 1]) >= gaussian_tradeoff(between, 1.0) - 1e-12
    ).all()


@given(st.lists(rates, min_size=1, max_size=8))
def test_the_falling_part_ends_at_the_lowest_point(points: list[tuple[float, float]]) -> None:
    hull = falling_hull(points)
    assert hull[0] == min(points)
    assert hull[-1] == min(points, key=lambda point: (point[1], point[0]))
    x, y = np.array(hull).T
    assert (np.diff(x) > 0).all()
    assert (np.diff(y) < 0).all()
    assert (np.diff(np.diff(y) / np.diff(x)) > 0).all()
    for px, py in points:
        if px <= x[-1]:
            assert np.interp(px, x, y) <= py + 1e-9


def test_a_point_on_a_segment_is_no_corner() -> None:
    assert falling_hull([(1.0, 1.0), (0.0, 2.0), (2.0, 0.0)]) == [(0.0, 2.0), (2.0, 0.0)]
    assert tradeoff_hull([(0.25, 0.75), (0.5, 0.5)]) == [(0.0, 1.0), (1.0, 0.0)]
    assert tradeoff_hull([(0.25, 0.0), (0.5, 0.0)]) == [(0.0, 1.0), (0.25, 0.0), (1.0, 0.0)]
