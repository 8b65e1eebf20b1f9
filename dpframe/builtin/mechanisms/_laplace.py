"""Pieces that the Laplace mechanisms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from dpframe import LaplaceDP
from dpframe.builtin.mechanisms._logarithm import log, uniform
from dpframe.builtin.mechanisms._pairs import known, lone_difference, sensitivity_or_distance

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe import Array, HostArray, Key, Pair


def l1_sensitivity(given: float | None, pair: Pair) -> float:
    """The sensitivity the user gave, else the pair's l1 distance."""
    return sensitivity_or_distance(given, pair, 1)


def noise_scale(sensitivity: float | None, epsilon: float) -> float:
    """The scale Δ/ε of the noise, once `resolve` has filled Δ."""
    return known(sensitivity) / epsilon


def from_uniform(
    noise: Callable[[Array], Array], key: Key, data: Array, n: int, low: float = 0.0
) -> Array:
    """Noise made of u ~ Uni[low, low + 1), one for every coordinate of n outputs.

    Evaluated in one row and reshaped last: vectors then have full width whatever the dimension.

    Args:
        noise: maps u, elementwise.
        key: a JAX key.
        data: gives the shape of one output and the dtype.
        n: number of outputs.
        low: 0 or −½.

    Returns:
        Shape [n, *data.shape].
    """
    return noise(uniform(key, n * data.size, data.dtype, low)).reshape(n, *data.shape)


def inverse_cdf(v: Array) -> Array:
    """Inverse CDF of Lap(0, 1) at v + ½: −sgn(v) ln(1 − 2|v|) [Habernal2022, equation 4].

    v = −½ gives −inf, an output like any other.
    """
    # The argument is exact in floating point, so log1p would cost more and give no more. It is at
    # most 1, so the logarithm lacks nothing but the sign.
    return jnp.copysign(log(1 - 2 * jnp.abs(v)), v)


def standard_laplace(key: Key, data: Array, n: int) -> Array:
    """Lap(0, 1) for every coordinate of n outputs, shape [n, *data.shape]."""
    return from_uniform(inverse_cdf, key, data, n, low=-0.5)


def laplace_log_density(data: Array, outputs: Array, scale: Array | float) -> Array:
    """Log density of data + Lap(0, scale) in every coordinate, up to a constant, shape [n]."""
    deviations = jnp.abs(outputs - data).reshape(len(outputs), -1)
    return -jnp.sum(deviations, axis=1) / scale


def laplace_cdf(data: HostArray, x: HostArray, scale: float) -> HostArray | None:
    """P(data + Lap(0, scale) ≤ x) for data of one number, else None."""
    if np.size(data) != 1:
        return None
    away = (x - np.ravel(data)[0]) / scale
    tail = np.exp(-np.abs(away)) / 2
    below: HostArray = np.where(away > 0, 1 - tail, tail)
    return below


def laplace_truth(pair: Pair, scale: float) -> LaplaceDP | None:
    """The exact curve of data + Lap(0, scale), known where one coordinate at most differs."""
    difference = lone_difference(pair)
    return None if difference is None else LaplaceDP(difference / scale)
