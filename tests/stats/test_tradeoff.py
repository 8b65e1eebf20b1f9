"""Trade-off curves from profiles, against closed forms and reference values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpframe.stats.gaussian import gaussian_delta, gaussian_tradeoff
from dpframe.stats.histograms import best_events, hockey_stick, subsampled_gaussian_hockey_stick
from dpframe.stats.tradeoff import falling_hull, tradeoff_hull, tradeoff_of_profile

Q, SIGMA = 0.25, 0.3


def one_sided_tradeoff(fpr: Any, epsilons: np.ndarray, deltas: np.ndarray) -> np.ndarray:
    """T(Q, P)(x) = sup_ε {1 − H_{e^ε}(P‖Q) − e^ε x} over real ε: one direction of lemma 7."""
    lines = 1 - deltas - np.exp(epsilons) * np.asarray(fpr, np.float64)[..., None]
    return np.maximum(lines.max(axis=-1), 0.0)


def test_lemma_7_of_a_gaussian() -> None:
    epsilons = np.arange(0, 30, 0.005)
    found = tradeoff_of_profile([0.05, 0.1, 0.5], epsilons, gaussian_delta(epsilons, 1.0))
    assert found == pytest.approx([0.7404889737, 0.610855849, 0.158655254], abs=1e-8)
    # The plain formula, line by line.
    deltas = gaussian_delta(epsilons, 1.0)
    for x, y in zip([0.05, 0.1, 0.5], found, strict=True):
        lines = np.maximum(1 - deltas - np.exp(epsilons) * x, np.exp(-epsilons) * (1 - deltas - x))
        assert y == pytest.approx(max(0.0, lines.max()), abs=1e-12)


def test_lemma_7_is_a_trade_off_function() -> None:
    """Convex, f(0) = 1 − δ(∞), and its own inverse."""
    epsilons, deltas = np.array([0.0, 0.5, 1.0, 3.0]), np.array([0.4, 0.25, 0.2, 0.15])
    x = np.linspace(0, 1, 401)
    f = tradeoff_of_profile(x, epsilons, deltas)
    assert f[0] == pytest.approx(1 - 0.15)
    assert (np.diff(f, 2) >= -1e-12).all()
    assert (f <= 1 - x + 1e-12).all()
    inside = (f > 0) & (f < 0.85)
    assert tradeoff_of_profile(f[inside], epsilons, deltas) == pytest.approx(x[inside], abs=1e-9)


@pytest.mark.parametrize(
    ("fpr", "forth", "back", "both"),
    [
        (1e-4, 0.91245858, 0.99986667, 0.91245858),
        (1e-3, 0.85024089, 0.99866667, 0.85024089),
        (0.01, 0.78174272, 0.98666667, 0.78174272),
        (0.05, 0.72391490, 0.93333356, 0.72389518),
        (0.1, 0.68002386, 0.86666814, 0.67389518),
        (0.2, 0.60158911, 0.73334602, 0.57389518),
        (0.3, 0.52562133, 0.60005579, 0.47389518),
        (0.5, 0.37510727, 0.33394681, 0.27389518),
        (0.7, 0.22501431, 0.07619152, 0.07389518),
        (0.9, 0.07500049, 0.00016663, 0.00016663),
    ],
)
def test_both_directions_of_the_mixture(fpr: float, forth: float, back: float, both: float) -> None:
    """T(Q, P), T(P, Q), and the symmetrised curve of lemma 7."""
    t = np.linspace(-1.5, 2.4, 20_001)
    fine = np.log(1 - Q + Q * np.exp((2 * t - 1) / (2 * SIGMA**2)))  # the loss at every place
    ahead = subsampled_gaussian_hockey_stick(fine, Q, SIGMA)
    reverse = 1 - np.exp(-fine) + np.exp(-fine) * ahead  # of Q and P at −ε
    assert one_sided_tradeoff(fpr, fine, ahead) == pytest.approx(forth, abs=2e-7)
    assert one_sided_tradeoff(fpr, -fine, reverse) == pytest.approx(back, abs=2e-7)
    positive = np.append(0.0, fine[fine > 0])
    deltas = subsampled_gaussian_hockey_stick(positive, Q, SIGMA)
    found = tradeoff_of_profile(fpr, positive, deltas)
    assert float(found) == pytest.approx(both, abs=2e-7)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=2, max_size=6).filter(
        lambda rows: any(p for p, _ in rows)
    )
)
def test_one_direction_of_a_histogram(rows: list[tuple[int, int]]) -> None:
    """The lines at the ratios of the bins meet in the best events."""
    p, q = (np.array(column) / sum(column) for column in zip(*rows, strict=True))
    ratios = np.log(np.maximum(p / q, 1e-12))
    events = best_events(p, q)
    found = one_sided_tradeoff(events.fpr, ratios, hockey_stick(p, q, ratios))
    assert found == pytest.approx(events.fnr, abs=1e-9)
    between = (events.fpr[1:] + events.fpr[:-1]) / 2
    chord = (events.fnr[1:] + events.fnr[:-1]) / 2
    assert one_sided_tradeoff(between, ratios, hockey_stick(p, q, ratios)) == pytest.approx(
        chord, abs=1e-9
    )


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
