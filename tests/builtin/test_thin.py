"""Leaks that hundreds of thousands of outputs show, and few do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.outputs import fitted, score
from support.tiers import mostly_slow

from dpframe.builtin import columns as _columns
from dpframe.builtin.learned_attacks import Learned
from dpframe.builtin.learners import FROM, Sums, pooled

PLAIN = Learned(hidden=0)
EIGHT = np.ones(8)
MIXED = np.tile([1.0, -1.0], 4)


def answers(rng: np.random.Generator, n: int, shift: Any, scale: float) -> Any:
    d0, d1 = (rng.laplace(0, scale, (n, len(shift))) + by for by in (0.0, shift))
    return d0.astype(np.float32), d1.astype(np.float32)


@pytest.mark.parametrize(
    ("shift", "least", "most_of_few"),
    mostly_slow([(EIGHT, 0.9, 0.7), (3 * MIXED, 0.85, 0.8)], ()),
)
def test_many_outputs_show_what_few_do_not(shift: Any, least: float, most_of_few: float) -> None:
    """The score goes with the likelihood ratio; answers to one query are known for alike."""
    rng, scale = np.random.default_rng(0), 100.0
    train, (fresh, _) = answers(rng, FROM, shift, scale), answers(rng, 20_000, shift, scale)
    ratio = (np.abs(fresh) - np.abs(fresh - shift)).sum(axis=1)
    of = [
        np.corrcoef(ratio, score(PLAIN, fitted(PLAIN, None, None, part), fresh))[0, 1]
        for part in (train, tuple(side[: FROM // 8] for side in train))
    ]
    assert of[0] > least
    assert of[1] < most_of_few


@pytest.mark.slow
def test_it_is_left_to_others_where_much_or_nothing_leaks() -> None:
    rng = np.random.default_rng(1)
    strong = answers(rng, FROM, [1.0, 0.0], 1.0)
    assert PLAIN._of_many(list(strong)) is None
    assert PLAIN._of_many([strong[0], strong[0]]) is None
    assert PLAIN._of_many([part[: FROM - 1] for part in strong]) is None
    wide = [np.broadcast_to(part[:, :1], (FROM, 10**5)) for part in strong]
    assert PLAIN._of_many(wide) is None


def test_columns_are_alike_where_they_have_one_law() -> None:
    rng = np.random.default_rng(2)
    same = list(answers(rng, FROM, EIGHT, 100.0))
    other = [side * np.where(np.arange(8) == 3, 1.5, 1.0) for side in same]
    for sides, alike in ((same, True), (other, False), ([side[:, :1] for side in same], False)):
        found = pooled(_columns.looked_at((sides[0], sides[1])), sides)
        assert (found is not None) == alike
        assert found is None or np.all(found.start == found.start[0])


@pytest.mark.filterwarnings("error")
def test_outputs_of_all_kinds() -> None:
    """Markers, constants and bits beside a thin leak: every output has a score, and it rises."""
    rng = np.random.default_rng(3)
    d0, d1 = answers(rng, FROM, [5.0, 0.0, 0.0, 0.0], 100.0)
    for side in (d0, d1):
        side[:, 1] = rng.choice([np.nan, np.inf, 0.0, 1.0], FROM)
        side[:, 2] = np.nan
        side[:, 3] = rng.random(FROM) < 0.5
    state = PLAIN._of_many([d0, d1])
    assert state is not None
    scores = [score(PLAIN, state, side) for side in (d0, d1)]
    assert np.isfinite(scores).all()
    assert np.mean(scores[1]) - np.mean(scores[0]) > 0.5 * 0.05**2


def test_the_fit_is_where_the_loss_is_smallest() -> None:
    rng = np.random.default_rng(4)
    root = rng.normal(size=(4, 4))
    sums = Sums(rng.normal(size=4), root @ root.T)
    (free,) = sums.fitted([0.0])
    np.testing.assert_allclose(sums.curvature @ free, sums.slope, rtol=1e-6)
    assert sums.shown(free) == pytest.approx(sums.shown(3 * free))
    assert sums.shown(free) > max(sums.shown(free + by) for by in np.eye(4))
    assert sums.shown(np.zeros(4)) == 0.0
    (held,) = sums.along(np.eye(4)[:2]).fitted([1.0])
    expected = np.linalg.solve(sums.curvature[:2, :2] + np.eye(2), sums.slope[:2])
    np.testing.assert_allclose(held, expected, rtol=1e-6)
