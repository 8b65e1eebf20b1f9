"""Scores of white-box observations, and the choice of the search among them."""

import jax.numpy as jnp
import numpy as np
from dpframe_dpsgd.attacks.steps import COLUMN, candidates, likelihood_ratio, strongest
from dpframe_dpsgd.white_box import VIEWS
from scipy import stats

from dpframe.plugins import GaussianDP

STEPS = 3


def seen(residual):
    """Return observations that contain only residuals and a canary of length 1."""
    made = np.zeros((*residual.shape, len(VIEWS) + 1), np.float64)
    made[..., COLUMN["residual"]] = residual
    made[..., COLUMN["shift"]] = 1.0
    return jnp.asarray(made)


def test_the_likelihood_ratio_is_that_of_the_densities():
    residual = np.random.default_rng(0).normal(size=(50, STEPS))
    normal = stats.norm(scale=1.5)
    ratio = 0.3 * normal.pdf(residual - 1) + 0.7 * normal.pdf(residual)
    expected = np.log(ratio / normal.pdf(residual)).sum(1)
    np.testing.assert_allclose(likelihood_ratio(seen(residual), 0.3, 1.5), expected, atol=1e-5)


def test_noise_that_comes_again_is_among_the_candidates():
    """At some lag D gives 0 and D′ more, although every single residual is as it should be."""
    rng = np.random.default_rng(1)
    noise = np.tile(rng.normal(size=(200, 2)), 4)
    without, with_it = (
        np.asarray(candidates(seen(noise + taken), 0.5, 1.0))
        for taken in (0, rng.random((200, 8)) < 0.5)
    )
    silent = (without == 0).all(axis=0)
    assert ((with_it > 0).mean(axis=0)[silent] > 0.95).any()


def test_the_search_takes_what_speaks_most_clearly_against_the_claim():
    rng = np.random.default_rng(2)
    without, with_it = rng.normal(size=(2, 400, 6))
    with_it[:, 2] += 1.0  # as claimed
    with_it[:, 4] -= 3.0
    assert strongest(without, with_it, GaussianDP(1.0)) == (4, -1.0)
    with_it[:, 4] += 3.0
    assert strongest(without, with_it, None) == (2, 1.0)


def test_a_score_that_is_not_finite_is_not_taken():
    rng = np.random.default_rng(3)
    without, with_it = rng.normal(size=(2, 100, 2))
    with_it[:, 0] = np.nan
    assert strongest(without, with_it, None)[0] == 1
