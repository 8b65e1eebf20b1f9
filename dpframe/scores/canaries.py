"""The canaries of one run from files: scores, and which of them were in."""

from __future__ import annotations

import csv
import importlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.errors import ScoresError
from dpframe.files import NotReadableError, read_regular
from dpframe.scores.files import MOST_BYTES, as_scores

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.types import HostArray

NAMES = ("scores", "members")
"""Arrays of an .npz file."""

_MEMBER = {"true": 1.0, "false": 0.0}


class Canaries(NamedTuple):
    """The canaries of one run."""

    scores: HostArray
    """Larger means more like a member, shape [m], float32 or float64."""
    members: HostArray
    """Which were in, shape [m], booleans."""


def as_canaries(scores: Any, members: Any, name: str) -> Canaries:
    """Checks that values are scores and memberships of the same canaries.

    Args:
        scores: shape [m], as `as_scores` takes them; booleans count as 0 and 1.
        members: shape [m], booleans, or numbers that are 0 or 1.
        name: what messages call them.

    Raises:
        ScoresError: they are not.
    """
    values = as_scores(scores, f"{name}: scores")
    inside = as_scores(members, f"{name}: members")
    if len(values) != len(inside):
        raise ScoresError(f"{name}: {len(values):,} scores and {len(inside):,} memberships")
    if not np.isin(inside, (0, 1)).all():
        wrong = inside[~np.isin(inside, (0, 1))][0]
        raise ScoresError(f"{name}: a membership is {wrong:g}; 1 is in and 0 is out")
    if values.dtype == np.bool_:
        values = values.astype(np.float32)
    return Canaries(values, inside.astype(bool))


def read_canaries(path: Path) -> Canaries:
    """Reads canaries from a .npz, .npy, .csv or .parquet file.

    An .npz file holds the arrays `scores` and `members`. In the others the first column is the
    score, the second the membership: 1 or 0, in a .csv file also true or false.

    Args:
        path: the file; its ending says what it is.

    Raises:
        ScoresError: the file is not there, cannot be read, or holds something else.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ScoresError(f"{path}: dpframe reads canaries from {', '.join(_READERS)} files")
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ScoresError(f"{path}: is not a regular file")
        scores, members = reader(path)
    except NotReadableError as error:
        raise ScoresError(f"{path}: {error}") from error
    except FileNotFoundError:
        raise ScoresError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ScoresError(f"{path}: is a directory") from None
    except OSError as error:
        raise ScoresError(f"{path}: cannot read it: {error.strerror or error}") from error
    return as_canaries(scores, members, str(path))


def _npz(path: Path) -> tuple[Any, Any]:
    with path.open("rb"):  # what is not there is told by its own error
        pass
    try:
        with np.load(path, allow_pickle=False) as found:
            held = tuple(found.files)
            arrays = {name: found[name] for name in NAMES if name in held}
    except OSError:
        raise
    except Exception as error:  # no archive, or an array of objects
        raise ScoresError(f"{path}: not an .npz file of plain arrays") from error
    if len(arrays) < len(NAMES):
        raise ScoresError(
            f"{path}: holds {', '.join(held) or 'nothing'}; the arrays scores and members are "
            "wanted"
        )
    return arrays["scores"], arrays["members"]


def _npy(path: Path) -> tuple[Any, Any]:
    with path.open("rb") as file:
        if not file.read(6) == b"\x93NUMPY":
            raise ScoresError(f"{path}: not an .npy file of NumPy")
    try:
        found = np.load(path, allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # a header may say anything
        raise ScoresError(f"{path}: cannot read it") from error
    return _columns(path, found)


def _csv(path: Path) -> tuple[Any, Any]:
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScoresError(f"{path}: not a text file: {error.reason}") from error
    rows = list(csv.reader(io.StringIO(text.rstrip() + "\n")))
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise ScoresError(f"{path}:{number}: a score and a membership; this has {len(row)}")
    numbers = [[_number(text) for text in row] for row in rows]
    first = 1 if numbers and numbers[0] == [None, None] else 0  # the titles
    for number, (row, found) in enumerate(zip(rows, numbers, strict=True), 1):
        if number > first and None in found:
            raise ScoresError(f"{path}:{number}: {row[found.index(None)]!r} is not a number")
    table = np.array(numbers[first:], np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _number(text: str) -> float | None:
    text = text.strip().lower()
    try:
        return _MEMBER[text] if text in _MEMBER else float(text)
    except ValueError:
        return None


def _parquet(path: Path) -> tuple[Any, Any]:
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
        return _columns(path, frame.to_numpy(dtype=np.float64, na_value=np.nan))
    except ScoresError:
        raise
    except Exception as error:  # whatever the parquet engine raises
        raise ScoresError(f"{path}: cannot read it: {error}") from error


def _columns(path: Path, table: Any) -> tuple[Any, Any]:
    if table.ndim != 2 or table.shape[1] != 2:
        raise ScoresError(
            f"{path}: scores and memberships are two columns, shape [m, 2]; this has {table.shape}"
        )
    return table[:, 0], table[:, 1]


_READERS: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    ".npz": _npz,
    ".npy": _npy,
    ".csv": _csv,
    ".parquet": _parquet,
}
