"""Sequential tests, and Rényi divergences by Donsker–Varadhan, against naive computations.

False-alarm rate: 1e-6 a test, at fixed seeds.
"""

import itertools
import math

import numpy as np
import pytest
from dpframe_baselines import common, divergences
from dpframe_baselines.sequential import (
    STAKES,
    Bets,
    Errors,
    SequentialFDP,
    SequentialMMD,
    classifier,
    dealt,
    log_wealth,
    rate_limit,
    witness,
)
from scipy import integrate, optimize, stats

from dpframe.plugins import ApproxDP, GaussianDP, PureDP, Query, RenyiDP, ZeroConcentratedDP

BOTH = [SequentialMMD(), SequentialFDP()]
by_name = pytest.mark.parametrize("estimator", BOTH, ids=lambda one: one.name)


def layout_of(scores, statistic=None):
    return (statistic or common.Grid()).bind(*(np.asarray(one, np.float32) for one in scores))


def counts_of(layout, scores):
    counts = np.zeros((2, 257), np.int64)
    for side, own in enumerate(scores):
        kept = np.ones(len(own), bool)
        counts = common.Grid().update(layout, counts, side, np.asarray(own, np.float32), kept)
    return counts


def played(estimator, rounds, claim, confidence=0.95):
    """Return the layout, and the state and query after each round of scores."""
    layout, state, total, after = layout_of(rounds[0]), None, 0, []
    for scores in rounds:
        size = len(scores[0])
        query = Query((size, size), 0.0, confidence, claim)
        state = estimator.observe(state, layout, counts_of(layout, scores), query)
        total += size
        after.append((state, query._replace(trials=(total, total))))
    return layout, after


def laplace_rounds(seed, loss, rounds=12, size=32):
    rng = np.random.default_rng(seed)
    return [[rng.laplace(side * loss, size=size) for side in (0, 1)] for _ in range(rounds)]


def binary_rounds(seed, loss, rounds=12, size=32):
    """Draw from randomised response, which attains the claim with every event."""
    rng, wrong = np.random.default_rng(seed), 1 / (1 + math.exp(loss))
    rates = (wrong, 1 - wrong)
    return [[(rng.random(size) < rate).astype(float) for rate in rates] for _ in range(rounds)]


@pytest.mark.parametrize("estimator", [divergences.AuditoriumMMD(), SequentialMMD()])
def test_the_largest_numbers_have_a_kernel(estimator):
    """As `np.nan_to_num` makes them of infinities: their differences overflowed."""
    largest = np.finfo(np.float64).max
    scores = np.tile([-largest, largest, largest], 40)
    layout = common.Grid().bind(scores[:20], scores[1:20])
    assert np.isfinite(divergences.gaussian_kernel(layout)).all()
    query = Query((120, 120), 0.0, 0.95, PureDP(0.1))
    found = estimator.estimate_scores((scores, scores[::-1]), query, np.random.default_rng(0))
    assert (found.p_value, found.epsilon_lower) == (1.0, 0.0)


def test_a_test_that_fails_refutes_nothing():
    found = common.from_test(lambda *_: math.nan, Query((9, 9), 0.0, 0.95, PureDP(0.1)), 0.0)
    assert (found.p_value, found.epsilon_lower) == (1.0, 0.0)


def test_a_claim_is_tested_at_the_delta_of_the_question():
    """A claim of Gaussian noise reports other δ than 0.25, at which this test knows a loss of 2."""
    known = Query((9, 9), 0.25, 0.95, GaussianDP(1.0))
    assert 0.25 not in GaussianDP(1.0).telling_deltas
    found = common.from_test(lambda e, d, _: 0.01 if d == 0.25 and e <= 2 else 1.0, known, 0.0)
    assert found.epsilon_lower == pytest.approx(2.0)
    assert found.p_value == 0.01


@by_name
@pytest.mark.parametrize("claim", [PureDP(1000.0), ZeroConcentratedDP(0.0)])
def test_a_bound_above_a_claim_refutes_it(estimator, claim):
    """Also at a δ at which the claim itself is not reported, and however large its ε is."""
    rounds = binary_rounds(0, 3.0)
    layout, after = played(estimator, rounds, claim)
    state, query = after[-1]
    found = estimator.conclude(state, layout, query)
    assert found.epsilon_lower > 0.5
    assert (found.p_value <= 0.05) == (claim.epsilon_at(0.0) < found.epsilon_lower)


@by_name
@pytest.mark.parametrize(
    ("rounds_of", "loss"), [(laplace_rounds, 0.0), (laplace_rounds, 0.7), (binary_rounds, 0.7)]
)
def test_a_true_claim_is_refuted_at_no_time_oftener_than_promised(estimator, rounds_of, loss):
    claim, error, audits = PureDP(loss), 0.2, 150
    alarms = 0
    for seed in range(audits):
        layout, after = played(estimator, rounds_of(seed, loss), claim, 1 - error)
        alarms += any(
            estimator.settled(state, layout, query) == "violated" for state, query in after[1:]
        )
    assert stats.binom.sf(alarms - 1, audits, error) > 1e-6


@by_name
def test_a_bound_of_all_rounds_exceeds_the_truth_no_oftener_than_promised(estimator):
    error, audits, above = 0.2, 100, 0
    for seed in range(audits):
        layout, after = played(estimator, binary_rounds(seed, 1.0), None, 1 - error)
        state, query = after[-1]
        above += estimator.conclude(state, layout, query).epsilon_lower > 1.0
    assert stats.binom.sf(above - 1, audits, error) > 1e-6


@by_name
def test_a_false_claim_is_refuted_long_before_the_last_round(estimator):
    rounds = laplace_rounds(1, 2.0, rounds=60)
    layout, after = played(estimator, rounds, PureDP(0.2), 1 - 1e-6)
    times = [i for i, (s, q) in enumerate(after) if estimator.settled(s, layout, q) == "violated"]
    assert 0 < times[0] < 30
    assert times == list(range(times[0], len(after)))
    state, query = after[-1]
    assert 0.6 < estimator.conclude(state, layout, query).epsilon_lower <= 2.0


def test_wealth_is_the_product_of_bets_on_pairs():
    rng = np.random.default_rng(0)
    gains = tuple(rng.uniform(-1.4, 1.4, size) for size in (3, 5))
    for tau in (0.0, 0.3, math.sqrt(2)):
        after = []
        for flat in (gains[0], np.concatenate(gains)):
            each = [np.prod([1 + stake * (gain - tau) for gain in flat]) for stake in STAKES]
            after.append(math.log(np.mean(each)))
        np.testing.assert_allclose(log_wealth(gains, tau), after)
    assert (1 - STAKES * 2 * math.sqrt(2) > 0).all()


def test_a_witness_has_norm_one_and_shows_the_discrepancy():
    rng = np.random.default_rng(1)
    layout = layout_of([rng.normal(side, size=40) for side in (0, 2)])
    counts = counts_of(layout, [rng.normal(side, size=300) for side in (0, 2)])
    kernel, f = divergences.gaussian_kernel(layout), witness(layout, counts)
    q, p = common.sample_of(counts).rates
    assert f @ (p - q) == pytest.approx(math.sqrt((p - q) @ kernel @ (p - q)))
    assert np.abs(f).max() <= 1
    assert np.ptp(f) <= math.sqrt(2)
    assert not witness(layout, np.zeros_like(counts)).any()


def test_a_bet_of_mmd_is_fair_at_the_corner_of_a_claim():
    """All pairs of a round of two draws, whatever the rounds before chose."""
    claim = ApproxDP(0.8, 0.05)
    wrong = (1 - claim.delta) / (1 + math.exp(claim.epsilon))
    layout = layout_of([np.zeros(3), np.ones(3)])
    tau = math.sqrt(2) * (1 - 2 * wrong)
    for before in (([0, 0, 1], [1, 1, 0]), ([1, 1, 1], [0, 0, 0]), ([0, 0, 0], [1, 1, 1])):
        f = witness(layout, counts_of(layout, before))
        bins = np.searchsorted(layout["edges"], [0.0, 1.0], side="right")
        for stake in STAKES:
            mean = sum(
                (1 - wrong if x == 0 else wrong)
                * (1 - wrong if y == 1 else wrong)
                * (1 + stake * (f[bins[y]] - f[bins[x]] - tau))
                for x, y in itertools.product((0, 1), repeat=2)
            )
            assert mean <= 1 + 1e-12


def test_the_limit_of_a_rate_is_where_the_mixture_has_enough_evidence():
    for k, n, a in ((0, 0, 0.1), (0, 40, 0.05), (7, 40, 0.01), (40, 40, 0.05), (300, 1000, 1e-6)):
        (limit,) = rate_limit(np.array([k]), np.array([n]), np.array([a]))
        if k == n:
            assert limit == 1
            continue

        def weighed(p, k=k, n=n):
            return stats.beta.pdf(p, 0.5, 0.5) * stats.binom.pmf(k, n, p)

        mixture = integrate.quad(weighed, 0, 1, points=[k / n])[0]
        assert mixture / stats.binom.pmf(k, n, limit) == pytest.approx(1 / a, rel=1e-3)
        assert limit > stats.beta.ppf(1 - a, k + 1, n - k)  # valid at all times, so wider


def test_a_rate_exceeds_its_limits_at_some_time_with_no_more_than_the_error():
    rng, p, a, runs = np.random.default_rng(2), 0.1, 0.1, 400
    hits = np.cumsum(rng.random((runs, 500)) < p, axis=1)[:, 4::5]
    draws = np.broadcast_to(np.arange(5, 501, 5), hits.shape)
    ever = int((rate_limit(hits, draws, np.full(hits.shape, a)) < p).any(axis=1).sum())
    assert stats.binom.sf(ever - 1, runs, a) > 1e-6


@pytest.mark.parametrize("claim", [PureDP(0.3), GaussianDP(0.3), None])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_classifier_leaves_the_largest_square_below_the_curve(claim, sign):
    rng = np.random.default_rng(3)
    scores = [sign * rng.normal(side, size=500) for side in (0, 1)]
    layout = layout_of(scores)
    counts = counts_of(layout, scores)
    inside = classifier(counts, claim, 0.01)
    q, p = common.sample_of(counts).rates
    assert abs(int(inside[0]) - int(inside[-1])) == 1
    assert p[inside].sum() > q[inside].sum()
    if claim is None:
        return

    def side(chosen):
        x, y = q[chosen].sum(), p[~chosen].sum()

        def gap(size):
            return float(claim.tradeoff(np.array([x + size]))[0]) - y - size

        return optimize.brentq(gap, 0, 1 - max(x, y)) if gap(0) > 0 else 0.0

    cuts = [np.arange(len(q)) > cut for cut in range(len(q) - 1)]
    best = max(side(chosen) for cut in cuts for chosen in (cut, ~cut))
    assert side(inside) == pytest.approx(best, abs=2e-3)


def test_a_classifier_is_tested_on_later_rounds_alone():
    estimator, rounds = SequentialFDP(), laplace_rounds(4, 2.0, rounds=20)
    layout, after = played(estimator, rounds, PureDP(0.5))
    numbers = [state.number for state, _ in after]
    assert numbers[0] == 1
    assert numbers[-1] >= 2
    for (old, _), (state, _), scores in zip(after, after[1:], rounds[1:], strict=False):
        if state.number == old.number:
            q, p = common.sample_of(counts_of(layout, scores))
            assert state.own[1] - old.own[1] == q[state.inside].sum()
            assert state.own[2] - old.own[2] == p[~state.inside].sum()
        else:
            assert state.own[0] == len(scores[0])


def test_rounds_are_dealt_from_all_counts():
    counts = np.array([[0, 30, 5, 15], [0, 3, 40, 17]])
    parts = list(dealt(counts))
    assert all((part.sum(axis=1) == part[0].sum()).all() for part in parts)
    taken = np.sum(parts, axis=0)
    assert taken.sum(axis=1).tolist() == [50, 50]
    assert (taken <= counts).all()
    assert list(dealt(np.zeros((2, 4), np.int64))) == []


@by_name
def test_states_without_rounds_show_nothing(estimator):
    layout = layout_of([np.zeros(0), np.zeros(0)])
    state = estimator.observe(
        None, layout, np.zeros((2, 257), np.int64), Query((0, 0), 0, 0.9, None)
    )
    assert isinstance(state, Bets | Errors)
    found = estimator.conclude(state, layout, Query((0, 0), 0.0, 0.95, PureDP(0.0), 1e-6))
    assert (found.epsilon_lower, found.p_value) == (0.0, 1.0)


def renyi_case(n, loss, seed=0):
    rng = np.random.default_rng(seed)
    pilot = [rng.normal(side * loss, size=2000) for side in (0, 1)]
    layout = layout_of(pilot)
    return layout, counts_of(layout, [rng.normal(side * loss, size=n) for side in (0, 1)])


def test_the_limit_of_a_divergence_is_that_of_single_draws():
    layout, counts = renyi_case(5000, 1.0)
    estimator, error, alpha = divergences.RenyiDonskerVaradhan(), 0.01, 2.0
    g, forwards = estimator._chosen(layout, 5000)
    sample = divergences.merged(layout, counts)
    sides = (sample.p, sample.q) if forwards else (sample.q, sample.p)
    ends = []
    for side, power, sign in ((sides[0], 1.0, -1), (sides[1], 2.0, 1)):
        draws = np.repeat(np.exp(power * g), side)
        n, log, every = len(draws), math.log(2 / (error / 2)), np.exp(power * g)
        width = math.sqrt(2 * draws.var(ddof=1) * log / n) + 7 * np.ptp(every) * log / (3 * (n - 1))
        ends.append(draws.mean() + sign * width)
    expected = 2 * math.log(ends[0]) - math.log(ends[1])
    assert divergences.limit(*sides, g, alpha, error, 0.0) == pytest.approx(expected, rel=1e-9)
    p, q = (side / 5000 for side in sides)
    exact = 2 * math.log(p @ np.exp(g)) - math.log(q @ np.exp(2 * g))
    assert divergences.limit(*sides, g, alpha, math.inf, 0.0) == pytest.approx(exact)
    assert exact < 1.0 + 0.3  # D₂ of N(0, 1) and N(1, 1) is 1


@pytest.mark.parametrize(
    ("false", "true"),
    [
        (RenyiDP(2.0, 0.5), RenyiDP(2.0, 1.0)),
        (RenyiDP(3.0, 0.5), RenyiDP(1.5, 0.1)),  # an order below 2 limits no divergence of order 2
        (ZeroConcentratedDP(0.25), ZeroConcentratedDP(0.5)),
        (GaussianDP(0.7), GaussianDP(1.0)),
    ],
)
def test_claims_of_divergences_are_tested_as_they_are(false, true):
    layout, counts = renyi_case(50_000, 1.0)
    estimator = divergences.RenyiDonskerVaradhan()
    n = (50_000, 50_000)
    refuted = estimator.estimate(layout, counts, Query(n, 1e-5, 0.95, false, 1e-6))
    assert refuted.p_resolved < 1e-6
    assert estimator.estimate(layout, counts, Query(n, 1e-5, 0.95, true, 1e-6)).p_value > 0.05


def test_a_true_divergence_is_refuted_no_oftener_than_promised():
    estimator, error, runs = divergences.RenyiDonskerVaradhan(), 0.2, 60
    alarms = 0
    for seed in range(runs):
        layout, counts = renyi_case(500, 0.5, seed)
        query = Query((500, 500), 1e-5, 1 - error, RenyiDP(2.0, 0.25), 0.0, "p-values")
        alarms += estimator.estimate(layout, counts, query).p_value <= error
    assert stats.binom.sf(alarms - 1, runs, error) > 1e-6
