"""Every sampler compared with a naive implementation, or with its exact probabilities."""

import jax
import numpy as np
import pytest
from dpframe_textbook import (
    histograms,
    noisy_max,
    rappor,
    snapping,
    sparse_values,
    sparse_vector as sv,
    truncated_geometric,
)
from textbook_support import oracles
from textbook_support.laws import demand_probabilities, demand_same

ROWS, ORACLE_ROWS = 100_000, 10_000
QUERIES = np.array([1.0, 0.0, 2.0, 1.0, -3.0])


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
