"""Laws of trade-off curves and privacy profiles hold for every claim."""

from __future__ import annotations

import math
from itertools import pairwise

import dp_accounting as dp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.regions import rejects

import dpframe
from dpframe import (
    AccountedDP,
    ApproxDP,
    Claim,
    GaussianDP,
    LaplaceDP,
    MetricDP,
    PureDP,
    RenyiDP,
    SubsampledGaussianDP,
    ZeroConcentratedDP,
)
from dpframe.results.build import claim_record
from dpframe.stats.tradeoff import tradeoff_envelope

SAMPLED = dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0))
ACCOUNTED = [
    AccountedDP(event, 1e-2)
    for event in (dp.LaplaceDpEvent(0.5), dp.SelfComposedDpEvent(SAMPLED, 10), dp.NoOpDpEvent())
]
"""Few, because an accountant takes its time."""

exact_claims: st.SearchStrategy[Claim] = st.one_of(
    st.builds(PureDP, st.floats(0, 50)),
    st.builds(ApproxDP, st.floats(0, 50), st.floats(0, 0.5)),
    st.builds(GaussianDP, st.floats(0, 10)),
    st.builds(LaplaceDP, st.floats(0, 50)),
    st.builds(MetricDP, st.floats(0, 5), st.floats(0, 10)),
    st.builds(SubsampledGaussianDP, st.floats(1e-3, 1), st.floats(0.1, 10)),
)
claims: st.SearchStrategy[Claim] = st.one_of(
    exact_claims,
    st.builds(ZeroConcentratedDP, st.floats(0, 30)),
    st.builds(RenyiDP, st.floats(1.1, 100), st.floats(0, 20)),
    st.sampled_from(ACCOUNTED),
)
law = settings(deadline=None, max_examples=25)

X = np.concatenate([[0.0], np.geomspace(1e-12, 0.01, 60), np.linspace(0.01, 1, 120)[1:]])


@law
@given(claims)
def test_the_curve_is_a_tradeoff_function(claim: Claim) -> None:
    """Convex, not increasing, at most 1 − x (Dong, Roth and Su 2022, proposition 2.2)."""
    y = claim.tradeoff(X)
    assert np.all((y >= 0) & (y <= 1 - X + 1e-15))
    assert np.all(np.diff(y) <= 1e-15)
    slopes = np.diff(y) / np.diff(X)
    # A slope loses what rounding of y is when it is divided by a short step of x.
    assert np.all(np.diff(slopes) >= -1e-9 * np.abs(slopes[1:]) - 4e-16 / np.diff(X)[:-1])


@law
@given(claims)
def test_the_curve_is_its_own_inverse(claim: Claim) -> None:
    """It is that of both directions; f(f(x)) ≤ x everywhere, and x where f is above 0."""
    y = claim.tradeoff(X)
    twice = claim.tradeoff(y)
    steep = np.maximum(np.abs(np.gradient(y, X)), 1.0)
    inside = (y > 1e-12) & (y < claim.tradeoff(np.zeros(1)))
    back = twice[inside] - X[inside]
    # A flat f says little about x: to a digit of y belong 1/slope of x.
    flat = 1 / np.maximum(np.abs(np.gradient(y, X))[inside], 1e-300)
    assert np.all(np.abs(back) <= 2e-5 + 1e-15 * np.maximum(flat, steep[inside]))
    assert np.all(twice[~inside] <= X[~inside] + 2e-5)


@law
@given(claims)
def test_the_profile_falls_and_is_convex_in_the_growth(claim: Claim) -> None:
    """δ as a function of e^ε; the cap on Rényi conversions bends the other way, so not those."""
    growth = np.geomspace(1, 1e20, 200)
    delta = np.array([claim.delta_at(math.log(g)) for g in growth.tolist()])
    assert np.all((delta >= 0) & (delta <= 1))
    assert np.all(np.diff(delta) <= 1e-15)
    if not isinstance(claim, RenyiDP | ZeroConcentratedDP):
        slopes = np.diff(delta) / np.diff(growth)
        noise = 1e-9 * np.abs(slopes[1:]) + 1e-15 / np.diff(growth)[:-1]
        assert np.all(np.diff(slopes) >= -noise)


@law
@given(claims, st.floats(1e-14, 1 - 1e-9))
def test_epsilon_and_delta_are_inverse(claim: Claim, delta: float) -> None:
    epsilon = claim.epsilon_at(delta)
    assert epsilon >= 0
    if epsilon == math.inf:
        assert claim.delta_at(700.0) > delta
        return
    # e^ε carries the rounding of ε, times ε.
    assert claim.delta_at(epsilon) <= delta * (1 + 1e-9) + 1e-13
    if epsilon > 1e-6:
        assert claim.delta_at(epsilon * (1 - 1e-7) - 1e-12) >= delta * (1 - 1e-7)


@law
@given(claims, st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_a_larger_delta_needs_no_larger_epsilon(claim: Claim, deltas: list[float]) -> None:
    losses = [claim.epsilon_at(delta) for delta in sorted(deltas)]
    assert all(a >= b for a, b in pairwise(losses))


@law
@given(claims)
def test_a_bound_above_the_claim_is_a_violation_of_the_curve(claim: Claim) -> None:
    """At every δ of the report the curve is nowhere below that of (ε(δ), δ)-DP."""
    for delta in claim.telling_deltas:
        epsilon = claim.epsilon_at(delta)
        if epsilon < 700:
            single = ApproxDP(epsilon, delta).tradeoff(X)
            assert np.all(claim.tradeoff(X) >= single - 1e-12)


@settings(law, max_examples=20)
@given(exact_claims)
def test_the_curve_of_the_profile_is_the_curve(claim: Claim) -> None:
    """Lemma 7 of Koskela and Mohammadi (2024): with many points from below, and near."""
    losses = [claim.epsilon_at(delta) for delta in (claim.default_delta, 1e-9)]
    most = max(loss for loss in losses if loss < math.inf)
    epsilons = np.append(np.linspace(0, most, 1500), np.geomspace(1e-6, 1, 300) * most)
    curve = tradeoff_envelope(epsilons, [claim.delta_at(e) for e in epsilons.tolist()])
    missing = claim.tradeoff(X) - curve.at(X)
    assert np.all(missing >= -1e-12)
    assert np.max(missing) < 5e-4


@law
@given(claims, st.floats(1e-6, 0.999))
def test_the_verdict_is_about_the_curve(claim: Claim, fpr: float) -> None:
    """A box on the curve is allowed by the claim, and one below it is not."""
    fnr = float(claim.tradeoff(np.array([fpr]))[0])
    assert not rejects(np.array([[fpr, fnr + 1e-15]]), claim)
    if fnr > 1e-9:
        assert rejects(np.array([[fpr, fnr * (1 - 1e-9)]]), claim)


@law
@given(claims)
def test_what_a_report_says_of_it(claim: Claim) -> None:
    assert claim.default_delta in claim.telling_deltas
    assert all(0 <= delta < 1 for delta in claim.telling_deltas)
    assert list(claim.telling_deltas) == sorted(set(claim.telling_deltas))
    single = isinstance(claim, ApproxDP)
    assert len(claim.telling_deltas) == (1 if single else 25 + (claim.default_delta not in GRID))
    found = claim_record(claim, claim.default_delta)
    assert found is not None
    assert found.parameters == claim.parameters()
    if single:
        assert found.tradeoff is None
        return
    x, y = np.array(found.tradeoff).T
    assert len(x) == 33
    assert (x[0], x[-1]) == (0.0, 1.0)
    assert np.all(np.diff(x) > 0)
    assert y == pytest.approx(claim.tradeoff(x), abs=0)


GRID = GaussianDP(1.0).telling_deltas


def test_the_grid_of_delta() -> None:
    assert len(GRID) == 25
    assert GRID[0] == 1e-12
    assert GRID[-1] == 0.9
    assert 1e-5 in GRID


@law
@given(claims)
def test_equal_claims_are_equal_values(claim: Claim) -> None:
    parameters = {f: getattr(claim, f) for f in claim.parameters()}
    if type(claim) is PureDP:
        del parameters["delta"]
    again = type(claim)(**parameters)
    assert again == claim
    assert hash(again) == hash(claim)


def test_kinds_are_distinct_and_exported() -> None:
    """A record names a claim by its kind, and the command line by its parameters."""
    classes = [getattr(dpframe, name) for name in dpframe.__all__]
    found = [c for c in classes if isinstance(c, type) and issubclass(c, Claim) and c is not Claim]
    assert len(found) == 9
    assert len({c.kind for c in found}) == 9
    fields = [tuple(f.name for f in c.__dataclass_fields__.values() if f.init) for c in found]
    assert len(set(fields)) == 9


class Falling(Claim):
    """A claim of somebody else: only ε(δ) and δ(ε), and they take their time."""

    kind = "falling"
    asked = 0

    def epsilon_at(self, delta: float) -> float:
        return -math.log(delta) if delta > 0 else math.inf

    def delta_at(self, epsilon: float) -> float:
        self.asked += 1
        return math.exp(-epsilon)


def test_a_claim_needs_only_its_profile() -> None:
    """δ = e^{−ε}: the largest of 1 − δ − x/δ is at δ = √x, f(x) = 1 − 2√x and its inverse."""
    claim = Falling()
    x = np.linspace(0, 1, 101)
    steep, flat = 1 - 2 * np.sqrt(x), ((1 - x) / 2) ** 2
    exact = np.maximum(np.maximum(steep, flat), 0)
    assert np.all(claim.tradeoff(x) <= exact + 1e-12)
    assert claim.tradeoff(x) == pytest.approx(exact, abs=2e-5)
    asked = claim.asked
    claim.tradeoff(x)
    assert claim.asked == asked  # the points are kept
    assert claim.default_delta == 1e-5
    assert claim.parameters() == {}
    recorded = claim_record(claim, 1e-5)
    assert recorded is not None
    assert recorded.epsilon == pytest.approx(math.log(1e5))


def test_nothing_claimed_is_nothing_recorded() -> None:
    assert claim_record(None, 0.1) is None
