"""Read tables of scores from files."""

from __future__ import annotations

import array
import contextlib
import csv
import functools
import gzip
import importlib
import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np

from dpframe.common.files import NotReadableError, read_regular
from dpframe.common.text import QUOTES, cut, escape, listed, typographic
from dpframe.common.types import HostArray
from dpframe.errors import ScoresError

MOST_TEXT = 1 << 30  # bytes of a .csv, .tsv or .jsonl file, which is read as a whole
MOST_JSON = 1 << 24  # bytes of a .json file; its values may take thirty times as much memory
MOST_UNPACKED = 1 << 28  # bytes of an array of an archive, or of an unpacked file
MOST_PACKED = 1 << 26  # bytes that may unpack from any file; for more, see `MOST_RATIO`
MOST_RATIO = 100  # unpacked bytes for each packed one; numbers pack to a half, words to a tenth
MOST_ARRAYS = 1_000  # of an archive

BOOLEANS = {"true": True, "false": False}


class ScoreTable(Protocol):
    """Columns of equal length, or arrays of an archive."""

    @property
    def titles(self) -> Sequence[str]:
        """Titles of the columns, in order; empty texts if there are none."""

    @property
    def hint(self) -> str:
        """A likely mistake, for messages about columns that are missing; may be empty."""

    def column(self, place: int, words: Mapping[str, bool] = BOOLEANS) -> HostArray:
        """Return the values of one column; raises ScoresError if they are not numbers or words."""

    def texts(self, place: int) -> list[str]:
        """Return the values of one column as they are written."""

    def where(self, row: int) -> str:
        """Name a row, counted from 0, by file and line if there is one."""


def read_table(path: Path) -> ScoreTable:
    """Read a file in a format of `FORMATS`, also packed as .gz; its suffix gives the format.

    An .npy file is mapped into memory, not loaded; of an .npz file only headers are read until a
    column is requested. In a .csv file "nan" and "inf" are numbers; an empty field is a mistake. A
    .parquet file needs pandas. Raises ScoresError if the file is missing, cannot be read, is too
    large, or holds something else.
    """
    name = path.name.lower()
    packed = name.endswith(".gz")
    reader = _READERS.get(Path(name.removesuffix(".gz")).suffix)
    if reader is None:
        raise ScoresError(f"{path}: dpframe reads scores from {FORMATS} files, also with .gz")
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ScoresError(f"{path}: is not a regular file")
        return reader(path, _unpacked(path) if packed else None)
    except NotReadableError as error:
        raise ScoresError(f"{path}: {error}") from error
    except FileNotFoundError:
        raise ScoresError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ScoresError(f"{path}: is a directory") from None
    except OSError as error:
        raise ScoresError(f"{path}: cannot read it: {error.strerror or error}") from error


def _unpacked(path: Path) -> bytes:
    """Return the content of a .gz file, unless it is too large."""
    packed = read_regular(path, MOST_UNPACKED)
    most = _most(len(packed))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = file.read(most + 1)
    except Exception as error:  # also those of zlib
        raise ScoresError(f"{path}: cannot be unpacked: {error}") from None
    if len(content) > most:
        raise ScoresError(f"{path}: unpacks to more than {most:,} bytes; unpack it yourself")
    return content


def _most(packed: int) -> int:
    """Return the bytes to which so many may unpack."""
    return min(MOST_UNPACKED, max(MOST_PACKED, MOST_RATIO * packed))


class _Arrays(NamedTuple):
    """Columns that are arrays already."""

    path: Path
    titles: list[str]
    columns: Sequence[HostArray]
    hint: str = ""

    def column(self, place: int, words: Mapping[str, bool] = BOOLEANS) -> HostArray:
        return worded(np.asarray(self.columns[place]), words)

    def texts(self, place: int) -> list[str]:
        return [str(value) for value in np.asarray(self.columns[place]).tolist()]

    def where(self, row: int) -> str:
        return _row(self.path, row)


def worded(values: HostArray, words: Mapping[str, bool]) -> HostArray:
    """Convert an array of words to truth values; return any other array unchanged."""
    if values.dtype.kind == "S":
        values = np.char.decode(values, "latin-1")
    if values.dtype.kind not in "OU" or not len(values):
        return values
    truths = [words.get(str(value).strip().lower()) for value in values.ravel()]
    return values if None in truths else np.array(truths, bool).reshape(values.shape)


# Text files.


class _Written:
    """A table of written values; only the requested columns must be numbers."""

    path: Path
    titles: list[str]
    hint = ""

    def _cells(self, place: int) -> Iterator[tuple[str, str]]:
        """Yield file and line, and text, of each value of a column."""
        raise NotImplementedError

    def column(self, place: int, words: Mapping[str, bool] = BOOLEANS) -> HostArray:
        try:
            return np.fromiter((float(text) for _, text in self._cells(place)), np.float64)
        except ValueError:  # truth values or a mistake
            pass
        cells = list(self._cells(place))
        values = [number_of(text, words) for _, text in cells]
        decided = [isinstance(value, bool) for value in values]
        some = any(decided)
        for (where, text), value in zip(cells, values, strict=True):
            if value is None or (
                some and value not in ((0, 1) if words is BOOLEANS else (0, 1, -1))
            ):
                title = f" (column {cut(self.titles[place])})" if self.titles[place] else ""
                problem = _problem(text.strip(), decisions=some, members=words is not BOOLEANS)
                raise ScoresError(f"{where}: {problem}{title}")
        if some:
            values = [value > 0 for value in values if value is not None]
        return np.array(values, np.bool_ if some else np.float64)

    def texts(self, place: int) -> list[str]:
        return [text.strip() for _, text in self._cells(place)]

    def where(self, row: int) -> str:
        return next((where for at, (where, _) in enumerate(self._cells(0)) if at == row), "")


def number_of(text: str, words: Mapping[str, bool] = BOOLEANS) -> float | bool | None:
    """Parse a number or a word for a truth value; return None for anything else."""
    text = text.strip().lower()
    try:
        return words[text] if text in words else float(text)
    except ValueError:
        return None


def _problem(text: str, *, decisions: bool, members: bool) -> str:
    if not text and members:
        return "a membership is missing; write 1 for in or 0 for out, or remove the row"
    if not text:
        return "nothing; if a score is missing, write nan"
    if slip := typographic(text):
        return f"{escape(repr(cut(text)))} is not a number: {slip}"
    if members:
        return f"{escape(repr(cut(text)))} is neither in nor out; write 1 or 0, or remove such rows"
    return (
        f"{escape(repr(cut(text)))} is {'neither true nor false' if decisions else 'not a number'}"
    )


class _Delimited(_Written):
    """A .csv or .tsv file."""

    def __init__(self, path: Path, content: bytes | None, separators: str = ",;\t") -> None:
        self.path, self.text = path, _text_of(path, content).rstrip(" \r\n")
        self.separator = _separator(self.text, separators)
        rows = self._rows()
        _, row = next(rows, (1, []))
        second = next(rows, (2, []))[1]
        self.width = len(row)
        self.titled = bool(row) and (
            all(number_of(text) is None for text in row) or _counted(row, second)
        )
        self.titles = [text.strip() if self.titled else "" for text in row]
        for title in self.titles:
            if any(char in title for char in QUOTES):
                raise ScoresError(f"{path}:1: the title {cut(title)}: {typographic(title)}")
        if (
            not self.titled
            and self.separator == ","
            and all(t.strip().isdecimal() for t in row[1:])
        ):
            self.hint = (
                f"; if {cut(self.text.partition(chr(10))[0])} has a decimal comma, write a point"
            )

    def _cells(self, place: int) -> Iterator[tuple[str, str]]:
        rows = self._rows()
        if self.titled:
            next(rows)
        for line, row in rows:
            if len(row) != self.width:
                what = f"{len(row)} columns, and {self.width} above" if row else EMPTY_LINE
                if len(row) > self.width and self.separator == ",":
                    what += "; if commas are decimal commas, write points, as in 0.5"
                raise ScoresError(f"{self.path}:{line}: {what}")
            yield f"{self.path}:{line}", row[place]

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(_line_by_line(self.text), delimiter=self.separator)
        try:
            for row in reader:
                yield reader.line_num, row
        except csv.Error as error:
            raise ScoresError(f"{self.path}: not a .csv file: {error}") from error


def _line_by_line(text: str) -> Iterator[str]:
    """Yield lines with their ends; a list of all, or a file in memory, would take much more."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


EMPTY_LINE = "an empty line; if a score is missing, write nan"


def _separator(text: str, separators: str) -> str:
    """Return the character that separates columns: the one found equally often in two lines."""
    first, second, *_ = (*text.split("\n", 2), "", "")
    # A decimal comma is more likely than a semicolon or a tabulator inside a value.
    for each in reversed(separators):
        if first.count(each) and (not second or first.count(each) == second.count(each)):
            return each
    return max(separators, key=first.count)


def _counted(row: list[str], second: list[str]) -> bool:
    """True if a header counts the columns from 0, as pandas writes it, and data follow."""
    numbers = [str(n) for n in range(len(row))]
    after = [text.strip() for text in row]
    return (
        len(row) > 1
        and (after == numbers or after == ["", *numbers[:-1]])
        and any(number_of(text) is not None and not text.strip().isdecimal() for text in second)
    )


class _Listed(_Written):
    """A .jsonl file, on each line an object with the same keys, or a .json file."""

    def __init__(
        self,
        path: Path,
        titles: Sequence[str],
        columns: Sequence[Sequence[Any]],
        lines: Sequence[int] = (),
    ) -> None:
        self.path, self.titles, self.columns, self.lines = path, [*titles], columns, lines

    def _cells(self, place: int) -> Iterator[tuple[str, str]]:
        for row, value in enumerate(self.columns[place]):
            text = "" if value is None else json.dumps(value)
            yield self.where(row), value if isinstance(value, str) else text

    def where(self, row: int) -> str:
        return f"{self.path}:{self.lines[row]}" if self.lines else _row(self.path, row)


def _row(path: Path, row: int) -> str:
    return f"{path}: row {row + 1:,}"


EXAMPLE = '{"score": 0.5, "member": 1}'


def _jsonl(path: Path, content: bytes | None) -> ScoreTable:
    columns: dict[str, list[Any]] = {}
    lines = array.array("Q")
    for number, line in enumerate(_line_by_line(_text_of(path, content, MOST_UNPACKED)), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise ScoresError(f"{path}:{number}: not JSON") from None
        if not isinstance(row, dict) or not row:
            raise ScoresError(f"{path}:{number}: not an object, such as {EXAMPLE}")
        if not lines:
            columns = {title: [] for title in row}
        _append(row, columns, f"{path}:{number}")
        lines.append(number)
    return _Listed(path, [*columns], [*columns.values()], lines)


def _append(row: dict[str, Any], columns: dict[str, list[Any]], where: str) -> None:
    if row.keys() != columns.keys():
        names = listed(sorted(row.keys() ^ columns.keys()))
        raise ScoresError(f"{where}: other keys than above: {names}")
    for title, values in columns.items():
        values.append(row[title])


def _json(path: Path, content: bytes | None) -> ScoreTable:
    """Read a list of objects, of numbers or of rows, or an object of lists."""
    try:
        text = _text_of(path, content, MOST_JSON)
    except NotReadableError as error:
        raise ScoresError(f"{path}: {error}; write the table as .csv or .jsonl") from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ScoresError(f"{path}: not JSON; for an object in each line, call it .jsonl") from None
    if isinstance(value, dict) and value.keys() >= {"columns", "data"}:  # pandas, orient="split"
        titles, rows = value["columns"], _by_column(value["data"], path)
        if not isinstance(titles, list) or len(titles) != len(rows):
            raise ScoresError(f"{path}: columns and data do not fit")
        return _Listed(path, [*map(str, titles)], rows)
    if isinstance(value, dict):
        columns = _lists(value, path)
        return _Listed(path, [*columns], [*columns.values()])
    if isinstance(value, list) and value and all(isinstance(row, dict) and row for row in value):
        appended: dict[str, list[Any]] = {title: [] for title in value[0]}
        for number, row in enumerate(value):
            _append(row, appended, _row(path, number))
        return _Listed(path, [*appended], [*appended.values()])
    rows = _by_column(value, path)
    return _Listed(path, [""] * len(rows), rows)


def _lists(table: dict[str, Any], path: Path) -> dict[str, Sequence[Any]]:
    """Return the columns of an object of lists, or of objects as pandas writes them."""
    columns = {
        title: list(values.values()) if isinstance(values, dict) else values
        for title, values in table.items()
    }
    for title, values in columns.items():
        if not isinstance(values, list):
            raise ScoresError(f"{path}: {cut(title)!r} is not a list of values")
    if len({len(values) for values in columns.values()}) > 1:
        sizes = listed(f"{title} has {len(v):,}" for title, v in columns.items())
        raise ScoresError(
            f"{path}: lists of different lengths: {sizes}; write scores of members and of "
            "others into two files, for --scores1 and --scores0"
        )
    return columns


def _by_column(values: Any, path: Path) -> list[Sequence[Any]]:
    """Return the columns of a list of values, or of rows."""
    rows = values if isinstance(values, list) else [{}]
    if rows and all(isinstance(row, list) for row in rows):
        if len({len(row) for row in rows}) > 1:
            raise ScoresError(f"{path}: rows of different lengths")
        return list(zip(*rows, strict=True))
    if any(isinstance(row, list | dict) for row in rows):
        raise ScoresError(
            f"{path}: not a list of objects such as {EXAMPLE}, nor an object of lists"
        )
    return [rows]


def _text_of(path: Path, content: bytes | None, most: int = MOST_TEXT) -> str:
    try:
        read = read_regular(path, most) if content is None else content
        if len(read) > most:
            raise NotReadableError(f"has more than {most:,} bytes")
        text = read.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScoresError(
            f"{path}: not a text file in UTF-8: {error.reason}; save it as UTF-8"
        ) from error
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


# Arrays of NumPy.


class _Archive:
    """An .npz file; its headers are read at once, and an array when it is requested."""

    hint = ""

    def __init__(self, path: Path, content: bytes | None) -> None:
        self.path, self.content = path, content
        self.entries: list[zipfile.ZipInfo] = []
        self.shapes: list[tuple[int, ...]] = []
        with self._opened() as archive:
            infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            if len(infos) > MOST_ARRAYS:
                raise ScoresError(f"{path}: has {len(infos):,} arrays; at most {MOST_ARRAYS:,}")
            for info in infos:
                with self._entry(archive, info) as file:
                    shape = _header(file)[0]
                if shape:  # a single number is no column
                    self.entries.append(info)
                    self.shapes.append(shape)
        self.titles = [info.filename.removesuffix(".npy") for info in self.entries]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        try:
            source = self.path if self.content is None else io.BytesIO(self.content)
            with zipfile.ZipFile(source) as archive:
                yield archive
        except (OSError, ScoresError):
            raise
        except Exception as error:  # not an archive, or a header that says anything
            raise ScoresError(f"{self.path}: not an .npz file of plain arrays") from error

    def _entry(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("packed in a way that NumPy does not use")
        return archive.open(info)

    def column(self, place: int, words: Mapping[str, bool] = BOOLEANS) -> HostArray:
        info, title = self.entries[place], cut(self.titles[place])
        if info.file_size > _most(info.compress_size):
            raise ScoresError(
                f"{self.path}: {title} unpacks to {info.file_size:,} bytes, too many; save it as "
                ".npy, which is not loaded as a whole"
            )
        with self._opened() as archive:
            with self._entry(archive, info) as file:
                shape, dtype, start = _header(file)
            if dtype.hasobject:
                raise ScoresError(f"{self.path}: not an .npz file of plain arrays: {title}")
            if start + dtype.itemsize * math.prod(shape) != info.file_size:
                raise ScoresError(f"{self.path}: {title} is damaged: its header names another size")
            with self._entry(archive, info) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
        return worded(array, words)

    def texts(self, place: int) -> list[str]:
        return [str(value) for value in self.column(place, {}).tolist()]

    def where(self, row: int) -> str:
        return _row(self.path, row)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return the shape and type of an array, and the place where its values begin."""
    version = np.lib.format.read_magic(file)
    readers: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, _, dtype = readers[version](file)
    return shape, dtype, file.tell()


def _npy(path: Path, content: bytes | None) -> ScoreTable:
    with path.open("rb") if content is None else io.BytesIO(content) as file:
        if not file.read(6) == b"\x93NUMPY":
            raise ScoresError(f"{path}: not an .npy file of NumPy")
        file.seek(0)
        try:
            if content is None:
                array = np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
            else:
                shape, dtype, start = _header(file)
                if start + dtype.itemsize * math.prod(shape) != len(content):
                    raise ValueError("its header names another size")
                array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
        except OSError:
            raise
        except Exception as error:  # a header may say anything
            # An array of nothing cannot be mapped, and one of objects must not be loaded.
            if "empty" in str(error):
                raise ScoresError(f"{path}: contains no scores") from None
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ScoresError(f"{path}: cannot read it: {first}") from error
    if names := array.dtype.names:
        return _Arrays(path, list(names), [array[name] for name in names])
    if array.ndim not in (1, 2):
        raise ScoresError(f"{path}: columns have shape [n, k]; this has {array.shape}")
    columns = [array] if array.ndim == 1 else list(array.T)
    return _Arrays(path, [""] * len(columns), columns)


class _Frame:
    """A .parquet file, which pandas reads."""

    hint = ""

    def __init__(self, path: Path, content: bytes | None) -> None:
        try:
            pandas: Any = importlib.import_module("pandas")
        except ImportError:
            raise ScoresError(
                f"{path}: reading it needs pandas: pip install 'dpframe[pandas]'"
            ) from None
        if not path.exists():
            raise FileNotFoundError
        if (size := _values_of_parquet(content or path)) > MOST_UNPACKED / 8:
            raise ScoresError(
                f"{path}: holds {size:,} values, too many; keep only the columns used"
            )
        try:
            self.path = path
            self.frame = pandas.read_parquet(path if content is None else io.BytesIO(content))
        except Exception as error:  # whatever the parquet engine raises
            raise ScoresError(f"{path}: cannot read it: {error}") from error
        self.titles = [str(title) for title in self.frame.columns]

    def column(self, place: int, words: Mapping[str, bool] = BOOLEANS) -> HostArray:
        column = self.frame.iloc[:, place]
        kind = getattr(column.dtype, "kind", "O")
        if kind in "iuf" and column.hasnans:  # such columns may have a NaN of their own
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        if kind == "b" and column.hasnans:
            raise ScoresError(f"{self.path}: a decision is missing; decisions are true or false")
        return worded(np.asarray(column.to_numpy()), words)

    def texts(self, place: int) -> list[str]:
        return [str(value) for value in self.frame.iloc[:, place].to_numpy().tolist()]

    def where(self, row: int) -> str:
        return _row(self.path, row)


def _values_of_parquet(source: Path | bytes) -> int:
    """Return the number of values that a .parquet file says it has; 0 if that is not known."""
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
        metadata = parquet.read_metadata(source if isinstance(source, Path) else io.BytesIO(source))
        return int(metadata.num_rows) * int(metadata.num_columns)
    except Exception:  # pandas says what is wrong
        return 0


_READERS: dict[str, Callable[[Path, bytes | None], ScoreTable]] = {
    ".csv": _Delimited,
    ".tsv": functools.partial(_Delimited, separators="\t"),
    ".json": _json,
    ".jsonl": _jsonl,
    ".parquet": _Frame,
    ".npz": _Archive,
    ".npy": _npy,
}
FORMATS = ", ".join(_READERS)
