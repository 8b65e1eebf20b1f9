"""A table and what may be done with it: bases, edits, and whether they stay inside the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dpframe.builtin.pairs._edit import Edit, edited
from dpframe.builtin.pairs._plain import same_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.builtin.neighbourhoods._columns import Known
    from dpframe.builtin.pairs._table import Form, Row, Rows, Table

Adjacency = Literal["replace", "add-remove", "either"]

MOST = 2048
"""Records of a table that is made up."""


class Draft(NamedTuple):
    """A pair before it is one: a table, an edit of it, and what that is in words."""

    rows: Rows
    edit: Edit
    words: str = ""


class Bench(NamedTuple):
    """What drafts are made with.

    Records of a table with users all have one of their own, unless said otherwise.
    """

    table: Table
    columns: tuple[Known, ...]
    adjacency: Adjacency
    form: Form
    beyond: bool
    mistyped: bool
    any_size: bool

    @property
    def size(self) -> int:
        """Records of the table; those of a table that is made up."""
        return min(MOST, len(self.table.rows)) or 10

    @property
    def user(self) -> int | None:
        """The column that says whose a record is."""
        return next((at for at, column in enumerate(self.columns) if column.kind == "user"), None)

    @property
    def replaces(self) -> bool:
        """Whether a record may be replaced."""
        return self.adjacency != "add-remove"

    @property
    def resizes(self) -> bool:
        """Whether a record may come or go."""
        return self.adjacency != "replace"

    def numbers(self) -> list[int]:
        """Columns of numbers; the first, then the last, then those between."""
        return _turned([at for at, column in enumerate(self.columns) if column.kind == "number"])

    def categories(self) -> list[int]:
        """Columns of categories; the last, then the first, then those between."""
        found = [at for at, column in enumerate(self.columns) if column.kind == "category"]
        return _turned(found[::-1])

    def row(self, share: float, category: int = 0) -> Row:
        """A record of numbers at a share between their bounds, and of the nth category."""
        return tuple(
            column.between(share)
            if column.kind == "number"
            else (
                column.categories[category % len(column.categories)] if column.categories else None
            )
            for column in self.columns
        )

    def where(self, at: int) -> str:
        """` in column age`; nothing where there is but one."""
        return f" in column {self.columns[at].name}" if len(self.columns) > 1 else ""

    def first(self) -> Row:
        """A typical record."""
        return self.table.rows[0] if self.table.rows else self.row(0.5)

    def with_cell(self, row: Row, at: int, value: Any) -> Row:
        """A record with another value in one column."""
        return (*row[:at], value, *row[at + 1 :])

    def all(self, row: Row, size: int | None = None) -> Rows:
        """A table of equal records."""
        return self.of_users((row,) * (self.size if size is None else size))

    def of_users(self, rows: Rows) -> Rows:
        """Records that belong to as many users."""
        at = self.user
        if at is None:
            return rows
        return tuple(self.with_cell(row, at, self.name(n)) for n, row in enumerate(rows))

    def name(self, number: int) -> Any:
        """A user of one's own making."""
        at = self.user
        texts = at is not None and any(isinstance(row[at], str) for row in self.table.rows)
        return f"u{number}" if texts else 10**6 + number

    def replaced(self, rows: Rows, at: int, by: Row) -> Edit:
        """The edit by which a record is replaced; with users all of its user's records by one."""
        user = self.user
        if user is None:
            return Edit("replace", at, by)
        return Edit("replace", at, (self.with_cell(by, user, rows[at][user]),))

    def added(self, by: Row) -> Edit:
        """The edit by which a record comes, at the end; with users one of somebody new."""
        user = self.user
        if user is None:
            return Edit("add", -1, by)
        return Edit("add", -1, (self.with_cell(by, user, self.name(10**6)),))

    def changes(self, rows: Rows, by: Row, words: str, at: int = 0) -> Iterator[Draft]:
        """A table in which one record is odd or not: replaced, or added.

        Args:
            rows: the table without it.
            by: the odd record.
            words: what it is.
            at: the record that it replaces.
        """
        if self.replaces and rows:
            yield Draft(rows, self.replaced(rows, at, by), words)
        if self.adjacency == "add-remove":
            yield Draft(rows, self.added(by), words)

    def allows(self, draft: Draft, new: Rows) -> bool:
        """Whether an edit is of a kind, and leaves a number of records, that may be proposed.

        Args:
            draft: the table and its edit.
            new: the records of D′.
        """
        if not (self.replaces if draft.edit.kind == "replace" else self.resizes):
            return False
        if not self.any_size and len(draft.rows) != len(self.table.rows):
            return False
        return self.form != "record" or len(draft.rows) == len(new) == 1

    def takes(self, row: Row) -> bool:
        """Whether a record may be in a table: of its form, and as near the schema as is asked."""
        ends = {"array": None, "integers": None, "xy": -1}  # which cells have to be numbers
        if self.form in ends and not all(map(_is_number, row[: ends[self.form]])):
            return False
        return (self.beyond and self.mistyped) or all(
            column.takes(cell) if self.beyond else column.has(cell)
            for column, cell in zip(self.columns, row, strict=True)
        )

    def after(self, draft: Draft) -> Rows:
        """The records of D′."""
        user = self.user
        name = None if user is None else self.table.names[user]
        return edited(self.table._replace(rows=draft.rows), draft.edit, name)

    def differences(self, one: Row, other: Row) -> list[int]:
        """Columns in which two records differ."""
        return [at for at, both in enumerate(zip(one, other, strict=True)) if not same_cell(*both)]


def _is_number(cell: Any) -> bool:
    return cell is None or isinstance(cell, int | float)


def _turned(places: list[int]) -> list[int]:
    return places if len(places) < 3 else [places[0], places[-1], *places[1:-1]]
