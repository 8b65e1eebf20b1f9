"""A table with its columns, the values that break libraries in it, and its possible edits."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NewType

from pydantic import BeforeValidator, ConfigDict, WithJsonSchema

from dpframe.builtin.tables import Edit, Form, Row, Rows, Table, is_number, with_edit
from dpframe.plugins import plain

Cell = NewType("Cell", object)  # a number, a text or a boolean

Given = Annotated[
    Cell,
    BeforeValidator(plain.scalar),
    WithJsonSchema({"anyOf": [{"type": kind} for kind in ("number", "boolean", "string")]}),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Switches:
    """Kinds of cells outside the schema, each of which may be proposed or not."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    nan: bool | None = None
    """NaN, and what is missing."""
    out_of_bounds: bool | None = None
    """Numbers out of bounds, infinities included, and fractions among whole numbers."""
    unknown_categories: bool | None = None
    """Categories missing from the schema or, without one, from the table."""

    def given(self) -> dict[str, bool]:
        """Return the switches that are set."""
        switches = ((name, getattr(self, name)) for name in SWITCHES)
        return {name: value for name, value in switches if value is not None}


SWITCHES = tuple(field.name for field in dataclasses.fields(Switches))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column(Switches):
    """Facts on one column of a table that its cells do not show.

    For `nan`, `out_of_bounds` and `unknown_categories`, true means that the claim covers data with
    such cells, and false that they never occur.
    """

    name: str | None = None
    """Name of the column; without names, entries are in the order of the columns."""
    low: float | None = None
    """Lower bound of its numbers."""
    high: float | None = None
    """Upper bound of its numbers."""
    integer: bool = False
    """True if its numbers are whole."""
    categories: tuple[Given, ...] = ()
    """Its possible values."""
    user: bool = False
    """True if it names the user of a record; an edit then covers all records of one user."""

    def params(self) -> dict[str, Any]:
        """Return the column as a spec has it; a bound of 0 is kept."""
        fields = ((field, getattr(self, field.name)) for field in dataclasses.fields(self))
        params = {field.name: value for field, value in fields if value != field.default}
        if self.categories:
            params["categories"] = [plain.written(cell) for cell in self.categories]
        return params


LARGEST = 2**63
"""Larger whole numbers are proposed as floats, because few libraries accept larger integers."""


class Known(NamedTuple):
    """A column as described by the schema, or else as inferred from the table."""

    name: str
    kind: Literal["number", "category", "user"]
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    floats: bool = False  # True if whole numbers are floats in its table
    categories: tuple[Any, ...] = ()
    may_be_missing: bool = False
    inside: frozenset[str] = frozenset()  # switches whose cells belong to the data
    never: frozenset[str] = frozenset()  # switches whose cells are not proposed

    def number(self, value: float) -> Any:
        """Return a number in the type of the column."""
        if not self.whole or not abs(value) < LARGEST:
            return float(value)
        return float(round(value)) if self.floats else round(value)

    def between(self, share: float) -> Any:
        """Return a number between the bounds: 0 gives the lower, 1 the upper."""
        return self.number(self.low + share * (self.high - self.low))

    def category(self, number: int) -> Any:
        """Return one of the categories; −1 gives the last one. None if there are none."""
        return self.categories[number % len(self.categories)] if self.categories else None

    def needs(self, cell: Any) -> frozenset[str]:
        """Return the switches that a cell needs: none inside the schema, "mistyped" for a new type.

        Any float is a number, whole or not.
        """
        return frozenset(self._needs(cell)) - self.inside

    def _needs(self, cell: Any) -> tuple[str, ...]:
        if cell is None or cell != cell:  # noqa: PLR0124
            number = cell is not None and self.kind == "number"
            return () if self.may_be_missing else ("nan",) if number else ("nan", "mistyped")
        if self.kind == "user":
            return ()
        if self.kind == "category":
            if any(_equal(cell, one) for one in self.categories):
                return ()
            known = type(cell) in {type(one) for one in self.categories}
            return ("unknown_categories",) if known else ("mistyped",)
        if isinstance(cell, bool) or not isinstance(cell, int | float):
            return ("mistyped",)
        fits = self.low <= cell <= self.high
        if self.whole and isinstance(cell, float) and math.isfinite(cell):
            fits = fits and self.floats and cell.is_integer()
        return () if fits else ("out_of_bounds",)


def _equal(cell: Any, other: Any) -> bool:
    """Compare a cell with a category; an array has floats for integers."""
    if any(isinstance(one, bool | str) or one is None for one in (cell, other)):
        return plain.same_cell(cell, other)
    return bool(cell == other)


def known_columns(of: Table, schema: Sequence[Column]) -> tuple[Known, ...]:
    """Return all columns of a table.

    Args:
        of: the table.
        schema: of some columns by name, or of all in their order.

    Raises:
        ValueError: the schema does not fit the table; the message is for the user.
    """
    described = _by_name(of, schema)
    columns = []
    for at, name in enumerate(of.names):
        cells = tuple(row[at] for row in of.rows)
        column = _known(name, described.get(name, Column()), cells)
        for number, cell in enumerate(cells):
            if name in described and column.needs(cell):
                raise ValueError(
                    f"column {name} does not fit the table: record {number} has {cell!r} there"
                )
        columns.append(column)
    if sum(column.kind == "user" for column in columns) > 1:
        raise ValueError("two columns identify the user of a record")
    return tuple(columns)


def _by_name(of: Table, schema: Sequence[Column]) -> dict[str, Column]:
    if any(column.name is not None for column in schema):
        names = [str(column.name) for column in schema]
        if unknown := [name for name in names if name not in of.names]:
            raise ValueError(f"there is no column {unknown[0]}; there are {', '.join(of.names)}")
        if len(set(names)) < len(names):
            raise ValueError("two entries describe the same column")
        return dict(zip(names, schema, strict=True))
    if schema and len(schema) != len(of.names):
        raise ValueError(
            f"has {len(schema)} entries without names, but the table has {len(of.names)} columns"
        )
    return dict(zip(of.names, schema, strict=False))


def _known(name: str, entry: Column, cells: Row) -> Known:
    missing = any(cell is None or cell != cell for cell in cells)  # noqa: PLR0124
    switches = entry.given()
    if missing and switches.get("nan") is False:
        raise ValueError(f"column {name}: nan is false, but a cell is missing or NaN")
    about: dict[str, Any] = {
        "may_be_missing": missing,
        "inside": frozenset(one for one, on in switches.items() if on),
        "never": frozenset(one for one, on in switches.items() if not on),
    }
    there = [cell for cell in cells if cell is not None]
    if entry.user:
        return Known(name, "user", **about)
    numeric = all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in there)
    bounds = entry.low is not None or entry.high is not None or entry.integer
    if entry.categories or not numeric or not (there or bounds):
        if bounds:
            raise ValueError(f"column {name}: categories have no bounds")
        own: list[Any] = [False, True] if any(isinstance(c, bool) for c in there) else []
        distinct = {(type(cell), cell): cell for cell in entry.categories or (*own, *there)}
        return Known(name, "category", categories=tuple(distinct.values()), **about)
    finite = [cell for cell in there if math.isfinite(cell)]
    whole = entry.integer or (bool(there) and all(isinstance(cell, int) for cell in there))
    low = entry.low if entry.low is not None else min(finite, default=0)
    high = entry.high if entry.high is not None else max(finite, default=1)
    if entry.low is not None and entry.high is not None and low >= high:
        raise ValueError(f"column {name}: low {low:g} is not below high {high:g}")
    if low >= high:
        low, high = (low, low + 1) if entry.low is not None else (high - 1, high)
    floats = any(isinstance(cell, float) for cell in finite)
    return Known(name, "number", float(low), float(high), whole, floats, **about)


def breakers(column: Known) -> list[tuple[Any, str]]:
    """Return values that break libraries in a column, with their descriptions.

    The most effective come first. There are none for the column of users.
    """
    if column.kind == "user":
        return []
    return _odd_numbers(column) if column.kind == "number" else _odd_categories(column)


def _odd_numbers(column: Known) -> list[tuple[Any, str]]:
    far, number = 1000 * max(column.high - column.low, 1.0), column.number
    unique = [(number(column.high + 1), "a value that no other record has")]
    whole = [
        (2**63 - 1, "2^63 − 1"),
        (2**31, "2^31"),
        (-(2**63), "−2^63"),
        (2**53 + 1, "2^53 + 1"),
        (column.low + 0.5, "a fraction among whole numbers"),
        (2**31 - 1, "2^31 − 1"),
        (2**64 - 1, "2^64 − 1"),
    ]
    return [
        (math.nan, "NaN"),
        (1e30, "1e30"),
        (math.inf, "inf"),
        (number(column.high + far), "far above its bounds"),
        (None, "a missing value"),
        *(unique if column.whole else ()),
        (number(column.low - far), "far below its bounds"),
        (-1e30, "−1e30"),
        (-math.inf, "−inf"),
        *(whole if column.whole else ()),
        (1.7976931348623157e308, "the largest float"),
        ("a", "a text among numbers"),
        (-0.0, "−0.0"),
        (5e-324, "the smallest float"),
        (-1.7976931348623157e308, "the most negative float"),
        (math.nextafter(column.high, math.inf), "just above its bounds"),
        (math.nextafter(column.low, -math.inf), "just below its bounds"),
        (2.0**64, "2^64"),
        (1e39, "more than float32 holds"),
        ("", "an empty text among numbers"),
        (True, "a boolean among numbers"),
        ("1", "a number written as text"),
        (2.0**53 + 2, "2^53 + 2"),
        (1e-40, "a float32 denormal"),
    ]


def _odd_categories(column: Known) -> list[tuple[Any, str]]:
    """Return first an unknown category, then odd ones."""
    own = column.categories
    kinds = {type(one) for one in own}
    unknown: tuple[Any, str] = ("unknown", "an unknown category")
    if kinds <= {int}:
        unknown = (max(own, default=0) + 1, "an unknown category")
    elif kinds <= {int, float}:
        unknown = (float(max(own)) + 1.0, "an unknown category")
    elif bool in kinds:
        unknown = (2, "no boolean")
    listed = [unknown, (None, "a missing value"), ("", "an empty text"), (math.nan, "NaN")]
    if str not in kinds:
        return [
            *listed,
            (-1, "−1"),
            (10**6, "a category far beyond the others"),
            (0.5, "a category between two others"),
            ("a", "a text among numbers"),
        ]
    first = next(one for one in own if isinstance(one, str))
    texts = (
        (f"{first} ", "a category with a blank after it"),
        (first.swapcase(), "a category in other letters"),
        ('a,"b"\n', "a text with a comma, quotes and a newline"),
        ("nan", "the text nan"),
        ("Ünïcödé \U0001f600", "a text beyond ASCII"),
        ("\x00", "a null character"),
        ("0001-01-01", "a date long ago"),
    )
    listed += [("long " * 400, "a very long text"), (0, "a number among texts")]
    return listed + [one for one in texts if not any(plain.same_cell(one[0], c) for c in own)]


Adjacency = Literal["replace", "add-remove", "either", "zero-out"]

MOST_RECORDS = 2048  # largest number of records of a generated table


class Draft(NamedTuple):
    """A table, an edit of it, and the description of the edit."""

    rows: Rows
    edit: Edit  # its `by` are records: none, one, or those of a user
    words: str = ""


def with_cell(row: Row, at: int, value: Any) -> Row:
    """Return a record with another value in one column."""
    return (*row[:at], value, *row[at + 1 :])


class EditableTable(NamedTuple):
    """The table of a neighbourhood with the rules for its edits.

    In a table with users every record has a user of its own, unless noted.
    """

    table: Table
    columns: tuple[Known, ...]
    user: int | None
    """The column that names the user of a record."""
    adjacency: Adjacency
    form: Form
    switches: frozenset[str]
    """Kinds of cells outside the schema that may be proposed; see `Known.needs`."""
    any_size: bool
    grows: bool
    """True if the table may also have more records than the given one."""
    null: Row | None = None
    """The record that counts nothing, if one record is replaced by it (zero-out)."""

    @property
    def rows(self) -> Rows:
        """The records of the given table."""
        return self.table.rows

    @property
    def size(self) -> int:
        """Number of records of a generated table: that of the given one, within limits."""
        return min(MOST_RECORDS, len(self.rows)) or 10

    @property
    def replaces(self) -> bool:
        """True if a record may be replaced."""
        return self.adjacency != "add-remove"

    @property
    def resizes(self) -> bool:
        """True if a record may be added or removed."""
        return self.adjacency != "replace"

    # Columns and records.

    @property
    def numbers(self) -> list[int]:
        """The columns of numbers: the first, the last, then those between."""
        return self._of_kind("number")

    @property
    def categories(self) -> list[int]:
        """The columns of categories: the last, the first, then those between."""
        return self._of_kind("category")

    def _of_kind(self, kind: str) -> list[int]:
        places = [at for at, column in enumerate(self.columns) if column.kind == kind]
        if kind == "category":
            places.reverse()
        return places if len(places) < 3 else [places[0], places[-1], *places[1:-1]]

    def where(self, at: int) -> str:
        """Return ` in column age`, or nothing for a table of one column."""
        return f" in column {self.columns[at].name}" if len(self.columns) > 1 else ""

    def row(self, share: float, category: int = 0) -> Row:
        """Return a record with numbers at a share between their bounds, and the nth category."""
        return tuple(
            column.between(share) if column.kind == "number" else column.category(category)
            for column in self.columns
        )

    def first(self) -> Row:
        """Return a typical record."""
        return self.rows[0] if self.rows else self.row(0.5)

    def nothing(self) -> Row:
        """Return a record of zeros; raise ValueError if a column has categories."""
        if named := [column.name for column in self.columns if column.kind == "category"]:
            raise ValueError(
                f"give the record that counts for nothing: column {named[0]} has categories, and "
                "0 is not one of them"
            )
        return tuple(
            column.number(0.0) if column.kind == "number" else 0 for column in self.columns
        )

    def all(self, row: Row, size: int | None = None) -> Rows:
        """Return a table of equal records."""
        return self.of_users((row,) * (self.size if size is None else size))

    def of_users(self, rows: Rows) -> Rows:
        """Give every record a user of its own."""
        return self._named(rows, lambda number: number)

    def of_newcomer(self, rows: Rows) -> Rows:
        """Give all records the same new user."""
        return self._named(rows, lambda number: 10**6)

    def _named(self, rows: Rows, number: Callable[[int], int]) -> Rows:
        at = self.user
        if at is None:
            return rows
        texts = any(isinstance(row[at], str) for row in self.rows)
        users = [f"u{number(n)}" if texts else 10**6 + number(n) for n in range(len(rows))]
        return tuple(with_cell(row, at, user) for row, user in zip(rows, users, strict=True))

    # Edits.

    def replaced(self, rows: Rows, at: int, by: Row) -> Edit:
        """Return the edit that replaces a record or, with users, all records of its user by one."""
        user = self.user
        return Edit("replace", at, (by if user is None else with_cell(by, user, rows[at][user]),))

    def added(self, by: Row) -> Edit:
        """Return the edit that adds a record at the end; with users, one of a new user."""
        return Edit("add", -1, self.of_newcomer((by,)))

    def changes(self, rows: Rows, by: Row, words: str, at: int = 0) -> Iterator[Draft]:
        """Yield edits that replace the record at `at` by an odd one, or add the odd one."""
        if self.replaces and rows:
            yield Draft(rows, self.replaced(rows, at, by), words)
        if self.adjacency == "add-remove":
            yield Draft(rows, self.added(by), words)

    def losses(self, rows: Rows, by: Row, words: str, at: int = 0) -> Iterator[Draft]:
        """Yield edits that remove the odd record at `at`, or replace it by a usual one."""
        if self.resizes:
            yield Draft(rows, Edit("remove", at), words)
        if self.replaces:
            yield Draft(rows, self.replaced(rows, at, by), words)

    def zeroed(self, draft: Draft) -> Draft:
        """Return an edit that replaces by the null record what a draft adds, removes or replaces.

        The new record of the draft, if it has one, then belongs to D.
        """
        rows, edit = draft.rows, draft.edit
        if self.null is None or (edit.kind != "add" and not rows):
            return draft
        at = len(rows) if edit.kind == "add" else edit.at % len(rows)
        if edit.kind == "add":
            rows = (*rows, *edit.by)
        elif edit.by and not all(map(self._is_null, edit.by)):
            rows = (*rows[:at], *self.replaced(rows, at, edit.by[0]).by, *rows[at + 1 :])
        return Draft(rows, self.replaced(rows, at, self.null), draft.words)

    def after(self, draft: Draft) -> Rows:
        """Return the records of D′; raise ValueError if the edit does not fit the table."""
        return with_edit(draft.rows, draft.edit, self.user)

    # Rules.

    def may_have(self, size: int) -> bool:
        """True if a table may have a number of records."""
        own = len(self.rows)
        return self.any_size or size == own or (self.grows and size > own)

    def allows(self, draft: Draft, new: Rows) -> bool:
        """True if the kind of an edit, and the number of records of D and D′, are allowed."""
        if not (self.replaces if draft.edit.kind == "replace" else self.resizes):
            return False
        if not self.may_have(len(draft.rows)):
            return False
        return self.form != "record" or len(draft.rows) == len(new) == 1

    def takes(self, row: Row) -> bool:
        """True if a record fits the form, and fits the schema up to allowed deviations."""
        ends = {"array": None, "integers": None, "xy": -1}  # which cells have to be numbers
        if self.form in ends and not all(map(is_number, row[: ends[self.form]])):
            return False
        return self._is_null(row) or all(
            needed <= self.switches and not needed & column.never
            for column, cell in zip(self.columns, row, strict=True)
            for needed in [column.needs(cell)]
        )

    def needs(self, rows: Rows) -> frozenset[str]:
        """Return the switches without which a table would not be proposed."""
        cells = (zip(self.columns, row, strict=True) for row in rows if not self._is_null(row))
        return frozenset[str]().union(*(c.needs(cell) for row in cells for c, cell in row))

    def _is_null(self, row: Row) -> bool:
        return self.null is not None and all(
            at == self.user or plain.same_cell(*both)
            for at, both in enumerate(zip(row, self.null, strict=True))
        )
