"""From total variation to noise and back, and which order is best."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import special
from support.closed_forms import gaussian_total_variation, most_sensitive_order

from dpframe.stats.gaussian import gaussian_delta
from dpframe.stats.histograms import (
    canonne_radius,
    sigma_of_total_variation,
    subsampled_gaussian_hockey_stick,
)

SIGMAS = (0.5, 1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("sigma", "tv"),
    [(0.3, 0.9044193), (0.5, 0.68268949), (1, 0.38292492), (2, 0.19741265), (3, 0.13236767)],
)
def test_equation_5_1(sigma: float, tv: float) -> None:
    assert gaussian_total_variation(sigma) == pytest.approx(tv, rel=1e-7)
    assert float(sigma_of_total_variation(tv)) == pytest.approx(sigma, rel=1e-6)
    assert float(gaussian_delta(0.0, 1 / sigma)) == pytest.approx(tv, rel=1e-7)


def test_with_sampling() -> None:
    assert gaussian_total_variation(0.3, 0.25) == pytest.approx(0.2261048239, abs=1e-10)
    for q in (0.1, 0.25, 0.5):
        tv = gaussian_total_variation(0.7, q)
        assert tv == pytest.approx(float(subsampled_gaussian_hockey_stick(0.0, q, 0.7)), rel=1e-12)


@given(st.floats(0.05, 1e6), st.floats(0.01, 1))
def test_the_inverse(sigma: float, q: float) -> None:
    tv = gaussian_total_variation(sigma, q)
    if tv < q * (1 - 1e-6):
        assert float(sigma_of_total_variation(tv, q)) == pytest.approx(sigma, rel=1e-6)


def test_the_ends() -> None:
    assert sigma_of_total_variation([0.0, 0.25, 0.3, 1.0], 0.25).tolist() == [math.inf, 0, 0, 0]


def test_the_numerical_example_of_section_7() -> None:
    """20 bins, 99.99 %, q = 0.25, σ = 0.3: 0.285 is the lower limit of σ.

    n is lost in the paper: 10⁶ with its own interval, ±τ; 5·10⁶ if both histograms are paid for.
    """
    tv, error = gaussian_total_variation(0.3, 0.25), 1e-4
    radius = float(canonne_radius(10**6, 20, error))
    assert radius == pytest.approx(0.00447, abs=1e-5)
    sound = 2 * float(canonne_radius(5 * 10**6, 20, error))
    # The paper's estimate of TV is lost too; 0.2257 is one that gives its number.
    for distance, sigma in (
        (tv + radius, 0.28341),
        (0.2257 + radius, 0.28495),
        (tv + sound, 0.28521),
    ):
        found = float(sigma_of_total_variation(distance, 0.25))
        assert found == pytest.approx(sigma, abs=5e-6)
        assert found == pytest.approx(0.285, abs=2e-3)


def slope(epsilons: np.ndarray, sigma: float) -> np.ndarray:
    """|∂H/∂σ| of N(0, σ²) and N(1, σ²)."""
    return np.exp(-((1 / (2 * sigma) - epsilons * sigma) ** 2) / 2) / sigma**2


@pytest.mark.parametrize(
    ("sigma", "order"), [(0.5, 7.389), (1, 1.6487), (2, 1.1331), (3, 1.0571), (5, 1.0202)]
)
def test_the_best_order(sigma: float, order: float) -> None:
    """Lemma 2 of section 7, exactly: where |∂H/∂σ| is largest."""
    assert most_sensitive_order(sigma) == pytest.approx(order, abs=5e-4)
    orders, h = np.geomspace(1e-2, 100, 20_001), 1e-5
    ahead, behind = (gaussian_delta(np.log(orders), 1 / (sigma + step)) for step in (h, -h))
    assert orders[(behind - ahead).argmax()] == pytest.approx(order, rel=1e-2)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_total_variation_is_best_where_the_error_grows_with_the_order(sigma: float) -> None:
    """With errors as in lemma 3, and with the binomial ones of the best event."""
    epsilons = np.linspace(-1.5, 1.5, 3001)
    slopes = slope(epsilons, sigma)
    at = epsilons[np.argmin((1 + np.exp(epsilons)) / slopes)]
    assert at == pytest.approx(0.0, abs=2e-3)
    t = 0.5 + sigma**2 * epsilons  # the best event is x > t
    p, q = special.ndtr((1 - t) / sigma), special.ndtr(-t / sigma)
    noise = np.sqrt(p * (1 - p) + np.exp(2 * epsilons) * q * (1 - q))
    assert epsilons[np.argmin(noise / slopes)] == pytest.approx(0.0, abs=2e-3)
