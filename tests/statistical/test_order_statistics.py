"""Validity of the default estimator from scores to bound, in both forms.

The exact coverage of each event is enumerated in tests/stats/test_joint.py; here everything is
put together: pilot, grid, choice, shares. False alarms: 1e-6 per test.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats
from support.tiers import mostly_slow

from dpframe import GaussianDP, LaplaceDP, PureDP, Query
from dpframe.builtin import order_statistics
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


# --- the exact test, up to 1,000 trials

TRUE: dict[str, tuple[Any, float, Callable[..., tuple[np.ndarray, np.ndarray]]]] = {
    # the claim, δ, and how to draw n scores of each dataset, for which it is just true
    "Laplace": (PureDP(1.0), 0.0, lambda g, n: shifted(g.laplace(size=(2, n)))),
    "Laplace curve": (LaplaceDP(1.0), 0.0, lambda g, n: shifted(g.laplace(size=(2, n)))),
    "Gaussian": (GaussianDP(1.0), 1e-5, lambda g, n: shifted(g.normal(size=(2, n)))),
    "response": (PureDP(1.0), 0.0, lambda g, n: tuple(g.random((2, n)) < [[1 - KEEP], [KEEP]])),
    "geometric": (PureDP(1.0), 0.0, lambda g, n: shifted(geometric(g, n))),
}


def shifted(noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return noise[0], noise[1] + 1


def geometric(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw two-sided geometric noise with ε = 1 at sensitivity 1."""
    both = rng.geometric(1 - 1 / math.e, (2, 2, n)) * 1.0
    return np.asarray(both[0] - both[1])


def audits(name: str, n: int, repeats: int, claim: Any = None, pilot: int = 500) -> list[Any]:
    """Audit pilots and counted scores; the claim is the true one if none is given."""
    true, delta, draw = TRUE[name]
    rng, found = np.random.default_rng([n, repeats]), []
    for _ in range(repeats):
        layout = PilotGrid().bind(*(part * 1.0 for part in draw(rng, pilot)))
        counts = np.stack([bin_counts(layout["edges"], part * 1.0) for part in draw(rng, n)])
        query = Query((n, n), delta, 1 - ERROR, claim or true)
        found.append(OrderStatistics().estimate(layout, counts.astype(np.int64), query))
    return found


@pytest.mark.parametrize("repeats", [16, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("n", mostly_slow([15, 50, 300], (0,)))
@pytest.mark.parametrize("name", mostly_slow(TRUE, ("Laplace",)))
def test_true_claims_are_refuted_as_rarely_as_promised_with_few_trials(
    name: str, n: int, repeats: int
) -> None:
    found = audits(name, n, repeats)
    p_values = np.array([each.p_value for each in found])
    for level in (0.01, ERROR, 0.2):
        assert (p_values <= level).sum() <= stats.binom.isf(1e-6, repeats, level) < repeats
    assert (p_values < 0.9).any()


@pytest.mark.parametrize("n", mostly_slow([9, 15], (0,)))
def test_the_exact_test_uses_its_error_and_never_more(n: int) -> None:
    """Exact, no simulation: all counts of two-valued scores, on curves of several losses."""
    layout = PilotGrid().bind(*(np.repeat([0.0, 1.0], one) for one in ((700, 300), (300, 700))))
    query = Query((n, n), 0.0, 1 - ERROR, None)
    bounds = np.array([
        [
            OrderStatistics().estimate(layout, coins(layout, n, k, j), query).epsilon_lower
            for j in range(n + 1)
        ]
        for k in range(n + 1)
    ])  # fmt: skip
    sizes = []
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        for x in np.linspace(0, 1, 41):
            y = max(0.0, 1 - math.exp(epsilon) * x, math.exp(-epsilon) * (1 - x))
            masses = [stats.binom.pmf(np.arange(n + 1), n, rate) for rate in (x, 1 - y)]
            mass = np.multiply.outer(*masses)
            sizes += [(each * (bounds > epsilon * (1 + 1e-9))).sum() for each in (mass, mass.T)]
    assert 0.02 < max(sizes) <= ERROR


def coins(layout: Any, n: int, k: int, j: int) -> np.ndarray:
    """Count k and j ones among n scores of each dataset."""
    values = [np.repeat([0.0, 1.0], (n - ones, ones)) for ones in (k, j)]
    return np.stack([bin_counts(layout["edges"], part) for part in values]).astype(np.int64)


@pytest.mark.parametrize(
    ("name", "n", "gain"),
    mostly_slow([("Laplace", 100, 1.15), ("Laplace", 1000, 1.02), ("response", 100, 1.12)], (0, 2)),
)
def test_the_exact_test_certifies_more(
    name: str, n: int, gain: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the same draws as without it; and far p-values stay within a factor of 50."""
    claim = PureDP(0.05)
    ours = audits(name, n, 16, claim, pilot=1000)
    monkeypatch.setattr(order_statistics, "is_enumerable", lambda *_: False)
    without = audits(name, n, 16, claim, pilot=1000)
    means = [np.mean([each.epsilon_lower for each in found]) for found in (ours, without)]
    assert means[0] > gain * means[1]
    for one, other in zip(ours, without, strict=True):
        assert one.p_value <= 60 * other.p_value
