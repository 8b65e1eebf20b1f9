"""Every sampler, correct and mistaken, compared with a naive one or with exact probabilities."""

import jax
import numpy as np
import pytest
from dpframe_textbook import (
    discrete,
    histograms,
    integers,
    metric,
    noisy_max,
    propose_test_release as ptr,
    randomized_response as rr,
    rappor,
    selection,
    snapping,
    sparse_values,
    sparse_vector as sv,
    staircase,
    truncated_geometric,
)
from dpframe_textbook.gaussian_threshold import GaussianThreshold
from dpframe_textbook.pairs import QueryPattern
from dpframe_textbook.stable_histogram import StabilityHistogram
from textbook_support import oracles
from textbook_support.laws import demand_probabilities, demand_same

ROWS, ORACLE_ROWS = 100_000, 10_000
QUERIES = np.array([1.0, 0.0, 2.0, 1.0, -3.0])
SCORES = np.array([1.0, 0.0, 2.0, 2.0, -3.0])
COUNTS = np.array([1.0, 0.0, 2.0, 9.0])
BITS = np.array([1.0, 0.0, 0.0, 1.0, 1.0])
VALUES = np.array([0.9, 0.3, 0.45, 0.6, 0.2])


def outputs(mechanism, data, n=ROWS):
    key = jax.random.key(7)
    sampled = jax.jit(lambda d: mechanism.sample(key, d, n))(np.asarray(data, np.float32))
    return np.asarray(sampled, np.float64)


def expected(oracle, *arguments, rows=ORACLE_ROWS, **named):
    rng = np.random.default_rng(11)
    return np.array([oracle(rng, *arguments, **named) for _ in range(rows)], np.float64)


SPARSE = {  # epsilon = 2, c = 2
    sv.SparseVector1: {"threshold_scale": 1, "answer_scale": 4},
    sv.SparseVector2: {"threshold_scale": 2, "answer_scale": 4, "renews": True},
    sv.SparseVector3: {"threshold_scale": 1, "answer_scale": 2, "numeric": True},
    sv.SparseVector4: {"threshold_scale": 2, "answer_scale": 2 / 3},
    sv.SparseVector5: {"threshold_scale": 1, "answer_scale": 0, "cutoff": None},
    sv.SparseVector6: {"threshold_scale": 1, "answer_scale": 1, "cutoff": None},
}
CASES = {
    "noisy-histogram-1": (
        histograms.NoisyHistogram1(epsilon=0.5),
        (oracles.noisy_histogram, QUERIES, 2.0),
    ),
    "noisy-histogram-2": (
        histograms.NoisyHistogram2(epsilon=0.5),
        (oracles.noisy_histogram, QUERIES, 0.5),
    ),
    "laplace-parallel": (
        histograms.LaplaceParallel(epsilon=0.5, count=4),
        (oracles.laplace_parallel, QUERIES[2:3], 0.5, 4),
    ),
    "prefix-sum": (histograms.PrefixSum(epsilon=0.5), (oracles.prefix_sum, QUERIES, 0.5)),
    **{
        cls.name: (cls(epsilon=2.0), (oracles.noisy_max, QUERIES, 2.0, noise, tells))
        for cls, noise, tells in (
            (noisy_max.ReportNoisyMax1, "laplace", "index"),
            (noisy_max.ReportNoisyMax2, "exponential", "index"),
            (noisy_max.ReportNoisyMax3, "laplace", "value"),
            (noisy_max.ReportNoisyMax4, "exponential", "value"),
        )
    },
    "snapping": (snapping.Snapping(), (oracles.snapping, QUERIES[2:3], 0.1, 100.0)),
    "snapping, far": (
        snapping.Snapping(epsilon=3.0, bound=2.0),
        (oracles.snapping, [5.0], 3.0, 2.0),
    ),
    "truncated-geometric": (
        truncated_geometric.TruncatedGeometric(),
        (oracles.truncated_geometric, [2], 5, 5),
    ),
    "truncated-geometric, natural": (
        truncated_geometric.TruncatedGeometric(logarithm="natural"),
        (oracles.truncated_geometric, [4], 3, 5),
    ),
    "numerical-sparse-vector": (
        sparse_values.NumericalSparseVector(epsilon=6.0),
        (oracles.numerical_sparse_vector, QUERIES, 6.0, 1.0, 2),
    ),
    "rappor": (
        rappor.RAPPOR(f=0.5, p=0.2, q=0.7, bits=8),
        (oracles.rappor, rappor.bloom_filter(np.array([3.0]), 4, 8, np), 0.5, 0.2, 0.7),
        [3.0],
    ),
    "one-time-rappor": (
        rappor.OneTimeRAPPOR(f=0.5, bits=8),
        (oracles.rappor, rappor.bloom_filter(np.array([3.0]), 4, 8, np), 0.5, 0.0, 1.0),
        [3.0],
    ),
    "permute-and-flip": (
        selection.PermuteAndFlip(epsilon=1.5),
        (oracles.permute_and_flip, SCORES, 1.5),
    ),
    "staircase": (staircase.Staircase(epsilon=0.7), (oracles.staircase, SCORES[:2], 0.7, 0)),
    "staircase, from one": (
        staircase.Staircase(epsilon=0.7, mistake="counts-from-one"),
        (oracles.staircase, SCORES[:2], 0.7, 1),
    ),
    "stability": (
        StabilityHistogram(epsilon=0.8, delta=0.05),
        (oracles.stability, COUNTS, 0.8, 0.05),
    ),
    "stability, no threshold": (
        StabilityHistogram(epsilon=0.8, delta=0.05, mistake="no-threshold"),
        (oracles.stability, COUNTS, 0.8, None),
    ),
    "propose-test-release": (
        ptr.ProposeTestRelease(epsilon=1.0, delta=0.2, beta=0.2),
        (oracles.propose_test_release, VALUES, 1.0, 0.2, 0.2),
    ),
    "propose-test-release, never": (
        ptr.ProposeTestRelease(epsilon=1.0, delta=0.2, beta=0.1),
        (oracles.propose_test_release, VALUES, 1.0, 0.2, 0.1),
    ),
    "no test": (
        ptr.ProposeTestRelease(epsilon=1.0, mistake="no-test"),
        (oracles.local_sensitivity, VALUES, 1.0),
    ),
    "in order": (
        rr.ShuffledResponse(epsilon=2.0, mistake="in-order"),
        (oracles.responses, BITS, 2.0),
    ),
    "planar": (metric.PlanarLaplace(epsilon=0.5), (oracles.planar, SCORES[:2], 0.5)),
    "planar, each coordinate": (
        metric.PlanarLaplace(epsilon=0.5, mistake="each-coordinate"),
        (oracles.laplace, SCORES[:2], 0.5),
    ),
    "nearest word": (
        metric.NearestWord(epsilon=0.8, words=6, dimensions=3),
        (oracles.nearest_word, [2.0], 0.8, metric.embedding(6, 3), 3),
    ),
    "nearest word, exponential length": (
        metric.NearestWord(epsilon=0.4, words=6, dimensions=3, mistake="exponential-length"),
        (oracles.nearest_word, [2.0], 0.4, metric.embedding(6, 3), 1),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_does_what_the_paper_prints(case):
    mechanism, (oracle, *arguments), *data = CASES[case]
    draws = outputs(mechanism, data[0] if data else arguments[0])
    demand_same(draws, expected(oracle, *arguments))


@pytest.mark.parametrize("technique", SPARSE, ids=lambda technique: technique.name)
def test_a_sparse_vector_technique_does_what_the_paper_prints(technique):
    mechanism = technique(epsilon=2.0, cutoff=2, threshold=0.5)
    naive = {"cutoff": 2, "threshold": 0.5, **SPARSE[technique]}
    draws = outputs(mechanism, QUERIES)
    demand_same(draws, expected(oracles.sparse_vector, QUERIES, **naive))
    if not technique.numeric:
        demand_probabilities(draws, *mechanism.probabilities(QUERIES))


def test_two_techniques_in_parallel_are_independent():
    both = outputs(sparse_values.SparseVector34(epsilon=2.0), QUERIES)
    rng = np.random.default_rng(3)
    naive = [
        [
            *oracles.sparse_vector(rng, QUERIES, 1, 2, 1.0, 2, numeric=True),
            *oracles.sparse_vector(rng, QUERIES, 2, 2 / 3, 1.0, 2),
        ]
        for _ in range(ORACLE_ROWS)
    ]
    demand_same(both, np.array(naive))


@pytest.mark.parametrize("cls", [noisy_max.ReportNoisyMax1, noisy_max.ReportNoisyMax2])
def test_the_largest_answer_has_the_probability_that_is_said(cls):
    mechanism = cls(epsilon=2.0)
    pair = type("Both", (), {"d0": QUERIES, "d1": QUERIES[::-1]})
    truth = mechanism.truth(pair)
    for data, shares in ((QUERIES, truth.on_zero), (QUERIES[::-1], truth.on_one)):
        demand_probabilities(outputs(mechanism, data), np.arange(5.0)[:, None], shares)


@pytest.mark.parametrize(
    ("mechanism", "answer"),
    [
        (snapping.Snapping(), 2.0),
        (snapping.Snapping(epsilon=3.0, bound=2.0), 5.0),
        (snapping.Snapping(epsilon=1.5, bound=2.75), 0.3),
    ],
)
def test_snapping_has_the_probabilities_that_are_said(mechanism, answer):
    demand_probabilities(outputs(mechanism, [answer]), *_column(mechanism.probabilities([answer])))


@pytest.mark.parametrize("count", [0.0, 2.0, 5.0])
def test_the_geometric_mechanism_has_the_probabilities_that_are_said(count):
    mechanism = truncated_geometric.TruncatedGeometric(logarithm="natural")
    shares = mechanism.probabilities(count)
    demand_probabilities(outputs(mechanism, [count]), np.arange(6.0)[:, None], shares)


def _column(both):
    return both[0][:, None], both[1]


INTEGERS = {
    "laplace 10": (lambda key, n: integers.discrete_laplace(key, n, 10, 1), lambda z: z / 10),
    "laplace 3/2": (lambda key, n: integers.discrete_laplace(key, n, 3, 2), lambda z: 2 * z / 3),
    "gaussian 100": (lambda key, n: integers.discrete_gaussian(key, n, 100), lambda z: z**2 / 200),
    "gaussian 5": (lambda key, n: integers.discrete_gaussian(key, n, 5), lambda z: z**2 / 10),
    "gaussian 961": (lambda key, n: integers.discrete_gaussian(key, n, 961), lambda z: z**2 / 1922),
}


@pytest.mark.parametrize("law", INTEGERS)
def test_whole_numbers_have_their_exact_law(law):
    sampler, exponent = INTEGERS[law]
    drawn = np.asarray(jax.jit(sampler, static_argnums=1)(jax.random.key(1), 200_001))
    z = np.arange(-1000.0, 1001)
    weights = np.exp(-exponent(np.abs(z)))
    demand_probabilities(drawn[:, None], z[:, None], weights / weights.sum())


def test_zero_comes_twice_as_often_where_its_sign_counts():
    mechanism = discrete.DiscreteLaplace(t=2, mistake="two-zeros")
    z = np.arange(-60.0, 61)
    weights = np.exp(-np.abs(z) / 2) * np.where(z == 0, 2, 1)
    demand_probabilities(outputs(mechanism, [3.2]), z[:, None] + 3, weights / weights.sum())


def test_sigma_in_place_of_the_variance():
    mechanism = discrete.DiscreteGaussian(sigma=9, mistake="sigma-for-variance")
    z = np.arange(-60.0, 61)
    weights = np.exp(-(z**2) / 18)
    demand_probabilities(outputs(mechanism, [3.0]), z[:, None] + 3, weights / weights.sum())


FINITE = {
    "exponential": (selection.ExponentialMechanism(epsilon=1.5), SCORES),
    "exponential, no half": (
        selection.ExponentialMechanism(epsilon=1.5, mistake="no-half"),
        SCORES,
    ),
    "permute-and-flip": (selection.PermuteAndFlip(epsilon=1.5), SCORES),
    "permute-and-flip, in order": (
        selection.PermuteAndFlip(epsilon=1.5, mistake="fixed-order"),
        SCORES,
    ),
    "subsampled": (rr.SubsampledResponse(epsilon=2.0), BITS),
    "shuffled": (rr.ShuffledResponse(epsilon=2.0), BITS),
}


@pytest.mark.parametrize("case", FINITE)
def test_outputs_have_the_probabilities_that_are_said(case):
    mechanism, data = FINITE[case]
    if case == "shuffled":
        shares = mechanism.probabilities(int(data.sum()), len(data))
    else:
        shares = mechanism.probabilities(data)
    demand_probabilities(outputs(mechanism, data), np.arange(len(shares))[:, None], shares)


def test_a_response_with_a_name_has_the_probabilities_that_are_said():
    mechanism = rr.SubsampledResponse(epsilon=2.0, mistake="tells-which")
    places = [(person, answer) for answer in (0, 1) for person in range(len(BITS))]
    shares = mechanism.probabilities(BITS).ravel()
    demand_probabilities(outputs(mechanism, BITS), places, shares)


@pytest.mark.parametrize("mistake", ["none", "one-sigma"])
def test_above_a_gaussian_threshold(mistake):
    pair = QueryPattern(length=5)
    mechanism = GaussianThreshold(epsilon=3.0, delta=0.1, mistake=mistake).resolve(pair)
    draws = outputs(mechanism, SCORES)
    demand_probabilities(draws, *mechanism.probabilities(SCORES))
    sigmas = mechanism.threshold_sigma, mechanism.answer_sigma
    demand_same(draws, expected(oracles.above_threshold, SCORES, *sigmas, 1.0))


def test_the_median_moves_as_far_as_changed_data_let_it():
    rng = np.random.default_rng(2)
    for size in (3, 5, 7):
        values = np.sort(rng.uniform(size=size))
        found = np.asarray(ptr.median_moves(np.asarray(values, np.float32)))
        for k in range(size):
            assert found[k] == pytest.approx(oracles.median_move(values, k), abs=1e-6)


def test_the_staircase_has_its_distribution_function():
    mechanism = staircase.Staircase(epsilon=0.7, gamma=0.3)
    drawn = np.sort(outputs(mechanism, [0.0])[:, 0])
    gap = mechanism.below(drawn) - (np.arange(len(drawn)) + 0.5) / len(drawn)
    assert np.abs(gap).max() < np.sqrt(np.log(2e6) / (2 * len(drawn)))
