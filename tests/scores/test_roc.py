"""The ROC of given scores: what every threshold gives, counted; few thresholds of many scores."""

from __future__ import annotations

import numpy as np
import pytest

from dpframe.scores.sides import roc


def test_every_threshold_counts_ties_and_nan_and_infinities() -> None:
    outside = np.array([0.0, 1.0, 1.0, np.nan])
    inside = np.array([1.0, 2.0, np.inf, np.nan, -1.0])
    expected = {(0.0, 0.0), (1.0, 1.0)}
    for threshold in (np.inf, 2.0, 1.0, 0.0, -1.0):
        expected.add((float((outside >= threshold).mean()), float((inside >= threshold).mean())))
    found = [tuple(point) for point in roc(outside, inside)]
    assert found == sorted(expected)


def test_decisions_have_one_threshold() -> None:
    found = roc(np.array([True, False, False, False]), np.array([True, True, False]))
    assert found == [[0.0, 0.0], [0.25, 2 / 3], [1.0, 1.0]]


@pytest.mark.parametrize("kinds", [(np.float64, np.float64), (np.float32, np.float64)])
def test_of_many_scores_rare_errors_are_resolved(kinds: tuple[type, type]) -> None:
    rng = np.random.default_rng(5)
    outside, inside = (
        rng.normal(shift, size=30_000).astype(kind)
        for shift, kind in zip((0, 1), kinds, strict=True)
    )
    found = np.array(roc(outside, inside))
    assert len(found) < 1500
    assert (np.diff(found, axis=0) >= 0).all()
    for fpr, tpr in found[1:50]:
        threshold = np.sort(outside)[::-1][max(round(fpr * 30_000) - 1, 0)]
        if fpr:
            assert tpr >= (inside >= threshold).mean()
    rates = found[:, 0]
    assert {1 / 30_000, 2 / 30_000, 3 / 30_000} <= set(rates.tolist())
    assert np.diff(rates).max() < 0.02
    missed = np.rint(30_000 * (1 - found[:, 1]))
    assert {1, 2, 3} <= set(missed.tolist())  # rare false negatives too


def test_an_empty_side_has_none() -> None:
    assert roc(np.zeros(0), np.ones(3)) == []
