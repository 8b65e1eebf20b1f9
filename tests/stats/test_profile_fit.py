"""Gaussian curves through points of a profile, and above a stretch of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpframe.stats.gaussian import gaussian_delta
from dpframe.stats.histograms import subsampled_gaussian_hockey_stick
from dpframe.stats.tradeoff import fit_gdp_mu, matching_mu

Q, SIGMA = 0.25, 0.3


def mixture(epsilons: np.ndarray) -> np.ndarray:
    return subsampled_gaussian_hockey_stick(epsilons, Q, SIGMA)


@pytest.mark.parametrize(
    ("epsilon", "mu"),
    [
        (0, 0.574567),
        (1, 1.173484),
        (2, 1.555733),
        (4, 2.068509),
        (6, 2.392559),
        (8, 2.605638),
        (10, 2.750462),
        (15, 2.956461),
        (20, 3.059821),
    ],
)
def test_reference_values_of_the_mixture(epsilon: float, mu: float) -> None:
    found = matching_mu(epsilon, mixture(np.array(float(epsilon))))
    assert float(found) == pytest.approx(mu, abs=2e-6)
    fit = fit_gdp_mu(mixture, epsilon_max=float(epsilon))
    assert fit.mu == pytest.approx(mu, abs=2e-6)
    assert fit.epsilon == fit.epsilon_max == epsilon


def test_no_mu_below_the_unsampled_one_fits_everywhere() -> None:
    """μ(ε) rises to 1/σ, so the fit depends on the range and has no limit inside it."""
    ends = np.array([0.5, 1, 2, 5, 10, 20, 30])
    mus = np.array([fit_gdp_mu(mixture, epsilon_max=float(end)).mu for end in ends])
    assert (np.diff(mus) > 0).all()
    assert (mus < 1 / SIGMA).all()
    # The tail expansion is (1/σ)(1 − ln(1/q)/ε).
    assert mus[-1] > 1 / SIGMA * (1 - 1.5 * np.log(1 / Q) / 30)
    assert mus[-1] == pytest.approx(1 / SIGMA, rel=0.06)


def test_the_range_by_delta() -> None:
    fit = fit_gdp_mu(mixture, delta_min=1e-5, epsilon_max=700.0)
    assert fit.epsilon_max == pytest.approx(16.660645, abs=1e-4)
    assert fit.mu == pytest.approx(3.0, abs=0.01)
    both = fit_gdp_mu(mixture, delta_min=1e-5, epsilon_max=3.0)
    assert both.epsilon_max == 3.0
    assert fit_gdp_mu(mixture, delta_min=0.5, epsilon_max=700.0).epsilon_max == 0.0


@pytest.mark.parametrize("mu", [1e-3, 0.3, 1.0, 4.0, 6.0])
def test_a_gaussian_fits_itself(mu: float) -> None:
    fit = fit_gdp_mu(lambda e: gaussian_delta(e, mu), epsilon_max=2.0, places=30)
    assert fit.mu == pytest.approx(mu, rel=1e-7)


@given(st.floats(0, 50), st.floats(1e-200, 1 - 1e-9))
def test_the_curve_passes_through_the_point(epsilon: float, delta: float) -> None:
    mu = matching_mu(epsilon, delta)
    assert float(gaussian_delta(epsilon, mu)) == pytest.approx(delta, rel=1e-6)


def test_the_ends() -> None:
    assert matching_mu([0.0, 1.0, 50.0], 0.0).tolist() == [0.0, 0.0, 0.0]
    assert matching_mu([0.0, 50.0], 1.0).tolist() == [np.inf, np.inf]
    assert np.isfinite(matching_mu([0.0, 1e-9, 50.0, 700.0], 1e-300)).all()
    assert np.isfinite(matching_mu([0.0, 50.0, 700.0], 1 - 1e-16)).all()
    perfect = fit_gdp_mu(np.ones_like, epsilon_max=1.0, delta_min=0.1)
    assert perfect.mu == np.inf
