"""μ of a Gaussian mechanism from limits of error rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpframe import GaussianDP
from dpframe.interfaces.estimator import rejects
from dpframe.stats.binomial import clopper_pearson_upper, jeffreys_upper
from dpframe.stats.gaussian import gaussian_mu, gaussian_tradeoff


def test_reference_values() -> None:
    """False positives 50, false negatives 300 of 1000 each, at 95 %; and a perfect attack."""
    exact = clopper_pearson_upper([50, 300], 1000, 0.025)
    assert gaussian_mu(*exact) == pytest.approx(1.952429, abs=5e-7)
    assert gaussian_mu(*jeffreys_upper([50, 300], 1000, 0.025)) == pytest.approx(1.958272, abs=5e-7)
    assert gaussian_mu(0.05, 0.3) == pytest.approx(2.169254, abs=5e-7)
    assert gaussian_mu(*clopper_pearson_upper([0, 0], 1000, 0.025)) == pytest.approx(
        5.35982, abs=5e-6
    )
    larger = clopper_pearson_upper([500, 3000], 10_000, 0.025)
    assert gaussian_mu(*larger) == pytest.approx(2.10155, abs=5e-6)


@given(st.floats(1e-12, 1), st.floats(0, 10))
def test_the_curve_passes_through_its_points(fpr: float, mu: float) -> None:
    fnr = float(gaussian_tradeoff(fpr, mu))
    if 1e-12 < fnr < 1 - 1e-6 and fpr < 1 - 1e-6:
        assert gaussian_mu(fpr, fnr) == pytest.approx(mu, abs=1e-6)


@given(st.floats(1e-9, 0.999), st.floats(1e-9, 0.999), st.floats(0, 8))
def test_a_box_rejects_exactly_the_smaller_mu(x: float, y: float, mu: float) -> None:
    found = float(gaussian_mu(x, y))
    if abs(found - mu) > 1e-9:
        assert rejects(np.array([[x, y]]), GaussianDP(mu)) == (found > mu)


def test_corners() -> None:
    found = gaussian_mu([0, 1, 0, 0, 1, 0.5, 0.5], [1, 0, 0, 0.5, 1, 0.5, 1])
    assert found.tolist() == [0, 0, math.inf, math.inf, -math.inf, 0, -math.inf]
