"""Bins that a pilot fixes, and the histograms that the counts make."""

from __future__ import annotations

import json
import math
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from dpframe.builtin.events import PilotGrid
from dpframe.builtin.histogram import FINE, PilotBins, first_bins, grouped
from dpframe.interfaces.statistic import count_scores
from dpframe.stats.histograms import NORMAL, bin_counts

DEFAULT = PilotBins(None, None, None)


def normal(n: int, shift: float = 0.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1, n).astype(np.float32)


def counted(layout: Any, *scores: np.ndarray) -> np.ndarray:
    return np.stack([bin_counts(layout["edges"], part) for part in scores]).astype(np.int64)


def test_a_number_of_bins_and_a_range() -> None:
    """B_1 = (−∞, a + h), …, B_k = [b − h, ∞)."""
    statistic = PilotBins(5, -1.0, 4.0)
    scores = np.array([-np.inf, -9, -0.5, 0.0, 0.5, 1.0, 2.9, 3.0, 99, np.inf], np.float32)
    layout = statistic.bind(normal(50), normal(50))
    assert layout["edges"].tolist() == [0, 1, 2, 3]
    found = grouped(layout, counted(layout, scores, scores[:1]), (10, 1))
    assert found.counts.tolist() == [[3, 2, 1, 1, 3], [1, 0, 0, 0, 0]]
    assert found.bins == 5
    assert found.trials.tolist() == [10, 1]
    assert found.q.tolist() == [0.3, 0.2, 0.1, 0.1, 0.3]


def test_the_range_comes_from_the_pilot() -> None:
    pilot = np.linspace(0, 1, 10_001, dtype=np.float32)
    layout = PilotBins(4, None, None).bind(pilot, pilot + 1)
    assert layout["edges"] == pytest.approx([0.5, 1.0, 1.5], abs=2e-3)
    layout = PilotBins(4, 0.0, None).bind(pilot - 9, pilot - 9)
    assert (layout["edges"] == 0).all()  # the pilot ends where the range begins
    assert grouped(layout, counted(layout, pilot, pilot - 1), (1, 1)).bins == 2


def test_scotts_width_for_the_trials_that_are_asked_about() -> None:
    layout = DEFAULT.bind(normal(20_000), normal(20_000, seed=1))
    edges = layout["edges"].astype(np.float64)
    assert len(edges) == FINE + 1
    for trials in (10**3, 10**4, 10**5, 10**6):
        starts = first_bins(layout, (trials, trials))
        width = np.diff(edges[starts[1:] - 2]).mean()
        assert width == pytest.approx(NORMAL * trials ** (-1 / 3), rel=0.1)
    assert len(first_bins(layout, (10**30, 10**30))) == FINE + 2
    assert len(first_bins(layout, (1, 1))) == 3


def test_few_values_get_a_bin_each() -> None:
    """A bin below the lowest, and no bin for the padding."""
    rng = np.random.default_rng(0)
    pilot = rng.choice(np.array([0.0, 1.0, 1000.0], np.float32), 100)
    for statistic in (DEFAULT, PilotBins(20, None, None)):
        layout = statistic.bind(pilot, pilot)
        found = grouped(layout, counted(layout, pilot, np.array([1.0, np.inf, -1.0])), (100, 3))
        assert found.bins == 4
        assert found.counts[1].tolist() == [1, 0, 1, 1]
    few = grouped(
        b := PilotBins(3, None, None).bind(pilot, pilot), counted(b, pilot, pilot), (9, 9)
    )
    assert few.bins == 3  # no more than were asked for
    once = DEFAULT.bind(normal(10), normal(10))
    assert once["deviation"] > 0  # few values because there are few scores


def test_nan_has_a_bin_if_the_pilot_met_one() -> None:
    scores = np.array([np.nan, -1.0, 0.5], np.float32)
    plain, odd = normal(200), np.append(normal(199), np.float32(np.nan))
    without, with_nan = (PilotBins(3, 0.0, 3.0).bind(plain, pilot) for pilot in (plain, odd))
    found = grouped(without, counted(without, scores, scores), (3, 3))
    assert found.counts[0].tolist() == [3, 0, 0]  # NaN is an atom below everything else
    found = grouped(with_nan, counted(with_nan, scores, scores), (3, 3))
    assert found.counts[0].tolist() == [1, 2, 0, 0]  # and is paid for as a bin


values = st.floats(allow_nan=True, allow_infinity=True, width=32)
arrays = hnp.arrays(np.float32, st.integers(1, 40), elements=values)


@given(
    arrays, arrays, st.sampled_from([DEFAULT, PilotBins(2, None, None), PilotBins(9, -1.0, None)])
)
def test_any_pilot_gives_bins(pilot0: np.ndarray, pilot1: np.ndarray, statistic: PilotBins) -> None:
    layout = statistic.bind(pilot0, pilot1)
    edges = layout["edges"]
    assert edges.dtype == np.float32
    assert edges.shape == ((FINE + 1,) if statistic.bins is None else (statistic.bins - 1,))
    assert not np.isnan(edges).any()
    assert (edges[1:] >= edges[:-1]).all()
    assert math.isfinite(layout["deviation"])
    found = grouped(layout, layout["pilot"], (100, 100))
    assert found.counts.sum(axis=1).tolist() == [len(pilot0), len(pilot1)]
    assert 2 <= found.bins <= FINE + 3


@pytest.mark.parametrize("statistic", [DEFAULT, PilotBins(9, None, None)])
@pytest.mark.parametrize("value", [0.1, -3.3, 1e308])
def test_edges_of_a_narrow_range_are_in_order(value: float, statistic: PilotBins) -> None:
    """Edges that are rounded both ways would make counts negative, and a bound of any size."""
    pilot = np.array([value, np.nextafter(value, np.inf)])
    edges = statistic.bind(pilot, pilot[:1])["edges"]
    assert edges.dtype == np.float64
    assert (edges[1:] >= edges[:-1]).all()
    assert (bin_counts(edges, pilot) >= 0).all()


def test_bins_on_the_device_and_on_the_host_agree() -> None:
    pilot = normal(3000), normal(3000, 1.0, 1)
    for statistic in (DEFAULT, PilotBins(20, None, None)):
        layout = statistic.bind(*pilot)

        class Bound(PilotBins):
            def bind(self, *_: Any, _layout: Any = layout) -> Any:
                return _layout

        scores = normal(4000, seed=2), normal(4000, 1.0, 3)
        _, counts, trials = count_scores(
            Bound(statistic.bins, None, None), scores, np.random.default_rng(0)
        )
        assert counts.sum(axis=1).tolist() == list(trials)
        assert (counts <= counted(layout, *scores)).all()


def test_equal_statistics_share_a_pass_and_the_record_can_replay() -> None:
    assert PilotBins(20, None, 1.0) == PilotBins(20, None, 1.0)
    assert hash(PilotBins(20, None, 1.0)) == hash(PilotBins(20, None, 1.0))
    layout = DEFAULT.bind(normal(300), normal(300))
    described = json.loads(json.dumps(DEFAULT.describe(layout)))
    assert np.array_equal(np.array(described["edges"], np.float32), layout["edges"])
    assert np.array_equal(described["pilot"], layout["pilot"])
    assert described["deviation"] == layout["deviation"]
    assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(layout))


SCORES = hnp.arrays(np.float32, 32, elements=st.floats(width=32, allow_subnormal=False))


@given(SCORES, hnp.arrays(bool, 32), st.integers(0, 1))
def test_the_host_counts_as_a_program_does(
    scores: np.ndarray, keep: np.ndarray, dataset: int
) -> None:
    statistic, grid = (
        PilotGrid(),
        np.array([-np.inf, -1, 0, 0, np.nan_to_num(scores[0]), np.inf, np.inf]),
    )
    layout = {"edges": np.sort(grid).astype(np.float32)}
    given = np.ones((2, 9), np.int32), np.int32(dataset), scores, keep
    host, traced = (add(layout, *given) for add in (statistic.update, TRACED))
    assert host.sum() == 18 + keep.sum()
    np.testing.assert_array_equal(host, traced)


TRACED = jax.jit(PilotGrid().update)
