"""Validity of the default estimator from scores to bound, in both forms.

The exact coverage of each event is enumerated in tests/stats/test_joint.py; here everything is
put together: pilot, grid, choice, shares. False alarms: 1e-6 per test.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats
from support.tiers import mostly_slow

from dpframe import Query
from dpframe.builtin.events import PilotGrid
from dpframe.builtin.order_statistics import OrderStatistics
from dpframe.stats.histograms import bin_counts

if TYPE_CHECKING:
    from collections.abc import Callable

N, ERROR = 200, 0.05
KEEP = math.e / (1 + math.e)

SCORES: dict[str, tuple[Callable[..., tuple[np.ndarray, np.ndarray]], float, float, float]] = {
    # how to draw, δ, the true ε there, and the share of it that the mean bound must reach
    "no leak": (lambda g: (g.normal(size=N), g.normal(size=N)), 0.0, 0.0, 0.0),
    "no leak, ties": (lambda g: (g.poisson(2, N) * 1.0, g.poisson(2, N) * 1.0), 0.0, 0.0, 0.0),
    "Laplace": (lambda g: (g.laplace(size=N), g.laplace(size=N) + 1), 0.0, 1.0, 0.25),
    "Gaussian": (lambda g: (g.normal(size=N), g.normal(size=N) + 1), 1e-5, 4.37718, 0.1),
    "response": (
        lambda g: ((g.random(N) > KEEP) * 1.0, (g.random(N) < KEEP) * 1.0),
        0.0,
        1.0,
        0.4,
    ),
}


def bounds(name: str, form: str, repeats: int) -> np.ndarray:
    draw, delta, _, _ = SCORES[name]
    rng = np.random.default_rng(20_26)
    estimator, query = OrderStatistics(), Query((N, N), delta, 1 - ERROR, None)
    found = []
    for _ in range(repeats):
        scores = draw(rng)
        if form == "raw":
            estimate = estimator.estimate_scores(scores, query, rng)
        else:
            layout = PilotGrid().bind(*draw(rng))
            counts = np.stack([bin_counts(layout["edges"], part) for part in scores])
            estimate = estimator.estimate(layout, counts.astype(np.int64), query)
        found.append(estimate.epsilon_lower)
    return np.array(found, np.float64)


@pytest.mark.parametrize("repeats", [60, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", mostly_slow(["grid", "raw"], ("grid",)))
@pytest.mark.parametrize("name", mostly_slow(SCORES, ("no leak",)))
def test_the_bound_exceeds_the_truth_as_rarely_as_promised(
    name: str, form: str, repeats: int
) -> None:
    _, _, truth, share = SCORES[name]
    found = bounds(name, form, repeats)
    exceeded = int(np.sum(found > truth + 1e-12))
    assert stats.binom.sf(exceeded - 1, repeats, ERROR) > 1e-6
    assert found.mean() >= share * truth
    if truth:
        assert np.mean(found > 0) > 0.8
