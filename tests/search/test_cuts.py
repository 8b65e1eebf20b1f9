"""Cuts reach into both tails, and counts between them are counts above them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dpframe.builtin.answers import _interval
from dpframe.count.events import TailCuts, above, in_words
from dpframe.interfaces.statistic import DecisionCounts
from dpframe.search.leaks import without_values


def bound(scores: np.ndarray, number: int = 8) -> np.ndarray:
    return np.asarray(TailCuts(number).bind(scores[::2], scores[1::2]))


def test_cuts_are_quantiles_of_both_tails() -> None:
    cuts = bound(np.arange(1000.0)[np.random.default_rng(0).permutation(1000)])
    assert list(cuts) == sorted(cuts)
    assert (cuts[0], cuts[-1]) == (0.0, 999.0)
    assert np.sum(cuts < 20) >= 2
    assert np.sum(cuts > 980) >= 2


def test_few_values_have_a_cut_each() -> None:
    assert set(bound(np.array([0.0, 2.0, 2.0, 5.0, np.nan, 0.0]))) == {0.0, 2.0, 5.0}
    assert list(bound(np.full(4, np.nan), 3)) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("scores", [[0.0, 1.0, 1.0, 3.0, np.nan, -np.inf, np.inf], [2.0] * 7])
def test_what_is_above_is_counted(scores: list[float]) -> None:
    statistic, drawn = TailCuts(8), np.array(scores, np.float32)
    layout = np.sort(np.resize(np.unique(drawn[np.isfinite(drawn)]), 8))
    counts = statistic.zero(layout)
    for dataset, keep in ((0, np.ones(7, bool)), (1, np.arange(7) < 3)):
        counts = statistic.update(layout, counts, jnp.int32(dataset), jnp.array(drawn), keep)
    found = above(statistic, counts)
    assert found.tolist() == [
        [int(np.sum(drawn >= cut)) for cut in layout],
        [int(np.sum(drawn[:3] >= cut)) for cut in layout],
    ]


def test_decisions_have_one_cut() -> None:
    counts = np.array([[7, 3], [4, 6]])
    assert above(DecisionCounts(), counts).tolist() == [[3], [6]]
    assert in_words("decision", 0.0, is_above=False) == "answered D"
    assert in_words("score", 1.0, is_above=True) == "scores 1 or more"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_just_after_a_short_number_are_told_by_that_number(dtype: Any) -> None:
    zero, one = (np.nextafter(dtype(x), dtype(2)) for x in (0, 1))
    assert in_words("score", zero, is_above=False) == "scores at most 0"
    assert in_words("score", one, is_above=True) == "scores more than 1"
    assert in_words("score", dtype(-0.0), is_above=True) == "scores 0 or more"
    assert in_words("score", dtype(0.1), is_above=False) == "scores less than 0.1"
    assert in_words("score", np.finfo(dtype).min, is_above=False) == "scores at most -inf"
    assert in_words("score", dtype(np.inf), is_above=True) == "scores inf or more"


@pytest.mark.parametrize(
    ("edges", "text"),
    [
        ([None, 0.0], "at most 0"),
        ([0.0, None], "more than 0"),
        ([0.0, 2.0], "more than 0 and at most 2"),
        ([-0.0, 2.5, False], "from 0 to below 2.5"),
        ([0.5, None, False], "0.5 or more"),
    ],
)
def test_intervals_of_answers_name_no_subnormal_number(edges: list[Any], text: str) -> None:
    exact = edges[2:] == [False]
    ends = [np.nan if x is None else x if exact else np.nextafter(x, np.inf) for x in edges[:2]]
    first, last = int(edges[0] is not None), 2 if edges[1] is not None else 4
    assert _interval(np.array(ends), first, last, 2) == text
    name = f"the output is {_interval(np.array(ends), first, last, 2)}"
    assert without_values(name) == "the output is #"
