"""Canaries of one run: guesses, coins, bounds that hold, and what could break them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from dpframe import ApproxDP, DpframeError, GaussianDP, PureDP
from dpframe.builtin.one_run import GuessCounts, OneRun, check_coins
from dpframe.interfaces.estimator import Estimate, Query
from dpframe.stats.guesses import guess_epsilon, rank_epsilon

DEFAULTS = [OneRun(), OneRun(side="both"), OneRun(side="in")]
ESTIMATORS = [*DEFAULTS, OneRun(guesses=(20, 40))]
CANARIES, EPSILON = 64, 1.0


def asked(estimator: Any, scores: Any, members: Any, **query: Any) -> Estimate:
    made = Query(**{"trials": (1, 0), "delta": 0.0, "confidence": 0.95, "claim": None, **query})
    return estimator.estimate_canaries(
        np.asarray(scores, np.float64), np.asarray(members, bool), made, np.random.default_rng(0)
    )


def counted(runs: Any, statistic: Any = GuessCounts(None, "any")) -> Any:  # noqa: B008
    """Layout and counts of runs [n, 2, m]."""
    layout = statistic.lay_out(runs.shape[1:])
    runs = np.asarray(runs, np.float64)
    keep, zero = np.ones(len(runs), bool), statistic.zero(layout)
    return layout, statistic.update(layout, zero, np.int32(1), runs, keep)  # type: ignore[arg-type]


def test_right_guesses_are_counted() -> None:
    rng = np.random.default_rng(2)
    runs = np.stack([rng.normal(size=(5, 40)), rng.random((5, 40)) < 0.5], axis=1)
    runs[:, 0, 7] = np.nan  # is lowest
    layout, counts = counted(runs)
    expected = np.zeros(len(layout["inside"]), int)
    for scores, members in runs:
        order = np.argsort(np.nan_to_num(scores, nan=-np.inf))
        for rule, (inside, outside) in enumerate(
            zip(layout["inside"], layout["outside"], strict=True)
        ):
            expected[rule] += (members[order[40 - inside :]] == 1).sum()
            expected[rule] += (members[order[:outside]] == 0).sum()
    assert counts["correct"][1].tolist() == expected.tolist()
    assert not counts["correct"][0].any()
    assert counts["members"].tolist() == [0, int(runs[:, 1].sum())]
    assert layout["shares"].sum() == pytest.approx(1.0)
    statistic, keep = GuessCounts(None, "any"), np.array([True, True, False, True, True])
    traced = statistic.update(layout, statistic.zero(layout), np.int32(1), runs, keep)
    _, kept = counted(runs[keep])
    for name, found in traced.items():
        assert found.tolist() == kept[name].tolist(), name


def test_the_guesses_of_a_spec() -> None:
    layout = GuessCounts((10, 31), "both").lay_out((2, 40))
    assert layout["inside"].tolist() == [5, 16]
    assert layout["outside"].tolist() == [5, 15]
    with pytest.raises(ValueError, match="guesses = 41, but there are 40 canaries"):
        GuessCounts((41,), "in").lay_out((2, 40))


@pytest.mark.parametrize("side", ["any", "both", "in", "out"])
@pytest.mark.parametrize("m", [1, 2, 3, 8, 100, 1001])
def test_default_rules_guess_about_each_canary_once_and_use_the_whole_error(
    m: int, side: Any
) -> None:
    rules = GuessCounts(None, side).rules(m)
    assert sum(rule.share for rule in rules) == pytest.approx(1.0)
    for rule in rules:
        assert max(rule.inside) + max(rule.outside) <= rule.guesses <= m
        assert (max(rule.inside) == 0) <= (side in ("any", "out"))
        assert (max(rule.outside) == 0) <= (side in ("any", "in") or m < 4)
    assert rules == sorted(set(rules))


@pytest.mark.parametrize("scores", [np.zeros(200), np.full(200, np.nan)])
def test_ties_are_not_broken_by_the_order_of_the_canaries(scores: Any) -> None:
    """Members come first, as whoever writes a file may have them."""
    members = np.arange(200) < 104
    for direction in (1, -1):
        for estimator in ESTIMATORS:
            found = asked(estimator, scores, members[::direction])
            assert found.epsilon_lower is not None
            assert found.epsilon_lower < 0.3


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_bounds_are_those_of_the_best_number_of_guesses(delta: float) -> None:
    rng = np.random.default_rng(0)
    members = rng.random(300) < 0.5
    scores = 2.0 * members + rng.normal(size=300)
    for estimator in (OneRun(), OneRun(guesses=(300, 60), side="both")):
        statistic = estimator.statistic()
        _, counts = counted(np.stack([scores, members])[None], statistic)
        bounds, at = [], 0
        for rule in statistic.rules(300):
            cuts = np.add(rule.inside, rule.outside).tolist()
            total = int(counts["correct"][1, at : at + len(cuts)].sum())
            at += len(cuts)
            level = delta, 0.05 * rule.share
            bounds.append(
                rank_epsilon(300, cuts, total, *level)
                if rule.ranks
                else guess_epsilon(300, rule.guesses, total, *level)
            )
        found = asked(estimator, scores, members, delta=delta)
        assert found.epsilon_lower == pytest.approx(max(bounds), abs=1e-6)
        assert found.epsilon_lower > 1.8


@pytest.fixture(scope="module")
def answers() -> Any:
    """Counts of 200 randomised responses of 64 canaries: each answer true with e^ε/(1 + e^ε)."""
    rng = np.random.default_rng(5)
    members = rng.random((200, CANARIES)) < 0.5
    told = members ^ (rng.random(members.shape) > special.expit(EPSILON))
    return np.stack([told + rng.random(members.shape) / 2, members], axis=1)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_bounds_and_p_values_hold_where_the_claim_is_exact(estimator: Any, answers: Any) -> None:
    """Fails for correct code with probability 1e-6, by the binomial tail."""
    error = 0.2
    query = Query((1, 0), 0.0, 1 - error, PureDP(EPSILON))
    statistic = estimator.statistic()
    found = [estimator.estimate(*counted(run[None], statistic), query) for run in answers]
    most = stats.binom.isf(1e-6, len(found), error)
    assert sum(one.epsilon_lower > EPSILON for one in found) <= most
    assert sum(one.p_value <= error for one in found) <= most
    for one in found:
        assert (one.epsilon_lower > EPSILON) == (one.p_value <= error)
    assert np.mean([one.epsilon_lower for one in found]) > 0.25 * EPSILON


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_a_weaker_claim_is_violated(estimator: Any, answers: Any) -> None:
    """It is not vacuous: counts of all runs together refute half of the loss."""
    layout, counts = counted(answers, estimator.statistic())
    query = Query((0, len(answers)), 0.0, 0.95, PureDP(EPSILON / 2), 1e-6)
    found = estimator.estimate(layout, counts, query)
    assert found.epsilon_lower > 0.8 * EPSILON
    assert found.p_value < 1e-6
    assert found.p_value <= found.p_resolved < 0.01
    right = estimator.estimate(layout, counts, query._replace(claim=PureDP(EPSILON)))
    assert right.p_value > 1e-3


@pytest.mark.parametrize("claim", [GaussianDP(1.0), ApproxDP(1.0, 1e-5)])
def test_a_claim_that_is_a_curve(claim: Any) -> None:
    rng = np.random.default_rng(7)
    members = rng.random(1000) < 0.5
    noise = rng.normal(size=1000)
    for estimator in DEFAULTS:
        right = asked(estimator, members + noise, members, claim=GaussianDP(1.0), delta=1e-5)
        wrong = asked(estimator, 6 * members + noise, members, claim=claim, delta=1e-5)
        assert right.p_value is not None
        assert wrong.p_value is not None
        assert right.p_value > 1e-3
        assert wrong.p_value < 1e-3


def test_no_more_than_the_ceiling() -> None:
    """A perfect attack shows what the most extreme counts show."""
    members = np.random.default_rng(1).random(200) < 0.5
    for estimator in DEFAULTS:
        layout = estimator.statistic().lay_out((2, 200))
        query = Query((1, 0), 1e-5, 0.95, PureDP(1.0))
        most = estimator.estimate(layout, estimator.extreme(layout, (1, 0)), query)
        found = asked(estimator, members, members, delta=1e-5)
        assert 2.5 < found.epsilon_lower <= most.epsilon_lower < 5
        nothing = asked(estimator, np.random.default_rng(2).normal(size=200), members)
        assert nothing.epsilon_lower < 0.2


def coins(members: int, canaries: int = 100, runs: int = 1, even: int = 0, far: int = 0) -> bool:
    try:
        check_coins(canaries, runs, members, even, far)
    except DpframeError:
        return False
    return True


@pytest.mark.parametrize("canaries", [1, 12, 100, 1001])
def test_fair_coins_are_hardly_ever_refused(canaries: int) -> None:
    refused = [k for k in range(canaries + 1) if not coins(k, canaries, even=2 * k == canaries)]
    assert stats.binom.pmf(refused, canaries, 0.5).sum() <= 1e-6
    if canaries >= 100:
        assert stats.binom.pmf(refused, canaries, 0.5).sum() > 1e-8
        assert {0, canaries} <= set(refused)


def test_memberships_that_are_no_coins_are_refused() -> None:
    for estimator in DEFAULTS:
        with pytest.raises(DpframeError, match="100 of 100 canaries are members"):
            asked(estimator, np.zeros(100), np.ones(100))
    halves = np.stack([np.zeros((10, 100)), np.tile(np.arange(100) < 50, (10, 1))], axis=1)
    layout, counts = counted(halves)
    query = Query((0, 10), 0.0, 0.95, None)
    with pytest.raises(DpframeError, match="exactly half"):
        OneRun().estimate(layout, counts, query)
    halves[::2, 1], halves[1::2, 1] = 1, 0
    layout, counts = counted(halves)
    with pytest.raises(DpframeError, match="nearly none or all"):
        OneRun().estimate(layout, counts, query)


def test_one_run_with_exactly_half_is_remarked_on() -> None:
    notes = asked(OneRun(), np.zeros(1000), np.arange(1000) < 500).notes
    assert any("exactly half" in note for note in notes)
    assert not any("exactly half" in n for n in asked(OneRun(), np.zeros(4), [0, 0, 1, 1]).notes)
