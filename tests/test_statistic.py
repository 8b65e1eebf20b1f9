"""Counts of scores in bins, beside NumPy's search."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from dpframe import BinCounts


@dataclasses.dataclass(frozen=True)
class Bins(BinCounts):
    """Its layout is the edges."""


@pytest.mark.parametrize("number", [0, 1, 2, 3, 15, 16, 100, 1023, 1024])
def test_a_bin_holds_what_reaches_its_edge_and_not_the_next(number: int) -> None:
    rng = np.random.default_rng(number)
    edges = np.sort(np.round(rng.laplace(size=number), 1).astype(np.float32))
    edges[: number // 8], edges[number - number // 8 :] = -np.inf, np.inf  # and repeated ones
    largest = np.finfo(np.float32).max
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, largest, -largest, *edges]
    scores = np.concatenate([np.round(rng.laplace(size=500), 1), special]).astype(np.float32)
    keep = rng.random(len(scores)) < 0.9

    bins = np.where(np.isnan(scores), 0, 1 + np.searchsorted(edges, scores, side="right"))
    expected = np.zeros((2, number + 2), int)
    expected[1] = np.bincount(bins[keep], minlength=number + 2)

    statistic = Bins()
    update = jax.jit(statistic.update)
    found = update(edges, statistic.zero(edges), np.int32(1), scores, keep)
    assert np.array_equal(found, expected)
