"""The losses of the README's tables, from exact probabilities and densities."""

from typing import get_args

import numpy as np
import pytest
from dpframe_textbook import noisy_max, rappor, snapping, sparse_values, sparse_vector as sv
from dpframe_textbook.discrete import DiscreteGaussian, DiscreteLaplace
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.gaussian_threshold import GaussianThreshold
from dpframe_textbook.histograms import LaplaceParallel, NoisyHistogram2, PrefixSum
from dpframe_textbook.metric import NearestWord, PlanarLaplace, embedding
from dpframe_textbook.pairs import Name, QueryPattern, Words
from dpframe_textbook.propose_test_release import ProposeTestRelease
from dpframe_textbook.randomized_response import ShuffledResponse, SubsampledResponse
from dpframe_textbook.selection import ExponentialMechanism, PermuteAndFlip
from dpframe_textbook.stable_histogram import StabilityHistogram
from dpframe_textbook.staircase import Staircase
from dpframe_textbook.truncated_geometric import TruncatedGeometric
from textbook_support.densities import sparse_vector_3

ALL = get_args(Name)
BITS = {"low": 0.0, "high": 1.0}
ONE_DIFFERS = ("one-above", "one-below")


def patterns(length, names=ALL, **domain):
    pairs = (QueryPattern(length=length, pattern=name, **domain) for name in names)
    return [pair for pair in pairs if (pair.d0 != pair.d1).any()]


def largest(mechanism, pairs):
    return max(mechanism.truth(pair).epsilon_at(0.0) for pair in pairs)


@pytest.mark.parametrize(
    ("mechanism", "pairs", "epsilon"),
    [
        (noisy_max.ReportNoisyMax1(), patterns(5), 0.0946),
        (noisy_max.ReportNoisyMax2(), patterns(5), 0.1),
        (sv.SparseVector1(), patterns(10), 0.0885),
        (sv.SparseVector2(), patterns(10), 0.0882),
        (sv.SparseVector4(), patterns(10), 0.1725),
        (sv.SparseVector5(), patterns(10), np.inf),
        (sv.SparseVector6(), patterns(10), 0.4200),
        (snapping.Snapping(), patterns(1, ONE_DIFFERS), 0.1),
        (TruncatedGeometric(), patterns(1, ONE_DIFFERS, low=0.0, high=5.0), np.log1p(2.0**-5)),
        (
            TruncatedGeometric(logarithm="natural"),
            patterns(1, ONE_DIFFERS, low=0.0, high=5.0),
            np.log1p(2.0**-3),
        ),
        (rappor.RAPPOR(), patterns(1, ONE_DIFFERS), 0.4001),
        (rappor.OneTimeRAPPOR(), patterns(1, ONE_DIFFERS), 0.8007),
        (NoisyHistogram2(), patterns(5, ONE_DIFFERS), 10.0),
        (PrefixSum(), patterns(10, ONE_DIFFERS), 0.1),
        (ExponentialMechanism(), patterns(5), 0.0808),
        (ExponentialMechanism(mistake="no-half"), patterns(5), 0.1631),
        (PermuteAndFlip(), patterns(5), 0.1),
        (PermuteAndFlip(mistake="fixed-order"), patterns(5), np.inf),
        (DiscreteLaplace(), patterns(5, ONE_DIFFERS), 0.1),
        (DiscreteLaplace(mistake="two-zeros"), patterns(5, ONE_DIFFERS), 0.1 + np.log(2)),
        (Staircase(), patterns(5, ONE_DIFFERS), 0.1),
        (Staircase(mistake="counts-from-one"), patterns(5, ONE_DIFFERS), np.inf),
        (SubsampledResponse(), patterns(10, ONE_DIFFERS, **BITS), 0.1586),
        (SubsampledResponse(mistake="tells-which"), patterns(10, ONE_DIFFERS, **BITS), 1.0),
        (ShuffledResponse(mistake="in-order"), patterns(10, ONE_DIFFERS, **BITS), 1.0),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_largest_loss_over_the_patterns(mechanism, pairs, epsilon):
    assert largest(mechanism, pairs) == pytest.approx(epsilon, abs=6e-5)


@pytest.mark.parametrize(
    ("mechanism", "pairs", "delta", "epsilon"),
    [
        (DiscreteGaussian(), patterns(5, ONE_DIFFERS), 1e-5, 0.3408),
        (
            DiscreteGaussian(mistake="sigma-for-variance"),
            patterns(5, ONE_DIFFERS),
            1e-5,
            1.2045,
        ),
        (ShuffledResponse(), patterns(100, ONE_DIFFERS, **BITS), 1e-3, 0.2270),
        (ShuffledResponse(mistake="in-order"), patterns(100, ONE_DIFFERS, **BITS), 1e-3, 0.9986),
        (GaussianThreshold(), patterns(10), 1e-3, 0.2857),
        (GaussianThreshold(mistake="one-sigma"), patterns(10), 1e-3, 2.0015),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_largest_loss_over_the_patterns_at_a_delta(mechanism, pairs, delta, epsilon):
    found = max(mechanism.resolve(p).truth(p).epsilon_at(delta) for p in pairs)
    assert found == pytest.approx(epsilon, abs=6e-5)


def test_a_shuffled_response_claims_exactly_what_it_loses_at_worst():
    mechanism, pair = ShuffledResponse(), QueryPattern(length=10, pattern="one-below", **BITS)
    claim = mechanism.claim(pair)
    curves = [mechanism._curve(ones, ones + 1, 10) for ones in range(10)]
    assert max(curve.delta_at(claim.epsilon) for curve in curves) == pytest.approx(1e-3)


def test_above_a_gaussian_threshold_the_claim_holds_for_random_neighbours():
    rng = np.random.default_rng(8)
    for _ in range(20):
        d0 = rng.normal(scale=rng.uniform(1, 30), size=6)
        d1 = d0 + rng.choice([-1, 0, 1], size=6)
        pair = type("Drawn", (), {"d0": d0, "d1": d1})
        mechanism = GaussianThreshold(epsilon=float(rng.uniform(0.5, 3)), delta=0.05).resolve(pair)
        if (claim := mechanism.claim(pair)).epsilon:
            assert mechanism.truth(pair).delta_at(claim.epsilon) <= claim.delta


def test_many_steps_of_approximate_privacy():
    near, far = QueryPattern(length=3), QueryPattern(length=3, pattern="all-above")
    mechanism = StabilityHistogram(epsilon=0.5, delta=0.01)
    assert mechanism.claim(near).parameters() == {"epsilon": 0.5, "delta": 0.01}
    assert mechanism.claim(far).epsilon == 1.5
    assert mechanism.claim(far).delta == pytest.approx(0.01 * (1 + np.exp(0.5) + np.e))
    assert StabilityHistogram(delta=0.5).claim(far) is None
    assert ProposeTestRelease(epsilon=0.5).claim(near).epsilon == 1.0


def test_metric_claims_are_distances():
    diagonal = QueryPattern(length=2, pattern="all-above")
    assert PlanarLaplace(epsilon=3.0).claim(diagonal).epsilon == pytest.approx(3 * 2**0.5)
    table = embedding(50, 4)
    gap = np.linalg.norm(table[49] - table[15])
    assert gap == pytest.approx(1.475, abs=1e-3)
    claim = NearestWord(epsilon=2.0).claim(Words(first=15, second=49))
    assert claim.epsilon == pytest.approx(2 * gap)
    between = np.linalg.norm(table[:, None] - table[None], axis=2)
    assert between[between > 0].min() == gap


RIGHT = [
    (ExponentialMechanism, 5),
    (PermuteAndFlip, 5),
    (noisy_max.ReportNoisyMax1, 5),
    (noisy_max.ReportNoisyMax2, 5),
    (sv.SparseVector1, 6),
    (sv.SparseVector2, 6),
]


@pytest.mark.parametrize(("cls", "length"), RIGHT, ids=lambda value: getattr(value, "name", None))
def test_a_true_claim_holds_for_random_neighbours(cls, length):
    rng = np.random.default_rng(5)
    for _ in range(10):
        mechanism = cls(epsilon=float(rng.uniform(0.1, 4)))
        d0 = rng.normal(scale=3, size=length)
        d1 = d0 + rng.choice([-1, 1], size=length)
        pair = type("Drawn", (), {"d0": d0, "d1": d1})
        assert mechanism.truth(pair).epsilon_at(0.0) <= mechanism.claim(pair).epsilon + 1e-9


@pytest.mark.parametrize("length", [2, 5, 10])
def test_sparse_vector_3_loses_half_of_epsilon_for_each_query(length):
    mechanism, values = sv.SparseVector3(), np.linspace(-300, 0, 101)
    pair = QueryPattern(length=length, pattern="all-below")
    zero, one = (
        sparse_vector_3(mechanism, data, length - 1, values) for data in (pair.d0, pair.d1)
    )
    assert np.abs(np.log(zero / one)).max() == pytest.approx(length * mechanism.epsilon / 2)


@pytest.mark.parametrize("value", [-2, -1, 0, 1])
def test_values_next_to_one_another_share_no_bit(value):
    one, other = (rappor.bloom_filter(np.array([float(v)]), 4, 20, np) for v in (value, value + 1))
    assert (one.sum(), other.sum(), (one & other).sum()) == (4, 4, 0)


def test_claims_count_steps_between_neighbours():
    far, near = QueryPattern(length=4, pattern="half-half"), QueryPattern(length=4)
    twice = type("Twice", (), {"d0": near.d0, "d1": near.d0 + 2})
    assert noisy_max.ReportNoisyMax1(epsilon=0.3).claim(far).epsilon == 0.3
    assert noisy_max.ReportNoisyMax1(epsilon=0.3).claim(twice).epsilon == 0.6
    assert PrefixSum(epsilon=0.3).claim(near).epsilon == 0.3
    assert PrefixSum(epsilon=0.3).claim(far).epsilon == pytest.approx(1.2)
    assert sparse_values.SparseVector34(epsilon=0.3).claim(far).epsilon == 0.6
    assert LaplaceParallel().claim(QueryPattern(length=1)).epsilon == pytest.approx(0.1)
    assert rappor.RAPPOR().claim(near).epsilon == pytest.approx(0.4001, abs=6e-5)


def test_the_curve_of_finitely_many_outputs():
    e = np.e
    response = FiniteDP.of(np.array([1.0, e]), np.array([e, 1.0]))
    assert response.epsilon_at(0.0) == pytest.approx(1.0)
    assert response.delta_at(0.0) == pytest.approx((e - 1) / (e + 1))
    assert response.epsilon_at(response.delta_at(0.4)) == pytest.approx(0.4)
    assert response.tradeoff(np.array([0.1]))[0] == pytest.approx(1 - 0.1 * e)
    lone = FiniteDP.of(np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.25, 0.25]))
    assert lone.epsilon_at(0.0) == np.inf
    assert lone.epsilon_at(0.3) == 0.0
    assert lone.epsilon_at(0.25) == pytest.approx(0.0, abs=1e-9)


def test_the_patterns_are_those_of_the_paper():
    assert [pair.d1.tolist() for pair in patterns(4)] == [
        [2, 1, 1, 1],
        [0, 1, 1, 1],
        [2, 0, 0, 0],
        [0, 2, 2, 2],
        [2, 2, 0, 0],
        [2, 2, 2, 2],
        [0, 0, 0, 0],
        [0, 0, 1, 1],
    ]
    swapped = QueryPattern(length=4, pattern="x-shape", swapped=True)
    assert (swapped.d0.tolist(), swapped.d1.tolist()) == ([0, 0, 1, 1], [1, 1, 0, 0])
