"""Adaptive guesses about canaries: bets by hand, calibration, and power.

False-alarm rate: 1e-6 a test, at fixed seeds.
"""

import itertools
import math

import numpy as np
import pytest
from dpframe_baselines.one_run_adaptive import (
    MEMORIES,
    OneRunAdaptive,
    best_wealth,
    expected,
    guesses,
)
from scipy import stats

from dpframe.plugins import DpframeError, GaussianDP, PureDP, Query

RNG = np.random.default_rng(0)


def naive_wealth(members, runs, epsilon):
    """Play turn by turn, run by run; the bet of a turn sees the turns before it."""
    q, best = math.exp(epsilon) / (1 + math.exp(epsilon)), 1.0
    wealth = [1.0] * len(MEMORIES)
    hits, made = [1.9] * len(MEMORIES), [2.0] * len(MEMORIES)
    left = list(range(len(members)))
    for turn in range(len(members)):
        place = left.pop() if turn % 2 == 0 else left.pop(0)
        right = members[place] if turn % 2 == 0 else runs - members[place]
        for i, memory in enumerate(MEMORIES):
            share = max(q, min(hits[i] / made[i], 1 - 1e-9))
            for guess in range(runs):
                wealth[i] *= share / q if guess < right else (1 - share) / (1 - q)
            hits[i], made[i] = memory * hits[i] + right, memory * made[i] + runs
        best = max(best, sum(wealth) / len(wealth))
    return math.log(best)


@pytest.mark.parametrize(("m", "runs"), [(1, 1), (2, 1), (31, 1), (12, 3)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_wealth_is_that_of_a_guesser_who_sees_the_coins_before(m, runs, epsilon):
    members = RNG.binomial(runs, np.linspace(0.05, 0.95, m))
    both = np.full(m, runs)
    right = guesses(members, both)
    found = best_wealth(right, both, expected(right, runs), epsilon)
    assert found == pytest.approx(naive_wealth(members.tolist(), runs, epsilon), abs=1e-9)


def test_a_bet_is_fair_where_every_guess_is_right_as_often_as_the_claim_allows():
    """Over all coins of four canaries: the mean of the wealth at the end is 1 at most."""
    for epsilon in (0.0, 1.0, 3.0):
        q, mean = 1 / (1 + math.exp(-epsilon)), 0.0
        for right in itertools.product((0, 1), repeat=4):
            own, runs = np.array(right), np.ones(4, int)
            shares = np.maximum(expected(own, 1), q)
            wealth = np.prod(np.where(own, shares / q, (1 - shares) / (1 - q)), axis=1).mean()
            mean += wealth * q ** sum(right) * (1 - q) ** (4 - sum(right))
            assert best_wealth(own, runs, expected(own, 1), epsilon) >= math.log(wealth) - 1e-6
        assert mean <= 1 + 1e-9


def responses(rng, m, epsilon, delta=0.0):
    """Return scores that tell each coin with probability δ, else as randomised response does."""
    members = rng.random(m) < 0.5
    lies = rng.random(m) < 1 / (1 + math.exp(epsilon))
    leaks = rng.random(m) < delta
    scores = np.where(leaks, 4.0 * members - 2, np.where(members ^ lies, 1.0, -1.0))
    return scores + rng.random(m) / 2, members


@pytest.mark.parametrize("delta", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_a_true_loss_is_refuted_no_oftener_than_promised(epsilon, delta):
    error, runs, above, alarms = 0.2, 120, 0, 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 1])
        scores, members = responses(rng, 100, epsilon, delta)
        query = Query((1, 0), delta, 1 - error, PureDP(epsilon))
        found = OneRunAdaptive().estimate_canaries(scores, members, query, rng)
        above += found.epsilon_lower > epsilon
        alarms += found.p_value <= error
    assert stats.binom.sf(max(above, alarms) - 1, runs, error) > 1e-6


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_most_of_a_large_loss_is_certified(delta):
    rng = np.random.default_rng(3)
    scores, members = responses(rng, 2000, 3.0, delta)
    query = Query((1, 0), delta, 0.95, PureDP(1.0))
    found = OneRunAdaptive().estimate_canaries(scores, members, query, rng)
    assert 2.4 < found.epsilon_lower <= 3.0
    assert found.p_value < 1e-6 or delta
    assert found.p_value < 1e-2


def test_odd_runs():
    estimator, query = OneRunAdaptive(), Query((1, 0), 0.0, 0.95, GaussianDP(1.0))
    nothing = np.zeros(50), RNG.random(50) < 0.5
    found = estimator.estimate_canaries(*nothing, query, RNG)
    assert (found.epsilon_lower, found.p_value) == (0.0, 1.0)
    odd = np.where(nothing[1], np.nan, np.inf)
    assert estimator.estimate_canaries(odd, nothing[1], query, RNG).epsilon_lower == 0
    with pytest.raises(DpframeError, match="50 of 50 canaries are members"):
        estimator.estimate_canaries(nothing[0], np.ones(50, bool), query, RNG)
