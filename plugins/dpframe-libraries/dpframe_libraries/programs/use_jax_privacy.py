"""Releases by jax-privacy: a sum of clipped gradients with noise."""

from __future__ import annotations

import os
import secrets
import sys

import jax
import jax.numpy as jnp
import numpy as np

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # after all libraries

from jax_privacy import clipping, noise_addition
from library_tables import matrix, rounded

AT_ONCE = 256
ROWS = 64
"""A batch is padded to a multiple of this."""


def prepare(params, data):
    """Return a function that makes one release: the gradient of a linear model at zero."""
    width = len(params["bounds"])
    table = np.array(matrix({**params, "clean": True}, data), np.float32).reshape(-1, width)
    # As for a Poisson sample: padded, so that neither shapes nor empty batches depend on the data.
    padded = np.zeros((ROWS * (1 + len(table) // ROWS), width), np.float32)
    padded[: len(table)] = table
    clipped = clipping.clipped_grad(_loss, l2_clip_norm=1.0, batch_argnums=(1, 2))
    padding = np.arange(len(padded)) >= len(table)
    start = jnp.zeros(width - 1)
    total = clipped(start, padded[:, :-1], padded[:, -1], is_padding_example=padding)
    total = np.asarray(total)
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
