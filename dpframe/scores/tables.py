"""Tables of scores from files: columns by their title or place."""

from __future__ import annotations

import csv
import importlib
import io
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpframe.errors import ScoresError
from dpframe.files import NotReadableError, read_regular
from dpframe.suggest import did_you_mean, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
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


def place_of(table: Table, wanted: str, path: Path, option: str) -> int:
    """The place of a column, from 0.

    Args:
        table: the file's content.
        wanted: its title, or its place from 1.
        path: of the file.
        option: what the user calls the choice.

    Raises:
        ScoresError: there is no such column; says which there are.
    """
    titles = list(table.titles)
    if titles.count(wanted) == 1:
        return titles.index(wanted)
    if wanted in titles:
        raise ScoresError(f"{path}: {option}: {titles.count(wanted)} columns are called {wanted!r}")
    if wanted.isdecimal() and 1 <= int(wanted) <= len(titles):
        return int(wanted) - 1
    raise ScoresError(
        f"{path}: {option}: there is no column {wanted!r}; {_there_are(titles)}"
        f"{did_you_mean([title for title in titles if title], wanted)}"
    )


def chosen(
    table: Table, option: str, wanted: str | None, usual: Sequence[str], path: Path, default: int
) -> int:
    """The place of a column that a user may have named, from 0.

    Args:
        table: the file's content.
        option: what the user calls the choice.
        wanted: what the user named, if anything.
        usual: titles that are taken if nothing is named, in small letters.
        path: of the file.
        default: the place that is taken if no title is usual and there are two columns.

    Raises:
        ScoresError: it cannot be known.
    """
    if wanted is not None:
        return place_of(table, wanted, path, option)
    found = [n for n, title in enumerate(table.titles) if title.strip().lower() in usual]
    if len(found) == 1:
        return found[0]
    if len(table.titles) == 2 and not found:
        return default
    raise ScoresError(f"{path}: say which column with {option}: {_there_are(table.titles)}")


def _there_are(titles: Sequence[str]) -> str:
    if not titles:
        return "there is none"
    if not any(titles):
        return f"there are {len(titles)}, counted from 1"
    return f"there are {listed([title or '(without a title)' for title in titles])}"


def read_table(path: Path) -> Table:
    """Reads a .csv, .parquet, .npz or .npy file.

    Args:
        path: the file; its ending says what it is.

    Raises:
        ScoresError: the file is not there, cannot be read, or holds something else.
    """
    found: Table = read_by(path, _READERS, "tables")
    return found


def read_by(path: Path, readers: Mapping[str, Callable[[Path], Any]], what: str) -> Any:
    """What the reader for the ending of a file makes of it; every mistake a `ScoresError`.

    Args:
        path: the file.
        readers: by the ending of a name.
        what: of what the files hold, for messages.
    """
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ScoresError(f"{path}: dpframe reads {what} from {', '.join(readers)} files")
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
    """Rows of a .csv file; only the columns that are asked for need be numbers."""

    def __init__(self, path: Path, rows: list[list[str]]) -> None:
        self.path = path
        titled = bool(rows) and all(number_of(text) is None for text in rows[0])
        self.first = 2 if titled else 1
        width = len(rows[0]) if rows else 0
        self.titles = [text.strip() for text in rows[0]] if titled else [""] * width
        self.rows = rows[1:] if titled else rows
        for line, row in enumerate(self.rows, self.first):
            if len(row) != width:
                raise ScoresError(f"{path}:{line}: {len(row)} columns, and {width} above")

    def column(self, place: int) -> HostArray:
        texts = [row[place] for row in self.rows]
        values = [number_of(text) for text in texts]
        if None in values:
            wrong = values.index(None)
            text = texts[wrong].strip()
            problem = f"{text!r} is not a number" if text else "nothing; write nan for a NaN"
            raise ScoresError(f"{self.path}:{wrong + self.first}: {problem}")
        decisions = all(isinstance(value, bool) for value in values)
        return np.array(values, np.bool_ if decisions and values else np.float64)


def number_of(text: str) -> float | bool | None:
    """A number, or a word for a truth value; None if it is neither."""
    text = text.strip().lower()
    try:
        return BOOLEANS[text] if text in BOOLEANS else float(text)
    except ValueError:
        return None


def _csv(path: Path) -> Table:
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScoresError(f"{path}: not a text file: {error.reason}") from error
    first = text.partition("\n")[0]
    separator = max(",;\t", key=first.count)
    try:
        rows = list(csv.reader(io.StringIO(text.rstrip() + "\n"), delimiter=separator))
    except csv.Error as error:
        raise ScoresError(f"{path}: not a .csv file: {error}") from error
    return _Texts(path, rows if text.strip() else [])


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
    try:
        with path.open("rb") as file:
            if not file.read(6) == b"\x93NUMPY":
                raise ScoresError(f"{path}: not an .npy file of NumPy")
            file.seek(0)
            found = np.load(file, allow_pickle=False)
    except (OSError, ScoresError):
        raise
    except Exception as error:  # a header may say anything
        raise ScoresError(f"{path}: cannot read it") from error
    if found.dtype.names:
        return _Arrays({name: found[name] for name in found.dtype.names})
    if found.ndim not in (1, 2):
        raise ScoresError(f"{path}: columns have shape [n, k]; this has {found.shape}")
    return _Arrays(list(found.reshape(len(found), -1).T))


def frame_of(path: Path) -> Any:
    """A .parquet file as a data frame."""
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError:
        raise ScoresError(
            f"{path}: reading it needs pandas: pip install 'dpframe[pandas]'"
        ) from None
    if not path.exists():
        raise FileNotFoundError
    try:
        return pandas.read_parquet(path)
    except Exception as error:  # whatever the parquet engine raises
        raise ScoresError(f"{path}: cannot read it: {error}") from error


def values_of(column: Any, path: Path) -> HostArray:
    """A column of a data frame; a number that lacks is NaN.

    Raises:
        ScoresError: a truth value lacks.
    """
    kind = getattr(column.dtype, "kind", "O")
    if kind in "iuf" and column.hasnans:  # columns that may lack values have a NaN of their own
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind == "b" and column.hasnans:
        raise ScoresError(f"{path}: a decision is missing; decisions are true or false")
    return np.asarray(column.to_numpy())


class _Frame:
    """A data frame of pandas."""

    def __init__(self, path: Path) -> None:
        self.path, self.frame = path, frame_of(path)
        self.titles = [str(title) for title in self.frame.columns]

    def column(self, place: int) -> HostArray:
        return values_of(self.frame.iloc[:, place], self.path)


_READERS: dict[str, Callable[[Path], Table]] = {
    ".csv": _csv,
    ".parquet": _Frame,
    ".npz": _npz,
    ".npy": _npy,
}
