"""Limits from exchangeable tests: moments, variances, widths, coverage."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dpframe_dpsgd.lidp import Limits, exchangeable_limits, exchangeable_moments, lidp_epsilon
from scipy import stats

LATENT = ((0.2, 0.4), (0.7, 0.6))
"""(probability of a test, weight): tests of a trial share one, so they are exchangeable."""


def moment(j: int) -> float:
    return sum(weight * p**j for p, weight in LATENT)


def draws(rng: np.random.Generator, n: int, k: int, spread: float) -> np.ndarray:
    """Tests that are 1 with probability 0.3, more dependent with a larger spread."""
    chance = 0.3 + spread * (rng.random(n) - 0.5)
    return rng.random((n, k)) < chance[:, None]


def test_moments_and_the_variance_of_pairs_are_exact() -> None:
    """Over all outcomes of a trial of five tests."""
    k = 5
    expected, squares = np.zeros(4), np.zeros(2)
    for tests in itertools.product((0, 1), repeat=k):
        ones = sum(tests)
        chance = sum(w * p**ones * (1 - p) ** (k - ones) for p, w in LATENT)
        moments = np.array(exchangeable_moments([tests]))
        expected += chance * moments
        squares += chance * moments[:2] ** 2
    assert expected == pytest.approx([moment(j) for j in range(1, 5)])
    # The two variances that the limits of order 2 and 4 are made of.
    single = moment(1) / k + (k - 1) / k * moment(2) - moment(1) ** 2
    pairs = (2 * moment(2) + 4 * (k - 2) * moment(3) + (k - 2) * (k - 3) * moment(4)) / (
        k * (k - 1)
    ) - moment(2) ** 2
    assert squares - expected[:2] ** 2 == pytest.approx([single, pairs])


def test_moments_beyond_the_number_of_tests_are_unknown() -> None:
    assert [math.isnan(m) for m in exchangeable_moments([[1, 0], [1, 1]])] == [
        False,
        False,
        True,
        True,
    ]


def test_order_one_is_wilsons_interval() -> None:
    """The bound of one test per trial, or of several as if they agreed."""
    rng = np.random.default_rng(0)
    tests = draws(rng, 400, 1, 0.0)
    found = exchangeable_limits(tests, 0.025, 1)
    expected = stats.binomtest(int(tests.sum()), 400).proportion_ci(0.95, method="wilson")
    assert found == pytest.approx((expected.low, expected.high), abs=1e-9)
    together = exchangeable_limits(np.repeat(tests, 7, axis=1), 0.025, 1)
    assert together == pytest.approx(found)


def test_limits_solve_their_quadratic() -> None:
    rng = np.random.default_rng(1)
    tests = draws(rng, 500, 6, 0.4)
    n, k = tests.shape
    z = stats.norm.isf(0.01 / 2)
    one, two, _, _ = exchangeable_moments(tests)
    most = np.roots([n + z * z, -(2 * n * two + z * z), n * two**2]).max()
    for limit in exchangeable_limits(tests, 0.01, 2):
        variance = limit / k + (k - 1) / k * most - limit**2
        assert n * (limit - one) ** 2 == pytest.approx(z * z * variance, rel=1e-6)


def test_more_tests_per_trial_gain_most_where_they_are_independent() -> None:
    rng = np.random.default_rng(2)
    widths = {}
    for spread in (0.0, 0.6):
        tests = draws(rng, 1000, 32, spread)
        limits = [exchangeable_limits(tests, 0.05, order) for order in (1, 2, 4)]
        widths[spread] = [limit.upper - limit.lower for limit in limits]
    assert widths[0.0][0] > 2 * widths[0.0][1] > 2 * widths[0.0][2]
    assert widths[0.0][2] < widths[0.6][2] < widths[0.6][0]


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("spread", [0.0, 0.6])
def test_coverage(order: int, spread: float) -> None:
    """Asymptotic limits, so not below the error by theorem; false-alarm rate 1e-6."""
    rng, error, repeats = np.random.default_rng(3), 0.1, 400
    found = [exchangeable_limits(draws(rng, 300, 8, spread), error, order) for _ in range(repeats)]
    most = stats.binom.isf(1e-6, repeats, error)
    assert sum(limit.lower > 0.3 for limit in found) <= most
    assert sum(limit.upper < 0.3 for limit in found) <= most
    assert np.mean([limit.upper - limit.lower for limit in found]) < 0.1


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_all_tests_alike(value: int, order: int) -> None:
    low, high = exchangeable_limits(np.full((50, 4), value), 0.01, order)
    assert 0 <= low < high <= 1
    assert low <= value <= high


def test_impossible_orders() -> None:
    for order in (0, 3, 5):
        with pytest.raises(ValueError, match="order is 1, 2 or 4"):
            exchangeable_limits(np.ones((5, 8)), 0.05, order)
    with pytest.raises(ValueError, match="needs as many"):
        exchangeable_limits(np.ones((5, 3)), 0.05, 4)


def test_epsilon() -> None:
    present, absent = Limits(0.6, 0.8), Limits(0.05, 0.1)
    assert lidp_epsilon(present, absent, 0.1) == pytest.approx(math.log(5))
    assert lidp_epsilon(absent, present, 0.1) == 0
    assert lidp_epsilon(present, Limits(0, 0), 0.0) == math.inf
