"""Rényi claims: their conversion against dp-accounting, and what must follow from what."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, strategies as st
from support.tiers import mostly_slow

from dpframe import GaussianDP, RenyiDP, ZeroConcentratedDP
from dpframe.stats.tradeoff import tradeoff_envelope

orders = st.floats(1.02, 200)
divergences = st.floats(1e-4, 30)


@given(orders, divergences, st.floats(0, 60))
def test_delta_is_that_of_dp_accounting_or_less(
    order: float, divergence: float, epsilon: float
) -> None:
    """It uses proposition 12 and Bretagnolle-Huber; Pinsker's inequality says more for some."""
    theirs, _ = rdp_privacy_accountant.compute_delta([order], [divergence], epsilon)
    found = RenyiDP(order, divergence).delta_at(epsilon)
    pinsker = math.sqrt(divergence / 2)
    assert found == pytest.approx(min(theirs, pinsker), rel=1e-9, abs=1e-300)


@given(orders, divergences, st.floats(1e-15, 0.5))
def test_epsilon_is_that_of_dp_accounting_or_less(
    order: float, divergence: float, delta: float
) -> None:
    claim = RenyiDP(order, divergence)
    theirs, _ = rdp_privacy_accountant.compute_epsilon([order], [divergence], delta)
    if delta >= claim.delta_at(0.0):
        assert claim.epsilon_at(delta) == 0.0
    else:
        assert claim.epsilon_at(delta) == pytest.approx(theirs, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("rho", mostly_slow([1e-4, 0.01, 0.125, 0.5, 2.0, 20.0], (0, 3)))
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01])
def test_zero_concentrated_is_the_best_order(rho: float, delta: float) -> None:
    fine = 1 + np.geomspace(1e-4, 1e5, 40_000)
    best, _ = rdp_privacy_accountant.compute_epsilon(fine, fine * rho, delta)
    found = ZeroConcentratedDP(rho).epsilon_at(delta)
    if found > 0:
        assert found == pytest.approx(best, rel=1e-6)
        assert found <= best + 1e-12
        epsilon = found / 2
        there, _ = rdp_privacy_accountant.compute_delta(fine, fine * rho, epsilon)
        cap = math.sqrt(rho / 2)
        found_delta = ZeroConcentratedDP(rho).delta_at(epsilon)
        assert found_delta == pytest.approx(min(there, cap), rel=1e-6)


def test_a_published_value() -> None:
    """Known bounds on ρ = 0.5 at δ = 1e-5: ρ + 2√(ρ ln(1/δ)) (Bun and Steinke 2016) is larger."""
    found = ZeroConcentratedDP(0.5).epsilon_at(1e-5)
    assert GaussianDP(1.0).epsilon_at(1e-5) < found < 0.5 + 2 * math.sqrt(0.5 * math.log(1e5))
    assert found == pytest.approx(4.728387, abs=1e-6)


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 4.0])
def test_a_gaussian_mechanism_keeps_what_follows_from_it(mu: float) -> None:
    """D_α of N(0, 1) and N(μ, 1) is αμ²/2: both claims are true, and weaker."""
    x = np.concatenate([np.geomspace(1e-9, 0.1, 50), np.linspace(0.1, 1, 50)])
    exact = GaussianDP(mu)
    for claim in (ZeroConcentratedDP(mu**2 / 2), RenyiDP(8.0, 4 * mu**2)):
        assert np.all(claim.tradeoff(x) <= exact.tradeoff(x) + 1e-12)
        for epsilon in (0.0, 0.3, 1.0, 5.0, 20.0):
            assert claim.delta_at(epsilon) >= exact.delta_at(epsilon)
        for delta in (1e-12, 1e-5, 0.01):
            assert claim.epsilon_at(delta) >= exact.epsilon_at(delta)


@pytest.mark.parametrize(
    "claim",
    [
        *mostly_slow([ZeroConcentratedDP(rho) for rho in (1e-12, 1e-4, 0.5, 8.0, 200.0)], (2,)),
        *mostly_slow(
            [RenyiDP(8.0, 4.0), RenyiDP(1.5, 1.0), RenyiDP(50.0, 0.01), RenyiDP(1.01, 30.0)], (0,)
        ),
    ],
)
def test_the_curve_is_hardly_below_that_of_a_finer_grid(
    claim: ZeroConcentratedDP | RenyiDP,
) -> None:
    most = claim.epsilon_at(1e-15)
    epsilons = np.concatenate([np.linspace(0, most, 10_000), np.geomspace(most / 1e9, most, 5_000)])
    finer = tradeoff_envelope(epsilons, [claim.delta_at(e) for e in epsilons.tolist()])
    x = np.concatenate([np.geomspace(1e-12, 0.1, 200), np.linspace(0, 1, 200)])
    assert np.max(finer.at(x) - claim.tradeoff(x)) < 5e-5


CLAIMS = [
    *map(ZeroConcentratedDP, (0.0, 1e-300, 1e-12, 1.0, 1e4, 1e9)),
    *(RenyiDP(a, e) for a in (1 + 1e-12, 2.0, 1e6) for e in (0.0, 1e-12, 1.0, 1e4)),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_edges_are_finite_and_monotone(claim: ZeroConcentratedDP | RenyiDP) -> None:
    losses = [claim.epsilon_at(d) for d in (5e-324, 1e-300, 1e-12, 1e-5, 0.1, 1 - 1e-16, 1.0)]
    assert losses == sorted(losses, reverse=True)
    assert all(0 <= loss < math.inf for loss in losses)
    profile = [claim.delta_at(e) for e in (0.0, 1e-300, 1.0, 50.0, 1e5, 1e12)]
    assert profile == sorted(profile, reverse=True)
    assert all(0 <= delta <= 1 for delta in profile)
    x = np.array([0.0, 5e-324, 1e-300, 1e-12, 0.1, 0.5, 0.9, 1 - 1e-12, 1.0])
    curve = claim.tradeoff(x)
    assert np.all(np.diff(curve) <= 1e-16)
    assert np.all((curve >= 0) & (curve <= 1 - x + 1e-16))


def test_a_divergence_of_0_is_no_loss() -> None:
    x = np.linspace(0, 1, 11)
    for claim in (ZeroConcentratedDP(0.0), RenyiDP(3.0, 0.0)):
        assert claim.epsilon_at(0.0) == 0.0
        assert claim.delta_at(0.0) == 0.0
        assert claim.tradeoff(x) == pytest.approx(1 - x, abs=1e-15)


def test_nonsense_is_refused() -> None:
    for rho in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="rho"):
            ZeroConcentratedDP(rho)
    for order in (1.0, 0.5, math.inf, math.nan):
        with pytest.raises(ValueError, match="order"):
            RenyiDP(order, 1.0)
    for epsilon in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            RenyiDP(2.0, epsilon)
