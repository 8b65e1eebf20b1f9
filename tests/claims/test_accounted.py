"""Accounted claims: against closed forms, composed reference values, and at the edges."""

from __future__ import annotations

import math

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from support.tiers import mostly_slow

from dpframe import AccountedDP, Claim, GaussianDP, LaplaceDP, SubsampledGaussianDP

COARSE = 1e-3
"""A grid that is ten times faster than the default; ε is 1e-4 larger at most, in what follows."""


def sampled(q: float, sigma: float, count: int = 1) -> dp.DpEvent:
    step = dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(sigma))
    return dp.SelfComposedDpEvent(step, count)


CLOSED_FORMS = [
    (dp.GaussianDpEvent(1.0), GaussianDP(1.0)),
    (dp.GaussianDpEvent(0.4), GaussianDP(2.5)),
    (dp.SelfComposedDpEvent(dp.GaussianDpEvent(4.0), 16), GaussianDP(1.0)),
    (dp.ComposedDpEvent([dp.GaussianDpEvent(2.0)] * 4), GaussianDP(1.0)),
    (dp.LaplaceDpEvent(1.0), LaplaceDP(1.0)),
    (dp.LaplaceDpEvent(0.25), LaplaceDP(4.0)),
    (sampled(0.25, 0.3), SubsampledGaussianDP(0.25, 0.3)),
    (sampled(0.01, 1.0), SubsampledGaussianDP(0.01, 1.0)),
]


@pytest.fixture(
    scope="module",
    params=mostly_slow([pytest.param(form) for form in CLOSED_FORMS], (0, 3, 4, 7)),
    ids=lambda pair: str(pair[0])[:60],
)
def both(request: pytest.FixtureRequest) -> tuple[AccountedDP, Claim]:
    event, exact = request.param
    return AccountedDP(event, COARSE), exact


X = np.concatenate([[0.0], np.geomspace(1e-9, 0.1, 60), np.linspace(0.1, 1, 60)])


def test_the_curve_is_close_and_never_too_high(both: tuple[AccountedDP, Claim]) -> None:
    """Lenient: nothing is below the accounted curve that is not below the exact one."""
    claim, exact = both
    missing = exact.tradeoff(X) - claim.tradeoff(X)
    assert np.all(missing >= -1e-15)
    assert np.max(missing) < 5e-5


def test_the_profile_is_close_and_never_too_low(both: tuple[AccountedDP, Claim]) -> None:
    claim, exact = both
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.5, 8.0):
        more = claim.delta_at(epsilon) - exact.delta_at(epsilon)
        assert -1e-15 <= more < 5e-5
    for delta in (1e-10, 1e-5, 1e-3, 0.1):
        more = claim.epsilon_at(delta) - exact.epsilon_at(delta)
        assert -1e-9 <= more < 2e-4


def test_it_is_what_the_accountant_says() -> None:
    event = dp.ComposedDpEvent([dp.LaplaceDpEvent(2.0), sampled(0.1, 1.0, 3)])
    accountant = PLDAccountant(value_discretization_interval=COARSE).compose(event)
    claim = AccountedDP(event, COARSE)
    assert [claim.epsilon_at(d) for d in (1e-9, 1e-5, 0.3)] == [
        accountant.get_epsilon(d) for d in (1e-9, 1e-5, 0.3)
    ]
    assert claim.delta_at(0.7) == accountant.get_delta(0.7)


COMPOSED = {
    (0.25, 0.3): (16.6606, 38.757, 54.4898, 78.6832, 213.4964),
    (0.25, 2): (0.8301, 1.4953, 2.0200, 2.7958, 6.4492),
    (0.5, 1): (3.5340, 7.4223, 10.4599, 15.1233, 39.975),
    (0.5, 2): (1.3536, 2.8078, 3.9590, 5.6895, 14.2845),
    (0.01, 1): (0.1995, 0.3165, 0.3799, 0.4549, 0.7180),
}
"""ε at δ = 1e-5 of 1, 5, 10, 20 and 100 subsampled Gaussians with (q, σ)."""
ROWS = [
    (q, sigma, count, epsilon)
    for (q, sigma), row in COMPOSED.items()
    for count, epsilon in zip((1, 5, 10, 20, 100), row, strict=True)
]


@pytest.mark.parametrize(("q", "sigma", "count", "epsilon"), mostly_slow(ROWS, range(0, 25, 8)))
def test_composition_on_a_coarse_grid(q, sigma, count, epsilon) -> None:
    found = AccountedDP(sampled(q, sigma, count), COARSE).epsilon_at(1e-5)
    assert epsilon - 6e-5 <= found <= epsilon + 2e-4


@pytest.mark.slow
@pytest.mark.parametrize(("q", "sigma", "count", "epsilon"), ROWS)
def test_composition(q, sigma, count, epsilon) -> None:
    assert AccountedDP(sampled(q, sigma, count)).epsilon_at(1e-5) == pytest.approx(
        epsilon, abs=6e-5
    )


def test_a_finer_grid_says_less() -> None:
    losses = [
        AccountedDP(sampled(0.1, 1.0, 20), step).epsilon_at(1e-5) for step in (0.1, 0.01, COARSE)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[2]


def test_edges() -> None:
    claim = AccountedDP(dp.GaussianDpEvent(1.0), COARSE)
    losses = [claim.epsilon_at(d) for d in (1e-12, 1e-5, 0.3, 0.9, 1 - 1e-16, 1.0)]
    assert losses == sorted(losses, reverse=True)
    assert all(0 <= loss < math.inf for loss in losses)
    profile = [claim.delta_at(e) for e in (0.0, 1.0, 10.0, 50.0, 1e6)]
    assert profile == sorted(profile, reverse=True)
    assert 0 < profile[-1] < 1e-12  # mass that the accountant has given up


def test_no_epsilon_below_the_mass_that_the_accountant_gives_up() -> None:
    """Not even for Laplace noise, whose loss is bounded."""
    claim = AccountedDP(dp.LaplaceDpEvent(1.0), COARSE)
    assert claim.epsilon_at(0.0) == math.inf
    assert claim.epsilon_at(1e-18) == math.inf
    assert claim.epsilon_at(1e-12) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("event", [dp.NonPrivateDpEvent(), dp.GaussianDpEvent(0.0)])
def test_nothing_is_claimed_of_no_noise(event: dp.DpEvent) -> None:
    claim = AccountedDP(event, COARSE)
    assert claim.epsilon_at(0.5) == math.inf
    assert claim.delta_at(3.0) == 1.0
    assert np.all(claim.tradeoff(X) == 0)


def test_an_event_that_releases_nothing() -> None:
    claim = AccountedDP(dp.NoOpDpEvent(), COARSE)
    assert claim.epsilon_at(1e-5) == 0.0
    assert claim.delta_at(0.0) == 0.0
    assert claim.tradeoff(X) == pytest.approx(1 - X, abs=1e-15)


def test_the_relation_counts() -> None:
    one = AccountedDP(dp.GaussianDpEvent(2.0), COARSE)
    special = AccountedDP(dp.GaussianDpEvent(2.0), COARSE, "replace-special")
    two = AccountedDP(dp.GaussianDpEvent(2.0), COARSE, "replace-one")
    assert one.epsilon_at(1e-5) == special.epsilon_at(1e-5)
    assert one.epsilon_at(1e-5) == pytest.approx(GaussianDP(0.5).epsilon_at(1e-5), abs=2e-4)
    assert two.epsilon_at(1e-5) == pytest.approx(GaussianDP(1.0).epsilon_at(1e-5), abs=2e-4)


def test_it_is_a_value() -> None:
    """Also with a list in the event, which alone has no hash."""
    make = lambda: AccountedDP(dp.ComposedDpEvent([dp.LaplaceDpEvent(1.0)]), COARSE)  # noqa: E731
    assert make() == make()
    assert hash(make()) == hash(make())
    assert make() != AccountedDP(dp.ComposedDpEvent([dp.LaplaceDpEvent(2.0)]), COARSE)
    assert make().parameters() == {
        "event": "ComposedDpEvent(events=[LaplaceDpEvent(noise_multiplier=1.0)])",
        "discretization": COARSE,
        "relation": "add-or-remove-one",
    }


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot account"):
        AccountedDP(dp.UnsupportedDpEvent())
    with pytest.raises(ValueError, match="cannot account"):
        AccountedDP(dp.LaplaceDpEvent(1.0), relation="replace-one")
    for step in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="discretization"):
            AccountedDP(dp.NoOpDpEvent(), step)
    with pytest.raises(ValueError, match="relation"):
        AccountedDP(dp.NoOpDpEvent(), relation="neighbours")  # type: ignore[arg-type]
