"""Bin widths."""

from __future__ import annotations

import math

import pytest
from scipy import integrate, stats

from dpframe.stats.histograms import NORMAL, common_deviation, normal_roughness, scott_width


def test_the_constant() -> None:
    assert pytest.approx(3.490830212, abs=1e-9) == NORMAL
    roughness = float(normal_roughness(1.0))
    assert float(scott_width(roughness, roughness, 1.0)) == pytest.approx(NORMAL, rel=1e-12)


def test_roughness_of_a_normal_density() -> None:
    def squared_slope(x: float) -> float:
        return (-x / 4 * stats.norm.pdf(x, 0, 2)) ** 2

    expected = integrate.quad(squared_slope, -40, 40)[0]
    assert float(normal_roughness(2.0)) == pytest.approx(expected, rel=1e-8)


def test_the_width_minimises_the_mean_squared_error_of_both() -> None:
    p, q, n = 0.3, 0.05, 5000
    best = float(scott_width(p, q, n))

    def error(h: float) -> float:
        return 2 / (n * h) + h**2 / 12 * (p + q)

    assert error(best) < min(error(best * 0.99), error(best * 1.01))
    assert float(scott_width(p, q, 8 * n)) == pytest.approx(best / 2)


def test_the_common_deviation_gives_the_same_width() -> None:
    for pair in ((1.0, 1.0), (0.3, 0.5), (1e-90, 1.0), (1e90, 2e90)):
        both = common_deviation(*pair)
        assert min(pair) <= both * (1 + 1e-12)
        assert both <= 1.27 * min(pair)
    expected = float(scott_width(normal_roughness(0.3), normal_roughness(0.5), 1000))
    assert NORMAL * common_deviation(0.3, 0.5) / 10 == pytest.approx(expected, rel=1e-12)
    assert common_deviation(0.0, 2.0) == 2.0
    assert common_deviation(0.0, 0.0) == 0.0
    assert math.isfinite(common_deviation(5e-324, 1e308))
