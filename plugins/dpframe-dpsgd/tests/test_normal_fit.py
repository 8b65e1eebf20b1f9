"""The fit of two normal distributions, and the shape of the scores."""

import numpy as np
import pytest
from dpframe_dpsgd.normal_fit import FineBins, NormalFit, moments
from scipy import stats

from dpframe.plugins import Query


def counted(scores0, scores1, bins=512):
    layout = np.asarray(FineBins(bins).bind(scores0[:500], scores1[:500]))
    counts = np.zeros((2, bins + 3), np.int64)
    for dataset, scores in enumerate((scores0, scores1)):
        np.add.at(counts[dataset], 1 + np.searchsorted(layout, scores, side="right"), 1)
    return layout, counts


def test_moments_are_those_of_the_scores():
    rng = np.random.default_rng(0)
    scores = rng.gamma(4.0, size=200_000)
    layout, counts = counted(scores, scores + 1)
    found = moments(layout, counts[0])
    expected = (scores.mean(), scores.std(), stats.skew(scores), stats.kurtosis(scores))
    np.testing.assert_allclose(found, expected, rtol=0.02)


def test_epsilon_of_normal_scores_is_that_of_the_gaussian_mechanism():
    rng = np.random.default_rng(1)
    layout, counts = counted(rng.normal(size=400_000), rng.normal(1.0, size=400_000))
    trials = (400_000, 400_000)
    query = Query(trials=trials, delta=1e-5, confidence=0.95, claim=None)
    found = NormalFit().estimate(layout, counts, query)
    assert found.epsilon == pytest.approx(4.377, rel=0.02)  # μ = 1, δ = 1e-5 [Dong2022, 2.13]
    assert found.epsilon_lower is None
    curve = np.array(found.tradeoff)
    exact = stats.norm.cdf(stats.norm.isf(curve[:, 0]) - 1)
    np.testing.assert_allclose(curve[1:, 1], exact[1:], atol=0.01)
    assert any("skewness" in note for note in found.notes)


def test_scores_that_are_all_alike_are_no_normal_distribution():
    layout, counts = counted(np.zeros(1000), np.ones(1000))
    query = Query(trials=(1000, 1000), delta=1e-5, confidence=0.95, claim=None)
    assert NormalFit().estimate(layout, counts, query).epsilon > 100
