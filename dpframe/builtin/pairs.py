"""Built-in pairs: a table with one edit, written values, zeros against ones; and their forms."""

import contextlib
import dataclasses
import functools
import importlib
import json
import math
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, NewType

import numpy as np
from pydantic import BeforeValidator, WithJsonSchema

from dpframe.builtin import tables
from dpframe.builtin.tables import (
    Edit,
    Form,
    GivenForm,
    GivenTable,
    GivenTypes,
    Row,
    Rows,
    Table,
    is_number,
)
from dpframe.plugins import Ge, HostArray, Pair, SpecFile, plain

Change = NewType("Change", object)
"""`{ replace = 3, by = […] }`, `{ remove = 3 }` or `{ add = […] }`."""

GivenEdit = Annotated[Change, BeforeValidator(tables.edit), WithJsonSchema({"type": "object"})]


class Records(Pair, name="records"):
    """A table of records as D, and D′ with one of them replaced, removed or added.

    The table is written in the spec or in a file beside it: .csv, .npy, .npz or .parquet. The edit
    determines the relation of D and D′.
    """

    parameters_say_all: ClassVar[bool] = False  # a file may change

    table: GivenTable | None = None
    """The records, each a value, a list of values or a table by column; or a table of columns."""
    file: SpecFile | None = None
    """A file with the records instead, relative to the spec."""
    columns: tuple[str, ...] = ()
    """Names of the columns; default: those of the table or its file, else c0, c1, …."""
    edit: GivenEdit
    """The edit that turns D into D′: `replace` with `by`, `remove`, or `add`, optionally with `at`.
    Positions count from 0, or from −1 at the end."""
    user: str | None = None
    """A column that identifies the user of a record; the edit then covers all records of one
    user."""
    form: GivenForm = "auto"
    types: GivenTypes = ()
    description: str = ""
    """A description of the pair, in a few words."""
    null: bool = False
    """True if the new record of the edit stands for none (zero-out)."""

    def check(self) -> None:
        with tables.about(tables.check_source(self.table, self.file)):
            self._table  # noqa: B018  # read here, so that a mistake is reported with its place
        with tables.about("edit"):
            self.rows  # noqa: B018
        with tables.about("form"):
            self._formed()

    # Python compares 1, 1.0 and True as equal, and 0.0 and −0.0; as data they differ.

    @functools.cached_property
    def _text(self) -> str:
        return repr((self.params(), self.file and str(self.file.folder)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Records) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def params(self) -> dict[str, Any]:
        given: Any = self.edit
        as_written = {
            "table": plain.written(self.table),
            "file": str(self.file),
            "columns": list(self.columns),
            "edit": given.params(),
            "types": list(self.types),
        }
        return {
            field.name: as_written.get(field.name, value)
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default
        }

    @property
    def adjacency(self) -> str:
        """The relation of D and D′, which follows from the edit."""
        given: Any = self.edit
        what = "one record" if self.user is None else "all records of one user"
        if given.kind != "replace":
            return f"add or remove {what}"
        return f"zero out {what}" if self.null else f"replace {what}"

    @property
    def d0(self) -> Any:
        return self._formed()[0]

    @property
    def d1(self) -> Any:
        return self._formed()[1]

    def _formed(self) -> tuple[Any, Any]:
        return formed(self._table, self.rows, self._table.form(self.form))

    @property
    def new_records(self) -> Rows:
        """The records that the edit brings."""
        given: Any = self.edit
        return tables.new_records(self._table, given, self.user)

    @functools.cached_property
    def _table(self) -> Table:
        return tables.given_table(self.table, self.file, self.columns, self.types)

    @functools.cached_property
    def rows(self) -> tuple[Rows, Rows]:
        """The records of D and of D′, cell by cell."""
        given: Any = self.edit
        return self._table.rows, tables.edited(self._table, given, self.user)


def made_of_rows(
    of: Table,
    new: Rows,
    change: Edit,
    user: str | None,
    form: Form,
    description: str,
    null: bool = False,
) -> Records:
    """Make a pair from tables that were read and edited before.

    `of` is D, `new` has the records of D′, and `change` is the edit between them, whose `by` are
    records; `user` is the column that names the user of a record.
    """
    # An array of one axis is written as single values.
    flat = of.flat or (len(of.names) == 1 and not of.lists and form in ("array", "integers"))
    flat = flat and user is None
    if user is None and change.by:
        change = change._replace(by=change.by[0][0] if flat else change.by[0])
    made = object.__new__(Records)
    plain.fill(
        made,
        table=tuple(row[0] for row in of.rows) if flat else of.rows,
        file=None,
        columns=of.names,
        edit=change,
        user=user,
        form=form,
        types=of.types,
        description=description,
        null=null,
        _table=of._replace(named=False, flat=flat, lists=not flat),
        rows=(of.rows, new),
    )
    return made


class ZerosOnes(Pair, name="zeros-ones"):
    """D = (0, …, 0) and D′ = (1, …, 1): one person's record, replaced [Habernal2022, section 4].

    The l1 distance is dim: the two are as far apart as records in [0, 1]^dim can be.
    """

    adjacency: ClassVar[str] = "replace one record"
    parameters_say_all: ClassVar[bool] = True

    dim: Annotated[int, Ge(1)] = 1
    """Number of coordinates."""

    # Views of one number: a million coordinates take no memory before a draw.

    @property
    def d0(self) -> HostArray:
        return np.broadcast_to(np.float32(0), self.dim)

    @property
    def d1(self) -> HostArray:
        return np.broadcast_to(np.float32(1), self.dim)

    def distance(self, p: float) -> float:
        return 1.0 if p == math.inf else math.sqrt(self.dim) if p == 2 else self.dim ** (1 / p)


def formed(of: Table, both: tuple[Rows, Rows], form: Form) -> tuple[Any, Any]:
    """Return D and D′ in the form that a mechanism gets; `form` is not "auto".

    All records are brought into the form together. So a column has the same type in D and in D′: an
    integer column with a missing cell in one of them is a float column in both.

    Raises:
        ValueError: the records do not have this form.
    """
    names, rows, cut = of.names, [*both[0], *both[1]], len(both[0])
    whole: Any
    d0: Any
    d1: Any
    match form:
        case "array" | "integers":
            whole = _array(rows, of, whole=form == "integers")
        case "rows":
            whole = [plain.thawed(r[0] if of.flat else r) for r in rows]
        case "dicts":
            whole = [dict(zip(names, r, strict=True)) for r in rows]
        case "columns" | "arrays":
            columns: dict[str, Any] = {
                name: _column(rows, at, of.types) if form == "arrays" else [r[at] for r in rows]
                for at, name in enumerate(names)
            }
            d0, d1 = ({n: c[part] for n, c in columns.items()} for part in _parts(cut))
            return d0, d1
        case "frame":
            return _frames(rows, cut, of)
        case "xy":
            if len(names) < 2:
                raise ValueError('the form "xy" needs at least two columns: the last one is y')
            x = _array([r[:-1] for r in rows], Table((), names[:-1], lists=True))
            y = _column(rows, -1)
            return (x[:cut], y[:cut]), (x[cut:], y[cut:])
        case _:
            if (cut, len(rows)) != (1, 2):
                raise ValueError(
                    'the form "record" is for a table of one record, which is replaced'
                )
            d0, d1 = (r[0] if len(r) == 1 else list(r) for r in rows)
            return d0, d1
    return whole[:cut], whole[cut:]


def _parts(cut: int) -> tuple[slice, slice]:
    return slice(cut), slice(cut, None)


def _array(rows: list[Row], of: Table, *, whole: bool = False) -> HostArray:
    cells = [cell for r in rows for cell in r]
    for cell in cells:
        if not is_number(cell):
            raise ValueError(f"{cell!r} is not a number, but the form is an array")
    flat = len(of.names) == 1 and not of.lists
    made = np.array(rows, _dtype(cells, whole=whole))
    wanted = of.types[0] if len(set(of.types)) == 1 else ""
    return _as_given(made.reshape((-1,) if flat else (-1, len(of.names))), wanted)


def _column(rows: list[Row], at: int, types: tuple[str, ...] = ()) -> HostArray:
    """Return one column as an array: as given, or of booleans, integers, floats, objects."""
    cells = [r[at] for r in rows]
    return _as_given(np.array(cells, _dtype(cells, whole=True)), types[at] if types else "")


def _dtype(cells: list[Any], *, whole: bool) -> Any:
    """Return the type of an array of some cells; a missing one is NaN among numbers."""
    kinds = {type(cell) for cell in cells}
    if kinds == {bool}:
        return bool
    if whole and kinds == {int} and all(-(2**63) <= cell < 2**63 for cell in cells):
        return np.int64
    return np.float64 if kinds <= {int, float, bool, type(None)} else object


def _as_given(column: HostArray, wanted: str) -> HostArray:
    """Return a column in the type that the author's code had, if that holds all of its cells."""
    if not wanted or wanted.startswith(plain.CATEGORY) or column.dtype.kind not in "biuf":
        return column
    try:
        with np.errstate(all="ignore"):
            cast = column.astype(wanted)
            back = cast.astype(column.dtype)
    except (TypeError, ValueError):  # a type of pandas alone
        return column
    narrow = cast.dtype.kind == column.dtype.kind == "f"  # rounds, as the author's code does
    same = narrow or np.array_equal(back, column, equal_nan=column.dtype.kind == "f")
    return cast if same else column


def _categories(wanted: str, cells: Iterable[Any]) -> list[Any] | None:
    """Return the categories of a column with those of its cells; None if it is of another type."""
    if not wanted.startswith(plain.CATEGORY):
        return None
    known: list[Any] = json.loads(wanted.removeprefix(plain.CATEGORY) or "[]")
    fresh = [cell for cell in cells if cell is not None and cell == cell]  # noqa: PLR0124
    return list(dict.fromkeys([*known, *fresh]))


@dataclasses.dataclass(frozen=True)
class UnmadeFrame:
    """The content of a pandas frame, for a black box in an environment with pandas.

    It is used if this interpreter lacks pandas; `dpframe.draw.worker.plain_data` makes the
    frame in the other environment.
    """

    names: list[str]
    columns: list[list[Any]]  # type and cells of each
    rows: int

    unmade: ClassVar[str] = "the form \"frame\" needs pandas: pip install 'dpframe[pandas]'"
    """The message for mechanisms that run in this interpreter."""


def _unmade(rows: list[Row], cut: int, of: Table) -> tuple[UnmadeFrame, UnmadeFrame]:
    columns: list[list[Any]] = []
    for at in range(len(of.names)):
        cells = [r[at] for r in rows]
        known = _categories(of.types[at] if of.types else "", cells)
        column = _column(rows, at, of.types)
        if known is not None:
            codes = [known.index(c) if c in known else -1 for c in cells]
            columns.append([plain.CATEGORY, codes, known, False])
        elif column.dtype.kind != "O":
            columns.append([str(column.dtype), column])
        else:
            texts = all(isinstance(cell, str | None) for cell in cells)
            columns.append(["str" if texts else "object", cells])
    d0, d1 = (
        UnmadeFrame(
            [*of.names],
            [[kind, cells[part], *more] for kind, cells, *more in columns],
            len(rows[part]),
        )
        for part in _parts(cut)
    )
    return d0, d1


def _frames(rows: list[Row], cut: int, of: Table) -> tuple[Any, Any]:
    try:
        pandas: Any = importlib.import_module("pandas")
    except ImportError:
        return _unmade(rows, cut, of)
    columns = {name: [r[at] for r in rows] for at, name in enumerate(of.names)}
    whole = pandas.DataFrame(columns, columns=list(of.names))
    for name, wanted in zip(of.names, of.types, strict=False):
        if (known := _categories(wanted, columns[name])) is not None:
            whole[name] = pandas.Categorical(columns[name], categories=known)
        elif wanted:
            with contextlib.suppress(TypeError, ValueError, OverflowError):  # it does not hold all
                whole[name] = whole[name].astype(wanted)
    d0, d1 = (whole.iloc[part].reset_index(drop=True) for part in _parts(cut))
    return d0, d1
