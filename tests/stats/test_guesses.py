"""Right guesses in one run: the exact law, ranked guesses, and prices of the lines of a curve."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import special
from scipy.optimize import linprog

from dpframe import ApproxDP, GaussianDP
from dpframe.stats.guesses import (
    curve_prices,
    guess_epsilon,
    guess_p_value,
    priced_p_value,
    priced_rank_p_value,
    rank_cuts,
    rank_epsilon,
    rank_p_value,
    rank_prices,
)
from dpframe.stats.one_run import gaussian_blow_up, one_run_fdp_p_value, one_run_p_value

LINES = ((0.5, 0.2), (1.0, 0.05))  # of a claim with two


def largest(m: int, weights: tuple[int, ...], total: int, lines: Any) -> float:
    """Maximise over all algorithms the probability that right guesses weigh `total` or more.

    The output names the guess about each canary and its weight: the canaries in an order, those
    after the weights left out. Unknowns are the probabilities of each output for each coins, and
    for each pair of neighbours, line and output the positive part of the excess.
    """
    r = len(weights)
    outputs = [
        (chosen, bits)
        for chosen in itertools.permutations(range(m), r)
        for bits in itertools.product((0, 1), repeat=r)
    ]
    coins = list(itertools.product((0, 1), repeat=m))
    at = {pair: k for k, pair in enumerate(itertools.product(range(len(coins)), outputs))}
    pairs = [
        (n, coins.index((*c[:i], 1 - c[i], *c[i + 1 :])))
        for n, c in enumerate(coins)
        for i in range(m)
    ]
    size = len(at) + len(pairs) * len(lines) * len(outputs)
    above, limits, place = [], [], len(at)
    for (one, other), (epsilon, delta) in itertools.product(pairs, lines):
        budget = np.zeros(size)
        for output in outputs:
            row = np.zeros(size)
            row[at[one, output]], row[at[other, output]] = 1, -math.exp(epsilon)
            row[place], budget[place] = -1, 1
            above.append(row)
            limits.append(0.0)
            place += 1
        above.append(budget)
        limits.append(delta)
    sums = np.zeros((len(coins), size))
    gain = np.zeros(size)
    for (n, (chosen, bits)), k in at.items():
        sums[n, k] = 1
        right = sum(
            weight
            for i, bit, weight in zip(chosen, bits, weights, strict=True)
            if coins[n][i] == bit
        )
        gain[k] = (right >= total) / len(coins)
    solved = linprog(-gain, A_ub=np.array(above), b_ub=limits, A_eq=sums, b_eq=np.ones(len(coins)))
    return float(-solved.fun)


@pytest.mark.parametrize(
    ("r", "v", "m", "delta", "expected"),
    [(2, 1, 2, 0.1, 0.961798), (4, 2, 4, 0.1, 0.988119), (2, 1, 4, 0.1, 0.995925)],
)
def test_vectors(r: int, v: int, m: int, delta: float, expected: float) -> None:
    assert guess_p_value(m, r, v, 1.0, delta) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "expected"),
    [
        (100, 100, 80, 1e-5, 0.958),
        (100, 100, 80, 0.01, 0.877),
        (300, 300, 225, 1e-3, 0.867),
        (200, 50, 45, 1e-3, 1.367),
        (1_000, 1_000, 700, 1e-5, 0.732),
    ],
)
def test_bounds(m: int, r: int, v: int, delta: float, expected: float) -> None:
    assert guess_epsilon(m, r, v, delta, 0.05) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize(("m", "r"), [(1, 1), (2, 1), (2, 2)])
def test_no_algorithm_does_better_and_one_does_as_well(m: int, r: int) -> None:
    for v in range(r + 2):
        for epsilon, delta in ((0.0, 0.1), (1.0, 0.0), (1.0, 0.02), (0.7, 0.3)):
            found = guess_p_value(m, r, v, epsilon, delta) if v <= r else 0.0
            exact = largest(m, (1,) * r, v, [(epsilon, delta)])
            assert found == pytest.approx(exact, abs=1e-8)


@pytest.mark.slow
def test_no_algorithm_does_better_for_three_canaries() -> None:
    for v, delta in ((1, 0.1), (2, 0.1), (3, 0.1), (3, 0.01)):
        exact = largest(3, (1, 1, 1), v, [(1.0, delta)])
        assert guess_p_value(3, 3, v, 1.0, delta) == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("weights", [(2, 1), (1, 1), (3, 1)])
def test_no_algorithm_does_better_with_weights_and_several_lines(weights: Any) -> None:
    """Ranked guesses have upper bounds, near the best of all algorithms."""
    cuts = [sum(w >= level for w in weights) for level in range(1, max(weights) + 1)]

    def delta_at(epsilon: float) -> float:
        return next((delta for loss, delta in LINES if loss == epsilon), 1.0)

    for total in range(1, sum(weights) + 1):
        for epsilon, delta in ((1.0, 0.0), (1.0, 0.05), (0.5, 0.2)):
            exact = largest(2, weights, total, [(epsilon, delta)])
            found = rank_p_value(2, cuts, total, epsilon, delta)
            assert exact <= found + 1e-9
            assert found < 1.35 * exact
        exact = largest(2, weights, total, LINES)
        for scale in (0.03, 0.1, 0.3):
            prices = [(loss, scale) for loss, _ in LINES]
            assert priced_rank_p_value(2, cuts, total, prices, delta_at) >= exact - 1e-9
            if weights == (1, 1):
                prices = [(loss, 2 * scale) for loss, _ in LINES]
                assert priced_p_value(2, 2, total, prices, delta_at) >= exact - 1e-9


def test_extremes() -> None:
    for m, r in ((1, 1), (50, 50), (2_000, 40)):
        assert guess_p_value(m, r, 0, 1.0, 1e-5) == 1.0
        assert guess_p_value(m, r, r, 1.0, 0.0) == pytest.approx(special.expit(1.0) ** r)
        assert guess_p_value(m, r, r, 1.0, 1.0) == 1.0
        assert guess_p_value(m, r, r, 60.0, 1e-5) == pytest.approx(1.0)
    assert 0 < guess_p_value(10_000, 10_000, 10_000, 0.01, 1e-9) < 1e-8
    cuts = rank_cuts(40).tolist()
    assert rank_p_value(100, cuts, 0, 1.0, 1e-5) == 1.0
    assert rank_p_value(100, cuts, sum(cuts), 0.1, 1e-5) < 1e-3
    assert rank_p_value(100, cuts, sum(cuts), 60.0, 1e-5) == pytest.approx(1.0)
    assert priced_p_value(100, 100, 80, [], GaussianDP(1.0).delta_at) == 1.0
    assert priced_rank_p_value(100, cuts, 90, [], GaussianDP(1.0).delta_at) == 1.0


def test_a_larger_result_is_no_less_evidence() -> None:
    cuts = [2 * cut for cut in rank_cuts(35).tolist()]
    equal = [guess_p_value(100, 60, v, 1.0, 1e-3) for v in range(61)]
    ranked = [rank_p_value(100, cuts, t, 1.0, 1e-3) for t in range(sum(cuts) + 1)]
    for found in (equal, ranked):
        assert (np.diff(found) <= 1e-12).all()


@pytest.mark.parametrize("n", [1, 2, 10, 40, 111])
def test_weights_fall_with_the_rank_as_its_logarithm(n: int) -> None:
    cuts = rank_cuts(n)
    assert len(cuts) == 16
    assert (np.diff(cuts) <= 0).all()
    assert cuts[0] <= n
    weights = (np.arange(1, n + 1)[:, None] <= cuts).sum(axis=1)
    expected = 16 * np.log((n + 1) / np.arange(1, n + 1)) / np.log(n + 1)
    assert np.abs(weights - expected).max() <= 0.5 + 1e-9
    if n == 40:
        assert weights[:4].tolist() == [16, 13, 11, 10]


def test_the_exact_law_is_between_nothing_and_published_bounds() -> None:
    """Above the binomial law, and below theorem 5.2 of Steinke et al. unless p is large."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        m = int(rng.integers(1, 300))
        r = int(rng.integers(1, m + 1))
        v = int(rng.integers(r // 2, r + 1))
        epsilon, delta = float(rng.uniform(0, 3)), float(10 ** rng.uniform(-6, -1))
        exact = guess_p_value(m, r, v, epsilon, delta)
        assert exact >= guess_p_value(m, r, v, epsilon, 0.0) - 1e-12
        published = one_run_p_value(m, r, v, epsilon, delta)
        assert exact <= published * (1 + 1e-9) or exact > 0.8


@pytest.mark.parametrize(
    ("m", "r", "v", "mu"), [(100, 100, 80, 0.56), (1_000, 95, 85, 0.6), (300, 300, 225, 0.5)]
)
def test_prices_refute_a_curve_that_its_single_lines_do_not(
    m: int, r: int, v: int, mu: float
) -> None:
    delta_at = GaussianDP(mu).delta_at
    found = priced_p_value(m, r, v, curve_prices(m, r, v, delta_at), delta_at)
    lines = min(guess_p_value(m, r, v, e, delta_at(e)) for e in np.linspace(0.05, 4, 60).tolist())
    assert found < 0.9 * lines
    assert found < 0.9 * one_run_fdp_p_value(m, r, v, gaussian_blow_up(mu))


def test_prices_of_one_line_give_its_exact_law() -> None:
    claim = ApproxDP(1.0, 0.01)
    exact = guess_p_value(200, 100, 85, 1.0, 0.01)

    def delta_at(epsilon: float) -> float:
        return claim.delta if epsilon == claim.epsilon else 1.0

    prices = np.geomspace(0.01, 10, 400).tolist()
    found = [priced_p_value(200, 100, 85, [(1.0, price)], delta_at) for price in prices]
    assert min(found) == pytest.approx(exact, rel=0.02)
    assert min(found) >= exact


def test_a_gaussian_mechanism_refutes_less_noise_alone_by_ranked_guesses() -> None:
    """The rate of false alarms of the right claim is known: none is expected, as it is far off."""
    rng, mu = np.random.default_rng(5), 1.7
    cuts = rank_cuts(110)
    both = (2 * cuts).tolist()
    for claimed, refuted in ((mu, False), (0.4 * mu, True)):
        members = rng.random(1_000) < 0.5
        order = np.argsort(mu * members + rng.normal(size=1_000))
        low, high = np.cumsum(~members[order]), np.cumsum(members[order[::-1]])
        total = int(low[cuts - 1].sum() + high[cuts - 1].sum())
        delta_at = GaussianDP(claimed).delta_at
        prices = rank_prices(1_000, both, total, delta_at)
        p_value = priced_rank_p_value(1_000, both, total, prices, delta_at)
        assert (p_value < 0.05) is refuted
        assert rank_epsilon(1_000, both, total, 1e-5, 0.05) < 8


def test_the_laws_hold_for_an_algorithm_that_reveals_some_canaries() -> None:
    """Randomised response that reveals a coin with probability δ; false-alarm rate 1e-6 each."""
    rng = np.random.default_rng(8)
    m, epsilon, delta, runs, error = 60, 1.0, 1e-3, 3_000, 0.05
    limit = next(k for k in range(runs) if special.bdtrc(k, runs, error) <= 1e-6)
    cuts = rank_cuts(27)
    members = rng.random((runs, m)) < 0.5
    revealed = rng.random((runs, m)) < delta
    answers = members ^ (rng.random((runs, m)) > special.expit(epsilon)) & ~revealed
    scores = np.where(answers, 1.0, -1.0) * (1 + 9 * revealed) + rng.random((runs, m)) / 10
    order = np.argsort(scores, axis=1)
    ranked = np.take_along_axis(members, order, axis=1)
    low, high = np.cumsum(~ranked, axis=1), np.cumsum(ranked[:, ::-1], axis=1)
    totals = (low[:, cuts - 1] + high[:, cuts - 1]).sum(axis=1)
    rights = low[:, 9] + high[:, 9]
    by_rank = {t: rank_p_value(m, (2 * cuts).tolist(), t, epsilon, delta) for t in {*totals}}
    equal = {v: guess_p_value(m, 20, v, epsilon, delta) for v in {*rights}}
    for p_values in ([by_rank[t] for t in totals], [equal[v] for v in rights]):
        alarms = int(np.sum(np.array(p_values) <= error))
        assert alarms <= limit
        assert alarms > 0.1 * error * runs
