"""Scores from files: one column of numbers or booleans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.errors import ScoresError
from dpframe.files import read_regular
from dpframe.scores.tables import (
    BOOLEANS,
    MOST_BYTES,
    frame_of,
    place_of,
    read_by,
    read_table,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dpframe.types import HostArray


def read_scores(path: Path, column: str | None = None) -> HostArray:
    """Reads scores from a .npy, .npz, .csv or .parquet file.

    An .npy file is mapped into memory, not loaded. A .csv file has one column, with or without a
    title; "nan" and "inf" are scores like any other, an empty line is a mistake. A .parquet file
    needs pandas. Of a file with more columns, one has to be named.

    Args:
        path: the file; its ending says what it is.
        column: title of the column, or its place from 1; default: the only one.

    Returns:
        Shape [n], as `as_scores` gives them.

    Raises:
        ScoresError: the file is not there, cannot be read, or holds something else.
    """
    if column is None:
        return as_scores(read_by(path, _READERS, "scores"), str(path))
    table = read_table(path)
    return as_scores(table.column(place_of(table, column, path, "--column")), str(path))


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


def _npy(path: Path) -> HostArray:
    with path.open("rb") as file:
        if not file.read(6) == b"\x93NUMPY":
            raise ScoresError(f"{path}: not an .npy file of NumPy")
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except OSError:
        raise
    except Exception as error:  # a header may say anything
        # An array of nothing cannot be mapped, and one of objects must not be loaded.
        if "empty" in str(error):
            raise ScoresError(f"{path}: holds no scores") from None
        raise ScoresError(f"{path}: cannot read it: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _csv(path: Path) -> Any:
    try:
        lines = read_regular(path, MOST_BYTES).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ScoresError(f"{path}: not a text file: {error.reason}") from error
    while lines and not lines[-1].strip():
        lines.pop()
    texts = [line.strip().strip('"').strip() for line in lines]
    titled = texts and _number(texts[0]) is None and texts[0].lower() not in BOOLEANS
    if titled and texts[0] and _columns(texts[0]) == 1:
        return _column(path, texts[1:], 2)
    return _column(path, texts, 1)


def _column(path: Path, texts: list[str], first: int) -> Any:
    if texts and texts[0].lower() in BOOLEANS:
        found: list[Any] = [BOOLEANS.get(text.lower()) for text in texts]
        kind = "neither true nor false"
    else:
        try:
            return np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:
            found, kind = [_number(text) for text in texts], "not a number"
    if None not in found:
        return np.array(found)
    wrong = found.index(None)
    text = texts[wrong]
    problem = f"{text!r} is {kind}"
    if not text:
        problem = "an empty line; if a score is missing, write nan"
    elif _columns(text) > 1:
        problem = _one_of(_columns(text))
    raise ScoresError(f"{path}:{wrong + first}: {problem}")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _columns(text: str) -> int:
    return 1 + max(text.count(separator) for separator in ",;\t")


def _parquet(path: Path) -> HostArray:
    frame = frame_of(path)
    if frame.shape[1] != 1:
        raise ScoresError(f"{path}: {_one_of(frame.shape[1])}")
    return values_of(frame.iloc[:, 0], path)


def _npz(path: Path) -> HostArray:
    table = read_table(path)
    if len(table.titles) != 1:
        raise ScoresError(f"{path}: {_one_of(len(table.titles))}")
    return table.column(0)


def _one_of(number: int) -> str:
    return f"scores are one column; this has {number}; say which with --column"


_READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
    ".parquet": _parquet,
}
