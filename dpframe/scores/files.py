"""Scores from files: one column of numbers or booleans."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.errors import ScoresError
from dpframe.files import NotReadableError, read_regular

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.types import HostArray

MOST_BYTES = 1 << 32
"""Of a .csv file, which is read as a whole; an .npy file is not."""

_BOOLEANS = {"true": True, "false": False}


def read_scores(path: Path) -> HostArray:
    """Reads scores from a .npy, .csv or .parquet file.

    An .npy file is mapped into memory, not loaded. A .csv file has one column, with or without a
    title; "nan" and "inf" are scores like any other, an empty line is a mistake. A .parquet file
    has one column and needs pandas.

    Args:
        path: the file; its ending says what it is.

    Returns:
        Shape [n], as `as_scores` gives them.

    Raises:
        ScoresError: the file is not there, cannot be read, or holds something else.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ScoresError(f"{path}: dpframe reads scores from {', '.join(_READERS)} files")
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ScoresError(f"{path}: is not a regular file")
        values = reader(path)
    except NotReadableError as error:
        raise ScoresError(f"{path}: {error}") from error
    except FileNotFoundError:
        raise ScoresError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ScoresError(f"{path}: is a directory") from None
    except OSError as error:
        raise ScoresError(f"{path}: cannot read it: {error.strerror or error}") from error
    return as_scores(values, str(path))


def as_scores(values: Any, name: str) -> HostArray:
    """Checks that values are scores.

    Args:
        values: shape [n], booleans, floats or integers; NaN and infinities are scores.
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
    titled = texts and _number(texts[0]) is None and texts[0].lower() not in _BOOLEANS
    if titled and texts[0] and _columns(texts[0]) == 1:
        return _column(path, texts[1:], 2)
    return _column(path, texts, 1)


def _column(path: Path, texts: list[str], first: int) -> Any:
    if texts and texts[0].lower() in _BOOLEANS:
        found: list[Any] = [_BOOLEANS.get(text.lower()) for text in texts]
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
        problem = f"scores are one column; this has {_columns(text)}"
    raise ScoresError(f"{path}:{wrong + first}: {problem}")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _columns(text: str) -> int:
    return 1 + max(text.count(separator) for separator in ",;\t")


def _parquet(path: Path) -> HostArray:
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError:
        raise ScoresError(
            f"{path}: reading it needs pandas: pip install 'dpframe[pandas]'"
        ) from None
    if not path.exists():
        raise FileNotFoundError
    try:
        frame = pandas.read_parquet(path)
    except Exception as error:  # whatever the parquet engine raises
        raise ScoresError(f"{path}: cannot read it: {error}") from error
    if frame.shape[1] != 1:
        raise ScoresError(f"{path}: scores are one column; this has {frame.shape[1]}")
    column = frame.iloc[:, 0]
    kind = getattr(column.dtype, "kind", "O")
    if kind in "iuf" and column.hasnans:  # columns that may lack values have a NaN of their own
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind == "b" and column.hasnans:
        raise ScoresError(f"{path}: a decision is missing; decisions are true or false")
    return np.asarray(column.to_numpy())


_READERS: dict[str, Callable[[Path], Any]] = {".npy": _npy, ".csv": _csv, ".parquet": _parquet}
