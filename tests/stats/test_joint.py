"""The joint test of two error rates: exact coverage by enumeration, and what it gains."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import special, stats
from support.tiers import mostly_slow

from dpframe.interfaces.estimator import epsilon_of
from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper
from dpframe.stats.joint import CAP, bonferroni, holm, joint_staircases

WEIGHTS = (0.5, 0.8, 0.95, 0.995)


def outside(corners: np.ndarray, x: np.ndarray, tpr: np.ndarray) -> np.ndarray:
    """True if (x, 1 − tpr) lies outside a union of boxes; corners [..., corners, 2]."""
    inside = (x[..., None] <= corners[..., 0]) & (1 - tpr[..., None] <= corners[..., 1])
    return ~inside.any(axis=-1)


@functools.cache
def regions(n: int, m: int, weight: float, error: float) -> tuple[np.ndarray, ...]:
    """Every pair of counts, and its region."""
    false, true = (grid.ravel() for grid in np.meshgrid(np.arange(n + 1), np.arange(m + 1)))
    return false, true, joint_staircases(false, n, true, m, weight, error)


def miss_probability(n: int, m: int, x: float, p: float, weight: float, error: float) -> float:
    """Pr[(x, p) is outside the region], summed over every pair of counts."""
    false, true, corners = regions(n, m, weight, error)
    missed = outside(corners, np.full(false.shape, x), np.full(false.shape, p))
    return float(np.sum(stats.binom.pmf(false, n, x) * stats.binom.pmf(true, m, p) * missed))


RATES = [(x, p) for x in (0.02, 0.1, 0.3, 0.5) for p in (0.1, 0.4, 0.7, 0.95, 1.0)]


@pytest.mark.parametrize("weight", WEIGHTS)
def test_coverage_at_fixed_events(weight: float) -> None:
    """Exact: no simulation, so no false alarm."""
    error = 0.1
    missed = [miss_probability(40, 34, x, p, weight, error) for x, p in RATES]
    assert max(missed) <= error
    assert max(missed) >= 0.5 * error  # and not much less than it may


def test_twice_the_error_is_noticed() -> None:
    missed = [miss_probability(40, 40, x, p, 0.8, 0.2) for x, p in RATES]
    assert max(missed) > 0.1


def rank_miss_probability(
    n: int, m: int, rank: int, power: float, weight: float, error: float
) -> float:
    """The same for the event beyond a rank, where TPR = FPR^power, by quadrature over FPR."""
    quantiles = (np.arange(2000) + 0.5) / 2000
    x = stats.beta.ppf(quantiles, rank, n + 1 - rank)
    p = x**power
    true = np.arange(m + 1)
    corners = joint_staircases(np.full(m + 1, rank - 1), n, true, m, weight, error)
    missed = outside(corners[None], x[:, None] + 0 * true, p[:, None] + 0 * true)
    return float(np.mean(np.sum(stats.binom.pmf(true, m, p[:, None]) * missed, axis=1)))


@pytest.mark.parametrize("rank", [1, 3, 10])
@pytest.mark.parametrize("power", mostly_slow([0.1, 0.5, 1.0], (1,)))
def test_coverage_beyond_ranks(rank: int, power: float) -> None:
    missed = [rank_miss_probability(25, 25, rank, power, w, 0.1) for w in WEIGHTS]
    assert max(missed) <= 0.1 + 1e-3  # 1e-3: two nodes of the quadrature
    assert max(missed) >= 0.05


def test_a_rank_counted_as_its_own_number_would_be_valid_and_one_less_would_not() -> None:
    """The limit beyond rank r is that of r − 1 counts: with r − 2 it fails."""
    rank, n = 3, 25
    x = stats.beta.ppf((np.arange(4000) + 0.5) / 4000, rank, n + 1 - rank)
    for false, valid in ((rank - 1, True), (rank - 2, False)):
        limit = clopper_pearson_upper(false, n, 0.05)
        assert (np.mean(x > limit) <= 0.05 + 1e-3) == valid


@given(
    n=st.integers(1, 3000),
    m=st.integers(1, 3000),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    weight=st.floats(0.5, 0.995),
    error=st.floats(1e-12, 0.5),
)
def test_region_is_finite_ordered_and_shrinks(
    n: int, m: int, shares: tuple[float, float], weight: float, error: float
) -> None:
    false, true = round(shares[0] * n), round(shares[1] * m)
    small, large = (joint_staircases(false, n, true, m, weight, a)[0] for a in (2 * error, error))
    assert np.isfinite(large).all()
    assert ((large >= 0) & (large <= 1)).all()
    assert (np.diff(large[:, 0]) >= -1e-12).all()
    assert (np.diff(large[:, 1]) <= 1e-12).all()
    # The regions are nested; the staircases that cover them only up to their steps.
    for delta in (0.0, 1e-5, 0.1):
        assert epsilon_of(small[None], delta) >= epsilon_of(large[None], delta) - 0.05


def test_within_the_caps() -> None:
    """The region lies in the box of the two caps, and reaches the point estimate."""
    corners = joint_staircases(9, 1000, 300, 1000, 0.9, 0.05)[0]
    assert corners[:, 0].max() == pytest.approx(float(clopper_pearson_upper(9, 1000, 0.005)))
    assert corners[:, 1].max() == pytest.approx(1 - float(clopper_pearson_lower(300, 1000, 0.005)))
    assert not outside(corners, np.array(0.009), np.array(0.3))


def naive_epsilon(false: int, n: int, true: int, m: int, weight: float, error: float) -> float:
    """Minimises ln(p/q) along the edge of the region on a fine grid, from its definition."""
    z = np.linspace(-6, 6, 200_001)
    cap, critical = stats.norm.isf(0.1 * error), stats.norm.isf(0.8 * error)
    z_true = np.minimum((critical - weight * z) / math.sqrt(1 - weight**2), cap)
    along = (z <= cap) & (z_true > -6)
    q = special.betainccinv(false + 1, n - false, stats.norm.sf(z[along]))
    p = special.betaincinv(true, m - true + 1, stats.norm.sf(z_true[along]))
    return float(np.log(p / q).min())


@pytest.mark.parametrize(("false", "true"), mostly_slow([(0, 40), (9, 100), (100, 400)], (1,)))
def test_the_staircase_loses_little(false: int, true: int) -> None:
    corners = joint_staircases(false, 1000, true, 1000, 0.95, 0.05)
    exact = naive_epsilon(false, 1000, true, 1000, 0.95, 0.05)
    assert exact - 0.02 <= epsilon_of(corners, 0.0) <= exact


@pytest.mark.parametrize(
    ("false", "true", "weight"), [(9, 100, 0.95), (30, 120, 0.9), (2, 250, 0.98)]
)
def test_tighter_than_two_intervals(false: int, true: int, weight: float) -> None:
    joint = epsilon_of(joint_staircases(false, 1000, true, 1000, weight, 0.05), 1e-5)
    fpr = float(clopper_pearson_upper(false, 1000, 0.025))
    tpr = float(clopper_pearson_lower(true, 1000, 0.025))
    assert joint > math.log((tpr - 1e-5) / fpr)


def test_edges() -> None:
    for false, true in ((0, 0), (0, 1), (1, 0), (1, 1)):
        for error in (1.0, 0.05, 1e-300):
            assert np.isfinite(joint_staircases(false, 1, true, 1, 0.9, error)).all()
    assert epsilon_of(joint_staircases(10**7, 10**7, 0, 10**7, 0.9, 0.05), 0.0) == 0
    assert epsilon_of(joint_staircases(0, 10**9, 10**9, 10**9, 0.9, 0.05), 0.0) > 19


@pytest.mark.parametrize("weight", [0.02, 0.5, 0.98])
def test_the_staircase_covers_all_pairs_that_are_not_rejected(weight: float) -> None:
    false, n, true, m, error = 50, 1000, 400, 1000, 1e-3
    (corners,) = joint_staircases([false], [n], [true], [m], [weight], error)
    x, y = (
        part.ravel() for part in np.meshgrid(np.geomspace(1e-3, 0.2, 60), np.linspace(0.5, 0.7, 60))
    )
    z = -special.ndtri(special.bdtr(false, n, x))
    z_true = -special.ndtri(special.bdtrc(true - 1, m, 1 - y))
    cap, critical = -special.ndtri(CAP * error), -special.ndtri((1 - 2 * CAP) * error)
    kept = (z < cap) & (z_true < cap)
    kept &= weight * z + np.sqrt(1 - weight**2) * z_true < critical
    covered = ((x[:, None] <= corners[:, 0]) & (y[:, None] <= corners[:, 1])).any(axis=1)
    assert covered[kept].all()
    assert kept.any()
    assert not covered.all()
    assert (corners > 0).all()


levels = st.lists(st.floats(0, 1), min_size=0, max_size=12)


def naive_rejections(p_values: list[float], m: int, alpha: float) -> set[int]:
    """Step down: reject the smallest while it is at most α/(m − number rejected)."""
    rejected: set[int] = set()
    for index in sorted(range(len(p_values)), key=lambda i: p_values[i]):
        if p_values[index] * (m - len(rejected)) > alpha:
            break
        rejected.add(index)
    return rejected


@given(levels, st.integers(0, 5), st.floats(0.001, 0.5))
def test_rejects_what_the_definition_rejects(p: list[float], more: int, alpha: float) -> None:
    m = len(p) + more
    adjusted = holm(p, m)
    assert {i for i in range(len(p)) if adjusted[i] <= alpha} == naive_rejections(p, m, alpha)


@given(levels, st.integers(0, 5))
def test_is_at_most_bonferroni(p: list[float], more: int) -> None:
    m = len(p) + more
    assert np.all(holm(p, m) <= bonferroni(p, m))
    assert np.all(holm(p, m) >= np.asarray(p))


def test_vector() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005], 4) == pytest.approx([0.03, 0.06, 0.06, 0.02])
