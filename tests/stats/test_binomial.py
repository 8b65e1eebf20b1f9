"""Clopper-Pearson limits against a naive oracle and their published values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import special

from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper


def cdf(k: int, n: int, p: float) -> float:
    return math.fsum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1))


def naive_upper(k: int, n: int, error: float) -> float:
    """The p at which Pr[Bin(n, p) ≤ k] falls to the error, by bisection on exact sums."""
    if k == n:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if cdf(k, n, middle) > error else (low, middle)
    return high


@pytest.mark.parametrize(
    ("k", "n", "error", "expected"),
    [
        (0, 1000, 0.025, 0.00368208),
        (5, 1000, 0.025, 0.01162947),
        (50, 1000, 0.025, 0.06539049),
        (500, 1000, 0.025, 0.53145083),
        (10, 10000, 0.05, 0.00169563),
    ],
)
def test_reference_values(k: int, n: int, error: float, expected: float) -> None:
    assert clopper_pearson_upper(k, n, error) == pytest.approx(expected, abs=6e-9)


@given(st.data())
def test_agrees_with_the_naive_oracle(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 60))
    k = data.draw(st.integers(0, n))
    error = data.draw(st.floats(1e-6, 0.999))
    assert clopper_pearson_upper(k, n, error) == pytest.approx(naive_upper(k, n, error), abs=1e-9)
    assert clopper_pearson_lower(k, n, error) == pytest.approx(
        1 - naive_upper(n - k, n, error), abs=1e-9
    )


@pytest.mark.parametrize("error", [0.2, 0.0125, 1e-4])
def test_error_is_attained_and_never_exceeded(error: float) -> None:
    """Exact miss probability over a grid of p: at most the error, and near it somewhere."""
    n = 50
    k = np.arange(n + 1)
    upper, lower = clopper_pearson_upper(k, n, error), clopper_pearson_lower(k, n, error)
    worst_upper = worst_lower = 0.0
    for p in np.concatenate([upper[:-1] + 1e-12, lower[1:] - 1e-12, np.linspace(0, 1, 101)]):
        if not 0 <= p <= 1:
            continue
        mass = np.array([math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in k])
        worst_upper = max(worst_upper, mass[upper < p].sum())
        worst_lower = max(worst_lower, mass[lower > p].sum())
    assert worst_upper <= error * (1 + 1e-6)
    assert worst_lower <= error * (1 + 1e-6)
    assert worst_upper > 0.99 * error
    assert worst_lower > 0.99 * error


@pytest.mark.parametrize("n", [1, 10, 10_000_000])
@pytest.mark.parametrize("error", [1.0, 0.05, 1e-9, 1e-100, 1e-300])
def test_edges_are_finite_and_ordered(n: int, error: float) -> None:
    k = np.unique([0, 1, n // 2, n - 1, n])
    upper, lower = clopper_pearson_upper(k, n, error), clopper_pearson_lower(k, n, error)
    assert np.all((lower >= 0) & (upper <= 1))
    if error <= 0.5:
        assert np.all(lower <= k / n)
        assert np.all(upper >= k / n)
    assert upper[-1] == 1
    assert lower[0] == 0
    assert clopper_pearson_upper(0, n, error) > 0 or error == 1


def test_monotone_in_the_error() -> None:
    errors = np.logspace(-290, 0, 200)
    for k in (0, 7, 500, 999):
        assert np.all(np.diff(clopper_pearson_upper(k, 1000, errors)) <= 0)
        assert np.all(np.diff(clopper_pearson_lower(k, 1000, errors)) >= 0)


@pytest.mark.parametrize("n", [10**4, 10**6, 10**8, 10**10, 10**12])
@pytest.mark.parametrize("error", [0.25, 0.0125, 1e-8, 1e-20])
def test_tails_are_what_they_should_be_around_1000(n: int, error: float) -> None:
    """SciPy 1.17's inverse is wrong where a parameter of the beta distribution is exactly 1000."""
    k = np.concatenate([np.arange(995, 1006), n - np.arange(995, 1006)])
    upper, lower = clopper_pearson_upper(k, n, error), clopper_pearson_lower(k, n, error)
    # Near p = 1 the spacing of floats limits how well a tail can be met.
    loose = 1e-5 + 1e-15 * n**0.5 / 1e-3
    assert special.betaincc(k + 1, n - k, upper) == pytest.approx(np.full(len(k), error), rel=loose)
    assert special.betainc(k, n - k + 1, lower) == pytest.approx(np.full(len(k), error), rel=loose)
    assert np.all(lower < k / n)
    assert np.all(upper > k / n)
