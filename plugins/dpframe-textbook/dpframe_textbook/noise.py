"""Random numbers shared by the mechanisms."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Key


def uniform(key: Key, shape: tuple[int, ...], dtype: Any) -> Array:
    """Draw uniformly from the midpoints of a grid in (0, 1), never 0 or 1; as fine as the dtype."""
    return jax.random.uniform(key, shape, dtype) + half_step(dtype)


def laplace(key: Key, shape: tuple[int, ...], dtype: Any) -> Array:
    """Draw Lap(0, 1) by the inverse CDF; finite, and symmetric to the last bit."""
    # Both steps are exact: the grid has no finer places than floats have there.
    centred = (jax.random.uniform(key, shape, dtype) - 0.5) + half_step(dtype)
    return jnp.copysign(jnp.log(1 - 2 * jnp.abs(centred)), centred)


def exponential(key: Key, shape: tuple[int, ...], dtype: Any) -> Array:
    """Draw exponential noise with mean 1; finite and above 0."""
    return -jnp.log(uniform(key, shape, dtype))


def normal(key: Key, shape: tuple[int, ...], dtype: Any) -> Array:
    """Draw standard normal noise."""
    return jax.random.normal(key, shape, dtype)


def categorical(key: Key, probabilities: Array, n: int) -> Array:
    """Draw indices with these probabilities, from one uniform number each.

    Args:
        key: a JAX key.
        probabilities: shape [k]; they sum to 1.
        n: number of indices.

    Returns:
        Integers as floats in the dtype of the probabilities, shape [n].
    """
    edges = jnp.cumsum(probabilities)[:-1]
    u = uniform(key, (n,), probabilities.dtype)
    return jnp.sum(u[None, :] > edges[:, None], axis=0).astype(probabilities.dtype)


def half_step(dtype: Any) -> float:
    """Return half the spacing of floats at 1."""
    return float(np.finfo(np.dtype(dtype)).eps) / 2
