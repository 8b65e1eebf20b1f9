"""Tables that lie in files."""

from __future__ import annotations

import csv
import importlib
import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.builtin.pairs._plain import frozen, of_frame
from dpframe.builtin.pairs._table import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import SpecFile
    from dpframe.builtin.pairs._table import Table

MOST_BYTES = 256 << 20
"""Of a file: an audit runs a mechanism on it thousands of times."""

KINDS = (".csv", ".npy", ".npz", ".parquet")


def read_table(file: SpecFile, names: Sequence[str] = ()) -> Table:
    """Reads a table, by the ending of the file's name.

    Args:
        file: .csv, .npy, .npz or .parquet.
        names: of the columns, where the file has none.

    Raises:
        ValueError: there is no such file, or it holds no table; the message is for the user.
    """
    kind = file.path.suffix.lower()
    if kind not in KINDS:
        raise ValueError(f"{file}: a table is read from {', '.join(KINDS)}")
    content = io.BytesIO(file.read(MOST_BYTES))
    read = {".csv": _csv, ".npy": _npy, ".npz": _npz, ".parquet": _parquet}[kind]
    try:
        found, own = read(content)
        return table(frozen(found), own or names)
    except ImportError:
        raise ValueError(
            f"{file}: reading .parquet takes pandas and pyarrow: pip install 'dpframe[pandas]'"
        ) from None
    except Exception as error:  # whatever a damaged file makes its reader raise
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{file}: {said}") from None


def _csv(content: io.BytesIO) -> tuple[Any, tuple[str, ...]]:
    lines = list(csv.reader(io.TextIOWrapper(content, "utf-8-sig", newline="")))
    lines = [line for line in lines if line]
    if not lines:
        raise ValueError("is empty")
    names: tuple[str, ...] = ()
    if not all(_number(cell) is not None for cell in lines[0]):
        names, lines = tuple(lines[0]), lines[1:]
    width = len(names or lines[0])
    for number, line in enumerate(lines):
        if len(line) != width:
            raise ValueError(f"record {number} has {len(line)} cells, and {width} are wanted")
    columns = [_typed([line[at] for line in lines]) for at in range(width)]
    return list(zip(*columns, strict=True)), names


def _typed(cells: list[str]) -> list[Any]:
    """The cells of a column: numbers or booleans if all of them are; an empty one is missing."""
    there = [cell for cell in cells if cell]
    if there and all(cell.lower() in ("true", "false") for cell in there):
        return [cell.lower() == "true" if cell else None for cell in cells]
    numbers = [_number(cell) for cell in cells]
    if any(number is None for number, cell in zip(numbers, cells, strict=True) if cell):
        return [cell or None for cell in cells]
    if any(isinstance(number, float) for number in numbers):
        return [number if number is None else float(number) for number in numbers]
    return list(numbers)


def _number(cell: str) -> float | int | None:
    for kind in (int, float):
        try:
            found = kind(cell)
        except ValueError:
            continue
        return found if math.isfinite(found) or kind is float else None
    return None


def _npy(content: io.BytesIO) -> tuple[Any, tuple[str, ...]]:
    found = np.load(content, allow_pickle=False)
    if found.dtype.names is not None:
        return [list(record) for record in found.tolist()], tuple(found.dtype.names)
    if found.ndim not in (1, 2):
        raise ValueError(f"holds an array of shape {found.shape}; a table has one or two axes")
    return found, ()


def _npz(content: io.BytesIO) -> tuple[Any, tuple[str, ...]]:
    columns: dict[str, Any] = {}
    with np.load(content, allow_pickle=False) as archive:
        for name in archive.files:
            found = archive[name]
            if found.ndim == 1:
                columns[name] = found
            elif found.ndim == 2:
                columns |= {f"{name}_{at}": found[:, at] for at in range(found.shape[1])}
            else:
                raise ValueError(
                    f"{name} has the shape {found.shape}; columns have one or two axes"
                )
    return columns, ()


def _parquet(content: io.BytesIO) -> tuple[Any, tuple[str, ...]]:
    pandas: Any = importlib.import_module("pandas")
    frame = pandas.read_parquet(content)
    return of_frame(frame), ()
