"""The estimator `credible`: Bayesian, and saying so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpframe import ApproxDP, GaussianDP, LaplaceDP, PureDP, Query
from dpframe.builtin.threshold import Credible
from dpframe.stats.credible import Posterior, region_mass

COUNTS = np.array([[950, 50], [300, 700]])


def query(n: int = 1000, *, delta: float = 1e-5, claim: Any = None) -> Query:
    return Query((n, n), delta, 0.95, claim)


def test_reference_values() -> None:
    both = Credible(threshold=0.0).estimate((), COUNTS, query())
    assert both.interval == pytest.approx((2.37553, 2.92185), abs=1e-5)
    assert both.interval[0] < both.epsilon < both.interval[1]
    lower = Credible(threshold=0.0, sides="lower").estimate((), COUNTS, query())
    assert lower.interval == pytest.approx((2.41572, math.inf), abs=1e-5)
    assert lower.epsilon == both.epsilon


@pytest.mark.parametrize("claim", [None, PureDP(0.1), GaussianDP(0.1), LaplaceDP(0.1)], ids=repr)
def test_never_certifies(claim: Any) -> None:
    assert not Credible().certifies_against(claim)
    found = Credible(threshold=0.0).estimate((), COUNTS, query(claim=claim))
    assert found.epsilon_lower is found.epsilon_upper is found.p_value is found.contrast is None
    assert found.tradeoff == ()
    assert "Bayesian" in Credible.assumption
    assert "not a bound" in found.notes[0]


@pytest.mark.parametrize(
    "claim", [ApproxDP(2.6, 1e-5), PureDP(2.0), GaussianDP(2.2), LaplaceDP(3.0)], ids=repr
)
def test_says_how_much_of_the_posterior_a_claim_allows(claim: Any) -> None:
    found = Credible(threshold=0.0).estimate((), COUNTS, query(claim=claim))
    stated = float(found.notes[-1].rpartition(" ")[2])
    assert stated == pytest.approx(
        region_mass(Posterior(300, 700, 50, 950), claim.tradeoff), abs=2e-3
    )
    assert 0 < stated < 1


def test_the_direction_does_not_matter() -> None:
    estimator = Credible(threshold=0.0)
    turned = estimator.estimate((), COUNTS[:, ::-1], query())
    swapped = estimator.estimate((), COUNTS[::-1], query())
    expected = estimator.estimate((), COUNTS, query())
    for found in (turned, swapped):
        assert found.interval == pytest.approx(expected.interval, abs=1e-7)
        assert found.epsilon == pytest.approx(expected.epsilon, abs=1e-7)


def test_the_pilot_chooses() -> None:
    rng = np.random.default_rng(0)
    scores = (rng.laplace(size=20_000), rng.laplace(size=20_000) - 1)
    found = Credible().estimate_scores(scores, query(20_000, delta=0.0), rng)
    assert "less than" in found.notes[1]
    assert 0.9 < found.interval[0] < found.interval[1] < 1.1
    decisions = (scores[0] < 0, scores[1] < 0)
    assert Credible().estimate_scores(decisions, query(20_000), rng).interval[0] > 0.4


@pytest.mark.parametrize("sides", ["both", "lower"])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.5])
@pytest.mark.parametrize(
    "table",
    [
        [[0, 0], [0, 0]],
        [[1, 0], [0, 1]],
        [[0, 1], [1, 0]],
        [[10**7, 0], [0, 10**7]],
        [[10**7, 0], [10**7, 0]],
        [[5, 5], [0, 10**6]],
    ],
)
def test_edges(table: Any, sides: str, delta: float) -> None:
    found = Credible(threshold=0.0, sides=sides).estimate(
        (), np.array(table), query(1, delta=delta, claim=PureDP(0.5))
    )
    assert 0 <= found.interval[0] <= found.epsilon <= found.interval[1]
    assert math.isfinite(found.epsilon)


def test_a_lower_limit_above_zero_is_no_finding() -> None:
    """Without any leak the limit at δ = 0 is above 0, as the docstring says."""
    found = Credible(threshold=0.0).estimate((), np.full((2, 2), 500), query(delta=0.0))
    assert 0 < found.interval[0] < 0.1
