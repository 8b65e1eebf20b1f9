"""Whether two datasets are the same: any Python values, in type and to the bit."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

if TYPE_CHECKING:
    from dpframe.types import HostArray

BLOCK = 1 << 20
"""Coordinates that are compared at a time: two datasets may be most of what the memory holds."""


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same; NaN is the same as NaN, −0.0 is not 0.0, 1 is not 1.0.

    Of what it does not know it says that they differ: a pair is played in vain then, and not left
    out although there was something to tell apart.

    Args:
        one: any value.
        other: any value.
    """
    one, other = (
        np.asarray(data) if isinstance(data, jax.Array) else data for data in (one, other)
    )
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        return _same_arrays(np.asarray(one), np.asarray(other))
    if isinstance(one, dict):
        one, other = list(one.items()), list(other.items())  # their order is data too
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other)
    known = isinstance(one, int | str | bytes | bytearray | set | frozenset | None)
    return bool(one == other) if known else _same_objects(one, other)


def _same_arrays(one: HostArray, other: HostArray) -> bool:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if one.dtype.hasobject:
        return same(one.tolist(), other.tolist())
    one, other = np.atleast_1d(one), np.atleast_1d(other)
    rows = max(1, BLOCK * len(one) // max(1, one.size))
    for first in range(0, len(one), rows):
        x, y = one[first : first + rows], other[first : first + rows]
        alike = x == y
        if x.dtype.kind == "f":
            alike = (alike & (np.signbit(x) == np.signbit(y))) | ((x != x) & (y != y))  # noqa: PLR0124
        elif x.dtype.kind not in "biu":
            alike = alike | ((x != x) & (y != y))  # noqa: PLR0124
        if not np.all(alike):
            return False
    return True


def _same_objects(one: Any, other: Any) -> bool:
    """Tables of pandas and polars column by column; anything else by its pickle."""
    if hasattr(one, "columns") and hasattr(one, "to_dict"):
        try:
            return same(_columns(one), _columns(other))
        except Exception:  # two columns of one name, another library's table
            return False
    try:
        return pickle.dumps(one) == pickle.dumps(other)
    except Exception:  # what cannot be pickled is refused elsewhere, with the reason
        return one is other


def _columns(table: Any) -> list[Any]:
    """The index of a table, and name, type and values of its columns."""
    parts = [(str(name), str(table[name].dtype), np.asarray(table[name])) for name in table.columns]
    return [list(getattr(table, "index", ())), *parts]
