"""Posterior masses against a naive two-dimensional sum, and published values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special, stats

from dpframe import ApproxDP, GaussianDP, LaplaceDP, PureDP, SubsampledGaussianDP
from dpframe.stats.credible import (
    Posterior,
    beta_integral,
    credible_epsilon,
    credible_limits,
    outside_mass,
    region_mass,
)
from dpframe.stats.gaussian import gaussian_tradeoff

if TYPE_CHECKING:
    from collections.abc import Callable

    Curve = Callable[[np.ndarray], np.ndarray]

DELTA = 1e-5
LEVELS = (0.025, 0.975, 0.05)


@pytest.mark.parametrize(
    ("counts", "expected", "tolerance"),
    [
        ((300, 700, 50, 950), (2.37553, 2.92185, 2.41572), 1e-5),
        # The published digits end in the error of a quadrature across the kink of the curve: with
        # the kink as an end point, 30, 80 and 160 nodes all give 3.33186 and 3.40545.
        ((10, 490, 20, 480), (3.33190, 4.53129, 3.40543), 5e-5),
        ((10, 490, 20, 480), (3.331863, 4.531286, 3.405455), 2e-6),
        ((100, 400, 100, 400), (1.25935, 1.59841, 1.28491), 1e-5),
    ],
)
def test_reference_values(
    counts: tuple[int, ...], expected: tuple[float, ...], tolerance: float
) -> None:
    found = credible_epsilon(Posterior(*counts), DELTA, LEVELS)
    assert found == pytest.approx(expected, abs=tolerance)


def test_example_of_the_original_program() -> None:
    """Published to three digits, from a root found to 1e-2: 0.145 and 6.399."""
    found = credible_epsilon(Posterior(0, 487, 512, 1), DELTA, (0.05, 0.95))
    assert found == pytest.approx((0.1439, 6.4156), abs=5e-5)
    assert found == pytest.approx((0.145, 6.399), abs=2e-2)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((300, 700, 50, 950), (2.03997, 2.01579)),
        ((3000, 7000, 500, 9500), (2.12831, 2.12053)),
    ],
)
def test_limits_of_a_gaussian_parameter(
    counts: tuple[int, ...], expected: tuple[float, ...]
) -> None:
    posterior = Posterior(*counts)
    found = credible_limits(
        lambda mu: outside_mass(posterior, lambda x: gaussian_tradeoff(x, mu)),
        (0.05, 0.025),
        guess=2.1,
        spread=0.1,
    )
    assert found == pytest.approx(expected, abs=1e-5)


SIGMAS = (0.25, 0.27, 0.29, 0.30, 0.31, 0.33, 0.35, 0.40)


@pytest.mark.parametrize(
    ("n", "z", "expected"),
    [
        (10**3, 0.5, (0.7948, 0.7014, 0.5787, 0.5082, 0.4330, 0.2790, 0.1483, 0.0120)),
        (10**3, 1.0, (0.7958, 0.6383, 0.4490, 0.3542, 0.2666, 0.1295, 0.0506, 0.0020)),
        (10**4, 0.5, (0.9943, 0.9450, 0.7114, 0.5021, 0.2800, 0.0288, 0.0004, 0)),
        (10**4, 0.8, (1.0, 1.0, 0.9241, 0.4914, 0.0762, 0, 0, 0)),
        (10**5, 0.5, (1.0, 1.0, 0.9591, 0.4993, 0.0316, 0, 0, 0)),
        (10**4, 0.0, (1.0,) * 8),
    ],
)
def test_a_curve_that_is_too_private_loses_its_mass(
    n: int, z: float, expected: tuple[float, ...]
) -> None:
    """Subsampled Gaussian, q = ¼, σ = 0.3, threshold z, expected counts rounded; against σ′."""
    q, sigma = 0.25, 0.3
    fpr = special.ndtr(-z / sigma)
    fnr = q * special.ndtr((z - 1) / sigma) + (1 - q) * special.ndtr(z / sigma)
    fp, fn = round(n * fpr), round(n * fnr)
    posterior = Posterior(fn, n - fn, fp, n - fp)
    found = [region_mass(posterior, SubsampledGaussianDP(q, s).tradeoff) for s in SIGMAS]
    assert found == pytest.approx(expected, abs=1.1e-4)
    assert np.all(np.diff(found) <= 1e-12)


def naive_mass(posterior: Posterior, curve: Curve, cells: int) -> float:
    """A sum over a grid of angles: with p = sin² the densities are smooth even at no counts."""
    angle = (np.arange(cells) + 0.5) * math.pi / 2 / cells
    rate = np.sin(angle) ** 2
    fn, tp, fp, tn = posterior

    def density(hits: float, misses: float) -> np.ndarray:
        logs = 2 * hits * np.log(np.sin(angle)) + 2 * misses * np.log(np.cos(angle))
        mass = np.exp(logs - logs.max())
        return mass / mass.sum()

    lower, upper = curve(rate), 1 - curve(1 - rate)
    # The share of each cell of FNR that lies between the curves at this FPR.
    edges = np.sin(np.arange(cells + 1) * math.pi / 2 / cells) ** 2
    width = np.diff(edges)
    top, bottom = np.minimum(edges[1:], upper[:, None]), np.maximum(edges[:-1], lower[:, None])
    share = np.clip((top - bottom) / width, 0, 1)
    return float(density(fp, tn) @ share @ density(fn, tp))


CURVES = [
    ApproxDP(1.0, 1e-5),
    ApproxDP(0.2, 0.1),
    ApproxDP(3.0, 0.0),
    GaussianDP(1.5),
    LaplaceDP(1.0),
    SubsampledGaussianDP(0.25, 0.3),
]


@pytest.mark.parametrize("curve", CURVES, ids=repr)
@pytest.mark.parametrize(
    "counts",
    [
        *[(0, 5, 0, 5), (0, 20, 20, 0), (7, 1, 0, 30)],
        *[
            pytest.param(some, marks=pytest.mark.slow)
            for some in [(0, 0, 0, 0), (3, 7, 2, 8), (2, 2, 9, 1)]
        ],
    ],
)
def test_naive_sum(counts: tuple[int, ...], curve: ApproxDP) -> None:
    posterior = Posterior(*counts)
    rough, naive = (naive_mass(posterior, curve.tradeoff, cells) for cells in (500, 1000))
    error = 2 * abs(naive - rough) + 3e-4
    assert error < 4e-3
    assert region_mass(posterior, curve.tradeoff) == pytest.approx(naive, abs=error)


def test_very_unequal_numbers_of_trials() -> None:
    """With FNR known to be 0.6, only the posterior of FPR is left, and has a closed form."""
    law, known = stats.beta(2.5, 10.5), 0.6
    posterior = Posterior(600_000, 400_000, 2, 10)
    for level in (0.025, 0.5, 0.975):
        (epsilon,) = credible_epsilon(posterior, 0.0, [level])
        curve = PureDP(epsilon).tradeoff
        low, high = curve(np.array([known])), 1 - curve(np.array([1 - known]))
        assert law.cdf(high) - law.cdf(low) == pytest.approx(level, abs=5e-4)
        swapped = credible_epsilon(Posterior(2, 10, 600_000, 400_000), 0.0, [level])
        assert swapped == pytest.approx([epsilon], abs=1e-8)


@settings(max_examples=40)
@given(
    counts=st.tuples(*[st.integers(0, 400)] * 4),
    delta=st.sampled_from([0.0, 1e-9, 1e-5, 0.05]),
)
def test_limits_solve_their_equation_in_order(counts: tuple[int, ...], delta: float) -> None:
    posterior = Posterior(*counts)
    levels = (0.001, 0.3, 0.9, 0.9999)
    found = credible_epsilon(posterior, delta, levels)
    assert found == sorted(found)
    for level, epsilon in zip(levels, found, strict=True):
        corner = (1 - delta) / (1 + math.exp(epsilon))
        mass = region_mass(posterior, ApproxDP(epsilon, delta).tradeoff, [corner, 1 - delta])
        if epsilon > 0:
            assert mass == pytest.approx(level, abs=2e-3)
        else:
            assert mass >= level - 1e-9


@pytest.mark.parametrize("n", [1, 1000, 10**7])
@pytest.mark.parametrize("level", [1e-9, 0.05, 1 - 1e-9])
def test_extreme_counts_are_finite_and_ordered(n: int, level: float) -> None:
    """Perfect, perfectly wrong and one-sided attacks; ε from 0 to beyond 50."""
    found = [
        credible_epsilon(Posterior(*counts), delta, [level])[0]
        for counts in ((0, n, 0, n), (n, 0, n, 0), (n, 0, 0, n), (0, n, n, 0))
        for delta in (0.0, 1e-5)
    ]
    assert all(math.isfinite(epsilon) and epsilon >= 0 for epsilon in found)
    perfect, turned, never, always = found[::2]
    assert perfect == pytest.approx(turned, rel=1e-6)
    assert never == pytest.approx(always, rel=1e-6, abs=2e-9)
    assert never <= perfect
    if n == 10**7 and level > 0.9:
        assert perfect > 50


def test_masses_stay_exact_up_to_large_epsilon() -> None:
    """Mass outside the region falls steadily, without noise, to the rare event's own size."""
    posterior = Posterior(0, 1000, 0, 1000)
    outside = [
        outside_mass(posterior, ApproxDP(epsilon, 0.0).tradeoff) for epsilon in np.arange(0, 51, 1)
    ]
    assert np.all(np.diff(outside) <= 0)
    assert np.all(np.diff(outside)[7:] < 0)
    # Beta(½, n + ½) has mass near 2√(x n/π) below x; twice, for either rate.
    assert outside[50] == pytest.approx(4 * math.sqrt(math.exp(-50) * 1000 / math.pi), rel=0.5)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (0.5, 1e6), (3.5, 700.5), (5e5, 5e5)])
def test_beta_integral(a: float, b: float) -> None:
    law = stats.beta(a, b)
    assert beta_integral(lambda x, rest: x, a, b) == pytest.approx(law.mean(), rel=1e-11)
    assert beta_integral(lambda x, rest: rest**2, a, b) == pytest.approx(
        law.var() + (1 - law.mean()) ** 2, rel=1e-11
    )
    assert beta_integral(lambda x, rest: x + rest, a, b) == pytest.approx(1, abs=1e-14)
    kink = law.ppf(0.37)
    found = beta_integral(lambda x, rest: np.maximum(x - kink, 0), a, b, [kink])
    tail = law.mean() * stats.beta(a + 1, b).sf(kink) - kink * law.sf(kink)
    assert found == pytest.approx(tail, rel=1e-8)
