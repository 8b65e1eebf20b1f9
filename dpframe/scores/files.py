"""Scores from files: one column of numbers or booleans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.errors import ScoresError
from dpframe.scores.columns import chosen
from dpframe.scores.tables import read_table

if TYPE_CHECKING:
    from pathlib import Path

    from dpframe.types import HostArray


def read_scores(path: Path, column: str | None = None) -> HostArray:
    """Reads scores from a .npy, .npz, .csv or .parquet file.

    Args:
        path: the file; its ending says what it is.
        column: title of the column, or its place from 1; default: the only one, or the one whose
            title is usual.

    Returns:
        Shape [n], as `as_scores` gives them.

    Raises:
        ScoresError: the file is not there, cannot be read, or holds something else.
    """
    table = read_table(path)
    if not table.titles:
        raise ScoresError(f"{path}: holds no scores")
    alone = column is None and len(table.titles) == 1
    return as_scores(
        table.column(0 if alone else chosen(table, "--column", column, path)), str(path)
    )


def as_scores(values: Any, name: str) -> HostArray:
    """Checks that values are scores.

    Args:
        values: shape [n] or [n, 1], booleans, floats or integers; NaN and infinities are scores.
        name: what messages call them.

    Returns:
        Shape [n]: booleans, float32 or float64. Integers become float64.

    Raises:
        ScoresError: there is none, more than one column, or something that is no number.
    """
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise ScoresError(f"{name}: scores are one list of numbers") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ScoresError(f"{name}: scores are one column, shape [n]; this has {array.shape}")
    if not len(array):
        raise ScoresError(f"{name}: holds no scores")
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise ScoresError(f"{name}: scores are booleans or numbers; this holds {array.dtype}")
    return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64, copy=False)
