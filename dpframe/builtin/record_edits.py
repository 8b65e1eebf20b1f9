"""The neighbourhood `records`: edits of a table that break libraries."""

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from dpframe.builtin import tables
from dpframe.builtin.edit_order import by_chance, changed, planned
from dpframe.builtin.pairs import Records, formed, made_of_rows
from dpframe.builtin.table_edits import (
    SWITCHES,
    Adjacency,
    Column,
    Draft,
    EditableTable,
    Switches,
    known_columns,
)
from dpframe.builtin.tables import GivenForm, GivenTable, GivenTypes, Row, Rows, Table, count
from dpframe.plugins import Earned, Ge, Le, Neighbourhood, Pair, ParameterError, SpecFile, plain

TYPED = ("array", "integers", "arrays", "frame", "xy")
"""Forms in which a column has a type: a missing value is NaN, and numbers are floats."""

MOST_CELLS = 1 << 15
"""Largest number of cells of a table. A search keeps a few hundred tables, and slow libraries read
each a few thousand times."""

NEEDED = {
    "nan": "NaN or a missing value",
    "out_of_bounds": "a number out of bounds",
    "unknown_categories": "an unknown category",
    "mistyped": "a cell with a different type from its column",
    "any_size": "more records than the table",
}
"""Descriptions of cells outside the schema by switch, and of more records."""

TRIES = 20  # drafts for each wanted pair before giving up


class RecordEdits(Neighbourhood, name="records"):
    """A table and one edit of it, those that break libraries first.

    The first edits use values that are not numbers, infinite, out of bounds, unknown, missing,
    unique, equal, huge or tiny, the first and the last record, and tables of one or no record.
    Random edits inside the schema follow, and mutations of the pairs with the most evidence. Each
    pair is a `records` pair that contains its table.

    The adjacency has no default, because a claim holds under one adjacency, and pairs of the other
    one would wrongly refute it.
    """

    one_shape: ClassVar[bool] = False

    table: GivenTable | None = None
    """A typical table: records, each a value, a list of values or a table by column; or a table of
    columns."""
    file: SpecFile | None = None
    """A file with the table instead (.csv, .npy, .npz, .parquet), relative to the spec."""
    first: Annotated[int, Ge(1)] | None = None
    """Number of records to read from the start; default: all."""
    columns: tuple[str, ...] = ()
    """Names of the columns; default: those of the table or its file, else of the schema, else c0,
    c1, …."""
    schema: tuple[Column, ...] = ()
    """Properties of the columns: name, low, high, integer, categories, user; default: inferred from
    the table. nan = false excludes NaN and missing values."""
    adjacency: Adjacency
    """"replace": one record is replaced; "add-remove": one record is added or removed; "either";
    "zero-out": one record is replaced by `null`, as the accountants of DP-SGD assume."""
    null: plain.Given | None = None
    """With "zero-out", the record that counts nothing; default: zeros, if all columns are numbers.
    It may lie outside the schema."""
    beyond: bool | Switches | None = None
    """True if records may lie outside the schema, or a table of three switches: `nan`,
    `out_of_bounds`, `unknown_categories`. Libraries promise to clip these. Default: true, except if
    a table of one record is replaced, because a local randomiser accepts only values of its domain.
    A column of the schema may have the same switches."""
    mistyped: bool = False
    """True if, beyond the schema, cells may have a type that is new in their column: a missing
    value, or a text among numbers. Few interfaces accept such cells, and errors that they cause
    usually do not matter."""
    any_size: bool | None = None
    """True if the table may have any number of records, false if it keeps its number. Default: true
    if records are added or removed, or if users have several. If records are replaced, their number
    is public, and noise may be made for it: by default, the table may then only become larger,
    because noise for fewer records rarely is too small for more; a table of one record, and one of
    which a record is zeroed out, keep their number."""
    form: GivenForm = "auto"
    types: GivenTypes = ()
    batch: Annotated[int, Ge(1), Le(1000)] = 36
    """Pairs to propose at a time."""

    def check(self) -> None:
        with tables.about(tables.check_source(self.table, self.file)):
            table = self._table
            cells = len(table.rows) * len(table.names)
            if cells > MOST_CELLS:
                raise ValueError(
                    f"has {len(table.rows):,} records of {len(table.names)} columns, {cells:,} "
                    f"cells; a search takes up to {MOST_CELLS:,}: set `first`, or use a smaller "
                    "table, which shows as much in less time"
                )
        with tables.about("schema"):
            self._editable  # noqa: B018  # reads the schema
        if self.form == "record" and len(table.rows) != 1:
            wrong = f"is for a table of one record, but this one has {len(table.rows)}"
            raise ParameterError("form", f'"record" {wrong}')
        one = Proposals(self._editable).made(planned(self._editable), 1)
        if not one:
            raise ParameterError("form", f"{self.form!r}: no edit of this table can take that form")
        one[0].check()  # raises without pandas, for example

    def params(self) -> dict[str, Any]:
        # pydantic would write inf and NaN as null.
        params = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        params |= {
            "table": None if self.table is None else plain.written(self.table),
            "file": self.file and str(self.file),
            "columns": list(self.columns) or None,
            "schema": [column.params() for column in self.schema] or None,
            "beyond": self.beyond.given() if isinstance(self.beyond, Switches) else self.beyond,
            "types": list(self.types) or None,
            "null": None if self.null is None else plain.written(self.null),
        }
        return {name: value for name, value in params.items() if value is not None}

    @functools.cached_property
    def _text(self) -> str:
        folder = self.file and str(self.file.folder)
        return repr((self.params(), folder))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordEdits) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @functools.cached_property
    def _table(self) -> Table:
        table = tables.given_table(self.table, self.file, self.columns, self.types)
        names = tuple(column.name for column in self.schema if column.name is not None)
        if table.names == tables.unnamed(len(names)) == tables.unnamed(len(self.schema)):
            table = table._replace(names=names)  # the table has none of its own
        return table._replace(rows=table.rows[: self.first])

    @functools.cached_property
    def _editable(self) -> EditableTable:
        own = self._table
        form = own.form(self.form)
        known = known_columns(own, self.schema)
        user = next((at for at, column in enumerate(known) if column.kind == "user"), None)
        fixed = self.adjacency in ("replace", "zero-out")
        local = form == "record" or (len(own.rows) == 1 and self.adjacency == "replace")
        by_default = self.beyond if isinstance(self.beyond, bool) else not local
        beyond = dict.fromkeys(SWITCHES, by_default)
        if isinstance(self.beyond, Switches):
            beyond |= self.beyond.given()
        switches = {name for name, on in beyond.items() if on}
        switches |= {"mistyped"} if self.mistyped and switches else set()
        editable = EditableTable(
            table=own._replace(flat=own.flat and user is None),  # a user's records are lists
            columns=known,
            user=user,
            adjacency=self.adjacency,
            form=form,
            switches=frozenset(switches),
            any_size=self.any_size if self.any_size is not None else not fixed or user is not None,
            grows=self.any_size is None and self.adjacency == "replace" and not local,
        )
        if self.adjacency != "zero-out":
            if self.null is not None:
                raise ParameterError("null", 'it is for adjacency = "zero-out"')
            return editable
        with tables.about("null"):
            null = editable.nothing() if self.null is None else tables.row(self.null, own.names)
        return editable._replace(null=null)

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        table, drafts = self._editable, [_draft(earned.pair) for earned in history]
        proposals = Proposals(table, drafts)
        growths = [(draft, e.growth) for draft, e in zip(drafts, history, strict=True)]
        best = [draft for draft, growth in sorted(growths, key=lambda one: -one[1]) if growth > 0]
        tries = TRIES * self.batch if history else 0
        children = (_child(table, best[:4], rng) for _ in range(tries if best else 0))
        pairs = proposals.made(children, self.batch // 2)
        rest = self.batch - len(pairs)
        pairs += proposals.made(planned(table), rest - rest // 4 if history else rest)
        chance = (by_chance(table, rng) for _ in range(tries))
        pairs += proposals.made(chance, self.batch - len(pairs))
        # Many libraries refuse an empty table, so those that they accept come first.
        return sorted(pairs, key=lambda pair: not all(pair.rows))

    def own_data(self) -> Sequence[Any]:
        of = self._editable.table
        return formed(of, (of.rows, of.rows), self._editable.form)[:1]

    def needs(self, pair: Pair) -> dict[str, dict[str, Any]]:
        both = pair.rows if isinstance(pair, Records) else ((), ())
        table = self._editable
        larger = table.grows and len(both[0]) > len(table.rows)
        needed = table.needs((*both[0], *both[1])) | ({"any_size"} if larger else set())
        given = self.params().get("beyond", {})
        beyond = given if isinstance(given, dict) else dict.fromkeys(SWITCHES, given)
        without: dict[str, Any] = {n: {"beyond": {**beyond, n: False}} for n in SWITCHES}
        without |= {"mistyped": {"mistyped": False}, "any_size": {"any_size": False}}
        return {NEEDED[name]: without[name] for name in NEEDED if name in needed}


def _draft(pair: Pair) -> Draft:
    if not isinstance(pair, Records):
        raise TypeError(f"the history contains a pair of a different kind: {type(pair).__name__}")
    edit: Any = pair.edit
    return Draft(pair.rows[0], edit._replace(by=pair.new_records))


def _child(table: EditableTable, best: list[Draft], rng: np.random.Generator) -> Draft:
    one, other = (best[min(int(rng.exponential(1.5)), len(best) - 1)] for _ in range(2))
    return changed(table, one, other, rng)


class Proposals:
    """Makes pairs of drafts, none of them twice.

    Records are checked once, because most tables of a search share records.
    """

    def __init__(self, table: EditableTable, earlier: Iterable[Draft] = ()) -> None:
        self._table, self._typed = table, table.form in TYPED
        self._known: dict[int, tuple[Row, str, bool]] = {}
        """Checked records by identity; they are kept, so that no identity is reused."""
        self._seen = {self._key(draft.rows, table.after(draft)) for draft in earlier}

    def made(self, drafts: Iterable[Draft], number: int) -> list[Records]:
        """Return the first drafts that are pairs, and were not proposed before in either order."""
        pairs: list[Records] = []
        for proposed in drafts if number else ():
            draft = self._table.zeroed(proposed)
            try:
                new = self._table.after(draft)
            except ValueError:  # a child whose edit does not fit its table
                continue
            if not self._fits(draft, new):
                continue
            key = self._key(draft.rows, new)
            if len(key) == 2 and key not in self._seen:
                self._seen.add(key)
                pairs.append(self._pair(draft, new))
                if len(pairs) == number:
                    break
        return pairs

    def _pair(self, draft: Draft, new: Rows) -> Records:
        table = self._table
        return made_of_rows(
            table.table._replace(rows=draft.rows),
            new,
            draft.edit,
            user=None if table.user is None else table.columns[table.user].name,
            form=table.form,
            description=_described(table, draft),
            null=table.null is not None,
        )

    def _fits(self, draft: Draft, new: Rows) -> bool:
        return self._table.allows(draft, new) and all(
            self._of(row)[2] for rows in (draft.rows, new) for row in rows
        )

    def _key(self, *both: Rows) -> frozenset[bytes]:
        """Return a key of D and D′; swapping them does not change it."""
        texts = ("\n".join([self._of(row)[1] for row in rows]) for rows in both)
        return frozenset(hashlib.blake2b(t.encode("utf-8"), digest_size=16).digest() for t in texts)

    def _of(self, row: Row) -> tuple[Row, str, bool]:
        """Return a record with its text, and True if it may be proposed."""
        checked = self._known.get(id(row))
        if checked is None:
            text = repr([_in_column(cell) for cell in row] if self._typed else row)
            checked = self._known[id(row)] = row, text, self._table.takes(row)
        return checked


def _in_column(cell: Any) -> Any:
    """Return a cell as a column with a type holds it."""
    if cell is None:
        return float("nan")
    return float(cell) if isinstance(cell, int) else cell


LONGEST = 24  # characters of a cell in a description
MOST_NAMED = 3  # columns named in a description


def _described(table: EditableTable, draft: Draft) -> str:
    """Describe a pair: its feature, its edit, and the number of records."""
    size, edit = len(draft.rows), draft.edit
    place = edit.at % size if draft.rows and edit.kind != "add" else 0
    one = f"record {place} of {size}"
    records = f"the records of one user, of {size} records"
    if edit.kind == "add":
        done = f"a record is added to {count(size, 'record')}"
    elif edit.kind == "remove" and size == 1:
        done = "the only record is removed"
    elif edit.kind == "remove":
        done = f"{one} is removed" if table.user is None else f"{records}, are removed"
    elif table.user is None:
        changes = _changes(table, draft.rows[place], edit.by[0])
        done = f"{one}{' is zeroed out' if table.null is not None else ''}: {changes}"
    else:
        done = f"{records}, are replaced by {count(len(edit.by), 'record')}"
    return f"{draft.words}; {done}" if draft.words else done


def _changes(table: EditableTable, old: Row, new: Row) -> str:
    alone = len(table.columns) == 1
    parts = [
        f"{'' if alone else column.name + ' '}{_cell(before)} → {_cell(after)}"
        for column, before, after in zip(table.columns, old, new, strict=True)
        if not plain.same_cell(before, after)
    ]
    more = len(parts) - MOST_NAMED
    listed = ", ".join(parts[:MOST_NAMED])
    return listed + (f" and {count(more, 'more column')}" if more > 0 else "")


def _cell(cell: Any) -> str:
    text = "missing" if cell is None else repr(cell)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
