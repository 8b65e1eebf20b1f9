"""Certified privacy profiles: what they say, that it is true, and that it is something."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpframe.interfaces.estimator import epsilon_of
from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper
from dpframe.stats.tradeoff import POINTS, certified_delta, certified_profile

STAIRCASES = np.array(
    [[[0.1, 0.6], [0.2, 0.5], [0.3, 0.2]], [[0.01, 0.95], [0.02, 0.9], [0.9, 0.001]]]
)


def test_it_is_the_best_staircase_at_its_worst_corner():
    for epsilon, found in zip(
        (0, 0.5, 1, 3), certified_delta(STAIRCASES, [0, 0.5, 1, 3]), strict=True
    ):
        g = math.exp(epsilon)
        worst = [min(max(1 - y - g * x, 1 - x - g * y) for x, y in s) for s in STAIRCASES.tolist()]
        assert found == pytest.approx(max(0, *worst))


@pytest.mark.parametrize("boxes", [STAIRCASES, STAIRCASES[:, 0]])
def test_its_inverse_is_the_bound_at_every_delta(boxes):
    points = certified_profile(boxes)
    assert len(points) == POINTS
    assert points[-1][0] == pytest.approx(epsilon_of(boxes, 0.0), rel=1e-5)
    assert all(e0 < e1 and d0 >= d1 for (e0, d0), (e1, d1) in itertools.pairwise(points))
    for epsilon, delta in points[1:-1]:
        assert epsilon_of(boxes, delta) == pytest.approx(epsilon, abs=1e-3)
        assert epsilon_of(boxes, delta * (1 + 1e-4)) < epsilon_of(boxes, delta * (1 - 1e-4))
        assert delta <= certified_delta(boxes[:, None] if boxes.ndim == 2 else boxes, [epsilon])[0]


@pytest.mark.parametrize("boxes", [np.ones((1, 2)), np.empty((0, 2)), [[0.5, 0.5]], [[0.0, 0.3]]])
def test_what_limits_nothing_certifies_nothing(boxes):
    """An error rate that is rounded to 0 would be an infinite bound."""
    assert certified_profile(boxes) == ()


def profile_of_votes(n: int, error: float, rng: np.random.Generator) -> tuple:
    """From four fixed thresholds on unit Laplace scores around 0 and around 1."""
    cuts = np.array([0.0, 0.5, 1.0, 3.0])
    on_d = (rng.laplace(0, 1, n)[:, None] > cuts).sum(axis=0)
    on_d1 = (rng.laplace(1, 1, n)[:, None] > cuts).sum(axis=0)
    share = error / (2 * len(cuts))
    fpr = clopper_pearson_upper(on_d, n, share)
    tpr = clopper_pearson_lower(on_d1, n, share)
    return certified_profile(np.stack([fpr, 1 - tpr], axis=-1))


def exact(epsilon: float) -> float:
    """δ(ε) of the Laplace mechanism at ε = 1."""
    return max(0.0, 1 - math.exp((epsilon - 1) / 2))


def test_it_is_valid_and_says_something():
    """200 profiles at 5e-9 each: a false alarm has a chance of 1e-6."""
    rng = np.random.default_rng(16)
    for _ in range(200):
        for epsilon, delta in profile_of_votes(1_000, 5e-9, rng):
            assert delta <= exact(epsilon)
    points = profile_of_votes(100_000, 0.05, rng)
    assert points[0][1] > 0.97 * exact(0)
    assert points[0][1] > 0.97 * (2 * stats.laplace.cdf(0.5) - 1)
    assert points[-1][0] > 0.9
