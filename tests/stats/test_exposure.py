"""Exposure against a naive rank, and what it means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from dpframe.builtin.order_statistics import exposure_note
from dpframe.stats.joint import threshold_epsilon
from dpframe.stats.one_run import binned_exposures, exposure_epsilon

some_scores = hnp.arrays(
    np.float64,
    st.integers(1, 30),
    elements=st.sampled_from([math.nan, -math.inf, -2.0, 0.0, 0.5, 3.0, math.inf]),
)


def below(a: float, b: float) -> bool:
    """NaN is an atom below −inf."""
    return a < b or (math.isnan(a) and not math.isnan(b))


def exposures(scores: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return log₂ n − log₂ rank of each score among n reference scores [Carlini2019].

    The rank is 1 plus the number of reference scores at least as large, but at most n.
    """

    def sortable(given: np.ndarray) -> np.ndarray:
        values = np.where(given == -np.inf, np.finfo(np.float64).min, given)
        return np.where(np.isnan(values), -np.inf, values)

    n = len(reference)
    above = n - np.searchsorted(np.sort(sortable(reference)), sortable(scores), side="left")
    return math.log2(n) - np.log2(np.minimum(above + 1, n))


@given(some_scores, some_scores)
def test_is_a_rank_in_bits(scores: np.ndarray, reference: np.ndarray) -> None:
    n = len(reference)
    found = exposures(scores, reference)
    for score, exposure in zip(scores, found, strict=True):
        rank = min(n, 1 + sum(not below(other, score) for other in reference))
        assert exposure == pytest.approx(math.log2(n / rank), abs=1e-12)
    assert np.all((found >= 0) & (found <= math.log2(n) + 1e-12))


@given(some_scores, some_scores)
def test_bins_of_single_values_give_the_same(scores: np.ndarray, reference: np.ndarray) -> None:
    values = np.array([-math.inf, -2.0, 0.0, 0.5, 3.0, math.inf])

    def binned(of: np.ndarray) -> np.ndarray:
        bins = np.where(np.isnan(of), 0, 1 + np.searchsorted(values, of))
        return np.bincount(bins, minlength=7)

    exposure, weight = binned_exposures(np.stack([binned(reference), binned(scores)]))
    expanded = np.sort(np.repeat(exposure, weight.astype(int)))
    assert expanded == pytest.approx(np.sort(exposures(scores, reference)), abs=1e-12)


def test_without_a_leak_one_bit_is_chance() -> None:
    rng = np.random.default_rng(0)
    found = exposures(rng.normal(size=100_000), rng.normal(size=100_000))
    assert np.median(found) == pytest.approx(1, abs=0.02)
    assert found.mean() == pytest.approx(math.log2(math.e), abs=0.02)
    assert exposure_epsilon(1.0) == 0


def test_the_loss_is_that_of_the_median_as_threshold() -> None:
    """Jagielski's link: TPR ½ and FPR 2^−exposure in equation 6.2."""
    rng = np.random.default_rng(1)
    reference, scores = rng.normal(size=50_001), rng.normal(size=50_001) + 2
    median = float(np.median(exposures(scores, reference)))
    fpr = float(np.mean(reference >= np.median(scores)))
    for delta in (0.0, 1e-5, 0.1):
        assert exposure_epsilon(median, delta) == pytest.approx(
            float(threshold_epsilon(fpr, 0.5, delta)), abs=1e-3
        )
    assert exposure_epsilon(5.0) == pytest.approx(4 * math.log(2))


@pytest.mark.parametrize("delta", [0.5, 0.999])
def test_nothing_is_left_above_a_half(delta: float) -> None:
    assert exposure_epsilon(40.0, delta) == 0


def test_note() -> None:
    rng = np.random.default_rng(2)
    edges = np.linspace(-4, 6, 1000)
    draws = (rng.normal(size=4096), rng.normal(size=4096) + 1)
    counts = np.stack([np.bincount(np.digitize(s, edges), minlength=1001) for s in draws])
    note = exposure_note(counts, 1e-5)
    assert "of at most 12 (" in note
    assert "\n" not in note
    exact = exposures(draws[1], draws[0])
    assert f"median {np.median(exact):.2f}"[:10] == note[note.index("median") :][:10]
    # One score on each side, and all in one bin: no exposure, no error.
    assert "median 0 bits" in exposure_note(np.array([[1, 0], [1, 0]]))
    assert "median 0 bits" in exposure_note(np.array([[0, 500], [0, 500]]))
