"""Hockey-stick divergences: of histograms against every event, of mixtures against their values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import integrate, stats
from support.tiers import mostly_slow

from dpframe.stats.histograms import (
    best_events,
    histogram_epsilon,
    hockey_stick,
    privacy_profile,
    ratio_order,
    subsampled_gaussian_hockey_stick,
    total_variation,
)

counts = st.lists(st.integers(0, 9), min_size=6, max_size=6).filter(any)


def frequencies(of: list[int]) -> np.ndarray:
    return np.array(of) / sum(of)


@given(counts, counts, st.floats(-4, 4))
def test_the_divergence_is_the_best_of_all_events(x: list[int], y: list[int], e: float) -> None:
    """2^k events by hand, and among them the prefixes by falling ratio, in both directions."""
    p, q = frequencies(x), frequencies(y)
    masks = np.array(list(itertools.product([0, 1], repeat=6)))
    every = (masks @ p - math.exp(e) * (masks @ q)).max()
    assert hockey_stick(p, q, e) == pytest.approx(every, abs=1e-12)
    events = best_events(p, q)
    prefixes = (1 - events.fnr - math.exp(e) * events.fpr).max()
    assert prefixes == pytest.approx(every, abs=1e-12)
    back = (masks @ q - math.exp(e) * (masks @ p)).max()
    complements = (1 - events.fpr - math.exp(e) * events.fnr).max()
    assert complements == pytest.approx(back, abs=1e-12)
    assert privacy_profile(p, q, e) == pytest.approx(max(every, back), abs=1e-12)


@given(counts, counts, st.floats(0, 0.4))
def test_epsilon_inverts_the_profile(x: list[int], y: list[int], delta: float) -> None:
    p, q = frequencies(x), frequencies(y)
    epsilon = histogram_epsilon(p, q, delta)
    if epsilon == math.inf:
        assert privacy_profile(p, q, 600.0) > delta
        return
    assert privacy_profile(p, q, epsilon) <= delta + 1e-12
    if epsilon > 1e-9:
        assert privacy_profile(p, q, epsilon - 1e-9) >= delta - 1e-12


@given(counts, counts)
def test_invariants(x: list[int], y: list[int]) -> None:
    p, q = frequencies(x), frequencies(y)
    assert hockey_stick(p, q, 0.0) == pytest.approx(float(hockey_stick(q, p, 0.0)), abs=1e-12)
    assert hockey_stick(p, q, 0.0) == pytest.approx(total_variation(p, q), abs=1e-12)
    orders = np.linspace(0.01, 20, 60)
    values = hockey_stick(p, q, np.log(orders))
    assert (np.diff(values) <= 1e-12).all()
    assert (np.diff(values, 2) >= -1e-12).all()  # convex in the order, not in ε
    below = hockey_stick(p, q, np.log(0.3))
    assert below == pytest.approx(1 - 0.3 + 0.3 * hockey_stick(q, p, -np.log(0.3)), abs=1e-12)
    pairs = p.reshape(3, 2).sum(axis=1), q.reshape(3, 2).sum(axis=1)
    assert (hockey_stick(*pairs, np.log(orders)) <= values + 1e-12).all()  # coarser bins lose


def test_two_bins_give_the_loss_of_a_threshold() -> None:
    """Equation 6.2: TPR 0.7, FPR 0.05."""
    assert histogram_epsilon([0.7, 0.3], [0.05, 0.95], 1e-5) == pytest.approx(2.639043, abs=1e-6)
    epsilon = 2.639043
    sides = [0.7 - math.exp(epsilon) * 0.05, 0.3 - math.exp(epsilon) * 0.95]
    assert sum(max(0.0, side) for side in sides) == pytest.approx(1e-5, abs=1e-6)


def test_empty_bins() -> None:
    assert histogram_epsilon([0.5, 0.5, 0.0], [0.5, 0.5, 0.0], 0.0) == 0.0
    assert histogram_epsilon([0.5, 0.4, 0.1], [0.5, 0.5, 0.0], 0.05) == math.inf
    assert histogram_epsilon([0.5, 0.4, 0.1], [0.5, 0.5, 0.0], 0.1) == 0.0
    assert histogram_epsilon([1.0, 0.0], [0.0, 1.0], 0.99) == math.inf
    assert histogram_epsilon([0.0, 0.0], [0.0, 0.0], 0.0) == 0.0
    assert ratio_order([0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 0.5, 0.5]).tolist() == [1, 0, 3, 2]
    assert hockey_stick([1.0, 0.0], [0.0, 1.0], [0.0, 50.0, 1e4]).tolist() == [1.0, 1.0, 1.0]


# --- the subsampled Gaussian pair of section 3 of Koskela and Mohammadi (2024)

Q, SIGMA = 0.25, 0.3


@pytest.mark.parametrize(
    ("epsilon", "value"),
    [
        (0.0, 0.226104824),
        (0.1, 0.221627797),
        (0.25, 0.215696177),
        (0.5, 0.206939919),
        (1.0, 0.191230449),
        (2.0, 0.161481028),
        (4.0, 0.102368033),
        (6.0, 0.052045340),
        (8.0, 0.020317868),
        (10.0, 0.005930495),
        (15.0, 6.90667e-5),
        (20.0, 1.01396e-7),
    ],
)
def test_reference_values_of_the_mixture(epsilon: float, value: float) -> None:
    found = float(subsampled_gaussian_hockey_stick(epsilon, Q, SIGMA))
    assert found == pytest.approx(value, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(
    "epsilon", mostly_slow([-1.0, -0.2, 0.0, 0.2, 0.28, 0.3, 1.0, 3.0], (1, 5, 6))
)
@pytest.mark.parametrize(("q", "sigma"), [(0.25, 0.3), (0.01, 1.0), (0.9, 2.0), (1.0, 0.7)])
def test_the_mixture_against_an_integral(q: float, sigma: float, epsilon: float) -> None:
    def density(x: float) -> float:
        plain, shifted = (
            math.exp(-((x - mean) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
            for mean in (0, 1)
        )
        return max(0.0, q * shifted + (1 - q - math.exp(epsilon)) * plain)

    grid = np.linspace(-12 * sigma, 1 + 12 * sigma, 40)
    expected = sum(integrate.quad(density, a, b, limit=200)[0] for a, b in itertools.pairwise(grid))
    found = float(subsampled_gaussian_hockey_stick(epsilon, q, sigma))
    assert found == pytest.approx(expected, abs=2e-7)


def test_binning_only_loses() -> None:
    """Lemma 1 of section 4: the divergence of the binned laws is never above the true one."""
    epsilons = np.linspace(0, 6, 25)
    exact = subsampled_gaussian_hockey_stick(epsilons, Q, SIGMA)
    last = np.zeros(25)
    for bins in (2, 4, 8, 16, 512):  # nested
        edges = np.linspace(-1, 2, bins + 1)[1:-1]
        plain = np.diff(stats.norm.cdf([-np.inf, *edges, np.inf], 0, SIGMA))
        shifted = np.diff(stats.norm.cdf([-np.inf, *edges, np.inf], 1, SIGMA))
        found = hockey_stick(Q * shifted + (1 - Q) * plain, plain, epsilons)
        assert (found <= exact + 1e-12).all()
        assert (found >= last - 1e-12).all()
        last = found
    assert np.abs(last - exact).max() < 1e-3
