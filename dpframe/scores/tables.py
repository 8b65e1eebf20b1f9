"""Read scores and memberships from files."""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpframe.common.files import NotReadableError, read_regular
from dpframe.common.text import did_you_mean, listed
from dpframe.common.types import HostArray
from dpframe.errors import ScoresError

LOSSES = ("loss", "losses")
"""Titles of scores that are lower for members."""
USUAL = {
    "--column": (("score", "scores", "mia_score", "mia_scores", *LOSSES),),
    "--member": (("member", "members", "membership", "is_member"), ("label", "labels")),
}
"""Usual titles, in lower case, for each option. `label` comes second, as it may name a class."""


def chosen(
    table: ScoreTable, option: str, wanted: str | None, path: Path, default: int | None = None
) -> int:
    """Return the index of the column that a user named or that has a usual title.

    `option` is the command-line option, a key of `USUAL`, and `wanted` the user's choice: a
    title, or a position from 1. `default` is returned if no title is usual and there are two
    columns. Raises ScoresError, which lists the columns, if the column is unknown or ambiguous.
    """
    titles = list(table.titles)
    if wanted is not None:
        return _named(titles, wanted, path, option)
    for usual in USUAL[option]:
        found = [n for n, title in enumerate(titles) if title.strip().lower() in usual]
        if len(found) == 1:
            return found[0]
        if found:
            names = listed([titles[n] for n in found])
            raise ScoresError(f"{path}: name the column with {option}: {names} are both recognised")
    if len(titles) == 2 and default is not None:
        return default
    raise ScoresError(f"{path}: name the column with {option}: {_there_are(titles)}")


def _named(titles: list[str], wanted: str, path: Path, option: str) -> int:
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


def _there_are(titles: Sequence[str]) -> str:
    if not titles:
        return "there is none"
    if not any(titles):
        return f"there are {len(titles)}, counted from 1"
    return f"there are {listed([title or '(without a title)' for title in titles])}"


MOST_BYTES = 1 << 32  # of a text file, which is read as a whole; an .npy file is not
BOOLEANS = {"true": True, "false": False}
_PAIRS = ("in out", "member nonmember", "member non-member", "yes no", "train test")
MEMBERSHIPS = {
    **BOOLEANS,
    **{word: not place for pair in _PAIRS for place, word in enumerate(pair.split())},
}
"""Words for memberships, in lower case."""


class ScoreTable(Protocol):
    """Columns of equal length, or arrays of an archive."""

    @property
    def titles(self) -> Sequence[str]:
        """Titles of the columns, in order; empty texts if there are none."""

    def column(self, place: int, words: Mapping[str, bool] = BOOLEANS) -> HostArray:
        """Return the values of one column; raises ScoresError if they are not numbers or words."""


def read_table(path: Path) -> ScoreTable:
    """Read a .csv, .jsonl, .parquet, .npz or .npy file; its suffix gives the format.

    An .npy file is mapped into memory, not loaded. In a .csv file "nan" and "inf" are numbers;
    an empty field is a mistake. A .parquet file needs pandas. Raises ScoresError if the file is
    missing, cannot be read, or holds something else.
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


class _Arrays(NamedTuple):
    """Columns that are arrays already."""

    titles: list[str]
    columns: list[HostArray]

    def column(self, place: int, words: Mapping[str, bool] = BOOLEANS) -> HostArray:
        return _worded(np.asarray(self.columns[place]), words)


def _worded(values: HostArray, words: Mapping[str, bool]) -> HostArray:
    """Convert an array of words to truth values; return any other array unchanged."""
    if values.dtype.kind not in "OU" or not len(values):
        return values
    found = [words.get(str(value).strip().lower()) for value in values]
    return values if None in found else np.array(found, bool)


class _Texts:
    """A .csv file; only the requested columns must be numbers."""

    def __init__(self, path: Path) -> None:
        self.path, self.text = path, _text_of(path).rstrip(" \r\n")
        first = self.text.partition("\n")[0]
        self.separator = max(",;\t", key=first.count)
        _, row = next(self._rows(), (1, []))
        self.width = len(row)
        self.titled = bool(row) and all(number_of(text) is None for text in row)
        self.titles = [text.strip() if self.titled else "" for text in row]

    def column(self, place: int, words: Mapping[str, bool] = BOOLEANS) -> HostArray:
        try:
            return np.fromiter((float(text) for _, text in self._cells(place)), np.float64)
        except ValueError:  # truth values or a mistake
            pass
        texts = list(self._cells(place))
        values = [number_of(text, words) for _, text in texts]
        decided = [isinstance(value, bool) for value in values]
        some = any(decided)
        for (line, text), value in zip(texts, values, strict=True):
            if value is None or (some and value not in (0, 1)):
                raise ScoresError(f"{self.path}:{line}: {_problem(text.strip(), decisions=some)}")
        return np.array(values, np.bool_ if all(decided) else np.float64)

    def _cells(self, place: int) -> Iterator[tuple[int, str]]:
        """Yield line and text of each value of a column."""
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


def number_of(text: str, words: Mapping[str, bool] = BOOLEANS) -> float | bool | None:
    """Parse a number or a word for a truth value; return None for anything else."""
    text = text.strip().lower()
    try:
        return words[text] if text in words else float(text)
    except ValueError:
        return None


class _Lines(_Texts):
    """A .jsonl file: on each line an object with the same keys."""

    def __init__(self, path: Path) -> None:
        self.path, self.titles = path, []
        self.objects: list[tuple[int, dict[str, Any]]] = []
        for number, line in enumerate(_text_of(path).split("\n"), 1):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                raise ScoresError(f"{path}:{number}: not JSON") from None
            if not isinstance(found, dict) or not found:
                raise ScoresError(f"{path}:{number}: not an object, such as {EXAMPLE}")
            self.titles = self.titles or list(found)
            if found.keys() != set(self.titles):
                raise ScoresError(f"{path}:{number}: other keys than above")
            self.objects.append((number, found))

    def _cells(self, place: int) -> Iterator[tuple[int, str]]:
        for number, values in self.objects:
            value = values[self.titles[place]]
            text = "" if value is None else json.dumps(value)
            yield number, value if isinstance(value, str) else text


EXAMPLE = '{"score": 0.5, "member": 1}'


def _text_of(path: Path) -> str:
    try:
        return read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScoresError(f"{path}: not a text file: {error.reason}") from error


def _npz(path: Path) -> ScoreTable:
    try:
        # Opened here, because NumPy leaves a file open that is not an archive.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            return _Arrays(found.files, [found[name] for name in found.files])
    except OSError:
        raise
    except Exception as error:  # not an archive, or an array of objects
        raise ScoresError(f"{path}: not an .npz file of plain arrays") from error


def _npy(path: Path) -> ScoreTable:
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
    if names := found.dtype.names:
        return _Arrays(list(names), [found[name] for name in names])
    if found.ndim not in (1, 2):
        raise ScoresError(f"{path}: columns have shape [n, k]; this has {found.shape}")
    columns = [found] if found.ndim == 1 else list(found.T)
    return _Arrays([""] * len(columns), columns)


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

    def column(self, place: int, words: Mapping[str, bool] = BOOLEANS) -> HostArray:
        column = self.frame.iloc[:, place]
        kind = getattr(column.dtype, "kind", "O")
        if kind in "iuf" and column.hasnans:  # such columns may have a NaN of their own
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        if kind == "b" and column.hasnans:
            raise ScoresError(f"{self.path}: a decision is missing; decisions are true or false")
        return _worded(np.asarray(column.to_numpy()), words)


_READERS: dict[str, Callable[[Path], ScoreTable]] = {
    ".csv": _Texts,
    ".jsonl": _Lines,
    ".parquet": _Frame,
    ".npz": _npz,
    ".npy": _npy,
}


class Scores(NamedTuple):
    """The scores of a file."""

    values: HostArray  # as from `as_scores`, shape [n]
    members: HostArray | None  # true if the record was in, shape [n]; None of one side
    title: str  # of the column; empty if it has none

    @property
    def is_loss(self) -> bool:
        """True if the title says that scores are lower for members."""
        return self.title.strip().lower() in LOSSES


def read_scores(path: Path, column: str | None = None) -> Scores:
    """Read scores from a file in a format of `read_table`.

    `column` is the title of the column, or its position from 1; default: the only column, or the
    column with a usual title.
    """
    table = read_table(path)
    if not table.titles:
        raise ScoresError(f"{path}: holds no scores")
    alone = column is None and len(table.titles) == 1
    place = 0 if alone else chosen(table, "--column", column, path)
    return Scores(as_scores(table.column(place), str(path)), None, table.titles[place])


def as_scores(values: Any, name: str) -> HostArray:
    """Check that values are scores.

    Args:
        values: shape [n] or [n, 1], booleans, floats or integers; NaN and infinities are scores.
        name: their name in messages.

    Returns:
        Shape [n]: booleans, float32 or float64. Integers become float64.

    Raises:
        ScoresError: there are none, more than one column, or values that are not numbers.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise ScoresError(f"{name}: is a masked array; pass only the valid scores, compressed()")
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise ScoresError(f"{name}: scores are one list of numbers") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ScoresError(f"{name}: scores must be one column, shape [n]; this has {array.shape}")
    if not len(array):
        raise ScoresError(f"{name}: holds no scores")
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise ScoresError(
            f"{name}: scores must be booleans or numbers; this contains {array.dtype}"
        )
    return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64, copy=False)


class CanaryScores(NamedTuple):
    """The canaries of one run."""

    scores: HostArray  # larger means more like a member, shape [m], float32 or float64
    members: HostArray  # which were in, shape [m], booleans


def as_canaries(scores: Any, members: Any, name: str) -> CanaryScores:
    """Check scores and memberships of the same canaries, shape [m] each.

    Scores are as for `as_scores`; booleans count as 0 and 1. Memberships are booleans, or numbers
    that are 0 or 1, or -1 and 1. `name` is for messages. Raises ScoresError for anything else.
    """
    values, inside = as_members(scores, members, name)
    if values.dtype == np.bool_:
        values = values.astype(np.float32)
    return CanaryScores(values, inside)


def as_members(scores: Any, members: Any, name: str) -> tuple[HostArray, HostArray]:
    """Check scores and memberships, shape [m] each, but keep decisions boolean."""
    values = as_scores(scores, f"{name}: scores")
    inside = as_scores(members, f"{name}: members")
    if inside.dtype != np.bool_ and set(np.unique(inside)) == {-1, 1}:
        inside = inside > 0
    if len(values) != len(inside):
        raise ScoresError(f"{name}: {len(values):,} scores and {len(inside):,} memberships")
    if not np.isin(inside, (0, 1)).all():
        wrong = inside[~np.isin(inside, (0, 1))][0]
        raise ScoresError(f"{name}: a membership is {wrong:g}; 1 is in, 0 or -1 is out")
    return values, inside.astype(bool)


def read_members(path: Path, column: str | None = None, member: str | None = None) -> Scores:
    """Read scores and memberships from a file in a format of `read_table`.

    Columns, or arrays of an .npz file, are found by usual titles; of two columns without such
    titles the first has the scores. `column` and `member` are their titles, or positions from 1. A
    membership is 1, 0 or -1, or a word of `MEMBERSHIPS`.
    """
    table = read_table(path)
    places = [
        chosen(table, option, wanted, path, default)
        for default, (option, wanted) in enumerate((("--column", column), ("--member", member)))
    ]
    if places[0] == places[1] and len(table.titles) == 2 and column is member is None:
        places = [1, 0]  # one title is usual, so the other column holds the other values
    if places[0] == places[1]:
        raise ScoresError(f"{path}: scores and memberships are two columns")
    members = table.column(places[1], MEMBERSHIPS)
    return Scores(*as_members(table.column(places[0]), members, str(path)), table.titles[places[0]])
