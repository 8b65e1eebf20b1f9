"""The subsampled Gaussian: reference values, and integrals as an oracle for both directions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate, special, stats
from support.tiers import mostly_slow

from dpframe import GaussianDP, SubsampledGaussianDP
from dpframe.stats.tradeoff import tradeoff_envelope

Q, SIGMA = 0.25, 0.3
CLAIM = SubsampledGaussianDP(Q, SIGMA)

WITH_OVER_WITHOUT = {
    0: 0.226104824, 0.1: 0.221627797, 0.25: 0.215696177, 0.5: 0.206939919, 1: 0.191230449,
    2: 0.161481028, 4: 0.102368033, 6: 0.052045340, 8: 0.020317868, 10: 0.005930495,
    15: 6.90667e-5, 20: 1.01396e-7,
}  # fmt: skip
WITHOUT_OVER_WITH = {0: 0.226104824, 0.1: 0.150486692, 0.25: 0.027967825, 0.5: 0.0, 20: 0.0}
LOSSES = {1e-2: 9.209904, 1e-3: 12.279406, 1e-4: 14.657367, 1e-5: 16.660645, 1e-6: 18.421371}
CURVE = {
    1e-4: (0.91245858, 0.99986667, 0.91245858),
    1e-3: (0.85024089, 0.99866667, 0.85024089),
    0.01: (0.78174272, 0.98666667, 0.78174272),
    0.05: (0.72391490, 0.93333356, 0.72389518),
    0.1: (0.68002386, 0.86666814, 0.67389518),
    0.2: (0.60158911, 0.73334602, 0.57389518),
    0.3: (0.52562133, 0.60005579, 0.47389518),
    0.5: (0.37510727, 0.33394681, 0.27389518),
    0.7: (0.22501431, 0.07619152, 0.07389518),
    0.9: (0.07500049, 0.00016663, 0.00016663),
}
"""FNR where the record may be out (T(Q, P)), where it may be in (T(P, Q)), and of the worse one."""


def densities(q: float, sigma: float, x: float) -> tuple[float, float]:
    """With the record and without it."""
    without = math.exp(-((x / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
    added = math.exp(-(((x - 1) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
    return q * added + (1 - q) * without, without


def hockey_stick(q: float, sigma: float, epsilon: float, *, with_over_without: bool) -> float:
    """∫ [P − e^ε Q]₊, or with the roles exchanged, by quadrature."""

    def excess(x: float) -> float:
        p, o = densities(q, sigma, x)
        a, b = (p, o) if with_over_without else (o, p)
        return max(0.0, a - math.exp(epsilon) * b)

    # The integrand has a kink where P = e^{±ε} Q, if it does so anywhere.
    ratio = math.exp(epsilon if with_over_without else -epsilon) - (1 - q)
    kink = [0.5 + sigma**2 * math.log(ratio / q)] if ratio > 0 else []
    grid = np.sort(np.append(np.linspace(-12 * sigma, 1 + 12 * sigma, 60), kink))
    return sum(integrate.quad(excess, a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(grid))


def test_profile_is_that_of_the_worse_direction() -> None:
    for epsilon, expected in WITH_OVER_WITHOUT.items():
        assert CLAIM.delta_at(epsilon) == pytest.approx(expected, rel=3e-6, abs=5.1e-10)
        found = hockey_stick(Q, SIGMA, epsilon, with_over_without=True)
        assert found == pytest.approx(expected, rel=3e-6, abs=5.1e-10)
    for epsilon, expected in WITHOUT_OVER_WITH.items():
        found = hockey_stick(Q, SIGMA, epsilon, with_over_without=False)
        assert found == pytest.approx(expected, abs=5.1e-10)
        assert CLAIM.delta_at(epsilon) >= found - 1e-12


def test_without_over_with_ends_at_the_largest_ratio() -> None:
    """Q ≤ P/(1 − q), so that direction is silent from ε = −ln(1 − q) = 0.287682 on."""
    end = -math.log(1 - Q)
    assert end == pytest.approx(0.287682, abs=5e-7)
    assert hockey_stick(Q, SIGMA, end - 0.01, with_over_without=False) > 1e-5
    assert hockey_stick(Q, SIGMA, end + 1e-9, with_over_without=False) == 0


@settings(deadline=None, max_examples=25)
@given(st.floats(0.01, 1), st.floats(0.3, 3), st.floats(0, 3))
def test_the_worse_direction_is_the_same_everywhere(q: float, sigma: float, epsilon: float) -> None:
    delta = SubsampledGaussianDP(q, sigma).delta_at(epsilon)
    first = hockey_stick(q, sigma, epsilon, with_over_without=True)
    assert delta == pytest.approx(first, rel=1e-7, abs=1e-11)
    assert delta >= hockey_stick(q, sigma, epsilon, with_over_without=False) - 1e-11


def test_epsilon() -> None:
    assert [CLAIM.epsilon_at(d) for d in LOSSES] == pytest.approx([*LOSSES.values()], abs=5.1e-7)


def test_total_variation() -> None:
    """TV = q(2Φ(1/(2σ)) − 1) (Koskela and Mohammadi 2024, section 7)."""
    assert CLAIM.delta_at(0.0) == pytest.approx(0.2261048239, abs=5e-11)


def one_sided(fpr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Trade-off with a null without and with the record: thresholds, found by interpolation."""
    z = np.linspace(-3, 4, 2_000_001)
    out, mixed = special.ndtr(-z / SIGMA), Q * special.ndtr((1 - z) / SIGMA)
    mixed = mixed + (1 - Q) * out
    first = np.interp(fpr, out[::-1], 1 - mixed[::-1])
    return first, np.interp(fpr, (1 - mixed), out)


def test_curve() -> None:
    x = np.array([*CURVE])
    out, into, worse = np.array([*CURVE.values()]).T
    assert CLAIM.tradeoff(x) == pytest.approx(worse, abs=5.1e-9)
    first, second = one_sided(x)
    assert first == pytest.approx(out, abs=1e-8)
    assert second == pytest.approx(into, abs=1e-8)
    assert np.all(CLAIM.tradeoff(x) <= np.minimum(first, second) + 1e-8)


def test_the_middle_is_a_line() -> None:
    """From the fixed point of the Gaussian curve on, f(x) = 1 − TV − x."""
    x = np.linspace(0.05, 0.7, 50)
    assert CLAIM.tradeoff(x) == pytest.approx(1 - CLAIM.delta_at(0.0) - x, abs=1e-14)


@pytest.mark.parametrize(
    ("q", "sigma"),
    mostly_slow([(0.25, 0.3), (0.01, 1.0), (0.9, 0.5), (1.0, 2.0), (1e-4, 0.1)], (1, 2)),
)
def test_formula_and_profile_give_one_curve(q: float, sigma: float) -> None:
    claim = SubsampledGaussianDP(q, sigma)
    epsilons = np.concatenate([np.linspace(0, 1, 3000), np.linspace(1, 60, 6000)])
    curve = tradeoff_envelope(epsilons, [claim.delta_at(e) for e in epsilons.tolist()])
    x = np.concatenate([np.geomspace(1e-10, 0.1, 200), np.linspace(0, 1, 200)])
    missing = claim.tradeoff(x) - curve.at(x)
    assert np.all(missing >= -1e-12)
    assert np.max(missing) < 2e-5


def test_without_sampling_it_is_gaussian() -> None:
    x = np.linspace(0, 1, 101)
    sampled, whole = SubsampledGaussianDP(1.0, 0.8), GaussianDP(1 / 0.8)
    assert sampled.tradeoff(x) == pytest.approx(whole.tradeoff(x), abs=1e-14)
    for delta in (1e-12, 1e-5, 0.3):
        assert sampled.epsilon_at(delta) == pytest.approx(whole.epsilon_at(delta), rel=1e-13)


@pytest.mark.parametrize("sigma", [1e-3, 0.05, 1.0, 100.0])
@pytest.mark.parametrize("q", [1e-12, 0.5, 1.0])
def test_edges_are_finite_and_monotone(q: float, sigma: float) -> None:
    claim = SubsampledGaussianDP(q, sigma)
    losses = [claim.epsilon_at(d) for d in (1e-300, 1e-12, 1e-5, 0.1, 1 - 1e-16, 1.0)]
    assert losses == sorted(losses, reverse=True)
    assert all(0 <= loss < math.inf for loss in losses)
    assert claim.epsilon_at(0.0) == math.inf
    profile = [claim.delta_at(e) for e in (0.0, 1e-300, 1.0, 50.0, 699.0, 701.0, 720.0, 1e6)]
    assert profile == sorted(profile, reverse=True)
    x = np.array([0.0, 5e-324, 1e-300, 1e-12, 0.1, 0.5, 0.9, 1 - 1e-12, 1 - 1e-16, 1.0])
    curve = claim.tradeoff(x)
    assert np.all(np.diff(curve) <= 1e-16)
    assert curve[0] == 1.0
    assert curve[-1] == 0.0


def test_likelihood_ratios_agree_with_the_claim() -> None:
    """A threshold at t has exactly the error rates that the claimed curve's tangent touches."""
    for epsilon in (1.0, 5.0, 12.0):
        t = 0.5 + SIGMA**2 * math.log((math.exp(epsilon) - (1 - Q)) / Q)
        fpr = stats.norm.sf(t / SIGMA)
        fnr = Q * stats.norm.cdf((t - 1) / SIGMA) + (1 - Q) * stats.norm.cdf(t / SIGMA)
        assert CLAIM.tradeoff(np.array([fpr]))[0] == pytest.approx(fnr, abs=1e-14)
        assert CLAIM.delta_at(epsilon) == pytest.approx(
            1 - fnr - math.exp(epsilon) * fpr, abs=1e-13
        )


@pytest.mark.parametrize(("q", "sigma"), [(0.0, 1.0), (1.1, 1.0), (math.nan, 1.0), (0.5, 0.0)])
def test_nonsense_is_refused(q: float, sigma: float) -> None:
    with pytest.raises(ValueError, match="claimed"):
        SubsampledGaussianDP(q, sigma)
