"""Pieces that the Gaussian mechanisms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dpframe.builtin.mechanisms._pairs import sensitivity_or_distance

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Key, Pair


def l2_sensitivity(given: float | None, pair: Pair) -> float:
    """The sensitivity the user gave, else the pair's l2 distance."""
    return sensitivity_or_distance(given, pair, 2)


def standard_normal(key: Key, data: Array, n: int) -> Array:
    """N(0, 1) for every coordinate of n outputs, shape [n, *data.shape].

    Drawn in one row and reshaped last: vectors then have full width whatever the dimension.
    """
    return jax.random.normal(key, (n * data.size,), data.dtype).reshape(n, *data.shape)


def normal_cdf(data: HostArray, x: HostArray, sigma: float) -> HostArray | None:
    """P(data + N(0, σ²) ≤ x) for data of one number, else None."""
    if np.size(data) != 1:
        return None
    found: HostArray = special.ndtr((x - np.ravel(data)[0]) / sigma)
    return found


def shift_log_ratio(data: Array, outputs: Array, sigma: Array | float) -> Array:
    """Log density of N(data, σ²) with respect to N(0, σ²), all coordinates together, shape [n].

    Unlike −‖outputs − data‖²/2σ² it is linear in the outputs, so that digits are not lost when two
    of them are subtracted.
    """
    products = (data * (outputs - data / 2)).reshape(len(outputs), -1)
    return jnp.sum(products, axis=1) / sigma**2
