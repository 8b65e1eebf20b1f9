"""Tables of records: in memory, in files, and with one edit."""

import contextlib
import csv
import importlib
import io
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field, WithJsonSchema

from dpframe.plugins import ParameterError, SpecFile, plain

Row = tuple[Any, ...]  # one record: a number, a text, a boolean, bytes or None for each column

Rows = tuple[Row, ...]

Form = Literal[
    "auto", "array", "integers", "rows", "columns", "arrays", "dicts", "frame", "xy", "record"
]

GivenTable = Annotated[
    plain.Content,
    BeforeValidator(plain.read),
    WithJsonSchema({"anyOf": [{"type": "array"}, {"type": "object"}]}),
]

GivenForm = Annotated[
    Form,
    Field(
        description='The form that the mechanism gets: "array", floats; "integers", an array of '
        'whole numbers if all are; "rows", a list of lists; "dicts", a list of dicts; "columns", a '
        'dict of lists; "arrays", a dict of arrays; "frame", a pandas frame; "xy", X and the last '
        'column, y; "record", the only record itself. Default: an array if all cells are numbers, '
        "else dicts or rows, as the table is written."
    ),
]

GivenTypes = Annotated[
    tuple[str, ...],
    Field(
        description="Types of the columns in arrays and frames, as NumPy and pandas call them, "
        'such as "float32" or `category["a", "b"]`; "", or a type that cannot hold the cells: '
        "inferred from the cells."
    ),
]


class Table(NamedTuple):
    """Records and the names of their columns."""

    rows: Rows
    names: tuple[str, ...]
    flat: bool = False  # True if records were written as single values
    named: bool = False  # True if records were written as tables by column
    lists: bool = False  # True if records were written as lists: an array of one column has 2 axes
    types: tuple[str, ...] = ()  # of the columns, as NumPy and pandas call them; "" for any

    def form(self, wanted: Form) -> Form:
        """Return the wanted form, or the one that fits: an array if all cells are numbers."""
        if wanted != "auto":
            return wanted
        if all(is_number(cell) for row in self.rows for cell in row):
            return "array"
        return "dicts" if self.named else "rows"


def is_number(cell: Any) -> bool:
    """True if an array of floats can hold a cell; a missing one is NaN there."""
    return cell is None or isinstance(cell, int | float)


@contextlib.contextmanager
def about(parameter: str) -> Iterator[None]:
    """Report a ValueError raised inside as a mistake in a parameter."""
    try:
        yield
    except ParameterError:  # of another parameter
        raise
    except ValueError as error:
        raise ParameterError(parameter, str(error)) from None


def check_source(content: Any, file: SpecFile | None) -> str:
    """Return the parameter that gives the table: "table" or "file", of which one is required."""
    if (content is None) == (file is None):
        both = "" if content is None else ", not both"
        raise ParameterError("table", f"give the table as `table` or in a `file`{both}")
    return "file" if content is None else "table"


def given_table(
    content: Any, file: SpecFile | None, names: Sequence[str], types: tuple[str, ...]
) -> Table:
    """Make the table of a plugin from its parameters; raises ValueError."""
    made = table(content, names) if file is None else read_table(file, names)
    if types and len(types) != len(made.names):
        raise ValueError(f"has {len(made.names)} columns, but {len(types)} types")
    return made._replace(types=types)


def table(given: Any, names: Sequence[str] = ()) -> Table:
    """Make a table of a frozen value: single values, rows, tables by column, or a table of columns.

    Default for the names of the columns: those in the value, else c0, c1, ….

    Raises:
        ValueError: `given` is not a table.
    """
    if isinstance(given, plain.Fields):
        return _of_columns(given)
    if not isinstance(given, tuple):
        raise ValueError("is not a table: it must be a list of records")
    if given and all(isinstance(row, plain.Fields) for row in given):
        keys = dict.fromkeys(str(key) for row in given for key, _ in row)
        cells = [dict(row) for row in given]
        rows = tuple(tuple(row.get(key) for key in keys) for row in cells)
        return _checked(Table(rows, tuple(keys), named=True))
    flat = not any(isinstance(row, tuple) for row in given)
    if flat and len(names) > 1 and given:
        raise ValueError(f"has one column, but {len(names)} column names")
    rows = tuple((row,) for row in given) if flat else given
    for at, row in enumerate(rows):
        if not isinstance(row, tuple) or len(row) != len(rows[0]):
            raise ValueError(f"record {at} is not as long as record 0")
    width = len(rows[0]) if rows else max(1, len(names))
    if names and len(names) != width:
        raise ValueError(f"has {width} columns, but {len(names)} column names")
    called = tuple(names) or unnamed(width)
    flat = flat and (bool(given) or width == 1)
    return _checked(Table(rows, called, flat=flat, lists=not flat))


def unnamed(width: int) -> tuple[str, ...]:
    """Return default names of columns."""
    return tuple(f"c{at}" for at in range(width))


def _of_columns(given: plain.Fields) -> Table:
    lengths = {len(column) if isinstance(column, tuple) else -1 for _, column in given}
    if len(lengths) != 1 or -1 in lengths:
        raise ValueError("is a table of columns, which must be lists of equal length")
    rows = tuple(zip(*(column for _, column in given), strict=True))
    return _checked(Table(rows, tuple(str(name) for name, _ in given)))


def _checked(made: Table) -> Table:
    if len(set(made.names)) < len(made.names):
        raise ValueError(f"two columns have the same name: {', '.join(made.names)}")
    for at, row in enumerate(made.rows):
        for name, cell in zip(made.names, row, strict=True):
            if isinstance(cell, tuple):
                raise ValueError(f"record {at}, column {name}: is a list or a table, not a value")
    return made


def row(given: Any, names: tuple[str, ...]) -> Row:
    """Read one record, written as a value, a list, or a table by column.

    Raises:
        ValueError: its columns are not those of the table.
    """
    if isinstance(given, plain.Fields):
        cells = dict(given)
        if unknown := [str(key) for key in cells if key not in names]:
            raise ValueError(f"there is no column {', '.join(unknown)}; there are {listed(names)}")
        given = tuple(cells.get(name) for name in names)
    cells_of = given if isinstance(given, tuple) else (given,)
    if len(cells_of) != len(names):
        raise ValueError(f"has {count(len(cells_of), 'value')}, the table {listed(names)}")
    if any(isinstance(cell, tuple) for cell in cells_of):
        raise ValueError("a value of a record must not be a list or a table")
    return cells_of


def listed(names: tuple[str, ...]) -> str:
    """Return the number of columns and their names, for messages."""
    return f"{count(len(names), 'column')} ({', '.join(names)})"


def count(number: int, of: str) -> str:
    """Return a number with its noun: `1 record`, `2 records`."""
    return f"{number} {of}{'' if number == 1 else 's'}"


ACCEPTS = "must be { replace = 3, by = […] }, { remove = 3 } or { add = […] }"


class Edit(NamedTuple):
    """A replacement, removal or addition of one record, or of all records of one user."""

    kind: Literal["replace", "remove", "add"]
    at: int = 0  # place of the record, also of a new one; −1 is the last
    by: Any = ()  # the new record, or a user's new records

    def params(self) -> dict[str, Any]:
        """Return the edit as a spec has it."""
        match self.kind:
            case "replace":
                return {"replace": self.at, "by": plain.written(self.by)}
            case "remove":
                return {"remove": self.at}
            case _:
                at = {} if self.at == -1 else {"at": self.at}
                return {"add": plain.written(self.by), **at}


def edit(given: Any) -> Edit:
    """Read an edit that a spec or a program wrote; raises ValueError."""
    if isinstance(given, Edit):
        return given._replace(by=plain.frozen(given.by))
    fields = dict(plain.read(given)) if isinstance(plain.read(given), plain.Fields) else {}
    keys, places = set(fields), [fields.get(key, 0) for key in ("replace", "remove", "at")]
    if keys not in ({"replace", "by"}, {"remove"}, {"add"}, {"add", "at"}):
        raise ValueError(ACCEPTS)
    if not all(type(at) is int for at in places):
        raise ValueError("positions of records are whole numbers, from 0")
    if "add" in keys:
        return Edit("add", fields.get("at", -1), fields["add"])
    if "by" in keys:
        return Edit("replace", fields["replace"], fields["by"])
    return Edit("remove", fields["remove"])


def edited(of: Table, one: Edit, user: str | None = None) -> Rows:
    """Return the records of D′, given D and the edit.

    If `user` names a column, the edit covers all records of one user.

    Raises:
        ValueError: the table has no such record, or the new one has other columns.
    """
    if user is not None and user not in of.names:
        raise ValueError(f"there is no column {user!r}; the table has {listed(of.names)}")
    own = None if user is None else of.names.index(user)
    return with_edit(of.rows, one._replace(by=new_records(of, one, user)), own)


def new_records(of: Table, one: Edit, user: str | None = None) -> Rows:
    """Return the records that an edit brings: none, one, or those of a user; raises ValueError."""
    try:
        if one.kind == "remove":
            return ()
        if user is None:
            return (row(one.by, of.names),)
        if not isinstance(one.by, tuple) or isinstance(one.by, plain.Fields) or not one.by:
            raise ValueError("must be a list of records of one user")
        return tuple(row(part, of.names) for part in one.by)
    except ValueError as error:
        raise ValueError(f"the new record: {error}") from None


def with_edit(rows: Rows, one: Edit, user: int | None = None) -> Rows:
    """Return `rows` with an edit whose `by` are records; `user` is the column of users.

    Raises:
        ValueError: the edit does not fit the records.
    """
    size, adds = len(rows), one.kind == "add"
    at = one.at + size + adds if one.at < 0 else one.at
    if not 0 <= at < size + adds:
        records = count(size, "record")
        raise ValueError(
            f"a record is added at {one.at}, but there are {records}"
            if adds
            else f"there is no record {one.at}: the table has {records}"
        )
    gone = set() if adds else {at}
    if gone and user is not None:
        gone = {n for n, other in enumerate(rows) if plain.same_cell(other[user], rows[at][user])}
    kept = tuple(record for number, record in enumerate(rows) if number not in gone)
    if one.by and user is not None:
        name = one.by[0][user]
        if not all(plain.same_cell(new[user], name) for new in one.by):
            raise ValueError("the new records belong to several users")
        if any(plain.same_cell(other[user], name) for other in kept):
            raise ValueError(f"user {name!r} is already in the table")
    first = min(gone, default=at)
    return (*kept[:first], *one.by, *kept[first:])


MOST_BYTES = 256 << 20  # limit for files, because an audit runs the mechanism thousands of times

SUFFIXES = (".csv", ".npy", ".npz", ".parquet")


def read_table(file: SpecFile, names: Sequence[str] = ()) -> Table:
    """Read a table; the suffix of the file's name decides how.

    Args:
        file: .csv, .npy, .npz or .parquet.
        names: of the columns, if the file has none.

    Raises:
        ValueError: there is no such file, or it holds no table; the message is for the user.
    """
    kind = file.path.suffix.lower()
    if kind not in SUFFIXES:
        raise ValueError(f"{file}: tables are read from {', '.join(SUFFIXES)}")
    content = io.BytesIO(file.read(MOST_BYTES))
    reader = {".csv": _csv, ".npy": _npy, ".npz": _npz, ".parquet": _parquet}[kind]
    try:
        content_read, own = reader(content)
        made = table(plain.frozen(content_read), own or names)
        return made._replace(lists=made.lists and kind != ".csv")
    except ImportError:
        raise ValueError(
            f"{file}: reading .parquet needs pandas and pyarrow: pip install 'dpframe[pandas]'"
        ) from None
    except Exception as error:  # whatever a damaged file makes its reader raise
        problem = (
            str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        )
        raise ValueError(f"{file}: {problem}") from None


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
            raise ValueError(f"record {number} has {len(line)} cells instead of {width}")
    columns = [_typed([line[at] for line in lines]) for at in range(width)]
    return list(zip(*columns, strict=True)), names


def _typed(cells: list[str]) -> list[Any]:
    """Convert the cells of a column: to numbers or booleans if all are; empty ones to None."""
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
            number = kind(cell)
        except ValueError:
            continue
        return number if math.isfinite(number) or kind is float else None
    return None


def _npy(content: io.BytesIO) -> tuple[Any, tuple[str, ...]]:
    array = np.load(content, allow_pickle=False)
    if array.dtype.names is not None:
        return [list(record) for record in array.tolist()], tuple(array.dtype.names)
    if array.ndim not in (1, 2):
        raise ValueError(f"contains an array of shape {array.shape}; a table has one or two axes")
    return array, ()


def _npz(content: io.BytesIO) -> tuple[Any, tuple[str, ...]]:
    columns: dict[str, Any] = {}
    with np.load(content, allow_pickle=False) as archive:
        for name in archive.files:
            array = archive[name]
            if array.ndim == 1:
                columns[name] = array
            elif array.ndim == 2:
                columns |= {f"{name}_{at}": array[:, at] for at in range(array.shape[1])}
            else:
                raise ValueError(
                    f"{name} has the shape {array.shape}; columns have one or two axes"
                )
    return columns, ()


def _parquet(content: io.BytesIO) -> tuple[Any, tuple[str, ...]]:
    pandas: Any = importlib.import_module("pandas")
    frame = pandas.read_parquet(content)
    return plain.of_frame(frame), ()
