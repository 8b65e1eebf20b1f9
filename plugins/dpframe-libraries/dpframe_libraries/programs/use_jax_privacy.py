"""Releases by jax-privacy: a sum of clipped gradients with noise."""

from __future__ import annotations

import os
import secrets
import sys

import jax
import jax.numpy as jnp
import numpy as np

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # behind all libraries

from jax_privacy import clipping, noise_addition
from library_tables import matrix, rounded

AT_ONCE = 256


def prepare(params, data):
    """A function that makes one release: the gradient of a linear model at zero."""
    table = np.array(matrix({**params, "clean": True}, data), np.float32)
    table = table.reshape(-1, len(params["bounds"]))
    clipped = clipping.clipped_grad(_loss, l2_clip_norm=1.0, batch_argnums=(1, 2))
    start = jnp.zeros(table.shape[1] - 1)
    total = np.asarray(clipped(start, table[:, :-1], table[:, -1]))
    spread = params["noise_multiplier"] * float(clipped.sensitivity())
    waiting = []

    def release():
        if not waiting:
            waiting.extend(np.asarray(_draw(jax.random.key(secrets.randbits(63)), total, spread)))
        row = waiting.pop()
        return row if params["digits"] is None else rounded(row, params["digits"])

    return release


def _loss(weights, x, y):
    return jnp.mean((x @ weights - y) ** 2)


@jax.jit
def _draw(key, total, spread):
    def one(key):
        privatizer = noise_addition.gaussian_privatizer(stddev=spread, prng_key=key)
        return privatizer.update(total, privatizer.init(total))[0]

    return jax.vmap(one)(jax.random.split(key, AT_ONCE))
