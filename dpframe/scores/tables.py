"""Tables of scores from files: the one place that reads them."""

from __future__ import annotations

import csv
import importlib
import io
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpframe.errors import ScoresError
from dpframe.files import NotReadableError, read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from dpframe.types import HostArray

MOST_BYTES = 1 << 32
"""Of a .csv file, which is read as a whole; an .npy file is not."""

BOOLEANS = {"true": True, "false": False}


class Table(Protocol):
    """Columns of equal length, or arrays of an archive."""

    @property
    def titles(self) -> Sequence[str]:
        """Of the columns, in their order; empty texts where there are none."""

    def column(self, place: int) -> HostArray:
        """The values of one column; raises ScoresError where these are no numbers."""


def read_table(path: Path) -> Table:
    """Reads a .csv, .parquet, .npz or .npy file.

    An .npy file is mapped into memory, not loaded. In a .csv file "nan" and "inf" are numbers like
    any other, and nothing is a mistake. A .parquet file needs pandas.

    Args:
        path: the file; its ending says what it is.

    Raises:
        ScoresError: the file is not there, cannot be read, or holds something else.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ScoresError(f"{path}: dpframe reads scores from {', '.join(_READERS)} files")
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ScoresError(f"{path}: is not a regular file")
        return reader(path)
    except NotReadableError as error:
        raise ScoresError(f"{path}: {error}") from error
    except FileNotFoundError:
        raise ScoresError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ScoresError(f"{path}: is a directory") from None
    except OSError as error:
        raise ScoresError(f"{path}: cannot read it: {error.strerror or error}") from error


class _Arrays:
    """Columns that are arrays already."""

    def __init__(self, columns: Mapping[str, Any] | Sequence[Any]) -> None:
        named = hasattr(columns, "keys")
        self.titles = list(columns) if named else [""] * len(columns)
        self.columns = list(columns.values()) if named else list(columns)  # type: ignore[union-attr]

    def column(self, place: int) -> HostArray:
        return np.asarray(self.columns[place])


class _Texts:
    """A .csv file; only the columns that are asked for need be numbers."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text.rstrip(" \r\n")
        first = self.text.partition("\n")[0]
        self.separator = max(",;\t", key=first.count)
        _, row = next(self._rows(), (1, []))
        self.width = len(row)
        self.titled = bool(row) and all(number_of(text) is None for text in row)
        self.titles = [text.strip() if self.titled else "" for text in row]

    def column(self, place: int) -> HostArray:
        try:
            return np.fromiter((float(text) for _, text in self._cells(place)), np.float64)
        except ValueError:  # truth values, or a mistake, which is looked for
            pass
        texts = list(self._cells(place))
        values = [number_of(text) for _, text in texts]
        decided = [isinstance(value, bool) for value in values]
        some = any(decided)
        for (line, text), value in zip(texts, values, strict=True):
            if value is None or (some and value not in (0, 1)):
                raise ScoresError(f"{self.path}:{line}: {_problem(text.strip(), decisions=some)}")
        return np.array(values, np.bool_ if all(decided) else np.float64)

    def _cells(self, place: int) -> Iterator[tuple[int, str]]:
        """Line and text of each value of a column."""
        rows = self._rows()
        if self.titled:
            next(rows)
        for line, row in rows:
            if len(row) != self.width:
                what = f"{len(row)} columns, and {self.width} above" if row else EMPTY
                raise ScoresError(f"{self.path}:{line}: {what}")
            yield line, row[place]

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(io.StringIO(self.text, newline=None), delimiter=self.separator)
        try:
            for row in reader:
                yield reader.line_num, row
        except csv.Error as error:
            raise ScoresError(f"{self.path}: not a .csv file: {error}") from error


EMPTY = "an empty line; if a score is missing, write nan"


def _problem(text: str, *, decisions: bool) -> str:
    if not text:
        return "nothing; if a score is missing, write nan"
    return f"{text!r} is {'neither true nor false' if decisions else 'not a number'}"


def number_of(text: str) -> float | bool | None:
    """A number, or a word for a truth value; None if it is neither."""
    text = text.strip().lower()
    try:
        return BOOLEANS[text] if text in BOOLEANS else float(text)
    except ValueError:
        return None


def _csv(path: Path) -> Table:
    try:
        return _Texts(path, read_regular(path, MOST_BYTES).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ScoresError(f"{path}: not a text file: {error.reason}") from error


def _npz(path: Path) -> Table:
    try:
        # Opened here, because NumPy leaves a file open that is no archive.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            return _Arrays({name: found[name] for name in found.files})
    except OSError:
        raise
    except Exception as error:  # no archive, or an array of objects
        raise ScoresError(f"{path}: not an .npz file of plain arrays") from error


def _npy(path: Path) -> Table:
    with path.open("rb") as file:
        if not file.read(6) == b"\x93NUMPY":
            raise ScoresError(f"{path}: not an .npy file of NumPy")
    try:
        found = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except OSError:
        raise
    except Exception as error:  # a header may say anything
        # An array of nothing cannot be mapped, and one of objects must not be loaded.
        if "empty" in str(error):
            raise ScoresError(f"{path}: holds no scores") from None
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ScoresError(f"{path}: cannot read it: {first}") from error
    if found.dtype.names:
        return _Arrays({name: found[name] for name in found.dtype.names})
    if found.ndim not in (1, 2):
        raise ScoresError(f"{path}: columns have shape [n, k]; this has {found.shape}")
    return _Arrays([found] if found.ndim == 1 else list(found.T))


class _Frame:
    """A .parquet file, which pandas reads."""

    def __init__(self, path: Path) -> None:
        try:
            pandas: Any = importlib.import_module("pandas")
        except ImportError:
            raise ScoresError(
                f"{path}: reading it needs pandas: pip install 'dpframe[pandas]'"
            ) from None
        if not path.exists():
            raise FileNotFoundError
        try:
            self.path, self.frame = path, pandas.read_parquet(path)
        except Exception as error:  # whatever the parquet engine raises
            raise ScoresError(f"{path}: cannot read it: {error}") from error
        self.titles = [str(title) for title in self.frame.columns]

    def column(self, place: int) -> HostArray:
        column = self.frame.iloc[:, place]
        kind = getattr(column.dtype, "kind", "O")
        if kind in "iuf" and column.hasnans:  # such columns may have a NaN of their own
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        if kind == "b" and column.hasnans:
            raise ScoresError(f"{self.path}: a decision is missing; decisions are true or false")
        return np.asarray(column.to_numpy())


_READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": _csv,
    ".parquet": _Frame,
    ".npz": _npz,
    ".npy": _npy,
}
