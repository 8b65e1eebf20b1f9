"""Clipped gradients: made one by one, from ghost norms, and by jax-privacy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dpframe_dpsgd import network
from dpframe_dpsgd.dense import DPSGD
from dpframe_dpsgd.training import Training
from jax.flatten_util import ravel_pytree

CLIPS = [1e-3, 0.3, 1.0, 30.0]


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    x = rng.random((24, 64), dtype=np.float32)
    x[3] = 0
    y = rng.integers(0, 10, 24).astype(np.int32)
    weight = np.ones(24, np.float32)
    weight[20:] = 0
    return network.init_network(jax.random.key(0), 64, 50, 10), x, y, weight


def vector(tree):
    return np.asarray(ravel_pytree(tree)[0])


@pytest.mark.parametrize("clip", CLIPS)
def test_ghost_norms_give_the_sum_of_single_clipped_gradients(batch, clip):
    plain = Training.clipped_sum(DPSGD(width=50, classes=10), *batch, clip)
    np.testing.assert_allclose(
        vector(network.clipped_sum(*batch, clip)), vector(plain), rtol=0, atol=1e-5 * min(1, clip)
    )


@pytest.mark.parametrize("clip", CLIPS)
def test_so_does_jax_privacy(batch, clip):
    clipping = pytest.importorskip("jax_privacy.clipping")
    parameters, x, y, _ = batch
    theirs = clipping.clipped_grad(
        lambda parameters, x, y: (
            jnp.sum(jax.vmap(network.loss, (None, 0, 0))(parameters, x, y))
            if x.ndim == 2
            else network.loss(parameters, x, y)
        ),
        l2_clip_norm=clip,
        batch_argnums=(1, 2),
    )
    ours = network.clipped_sum(parameters, x[:20], y[:20], np.ones(20, np.float32), clip)
    found = theirs(parameters, x[:20], y[:20])
    np.testing.assert_allclose(vector(ours), vector(found), rtol=0, atol=1e-5 * min(1, clip))


def test_no_record_weighs_more_than_the_clip(batch):
    parameters, x, y, _ = batch
    for clip in CLIPS:
        for row in range(4):
            alone = network.clipped_sum(
                parameters, x[row : row + 1], y[row : row + 1], np.ones(1, np.float32), clip
            )
            assert np.linalg.norm(vector(alone)) <= clip * (1 + 1e-5)


def test_padding_counts_for_nothing(batch):
    parameters, x, y, weight = batch
    other = x.copy()
    other[20:] = 7.0
    np.testing.assert_array_equal(
        vector(network.clipped_sum(parameters, other, y, weight, 1.0)),
        vector(network.clipped_sum(parameters, x, y, weight, 1.0)),
    )
