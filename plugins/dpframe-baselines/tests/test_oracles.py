"""Baselines agree with naive computations from single draws, and with SciPy."""

import math

import numpy as np
import pytest
from dpframe_baselines import common, divergences, events
from scipy import integrate, stats

from dpframe.plugins import ApproxDP, PureDP, Query

RNG = np.random.default_rng(7)


def scores_of(n, loss=1.5, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.laplace(place, size=n).astype(np.float32) for place in (0.0, loss)]


def counted(estimator, scores, pilot=None):
    statistic = estimator.statistic()
    layout = statistic.bind(*(pilot or scores_of(2000, seed=2)))
    counts = statistic.zero(layout).astype(np.int64)
    for side, own in enumerate(scores):
        counts = statistic.update(layout, counts, side, own, np.ones(len(own), bool))
    return layout, counts


def event_of(estimator, layout, query):
    """Return the chosen event as a function of scores, found by trying counts of single bins."""
    bins = np.asarray(layout["pilot"]).shape[1]
    one = np.zeros((2, bins), np.int64)
    inside = []
    for place in range(bins):
        own = one.copy()
        own[:, place] = 1
        k, n, j, m = estimator.counted(layout, own, query)
        assert (n, m, k) == (1, 1, j)
        inside.append(bool(k))
    return np.array(inside)


def test_fishers_p_values_are_scipys():
    for most, m, k, n in ((20, 20, 2, 30), (5, 5, 3, 5), (8, 8, 0, 9), (900, 3000, 700, 4000)):
        found = events.fisher_p_values(most, m, k, n)
        c = np.arange(most + 1)
        np.testing.assert_allclose(found, stats.hypergeom.sf(c - 1, m + n, m, c + k), rtol=1e-9)


def test_a_cut_tail_is_an_upper_limit():
    """Far below the mode and far above it the sum stops early."""
    for most, k in ((100, 5000), (6000, 100)):
        found = events.fisher_p_values(most, 10**6, k, 10**6)[most]
        exact = stats.hypergeom.sf(most - 1, 2 * 10**6, 10**6, most + k)
        assert exact * (1 - 1e-8) <= found <= exact * (1 + 1e-6)


@pytest.mark.parametrize(("hits", "k"), [(0, 0), (1, 0), (40, 12), (300, 130), (20_000, 8_000)])
def test_the_mean_p_value_is_that_of_all_thinnings(hits, k):
    tails = events.fisher_p_values(hits, 50_000, k, 50_000)
    for kept in (1.0, math.exp(-0.7), math.exp(-3)):
        c = np.arange(hits + 1)
        expected = stats.binom.pmf(c, hits, kept) @ tails
        assert events.mean_p_value(tails, kept) == pytest.approx(expected, rel=1e-9)


def test_statdp_doubles_the_mean_p_value():
    estimator, n, claim = events.StatDP(), 2000, PureDP(0.7)
    layout, counts = counted(estimator, scores_of(n, loss=1.0))
    query = Query((n, n), 0.0, 0.95, claim)
    k, _, j, _ = estimator.counted(layout, counts, query)
    c = np.arange(j + 1)
    p_values = stats.hypergeom.sf(c - 1, 2 * n, n, c + k)
    expected = 2 * float(stats.binom.pmf(c, j, math.exp(-0.7)) @ p_values)
    assert 1e-6 < expected < 0.5
    assert estimator.estimate(layout, counts, query).p_value == pytest.approx(expected, rel=1e-8)


def test_the_area_is_that_of_all_pairs():
    q, p = np.array([1, 2, 0, 1]), np.array([0, 1, 3, 2])
    x, y = np.repeat(np.arange(4), q), np.repeat(np.arange(4), p)
    pairs = (y > x[:, None]).mean() + (y == x[:, None]).mean() / 2
    assert common.Sample(q, p).area == pytest.approx(pairs)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.2), (3.0, 1e-3)])
def test_the_area_refutes_exactly_what_the_curve_of_a_claim_excludes(epsilon, delta):
    curve = ApproxDP(epsilon, delta).tradeoff
    most = 1 - integrate.quad(lambda x: float(curve(np.array([x]))[0]), 0, 1, limit=200)[0]
    layout, counts = counted(divergences.AUC(), scores_of(30, loss=9.0))
    area = common.sample_of(counts).area
    error = math.exp(-2 * 30 * (area - most) ** 2)
    query = Query((30, 30), delta, 1 - error, None)
    found = divergences.AUC().estimate(layout, counts, query)
    assert found.epsilon_lower == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_the_histogram_bound_is_the_published_one(delta):
    estimator, n, a = divergences.AuditoriumHistogram(bins=5), 30_000, 0.1
    layout, counts = counted(estimator, scores_of(n, loss=4.0))
    found = estimator.estimate(layout, counts, Query((n, n), delta, 1 - a, None))
    q, p = divergences.merged(layout, counts, 5).rates

    def lower(p, q, epsilon):
        growth = math.exp(epsilon)
        whole = sum(max(0.0, one - growth * other) for one, other in zip(p, q, strict=True))
        first = 2 / math.sqrt(n) * (sum(map(math.sqrt, p)) + growth * sum(map(math.sqrt, q)))
        return whole - first - 6 * (1 + growth) * math.sqrt(math.log(4 / a) / (2 * n))

    assert found.epsilon_lower > 0.5
    for epsilon, exceeds in ((-1e-6, True), (1e-6, False)):
        both = [lower(*pair, found.epsilon_lower + epsilon) for pair in ((p, q), (q, p))]
        assert (max(both) > delta) == exceeds


def test_the_distance_of_frequencies_has_the_mean_that_the_histogram_bound_needs():
    """E|X − np|/2 ≤ E √X for binomial X, on a grid of n and p."""
    for n in (1, 2, 5, 30, 200):
        x = np.arange(n + 1)
        for p in np.geomspace(1e-6, 1, 60):
            mass = stats.binom.pmf(x, n, p)
            assert mass @ np.abs(x - n * p) / 2 <= mass @ np.sqrt(x) * (1 + 1e-9)


@pytest.mark.parametrize("alpha", [1.1, 2.0, 8.0])
def test_the_divergence_of_randomised_response_is_that_of_its_definition(alpha):
    for epsilon in (1e-3, 0.5, 3.0):
        right = 1 / (1 + math.exp(-epsilon))
        whole = right**alpha * (1 - right) ** (1 - alpha) + (1 - right) ** alpha * right ** (
            1 - alpha
        )
        expected = math.log(whole) / (alpha - 1)
        found = divergences.response_divergence(epsilon, alpha)
        assert found == pytest.approx(expected, rel=1e-9)
        assert found <= min(epsilon, 2 * alpha * epsilon**2) + 1e-12  # what DP-Auditorium allows


def test_the_variational_bound_never_exceeds_the_divergence_and_reaches_it():
    for _ in range(50):
        p, q = RNG.dirichlet(np.ones(6), 2)
        alpha = RNG.uniform(1.1, 4)
        exact = math.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)

        def shown(g, p=p, q=q, alpha=alpha):
            both = p @ np.exp((alpha - 1) * g), q @ np.exp(alpha * g)
            return alpha / (alpha - 1) * math.log(both[0]) - math.log(both[1])

        assert shown(np.log(p / q)) == pytest.approx(exact)
        assert all(shown(RNG.normal(size=6)) <= exact + 1e-12 for _ in range(20))


def test_the_renyi_bound_is_that_of_two_chernoff_limits():
    estimator, n, a, alpha = divergences.AuditoriumRenyi(order=1.5), 50_000, 0.05, 1.5
    layout, counts = counted(estimator, scores_of(n, loss=2.0))
    g, forwards = estimator._learned(layout)
    found = divergences.merged(layout, counts)
    p, q = (found.p, found.q) if forwards else (found.q, found.p)
    one = np.mean(np.repeat(np.exp(0.5 * g), p))
    two = np.mean(np.repeat(np.exp(1.5 * g), q))
    over = math.sqrt(3 * math.log(2 / a) * math.exp(2 * 0.5) / n)
    under = math.sqrt(2 * math.log(2 / a) * math.exp(2 * 1.5) / n)
    lower = alpha / (alpha - 1) * math.log(one / (1 + over)) - math.log(two / (1 - under))
    shown = estimator.estimate(layout, counts, Query((n, n), 0.0, 1 - a, None))
    expected = divergences.response_divergence(shown.epsilon_lower, alpha)
    assert expected == pytest.approx(lower, abs=1e-6)
    assert shown.epsilon_lower > 0.3


def test_the_mean_of_blocks_is_the_discrepancy_of_the_frequencies():
    scores = scores_of(20_000)
    layout, counts = counted(divergences.AuditoriumMMD(), scores)
    found = common.sample_of(counts)
    values = divergences.blocks(layout, found)
    assert len(values) == 10_000
    assert np.abs(values).max() <= 2
    q, p = found.rates
    edges = np.asarray(layout["edges"], np.float64)
    places = np.append(edges[0], np.minimum(edges, edges[np.isfinite(edges)].max()))
    pilot = common.sample_of(layout["pilot"])
    low, high = np.quantile(np.repeat(places, pilot.q + pilot.p), [0.25, 0.75])
    kernel = np.exp(-(((places[:, None] - places) / (high - low)) ** 2) / 2)
    exact = (p - q) @ kernel @ (p - q)
    assert abs(values.mean() - exact) < 4 * values.std() / math.sqrt(len(values))
    assert exact <= 2 * (np.abs(p - q).sum() / 2) ** 2


def test_the_discrepancy_is_at_most_what_the_total_variation_allows():
    """MMD² ≤ 2 TV² for kernels in [0, 1], and TV ≤ (e^ε − 1 + 2δ)/(e^ε + 1)."""
    places = np.linspace(0, 3, 5)
    kernel = np.exp(-((places[:, None] - places) ** 2) / 2)
    for _ in range(300):
        p, q = RNG.dirichlet(np.full(5, 0.4), 2)
        total = np.abs(p - q).sum() / 2
        assert (p - q) @ kernel @ (p - q) <= 2 * total**2 + 1e-12
        epsilon = RNG.uniform(0, 3)
        delta = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))
        assert total <= 1 - 2 * (1 - delta) / (1 + math.exp(epsilon)) + 1e-12


def test_the_discrepancy_bound_solves_its_two_inequalities():
    estimator, n, a = divergences.AuditoriumMMD(), 40_000, 0.05
    layout, counts = counted(estimator, scores_of(n, loss=4.0))
    found = estimator.estimate(layout, counts, Query((n, n), 0.0, 1 - a, None))
    values = divergences.blocks(layout, common.sample_of(counts))
    k, log = len(values), math.log(2 / (a / 2))
    widths = (
        math.sqrt(8 * math.log(1 / (a / 2)) / k),
        math.sqrt(2 * np.var(values, ddof=1) * log / k) + 28 * log / (3 * (k - 1)),
    )
    growth = math.exp(found.epsilon_lower)
    assert 2 * ((growth - 1) / (growth + 1)) ** 2 == pytest.approx(values.mean() - min(widths))


def test_an_event_is_one_end_of_the_scores():
    estimator = events.Katz()
    layout, _ = counted(estimator, scores_of(10))
    inside = event_of(estimator, layout, Query((10_000, 10_000), 0.0, 0.95, None))
    assert 0 < inside.sum() < len(inside)
    assert np.abs(np.diff(inside[1:].astype(int))).sum() == 1


@pytest.mark.parametrize("loss", [2.0, -2.0])
def test_dp_sniper_limits_the_rates_of_an_event_with_at_least_its_share(loss):
    estimator, n = events.DPSniper(share=0.05), 10_000
    pilot = scores_of(2000, loss, seed=2)
    layout, counts = counted(estimator, scores_of(n, loss), pilot)
    query = Query((n, n), 0.0, 0.9, None)
    k, of, j, m = estimator.counted(layout, counts, query)
    assert (of, m) == (n, n)
    assert 0.035 < k / n < 0.07
    upper = stats.beta.ppf(0.95, k + 1, n - k)
    lower = stats.beta.ppf(0.05, j, m - j + 1)
    found = estimator.estimate(layout, counts, query)
    assert found.epsilon_lower == pytest.approx(math.log(lower / upper), rel=1e-9)
    assert found.epsilon == pytest.approx(math.log(j / k))


def test_dp_sniper_takes_the_smallest_atom_that_is_large_enough():
    values = np.array([0.0, 1.0], np.float32)
    pilot = [np.repeat(values, sizes) for sizes in ((730, 270), (270, 730))]
    layout, counts = counted(events.DPSniper(), pilot, pilot)
    found = events.DPSniper().counted(layout, counts, Query((1000, 1000), 0.0, 0.9, None))
    assert found == (270, 1000, 730, 1000)


def test_katz_is_scipys_relative_risk():
    """But for half a hit more on each side."""
    estimator, n = events.Katz(), 100_000
    layout, counts = counted(estimator, scores_of(n))
    query = Query((n, n), 0.0, 0.95, None)
    k, _, j, _ = estimator.counted(layout, counts, query)
    expected = stats.contingency.relative_risk(j, n, k, n).confidence_interval(0.95)
    assert estimator.estimate(layout, counts, query).interval == pytest.approx(
        (math.log(expected.low), math.log(expected.high)), abs=2e-3
    )


def test_bca_is_scipys_bootstrap():
    estimator, n = events.BCa(resamples=20_000), 400
    layout, counts = counted(estimator, scores_of(n))
    query = Query((n, n), 0.05, 0.9, None)
    k, _, j, _ = estimator.counted(layout, counts, query)
    draws = [np.arange(n) < hits for hits in (j, k)]

    def ratio(one, other, axis=-1):
        above = (one.sum(axis) + 0.5) / (n + 1) - 0.05
        return np.log(above / ((other.sum(axis) + 0.5) / (n + 1)))

    expected = stats.bootstrap(
        draws, ratio, vectorized=True, confidence_level=0.9, n_resamples=4000, batch=500, rng=1
    ).confidence_interval
    found = estimator.estimate(layout, counts, query)
    assert found.interval == pytest.approx((expected.low, expected.high), abs=0.05)


def test_the_width_by_bernstein_is_that_of_the_draws():
    for hits, n in ((0, 50), (13, 50), (50, 50)):
        draws = np.arange(n) < hits
        log = math.log(2 / 0.01)
        expected = math.sqrt(2 * draws.var(ddof=1) * log / n) + 7 * log / (3 * (n - 1))
        assert events.bernstein_width(hits / n, n, 0.01) == pytest.approx(expected)
    assert events.bernstein_width(0.0, 1, 0.01) == 1


def test_dkw_is_the_best_of_all_cuts_in_both_directions():
    estimator, n, delta = events.DKW(), 5000, 0.01
    scores = scores_of(n, loss=-2.0)
    layout, counts = counted(estimator, scores)
    found = estimator.estimate(layout, counts, Query((n, n), delta, 0.9, None))
    band = math.sqrt(math.log(4 / 0.1) / (2 * n))
    best = 0.0
    for cut in np.unique(np.asarray(layout["edges"])):
        above = [float((own >= cut).mean()) for own in scores]
        for x, y in (
            above,
            above[::-1],
            [1 - rate for rate in above],
            [1 - rate for rate in above[::-1]],
        ):
            left = y - band - delta
            if left > 0:
                best = max(best, math.log(left / (x + band)))
    assert found.epsilon_lower == pytest.approx(best)


def test_the_largest_epsilon_and_the_smallest_error_that_hold():
    assert common.largest(lambda epsilon: epsilon <= 1.5) == pytest.approx(1.5)
    assert common.largest(lambda epsilon: False) == 0.0
    assert common.largest(lambda epsilon: True) == pytest.approx(common.LARGEST)
    assert common.smallest(lambda error: error >= 1e-40) == pytest.approx(1e-40, rel=1e-9)
    assert common.smallest(lambda error: False) == 1.0


def test_the_bound_and_the_p_value_are_one_test():
    for estimator in (divergences.AUC(), events.StatDP(), divergences.AuditoriumHistogram()):
        layout, counts = counted(estimator, scores_of(100_000, loss=2.0))
        query = Query((100_000, 100_000), 0.0, 0.99, None)
        lower = estimator.estimate(layout, counts, query).epsilon_lower
        assert lower > 0.5
        for claimed, refuted in ((lower - 1e-6, True), (lower + 1e-6, False)):
            found = estimator.estimate(layout, counts, query._replace(claim=PureDP(claimed)))
            assert (found.p_value <= 0.01) == refuted
