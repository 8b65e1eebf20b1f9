"""Draws of mechanisms agree with exact distribution functions.

False-alarm rate: 1e-6 for each test, divided among its counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from support.exact_distributions import NUMBERS, Mixture, Number, name_of
from support.outputs import outputs, resolved
from support.vote_closed_forms import count_p_value

DRAWS = 100_000
LEVELS = (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999)


def worst_p_value(drawn: np.ndarray, cdf: Any, places: np.ndarray) -> float:
    """Smallest p-value of the counts at or below each place, times their number."""
    p_values = [
        count_p_value(int(np.sum(drawn <= place)), len(drawn), float(cdf(place)))
        for place in places
    ]
    return min(p_values) * len(p_values)


def places_of(number: Number) -> np.ndarray:
    """Points at which distribution functions are compared: quantiles of both."""
    cumulative = [np.cumsum(masses) for masses in number.masses]
    found = [number.points[np.searchsorted(c, LEVELS).clip(max=len(c) - 1)] for c in cumulative]
    return np.unique(found).astype(np.float32)


@pytest.mark.parametrize("number", NUMBERS, ids=name_of)
def test_numbers(number: Number) -> None:
    mechanism, pair = resolved(number.use, number.params)
    for drawn, cdf in zip(outputs(mechanism, pair, DRAWS), number.cdf, strict=True):
        assert drawn.shape == (DRAWS, 1)
        assert drawn.dtype == np.float32
        assert worst_p_value(drawn[:, 0], cdf, places_of(number)) > 1e-6 / 2


VECTORS: list[tuple[str, dict[str, Any], Any, Any]] = [
    ("gaussian", {"sigma": 2.0}, stats.norm(0, 2), stats.norm(1, 2)),
    ("geometric", {"epsilon": 1.5}, stats.dlaplace(0.5), stats.dlaplace(0.5, loc=1)),
    ("randomized-response", {"epsilon": 3.0}, stats.bernoulli(0.26894142137), None),
    ("laplace", {"epsilon": 3.0}, stats.laplace(0, 1), stats.laplace(1, 1)),
]


@pytest.mark.parametrize(("use", "params", "d0", "d1"), VECTORS, ids=[v[0] for v in VECTORS])
def test_coordinates_are_independent(use: str, params: dict[str, Any], d0: Any, d1: Any) -> None:
    """Each alone, and all three at once; the budget is spread over them."""
    d1 = d1 or stats.bernoulli(1 - 0.26894142137)
    mechanism, pair = resolved(use, params, dim=3)
    for drawn, exact in zip(outputs(mechanism, pair, DRAWS), (d0, d1), strict=True):
        assert drawn.shape == (DRAWS, 3)
        p_values = []
        for place in (0.0, 0.5, 1.0):
            rate, below = float(exact.cdf(place)), drawn <= place
            p_values += [count_p_value(int(count), DRAWS, rate) for count in below.sum(axis=0)]
            p_values.append(count_p_value(int(below.all(axis=1).sum()), DRAWS, rate**3))
        assert min(p_values) > 1e-6 / (2 * len(p_values))


def test_a_sampled_record_comes_whole() -> None:
    """At dim 4 the l2 distance is 2: the projection is a mixture, the rest mere noise."""
    q, sigma = 0.25, 0.5
    params = {"sampling_probability": q, "noise_multiplier": sigma}
    mechanism, pair = resolved("subsampled-gaussian", params, dim=4)
    along = [drawn.sum(axis=1) / 4 for drawn in outputs(mechanism, pair, DRAWS)]
    across = [drawn @ np.array([1, 1, -1, -1]) / 4 for drawn in outputs(mechanism, pair, DRAWS)]
    places = np.linspace(-1.5, 2.5, 17)
    noise = stats.norm(0, sigma).cdf
    assert worst_p_value(along[0], noise, places) > 1e-6 / 4
    assert worst_p_value(along[1], Mixture(q, sigma).cdf, places) > 1e-6 / 4
    assert worst_p_value(across[0], noise, places) > 1e-6 / 4
    assert worst_p_value(across[1], noise, places) > 1e-6 / 4


WRONG = [
    ("gaussian", {"sigma": 1.0}, stats.norm(0, 1.03)),
    ("geometric", {"epsilon": 1.0}, stats.dlaplace(1.03)),
    ("laplace", {"epsilon": 1.0}, stats.laplace(0, 1.03)),
    ("randomized-response", {"epsilon": 1.0}, stats.bernoulli(0.277)),
]


@pytest.mark.parametrize(("use", "params", "wrong"), WRONG, ids=[w[0] for w in WRONG])
def test_the_counts_notice_a_difference_of_three_percent(
    use: str, params: dict[str, Any], wrong: Any
) -> None:
    """Non-vacuity."""
    drawn, _ = outputs(*resolved(use, params), DRAWS)
    places = np.array([-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0])
    assert worst_p_value(drawn[:, 0], wrong.cdf, places) < 1e-6


def test_a_wrong_sampling_probability_is_noticed() -> None:
    """Non-vacuity."""
    params = {"sampling_probability": 0.25, "noise_multiplier": 0.3}
    _, drawn = outputs(*resolved("subsampled-gaussian", params), DRAWS)
    assert worst_p_value(drawn[:, 0], Mixture(0.26, 0.3).cdf, np.array([0.5])) < 1e-6


@pytest.mark.slow
def test_normals_in_float32_end_where_the_docstrings_say() -> None:
    (drawn, _), ends = outputs(*resolved("gaussian", {"sigma": 1.0}), 10_000_000), (-5.42, 5.2202)
    assert ends[0] < drawn.min() < -4.7
    assert 4.7 < drawn.max() < ends[1]
