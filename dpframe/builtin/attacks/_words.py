"""Outputs as words of 32 bits, and those of a row as one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from dpframe import Array, HostArray

SEEDS = (0x9E3779B9, 0x85EBCA6B)
"""Of the two numbers of a row."""


def words(outputs: Array) -> Array:
    """The bits of outputs, shape [n, words], uint32; traced. All NaN are one, −0 is 0."""
    rows = outputs.reshape(len(outputs), -1)
    if jnp.issubdtype(rows.dtype, jnp.floating):
        rows = rows.astype(jnp.promote_types(rows.dtype, jnp.float32))
        rows = jnp.where(jnp.isnan(rows), jnp.nan, jnp.where(rows == 0, 0, rows))
    elif rows.dtype.itemsize < 4:
        rows = rows.astype(jnp.int32)
    found: Array = jax.lax.bitcast_convert_type(rows, jnp.uint32)
    return found.reshape(len(outputs), -1)


def host_words(outputs: HostArray) -> HostArray:
    """The same on the host."""
    rows = as_on_device(outputs)
    if jnp.issubdtype(rows.dtype, jnp.floating):
        rows = rows.astype(jnp.promote_types(rows.dtype, jnp.float32))
        rows = np.where(np.isnan(rows), rows.dtype.type(np.nan), np.where(rows == 0, 0, rows))
    elif rows.dtype.itemsize < 4:
        rows = rows.astype(np.int32)
    found: HostArray = np.ascontiguousarray(rows).view(np.uint32)
    return found


def as_on_device(outputs: HostArray) -> HostArray:
    """Rows of outputs in the type in which the device has them."""
    rows: HostArray = np.asarray(outputs).reshape(len(outputs), -1)
    return rows.astype(jax.dtypes.canonicalize_dtype(rows.dtype), copy=False)


def digests(rows: Any) -> tuple[Any, Any]:
    """Two numbers of 32 bits for every row: rows that are alike have the same.

    Others have the same two with a probability of about 2⁻⁶⁴, and then only their scores are the
    same. Works on arrays of NumPy and, traced, of JAX.

    Args:
        rows: uint32, shape [n, words].

    Returns:
        uint32, shape [n], twice.
    """
    places = np.arange(1, rows.shape[1] + 1, dtype=np.uint32)
    found = [
        _mixed(rows ^ _mixed(places * np.uint32(seed))).sum(axis=1, dtype=np.uint32)
        for seed in SEEDS
    ]
    return _mixed(found[0]), _mixed(found[1])


def _mixed(word: Any) -> Any:
    """A bijection of words that spreads every bit over all others."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        word = (word ^ (word >> np.uint32(shift))) * np.uint32(factor)
    return word ^ (word >> np.uint32(16))
