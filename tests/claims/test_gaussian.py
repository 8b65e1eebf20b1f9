"""Gaussian DP: published values, an oracle with sixty digits, and the edges."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpframe import GaussianDP
from dpframe.stats.gaussian import gaussian_delta, gaussian_epsilon, gaussian_tradeoff

EPSILONS = (0, 0.5, 1, 2, 4, 8)
PROFILES = {
    0.3: (0.9044193, 0.87822262, 0.84723593, 0.7704477, 0.56638888, 0.16059606),
    0.5: (0.68268949, 0.59918562, 0.50986166, 0.331898, 0.084953319, 4.9540174e-4),
    1.0: (0.38292492, 0.23842171, 0.12693674, 0.020923636, 4.7122412e-5, 3.6508e-15),
    2.0: (0.19741265, 0.052440323, 6.829595e-3, 9.4391686e-6, 2.706e-16, None),
    3.0: (0.13236767, 0.012418249, 2.075122e-4, 1.398e-10, None, None),
}
"""δ(ε) of N(0, σ²) and N(1, σ²) by σ, to the digits given."""

LOSSES = {
    0.3: (19.13077, 20.78122),
    0.5: (9.99726, 10.99715),
    1.0: (4.37718, 4.88655),
    2.0: (1.99309, 2.25408),
    3.0: (1.27109, 1.44799),
}
"""ε at δ = 1e-5 and 1e-6 by σ."""


@pytest.mark.parametrize("sigma", PROFILES)
def test_profile(sigma: float) -> None:
    claim = GaussianDP(1 / sigma)
    for epsilon, delta in zip(EPSILONS, PROFILES[sigma], strict=True):
        if delta is not None:
            assert claim.delta_at(epsilon) == pytest.approx(
                delta, rel=2e-4 if delta < 1e-9 else 1e-7
            )


@pytest.mark.parametrize("sigma", LOSSES)
def test_epsilon(sigma: float) -> None:
    claim = GaussianDP(1 / sigma)
    found = [claim.epsilon_at(delta) for delta in (1e-5, 1e-6)]
    assert found == pytest.approx(LOSSES[sigma], abs=5.1e-6)


def test_tradeoff() -> None:
    """f(0.05), f(0.1) and f(0.5) of μ = 1."""
    found = GaussianDP(1.0).tradeoff(np.array([0.05, 0.1, 0.5]))
    assert found == pytest.approx([0.7404889771, 0.610856308, 0.158655254], abs=5e-10)


def test_total_variation() -> None:
    """δ(0) = 2Φ(1/(2σ)) − 1 (Koskela and Mohammadi 2024, equation 5.1)."""
    for sigma in (0.3, 1.0, 3.0):
        expected = math.erf(1 / (2 * sigma * math.sqrt(2)))
        assert GaussianDP(1 / sigma).delta_at(0.0) == pytest.approx(expected, rel=1e-14)


def exact_delta(epsilon: float, mu: float) -> mpmath.mpf:
    e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
    return mpmath.ncdf(m / 2 - e / m) - mpmath.e**e * mpmath.ncdf(-m / 2 - e / m)


MUS = (1e-6, 1e-3, 0.1, 1.0, 4.0, 15.0, 40.0)
DELTAS = (1e-300, 1e-100, 1e-20, 1e-12, 1e-5, 0.01, 0.3, 0.6, 0.99, 1 - 1e-9, 1 - 1e-15)


@pytest.mark.parametrize("mu", MUS)
def test_epsilon_against_sixty_digits(mu: float) -> None:
    """Never below the exact ε(δ) by more than rounding, and hardly above it."""
    with mpmath.workdps(60):
        for delta in DELTAS:
            found = GaussianDP(mu).epsilon_at(delta)
            if delta >= exact_delta(0.0, mu):
                assert found == 0.0
                continue
            slack = 1e-13 * found + 1e-15
            assert exact_delta(found + slack, mu) <= delta
            assert exact_delta(max(found - slack, 0.0), mu) >= delta


@pytest.mark.parametrize("mu", MUS)
def test_delta_against_sixty_digits(mu: float) -> None:
    """For small μ two nearly equal numbers are subtracted; the remaining digits are still right."""
    with mpmath.workdps(60):
        for epsilon in (0.0, 1e-8, 0.01, 0.5, 1.0, 3.0, 10.0, 50.0, 300.0):
            exact = exact_delta(epsilon, mu)
            if exact > 1e-300:
                assert GaussianDP(mu).delta_at(epsilon) == pytest.approx(
                    float(exact), rel=1e-13 + 1e-14 / mu
                )


def test_arrays_broadcast() -> None:
    epsilon, mu = np.array([0.0, 1.0, 4.0]), np.array([[0.0], [0.5], [2.0]])
    delta = gaussian_delta(epsilon, mu)
    assert delta.shape == (3, 3)
    assert np.all(delta[0] == 0)
    back = gaussian_epsilon(delta[1:], mu[1:])
    assert back == pytest.approx(np.broadcast_to(epsilon, (2, 3)), abs=1e-12)
    assert gaussian_tradeoff(epsilon / 4, mu).shape == (3, 3)


@pytest.mark.parametrize("mu", [0.0, 5e-324, 1e-300, 1e-16, 1.0, 50.0, 1e4, 1e150])
def test_edges_are_finite_and_monotone(mu: float) -> None:
    claim = GaussianDP(mu)
    deltas = [0.0, 5e-324, 1e-300, 1e-12, 0.5, 1 - 1e-16, 1.0]
    losses = [claim.epsilon_at(delta) for delta in deltas]
    assert losses[0] == (math.inf if mu else 0.0)
    assert losses[-1] == 0.0
    assert all(math.isfinite(loss) and loss >= 0 for loss in losses[1:])
    assert losses == sorted(losses, reverse=True)
    profile = [claim.delta_at(e) for e in (0.0, 1e-300, 1e-9, 1.0, 50.0, 700.0, 1e9, math.inf)]
    assert all(0 <= delta <= 1 for delta in profile)
    assert profile == sorted(profile, reverse=True)
    x = np.array([0.0, 5e-324, 1e-300, 1e-16, 0.5, 1 - 1e-16, 1.0])
    curve = claim.tradeoff(x)
    assert curve[0] == 1.0
    assert curve[-1] == 0.0
    assert np.all(np.diff(curve) <= 0)
    assert np.all(curve <= 1 - x)


def test_no_privacy_loss_at_all() -> None:
    x = np.linspace(0, 1, 101)
    assert GaussianDP(0.0).tradeoff(x) == pytest.approx(1 - x, abs=1e-15)
    assert GaussianDP(0.0).epsilon_at(0.0) == 0.0


@pytest.mark.parametrize("mu", [-1.0, math.inf, math.nan])
def test_nonsense_is_refused(mu: float) -> None:
    with pytest.raises(ValueError, match="mu"):
        GaussianDP(mu)
