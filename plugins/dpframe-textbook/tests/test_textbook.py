"""Textbook mechanisms compared with naive ones, correct and with their mistakes."""

import jax
import numpy as np
import pytest
from dpframe_textbook import (
    discrete,
    integers,
    metric,
    propose_test_release as ptr,
    randomized_response as rr,
    selection,
    staircase,
)
from dpframe_textbook.gaussian_threshold import GaussianThreshold
from dpframe_textbook.pairs import QueryPattern
from dpframe_textbook.stable_histogram import StabilityHistogram
from textbook_support import textbook_oracles as oracles
from textbook_support.laws import demand_probabilities, demand_same

ROWS, ORACLE_ROWS = 100_000, 10_000
SCORES = np.array([1.0, 0.0, 2.0, 2.0, -3.0])
COUNTS = np.array([1.0, 0.0, 2.0, 9.0])
BITS = np.array([1.0, 0.0, 0.0, 1.0, 1.0])
VALUES = np.array([0.9, 0.3, 0.45, 0.6, 0.2])


def outputs(mechanism, data, n=ROWS):
    key = jax.random.key(7)
    sampled = jax.jit(lambda d: mechanism.sample(key, d, n))(np.asarray(data, np.float32))
    return np.asarray(sampled, np.float64)


def naive(oracle, *arguments):
    rng = np.random.default_rng(11)
    return np.array([oracle(rng, *arguments) for _ in range(ORACLE_ROWS)], np.float64)


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
    demand_same(draws, naive(oracles.above_threshold, SCORES, *sigmas, 1.0))


NAIVE = {
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


@pytest.mark.parametrize("case", NAIVE)
def test_it_does_what_the_paper_prints(case):
    mechanism, (oracle, data, *arguments) = NAIVE[case]
    demand_same(outputs(mechanism, data), naive(oracle, data, *arguments))


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
