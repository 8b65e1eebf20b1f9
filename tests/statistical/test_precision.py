"""Validity of the certified bound of `precision`, and that it is worth something.

laplace-halved at dim 1 attains its claim exactly: the worst case for a false alarm. False-alarm
rate of each test: 1e-6, at fixed seeds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from support.tiers import mostly_slow
from support.vote_closed_forms import vote_rates

import dpframe
from dpframe import PureDP, Query
from dpframe.builtin.order_statistics import LIMITS_OF_RATES, Precision

ALPHA = 1e-6


def audits(epsilon: float, trials: int, repeats: int, seed: int = 1) -> list[dict[str, object]]:
    document = {
        "schema": 1,
        "audit": {"name": "coverage", "trials": trials, "repeats": repeats, "seed": seed,
                  "multiplicity": "none"},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": "laplace-halved", "params": {"epsilon": epsilon}}],
        "attack": [{"use": "majority-vote"}],
        "estimator": [{"use": "precision"}],
    }  # fmt: skip
    return dpframe.audit(document)["cells"]


# By enumeration, the mean bound of 15 trials is .166 (standard deviation .275); of separate limits,
# .007 (.045). With probability 1e-6 the mean of 2,000 is below .137, or of 60 separate ones above
# .034.
@pytest.mark.parametrize(
    ("trials", "repeats", "least"),
    [
        (15, 60, 0.034),
        (2_000, 20, 0.8),
        pytest.param(15, 2_000, 0.137, marks=pytest.mark.slow),
        pytest.param(2_000, 2_000, 0.8, marks=pytest.mark.slow),
    ],
)
def test_the_bound_exceeds_the_truth_in_at_most_five_percent(
    trials: int, repeats: int, least: float
) -> None:
    """Many audits through the whole engine, at the worst case."""
    cells = audits(1.0, trials, repeats)
    lower = np.array([cell["estimate"]["epsilon_lower"] for cell in cells])
    upper = np.array([cell["estimate"]["epsilon_upper"] for cell in cells])
    most = stats.binom.isf(ALPHA, len(cells), 0.05)
    assert (lower > 1.0).sum() <= most
    assert (upper < 1.0).sum() <= most
    # Non-vacuity: the bound is near the truth, and the interval does miss it once in hundreds.
    assert lower.mean() > least
    assert ((lower > 1.0) | (upper < 1.0)).any() or repeats < 2_000
    violated = sum(cell["verdict"] == "violated" for cell in cells)
    assert violated <= most
    assert violated == ((lower > 1.0) & [c["p_value"] <= 0.05 for c in cells]).sum()


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_p_values_are_uniform_or_larger(repeats: int) -> None:
    p_values = np.array([cell["p_value"] for cell in audits(1.0, 1_000, repeats, seed=2)])
    for level in (0.01, 0.05, 0.2, 0.5):
        assert (p_values <= level).sum() <= stats.binom.isf(ALPHA, len(p_values), level)
    assert (p_values < 0.5).any()


def naive_limit(counts: int, n: int, error: float) -> float:
    """The p at which Pr[Bin(n, p) ≤ counts] is the error, by bisection on the binomial itself."""
    if counts == n:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if stats.binom.cdf(counts, n, middle) > error else (low, middle)
    return high


@pytest.mark.parametrize(
    "ones",
    [(0, 1200), (3, 160), (160, 3), (600, 600), (1200, 0), (1199, 1200), (0, 0), (1200, 1200)],
)
def test_four_limits_each_at_a_quarter_of_the_error(ones: tuple[int, int]) -> None:
    """Against limits from the binomial itself: a planted a → 2a anywhere fails here."""
    n, error = 1200, 0.05  # fewer trials are tested together
    counts = np.array([[n - k, k] for k in ones])
    found = Precision().estimate((), counts, Query((n, n), 0.0, 1 - error, PureDP(1.0)))
    high = {(g, d): naive_limit(counts[d][g], n, error / 4) for g in (0, 1) for d in (0, 1)}
    low = {(g, d): 1 - high[1 - g, d] for g in (0, 1) for d in (0, 1)}
    ratios = [low[g, d] / high[g, 1 - d] for g in (0, 1) for d in (0, 1)]
    assert found.epsilon_lower == pytest.approx(max(0.0, math.log(max(*ratios, 1e-300))), abs=1e-9)
    caps = [
        math.inf if low[g, 1 - d] <= 1e-12 else math.log(high[g, d] / low[g, 1 - d])
        for g in (0, 1)
        for d in (0, 1)
    ]
    assert found.epsilon_upper == pytest.approx(max(0.0, *caps), abs=1e-6)
    assert LIMITS_OF_RATES == 4


@pytest.mark.parametrize("rate", mostly_slow([0.001, 0.1, 0.5, 0.9, 0.999], (1, 4)))
@pytest.mark.parametrize("dataset", [0, 1])
def test_each_of_the_four_limits_misses_at_its_own_level(rate: float, dataset: int) -> None:
    """Exact, no simulation: the probability that a limit used by the boxes misses its rate."""
    n, error = 1001, 0.2
    query = Query((n, n), 0.0, 1 - error, None)
    mass = stats.binom.pmf(np.arange(n + 1), n, rate)
    misses = {"ones": 0.0, "zeros": 0.0}
    for k in np.flatnonzero(mass > 1e-12):
        counts = np.array([[n // 2, n - n // 2], [n // 2, n - n // 2]])
        counts[dataset] = [n - k, k]
        (fpr, fnr), (flipped_fpr, flipped_fnr) = Precision().estimate((), counts, query).tradeoff
        ones_limit, zeros_limit = (fpr, flipped_fpr) if dataset == 0 else (flipped_fnr, fnr)
        misses["ones"] += mass[k] * (ones_limit < rate)
        misses["zeros"] += mass[k] * (zeros_limit < 1 - rate)
    for miss in misses.values():
        assert miss <= error / 4 * (1 + 1e-9)
    if 0.01 < rate < 0.99:
        assert max(misses.values()) > error / 4 * 0.7  # discreteness leaves some of it unused


@pytest.mark.parametrize(
    ("epsilon", "share"),
    mostly_slow(
        [(0.1, 0.83), (0.2, 0.9), (0.5, 0.9), (1.0, 0.9), (2.0, 0.9), (5.0, 0.9), (10.0, 0.83)],
        (0, 3, 6),
    ),
)
def test_tightness_at_100_000_trials(epsilon: float, share: float) -> None:
    """The mean bound over counts drawn from the closed form."""
    n, rng = 100_000, np.random.default_rng(11)
    ones = np.stack([rng.binomial(n, p, 300) for p in vote_rates("laplace-halved", epsilon, 1)], 1)
    query = Query((n, n), 0.0, 0.95, None)
    lower = [
        Precision().estimate((), np.stack([n - row, row], axis=1), query).epsilon_lower
        for row in ones
    ]
    assert np.mean(lower) >= share * epsilon
    assert np.mean(lower) <= epsilon


@pytest.mark.parametrize("delta", [1e-3, 0.05])
def test_delta_is_taken_off_every_numerator(delta: float) -> None:
    n, ones = 1000, (100, 400)
    counts = np.array([[n - k, k] for k in ones])
    found = Precision().estimate((), counts, Query((n, n), delta, 0.95, None))
    rate = {(g, d): counts[d][g] / n for g in (0, 1) for d in (0, 1)}
    point = max(math.log((rate[g, d] - delta) / rate[g, 1 - d]) for g in (0, 1) for d in (0, 1))
    assert found.epsilon == pytest.approx(point)
    plain = Precision().estimate((), counts, Query((n, n), 0.0, 0.95, None))
    assert found.epsilon_lower < found.epsilon < found.epsilon_upper
    assert found.epsilon_lower < plain.epsilon_lower
    assert found.epsilon_upper < plain.epsilon_upper
