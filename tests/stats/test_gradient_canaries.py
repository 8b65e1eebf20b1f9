"""Directions do not overlap, and scores are the likelihood ratios of sampled Gaussian steps."""

import numpy as np
import pytest
from scipy import stats

from dpframe.stats.gradient_canaries import draw_directions, score_steps


@pytest.mark.parametrize("sizes", [[4000], [5, 900, 300], [60, 60]])
def test_directions_are_orthogonal_and_of_norm_one(sizes: list[int]) -> None:
    drawn = draw_directions(np.array(sizes), 100, 1)
    assert drawn is not None
    basis = np.zeros((len(drawn.signs), sum(sizes)))
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    places = starts[np.array(drawn.chosen)[drawn.which]] + drawn.inner
    np.put_along_axis(basis, places, drawn.signs, axis=1)
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)
    assert (drawn.inner < np.array(sizes)[np.array(drawn.chosen)[drawn.which]]).all()
    assert max(sizes) in np.array(sizes)[drawn.chosen]


def test_there_are_no_directions_for_more_canaries_than_coordinates() -> None:
    assert draw_directions(np.array([50, 40]), 91, 1) is None
    drawn = draw_directions(np.array([50, 40]), 90, 1)
    assert drawn is not None
    assert drawn.signs.shape == (90, 1)


def test_scores_are_likelihood_ratios() -> None:
    rng = np.random.default_rng(0)
    released, noise = rng.normal(size=(6, 3 + 50)), np.full(6, 9.0)
    rates = np.array([0.05, 0.1, 0.3, 0.5, 0.9, 0.99])
    scores, spreads = score_steps(released, 3, noise, rates)
    outside = stats.norm.pdf(released[:, :3], 0, 9)
    inside = stats.norm.pdf(released[:, :3], 1, 9)
    ratios = rates[:, None] * inside / outside + (1 - rates[:, None])
    # The score leaves out a constant, Σ ln(1 − q).
    expected = np.log(ratios).sum(axis=0) - np.log1p(-rates).sum()
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    assert spreads == pytest.approx(np.full(6, 1.0), abs=0.4)


def test_a_score_depends_on_no_other_canary_if_there_are_controls() -> None:
    released = np.random.default_rng(0).normal(size=(4, 2 + 50))
    changed = released.copy()
    changed[:, 1] += 5
    constant = np.full(4, 0.1)
    one, other = (score_steps(x, 2, constant, constant)[0] for x in (released, changed))
    assert one[0] == other[0]
    assert one[1] != other[1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_training_that_diverged_has_no_scores(value: float) -> None:
    released = np.full((4, 2 + 50), value)
    scores, _ = score_steps(released, 2, np.ones(4), np.full(4, 0.1))
    assert np.isnan(scores).all()
