"""The analytic Gaussian mechanism: the least noise for an (ε, δ)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from hypothesis import given, settings, strategies as st
from scipy.stats import norm
from support.regions import rejects
from support.tiers import mostly_slow

from dpframe import GaussianDP
from dpframe.stats.binomial import clopper_pearson_upper, jeffreys_upper
from dpframe.stats.gaussian import gaussian_mu, gaussian_mu_at, gaussian_tradeoff

laws = settings(derandomize=True, deadline=None, max_examples=25)


def exact_delta(epsilon: float, mu: float) -> float:
    """Balle and Wang 2018, theorem 8, by SciPy's distribution."""
    left = norm.cdf(mu / 2 - epsilon / mu)
    return float(left - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)))


@pytest.mark.parametrize(
    ("sigma", "at_1e5", "at_1e6"),
    [
        (0.3, 19.13077, 20.78122),
        (0.5, 9.99726, 10.99715),
        (1.0, 4.37718, 4.88655),
        (2.0, 1.99309, 2.25408),
        (3.0, 1.27109, 1.44799),
    ],
)
def test_table(sigma: float, at_1e5: float, at_1e6: float) -> None:
    found = gaussian_mu_at([at_1e5, at_1e6], [1e-5, 1e-6])
    np.testing.assert_allclose(1 / found, sigma, rtol=3e-6)  # the table has five decimals


def test_canary_table() -> None:
    """Noise at which Andrew et al. (2024) audit ε = 1, 3, 10 at δ = 1e-6."""
    found = 1 / gaussian_mu_at([1.0, 3.0, 10.0], 1e-6)
    np.testing.assert_allclose(found, [4.2247, 1.5439, 0.5411], atol=5e-5)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("delta", mostly_slow([1e-8, 1e-5, 1e-2, 0.3], (1,)))
def test_agrees_with_dp_accounting(epsilon: float, delta: float) -> None:
    loss = GaussianPrivacyLoss.from_privacy_guarantee(DifferentialPrivacyParameters(epsilon, delta))
    assert 1 / gaussian_mu_at(epsilon, delta) == pytest.approx(loss.standard_deviation, rel=1e-6)


@laws
@given(st.floats(1e-3, 50), st.floats(-14, math.log10(0.99)))
def test_least_noise(epsilon: float, log_delta: float) -> None:
    """The claim is true, and with one part in 10⁸ less noise it would be false."""
    delta = 10**log_delta
    mu = float(gaussian_mu_at(epsilon, delta))
    assert exact_delta(epsilon, mu) <= delta * (1 + 1e-9)
    assert exact_delta(epsilon, mu * (1 + 1e-8)) > delta * (1 - 1e-9)


@laws
@given(st.floats(1e-3, 100), st.floats(1e-3, 100), st.floats(1e-12, 0.9))
def test_more_epsilon_allows_more(a: float, b: float, delta: float) -> None:
    low, high = gaussian_mu_at(sorted([a, b]), delta)
    assert 0 < low <= high * (1 + 1e-9) < math.inf


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-9, 50.0, 1e4])
@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-12, 0.5, 1 - 2**-53, 1.0])
def test_edges(epsilon: float, delta: float) -> None:
    mu = float(gaussian_mu_at(epsilon, delta))
    assert (mu == 0, mu == math.inf) == (delta == 0, delta == 1)
    assert mu >= 0


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
