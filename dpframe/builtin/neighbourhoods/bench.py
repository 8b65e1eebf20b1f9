"""A table, the values that break libraries in it, and its possible edits."""

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from dpframe.builtin.neighbourhoods.schema import Known
from dpframe.builtin.pairs.plain import same_cell
from dpframe.builtin.pairs.table import Edit, Form, Row, Rows, Table, edited, is_number


class Breaker(NamedTuple):
    """A value that breaks libraries, with its description."""

    value: Any
    words: str


LONG = "long " * 400  # longer than any field of fixed length


def breakers(column: Known) -> Iterator[Breaker]:
    """Yield values for a column, the most effective first; none for the column of users."""
    if column.kind == "number":
        yield from of_number(column)
    elif column.kind == "category":
        yield from of_category(column)


def of_number(column: Known) -> Iterator[Breaker]:
    """Yield values for a column of numbers."""
    far = 1000 * max(column.width, 1.0)
    yield Breaker(math.nan, "NaN")
    yield Breaker(1e30, "1e30")
    yield Breaker(math.inf, "inf")
    yield Breaker(column.number(column.high + far), "far above its bounds")
    yield Breaker(None, "a missing value")
    if column.whole:
        yield Breaker(column.number(column.high + 1), "a value that no other record has")
    yield Breaker(column.number(column.low - far), "far below its bounds")
    yield Breaker(-1e30, "−1e30")
    yield Breaker(-math.inf, "−inf")
    if column.whole:
        yield Breaker(2**63 - 1, "2^63 − 1")
        yield Breaker(2**31, "2^31")
        yield Breaker(-(2**63), "−2^63")
        yield Breaker(2**53 + 1, "2^53 + 1")
        yield Breaker(column.low + 0.5, "a fraction among whole numbers")
        yield Breaker(2**31 - 1, "2^31 − 1")
        yield Breaker(2**64 - 1, "2^64 − 1")
    yield Breaker(1.7976931348623157e308, "the largest float")
    yield Breaker("a", "a text among numbers")
    yield Breaker(-0.0, "−0.0")
    yield Breaker(5e-324, "the smallest float")
    yield Breaker(-1.7976931348623157e308, "the most negative float")
    yield Breaker(math.nextafter(column.high, math.inf), "just above its bounds")
    yield Breaker(math.nextafter(column.low, -math.inf), "just below its bounds")
    yield Breaker(2.0**64, "2^64")
    yield Breaker(1e39, "more than float32 holds")
    yield Breaker("", "an empty text among numbers")
    yield Breaker(True, "a boolean among numbers")
    yield Breaker("1", "a number written as text")
    yield Breaker(2.0**53 + 2, "2^53 + 2")
    yield Breaker(1e-40, "a float32 denormal")


def of_category(column: Known) -> Iterator[Breaker]:
    """Yield values for a column of categories: first unknown ones, then odd ones."""
    kinds = {type(one) for one in column.categories}
    if kinds <= {int}:
        yield Breaker(max(column.categories, default=0) + 1, "an unknown category")
    elif kinds <= {int, float}:
        yield Breaker(float(max(column.categories)) + 1.0, "an unknown category")
    elif bool in kinds:
        yield Breaker(2, "no boolean")
    else:
        yield Breaker("unknown", "an unknown category")
    yield Breaker(None, "a missing value")
    yield Breaker("", "an empty text")
    yield Breaker(math.nan, "NaN")
    if str in kinds:
        first = next(one for one in column.categories if isinstance(one, str))
        yield Breaker(LONG, "a very long text")
        yield Breaker(0, "a number among texts")
        for value, words in (
            (f"{first} ", "a category with a blank after it"),
            (first.swapcase(), "a category in other letters"),
            ('a,"b"\n', "a text with a comma, quotes and a newline"),
            ("nan", "the text nan"),
            ("Ünïcödé \U0001f600", "a text beyond ASCII"),
            ("\x00", "a null character"),
            ("0001-01-01", "a date long ago"),
        ):
            if not any(same_cell(value, one) for one in column.categories):
                yield Breaker(value, words)
    else:
        yield Breaker(-1, "−1")
        yield Breaker(10**6, "a category far beyond the others")
        yield Breaker(0.5, "a category between two others")
        yield Breaker("a", "a text among numbers")


Adjacency = Literal["replace", "add-remove", "either"]

MOST = 2048  # largest number of records of a generated table


class Draft(NamedTuple):
    """A table, an edit of it, and the description of the edit."""

    rows: Rows
    edit: Edit
    words: str = ""


class Bench(NamedTuple):
    """The table of a neighbourhood with the rules for its edits.

    In a table with users every record has a user of its own, unless noted.
    """

    table: Table
    columns: tuple[Known, ...]
    adjacency: Adjacency
    form: Form
    switches: frozenset[str]
    """Kinds of cells outside of the schema that may be proposed; see `Known.needs`."""
    any_size: bool

    @property
    def size(self) -> int:
        """Number of records of a generated table: that of the given one, within limits."""
        return min(MOST, len(self.table.rows)) or 10

    @property
    def user(self) -> int | None:
        """The column that names the user of a record."""
        return next((at for at, column in enumerate(self.columns) if column.kind == "user"), None)

    @property
    def replaces(self) -> bool:
        """True if a record may be replaced."""
        return self.adjacency != "add-remove"

    @property
    def resizes(self) -> bool:
        """True if a record may be added or removed."""
        return self.adjacency != "replace"

    def numbers(self) -> list[int]:
        """Return the columns of numbers: the first, the last, then those between."""
        return _turned([at for at, column in enumerate(self.columns) if column.kind == "number"])

    def categories(self) -> list[int]:
        """Return the columns of categories: the last, the first, then those between."""
        found = [at for at, column in enumerate(self.columns) if column.kind == "category"]
        return _turned(found[::-1])

    def row(self, share: float, category: int = 0) -> Row:
        """Return a record with numbers at a share between their bounds, and the nth category."""
        return tuple(
            column.between(share) if column.kind == "number" else column.category(category)
            for column in self.columns
        )

    def where(self, at: int) -> str:
        """Return ` in column age`, or nothing for a table of one column."""
        return f" in column {self.columns[at].name}" if len(self.columns) > 1 else ""

    def first(self) -> Row:
        """Return a typical record."""
        return self.table.rows[0] if self.table.rows else self.row(0.5)

    def with_cell(self, row: Row, at: int, value: Any) -> Row:
        """Return a record with another value in one column."""
        return (*row[:at], value, *row[at + 1 :])

    def all(self, row: Row, size: int | None = None) -> Rows:
        """Return a table of equal records."""
        return self.of_users((row,) * (self.size if size is None else size))

    def of_users(self, rows: Rows) -> Rows:
        """Give every record a user of its own."""
        at = self.user
        if at is None:
            return rows
        return tuple(self.with_cell(row, at, self.name(n)) for n, row in enumerate(rows))

    def name(self, number: int) -> Any:
        """Return the name of a generated user."""
        at = self.user
        texts = at is not None and any(isinstance(row[at], str) for row in self.table.rows)
        return f"u{number}" if texts else 10**6 + number

    def replaced(self, rows: Rows, at: int, by: Row) -> Edit:
        """Return the edit that replaces a record; with users, all of its user's records by one."""
        user = self.user
        if user is None:
            return Edit("replace", at, by)
        return Edit("replace", at, (self.with_cell(by, user, rows[at][user]),))

    def added(self, by: Row) -> Edit:
        """Return the edit that adds a record at the end; with users, one of a new user."""
        user = self.user
        if user is None:
            return Edit("add", -1, by)
        return Edit("add", -1, (self.with_cell(by, user, self.name(10**6)),))

    def changes(self, rows: Rows, by: Row, words: str, at: int = 0) -> Iterator[Draft]:
        """Yield edits that replace the record at `at` by an odd one, or add the odd one."""
        if self.replaces and rows:
            yield Draft(rows, self.replaced(rows, at, by), words)
        if self.adjacency == "add-remove":
            yield Draft(rows, self.added(by), words)

    def allows(self, draft: Draft, new: Rows) -> bool:
        """True if the kind of an edit, and the number of records of D and D′, are allowed."""
        if not (self.replaces if draft.edit.kind == "replace" else self.resizes):
            return False
        if not self.any_size and len(draft.rows) != len(self.table.rows):
            return False
        return self.form != "record" or len(draft.rows) == len(new) == 1

    def takes(self, row: Row) -> bool:
        """True if a record fits the form, and the schema but for allowed deviations."""
        ends = {"array": None, "integers": None, "xy": -1}  # which cells have to be numbers
        if self.form in ends and not all(map(is_number, row[: ends[self.form]])):
            return False
        return all(
            needed <= self.switches and not needed & column.never
            for column, cell in zip(self.columns, row, strict=True)
            for needed in [column.needs(cell)]
        )

    def needs(self, rows: Rows) -> frozenset[str]:
        """Return the switches without which a table would not be proposed."""
        return frozenset[str]().union(
            *(
                column.needs(cell)
                for row in rows
                for column, cell in zip(self.columns, row, strict=True)
            )
        )

    def after(self, draft: Draft) -> Rows:
        """Return the records of D′."""
        user = self.user
        name = None if user is None else self.table.names[user]
        return edited(self.table._replace(rows=draft.rows), draft.edit, name)

    def differences(self, one: Row, other: Row) -> list[int]:
        """Return the columns in which two records differ."""
        return [at for at, both in enumerate(zip(one, other, strict=True)) if not same_cell(*both)]


def _turned(places: list[int]) -> list[int]:
    return places if len(places) < 3 else [places[0], places[-1], *places[1:-1]]
