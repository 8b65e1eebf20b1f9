"""The upper limit of every cut of a score agrees with loops over gaps and over cuts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpframe import clopper_pearson_lower, clopper_pearson_upper
from dpframe.builtin.event_choice import every_cut_shows, possible
from dpframe.stats.histograms import bin_counts

ERROR = 0.1


def limits(count: int, n: int) -> tuple[float, float]:
    if count in (0, n) and n == 0:
        return 0.0, 1.0
    low = float(clopper_pearson_lower(count, n, ERROR / 2))
    return low, float(clopper_pearson_upper(count, n, ERROR / 2))


def loss(true: float, false: float, delta: float) -> float:
    if true <= delta:
        return 0.0
    return math.log((true - delta) / false) if false > 0 else math.inf


def naive(counts: np.ndarray, edges: np.ndarray, delta: float) -> float:
    """Every gap between two edges, every direction, both datasets, one by one."""
    bins = counts.shape[1]
    below = [[int(counts[d, :j].sum()) for j in range(bins + 1)] for d in (0, 1)]
    ends = np.concatenate([[-np.inf], edges, [np.inf]]).astype(edges.dtype)

    def of(dataset: int, cut: int, top: bool) -> tuple[float, float]:
        n = below[dataset][-1]
        if cut in (0, bins):
            whole = 1.0 if (cut == 0) == top else 0.0
            return whole, whole
        return limits(n - below[dataset][cut] if top else below[dataset][cut], n)

    found = [0.0]
    for j in range(1, bins):
        gaps = [(j, j)]
        first, last = ends[j - 1], ends[j]
        if j == bins - 1:
            several = first < np.inf
        else:
            several = np.nextafter(first, np.array(np.inf, edges.dtype)) < last
        if several:
            gaps.append((j, j + 1))
        for low, up in gaps:
            for says in (0, 1):
                other = 1 - says
                found.append(loss(of(says, low, True)[1], of(other, up, True)[0], delta))
                found.append(loss(of(says, up, False)[1], of(other, low, False)[0], delta))
    return max(found)


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_largest_of_all_gaps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = [rng.normal(loc, size=rng.integers(20, 400)).astype(np.float32) for loc in (0, 0.7)]
    if seed % 3 == 0:
        scores = [np.round(values) for values in scores]
    if seed % 4 == 0:
        scores = [np.concatenate([values, [np.nan, -np.inf, np.inf]]) for values in scores]
    edges = np.sort(rng.choice(np.concatenate(scores), 6))
    edges = np.unique(edges[np.isfinite(edges)])
    if seed % 2:
        edges = np.concatenate([[np.finfo(np.float32).min], edges, [np.inf, np.inf]])
    edges = edges.astype(np.float32)
    counts = np.stack([bin_counts(edges, values) for values in scores]).astype(np.int64)
    for delta in (0.0, 0.05, 0.3, 0.9):
        expected = naive(counts, edges, delta)
        assert every_cut_shows(counts, edges, delta, ERROR) == pytest.approx(expected, rel=1e-9)


def test_between_two_edges_anything_may_have_happened() -> None:
    """The same counts on both sides; cuts at the edges alone would show next to nothing."""
    edges = np.array([0.0, 1.0, 2.0, np.inf], np.float32)
    half = np.array([[0, 0, 40_000, 60_000, 0, 0]] * 2)
    assert every_cut_shows(half, edges, 0.01, 0.05) == math.inf
    assert every_cut_shows(half, edges, 0.7, 0.05) < 0.1  # no bin has so much


def test_an_atom_cannot_be_cut() -> None:
    """Two infinities and NaN: every bin holds one value, so its counts tell all there is."""
    edges = np.array([np.finfo(np.float32).min, np.inf], np.float32)
    counts = np.array([[30_000, 40_000, 0, 30_000], [30_000, 40_000, 0, 30_000]])
    assert every_cut_shows(counts, edges, 0.01, 0.05) < 0.05
    counts[:, 1:3] += [-500, 500]
    assert every_cut_shows(counts, edges, 0.01, 0.05) < 0.1  # every cut is rarer than δ
    counts[:, 1:3] += [-19_500, 19_500]
    assert 0.5 < every_cut_shows(counts, edges, 0.01, 0.05) < 1


def test_it_is_possible_only_where_what_never_happened_is_rarer_than_delta() -> None:
    assert not possible((10**9, 10**9), 0.0, 0.05)
    assert not possible((0, 10**9), 0.1, 0.05)
    assert not possible((10**5, 10**5), 1e-5, 0.05)
    assert possible((10**6, 10**6), 1e-5, 0.05)
    assert not possible((10**6, 10**5), 1e-5, 0.05)
    edges = np.array([np.finfo(np.float32).min, 0.0, np.inf], np.float32)
    for n, delta in ((10**5, 1e-5), (10**4, 1e-4)):
        counts = np.array([[0, 0, n // 2, n - n // 2, 0]] * 2)
        assert not possible((n, n), delta, 0.05)
        assert every_cut_shows(counts, edges, delta, 0.05) == math.inf
