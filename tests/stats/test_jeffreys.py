"""Jeffreys limits against their published values and the posterior itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from dpframe.stats.binomial import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    jeffreys_lower,
    jeffreys_upper,
)


@pytest.mark.parametrize(
    ("k", "n", "error", "expected"),
    [
        (0, 1000, 0.025, 0.00250816),
        (5, 1000, 0.025, 0.01092466),
        (50, 1000, 0.025, 0.06482846),
        (500, 1000, 0.025, 0.53095229),
        (10, 10000, 0.05, 0.00163297),
    ],
)
def test_reference_values(k: int, n: int, error: float, expected: float) -> None:
    assert jeffreys_upper(k, n, error) == pytest.approx(expected, abs=6e-9)


@given(st.data())
def test_inside_the_exact_limits_and_mirrored(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 10_000))
    k = data.draw(st.integers(0, n))
    error = data.draw(st.floats(1e-9, 0.5))
    low, high = float(jeffreys_lower(k, n, error)), float(jeffreys_upper(k, n, error))
    assert low == pytest.approx(1 - float(jeffreys_upper(n - k, n, error)), abs=1e-12)
    assert clopper_pearson_lower(k, n, error) <= low * (1 + 1e-9)
    assert high <= clopper_pearson_upper(k, n, error) * (1 + 1e-9)
    posterior = stats.beta(k + 0.5, n - k + 0.5)
    if k:
        assert posterior.cdf(low) == pytest.approx(error, rel=1e-6)
    if high < 1 - 1e-9:
        assert posterior.sf(high) == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("n", [1, 1000, 10_000_000])
@pytest.mark.parametrize("error", [1.0, 0.05, 1e-9, 1e-50])
def test_edges_are_finite_and_ordered(n: int, error: float) -> None:
    k = np.unique([0, 1, n // 2, n - 1, n])
    low, high = jeffreys_lower(k, n, error), jeffreys_upper(k, n, error)
    assert (low[0], high[-1]) == (0, 1)
    assert np.all((low >= 0) & (high <= 1))
    assert error == 1 or (np.all(low[1:] > 0) and np.all(low < 1))
    assert np.all(np.diff(low) >= 0)
    assert np.all(np.diff(high) >= 0)
    if error < 0.5:
        assert np.all(low < high)


def test_coverage_is_only_approximate() -> None:
    """Exact miss probability of the upper limit: for some p far above the error it stands for."""
    n, error = 50, 0.05
    k = np.arange(n + 1)
    high = jeffreys_upper(k, n, error)
    misses = [stats.binom.pmf(k, n, p)[high < p].sum() for p in np.linspace(0.001, 0.999, 999)]
    assert max(misses) > 1.5 * error
    assert np.mean(misses) == pytest.approx(error, rel=0.1)
