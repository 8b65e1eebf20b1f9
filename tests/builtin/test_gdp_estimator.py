"""The estimator `gdp`: a test of GaussianDP claims, elsewhere an estimate that assumes Gaussian."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpframe import (
    ApproxDP,
    GaussianDP,
    LaplaceDP,
    PureDP,
    Query,
    SubsampledGaussianDP,
    ZeroConcentratedDP,
)
from dpframe.builtin.threshold import GDP, ThresholdLoss
from dpframe.stats.binomial import clopper_pearson_upper
from dpframe.stats.gaussian import gaussian_epsilon, gaussian_mu

COUNTS = np.array([[950, 50], [300, 700]])
"""False positives 50, false negatives 300 of 1000 each."""

OTHER_CLAIMS = (
    None,
    PureDP(1.0),
    ApproxDP(1.0, 1e-5),
    LaplaceDP(1.0),
    ZeroConcentratedDP(0.5),
    SubsampledGaussianDP(0.5, 1.0),
)


def query(n: int = 1000, *, delta: float = 1e-5, claim: Any = None) -> Query:
    return Query((n, n), delta, 0.95, claim)


@pytest.mark.parametrize(("limits", "mu"), [("clopper-pearson", 1.952429), ("jeffreys", 1.958272)])
@pytest.mark.parametrize("claim", [None, GaussianDP(1.0)])
def test_reference_values(limits: str, mu: float, claim: Any) -> None:
    """μ of equation 2.4 and of the plain rates, and their ε at δ = 1e-5."""
    found = GDP(threshold=0.0, direction="up", limits=limits).estimate(
        (), COUNTS, query(claim=claim)
    )
    assert found.interval
    assert found.interval[0] == pytest.approx(float(gaussian_epsilon(1e-5, mu)), abs=1e-5)
    assert found.epsilon == pytest.approx(float(gaussian_epsilon(1e-5, 2.169254)), abs=1e-5)
    assert found.interval[0] < found.epsilon < found.interval[1]
    assert f"from {mu:.4g} to" in found.notes[1]


@pytest.mark.parametrize("claim", OTHER_CLAIMS, ids=repr)
def test_no_bound_and_no_test_of_other_claims(claim: Any) -> None:
    assert not GDP().certifies_against(claim)
    found = GDP(threshold=0.0).estimate((), COUNTS, query(claim=claim))
    assert found.epsilon_lower is found.epsilon_upper is found.p_value is None
    assert found.contrast is found.p_resolved is None
    assert found.tradeoff == found.profile == ()
    assert "assuming Gaussian noise" in found.notes[1]
    assert "Gaussian" in GDP.assumption


def test_jeffreys_limits_never_certify() -> None:
    estimator = GDP(threshold=0.0, limits="jeffreys")
    assert not estimator.certifies_against(GaussianDP(0.1))
    found = estimator.estimate((), COUNTS, query(claim=GaussianDP(0.1)))
    assert found.epsilon_lower is found.p_value is None


@settings(max_examples=20, deadline=None)
@given(
    st.tuples(st.integers(0, 200), st.integers(0, 200)),
    st.floats(0, 4),
    st.sampled_from(["up", "down", "either"]),
)
def test_is_a_test_of_mu_and_nothing_else(
    ones: tuple[int, int], claimed: float, direction: str
) -> None:
    """Rejected at level a exactly where the limit of μ at a is above the claim."""
    n = 200
    table = np.array([[n - ones[0], ones[0]], [n - ones[1], ones[1]]])
    estimator = GDP(threshold=0.0, direction=direction)
    assert estimator.certifies_against(GaussianDP(claimed))
    found = estimator.estimate((), table, query(n, claim=GaussianDP(claimed)))
    ways = {"up": [table], "down": [table[:, ::-1]], "either": [table, table[:, ::-1]]}[direction]

    def limit(level: float) -> float:
        level = level / (2 * len(ways))
        wrong = [clopper_pearson_upper([way[0, 1], way[1, 0]], n, level) for way in ways]
        return max(float(gaussian_mu(*rates)) for rates in wrong)

    assert found.p_value
    if 1e-12 < found.p_value < 0.99:
        assert limit(found.p_value * 1.001) > claimed
        assert limit(found.p_value * 0.999) <= claimed
    # Its bound assumes nothing about the noise: it is that of `threshold`.
    plain = ThresholdLoss(threshold=0.0, direction=direction, limits="clopper-pearson").estimate(
        (), table, query(n, claim=GaussianDP(claimed))
    )
    assert "valid for any noise" in found.notes[-1]
    assert found.epsilon_lower == plain.epsilon_lower
    assert found.contrast == plain.contrast
    assert found.p_value == plain.p_value
    assert found.epsilon_lower <= found.interval[0] + 1e-9
    assert found.epsilon <= found.epsilon_upper
    assert plain.epsilon_upper <= found.epsilon_upper + 1e-9


def test_at_delta_0_a_gaussian_mechanism_loses_everything() -> None:
    found = GDP(threshold=0.0).estimate((), COUNTS, query(delta=0.0))
    assert found.epsilon == math.inf
    assert "a Gaussian mechanism has no finite ε at δ = 0" in found.notes[2]
    certified = GDP(threshold=0.0).estimate((), COUNTS, query(delta=0.0, claim=GaussianDP(1.0)))
    assert math.isfinite(certified.epsilon_lower)
    # Unless there is nothing to lose.
    level = GDP(threshold=0.0).estimate((), np.full((2, 2), 50), query(delta=0.0))
    assert level.epsilon == 0
    assert level.interval == (0, math.inf)


@pytest.mark.parametrize("limits", ["clopper-pearson", "jeffreys"])
@pytest.mark.parametrize("delta", [1e-9, 0.4])
@pytest.mark.parametrize(
    "table",
    [
        [[0, 0], [0, 0]],
        [[1, 0], [0, 1]],
        [[0, 1], [1, 0]],
        [[10**7, 0], [0, 10**7]],
        [[10**7, 0], [10**7, 0]],
    ],
)
def test_edges(table: Any, limits: str, delta: float) -> None:
    for claim in (None, GaussianDP(0.5)):
        found = GDP(threshold=0.0, limits=limits).estimate(
            (), np.array(table), query(1, delta=delta, claim=claim)
        )
        assert not math.isnan(found.epsilon)
        assert found.interval[0] <= found.epsilon <= found.interval[1]
        assert math.isfinite(found.interval[0])
        if found.epsilon_lower is not None:
            assert math.isfinite(found.epsilon_lower)


def test_perfect_attack() -> None:
    """The largest μ that 1000 perfect answers show at 95 % is 5.36."""
    found = GDP(threshold=0.0, direction="up").estimate(
        (), np.array([[1000, 0], [0, 1000]]), query()
    )
    assert "from 5.36 to inf" in found.notes[1]


def test_the_pilot_chooses_by_mu() -> None:
    """Every threshold is as good for normal scores; the one in the middle is surest."""
    rng = np.random.default_rng(0)
    scores = (rng.normal(size=50_000), rng.normal(size=50_000) + 1)
    found = GDP().estimate_scores(scores, query(50_000), rng)
    threshold = float(found.notes[0].partition("scores ")[2].split()[0])
    assert -1.0 < threshold < 2.0
    assert found.interval[0] < float(gaussian_epsilon(1e-5, 1.0)) < found.interval[1]
    assert found.interval[1] - found.interval[0] < 0.6
