"""What attacks on single numbers and on vectors share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from dpframe import Array, Floats, HostArray, Target


def not_one_number(target: Target) -> str | None:
    """Why outputs cannot be taken for single numbers, if they cannot."""
    if math.prod(target.dims) == 1:
        return None
    return f"takes single numbers, outputs have shape {target.dims}"


def numbers(outputs: Array) -> Array:
    """Outputs of one coordinate as floats, shape [n]; traced."""
    return floats(outputs.reshape(len(outputs)))


def host_numbers(outputs: HostArray) -> Floats:
    """The same on the host."""
    return np.asarray(outputs, np.float64).reshape(len(outputs))


def vectors(outputs: Array) -> Array:
    """Outputs as float vectors, shape [n, coordinates]; traced."""
    return floats(outputs.reshape(len(outputs), -1))


def floats(outputs: Array) -> Array:
    """Outputs as they are, or integers as floats; traced."""
    return outputs if jnp.issubdtype(outputs.dtype, jnp.floating) else outputs.astype(float)
