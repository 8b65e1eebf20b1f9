"""Tables and values that break libraries."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dpframe.builtin.pairs.plain import same_cell
from dpframe.builtin.pairs.table import Edit, edited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.builtin.neighbourhoods.schema import Known
    from dpframe.builtin.pairs.table import Form, Row, Rows, Table


# Single values that break libraries, for each kind of column, the most telling first.


class Breaker(NamedTuple):
    """A value, and what it is in words."""

    value: Any
    words: str


LONG = "long " * 400
"""A text that no fixed field holds."""


def of_number(column: Known) -> Iterator[Breaker]:
    """Values for a column of numbers."""
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
    yield Breaker("1", "a number written as a text")
    yield Breaker(2.0**53 + 2, "2^53 + 2")
    yield Breaker(1e-40, "a float32 denormal")


def of_category(column: Known) -> Iterator[Breaker]:
    """Values for a column of categories: first those that it has not, then odd ones."""
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
            ('a,"b"\n', "a text with a comma, quotes and a new line"),
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


def breakers(column: Known) -> Iterator[Breaker]:
    """Values for any column; none for the one that says whose a record is."""
    if column.kind == "number":
        yield from of_number(column)
    elif column.kind == "category":
        yield from of_category(column)


# A table and what may be done with it: bases, edits, and whether they stay inside the schema.


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


# Tables in which an edit shows what it does not among others: at bounds, equal, few, huge.


FEW = 4
"""Categories of a column that are tried first; the others come when all else was proposed."""


def lows(bench: Bench) -> Iterator[Draft]:
    """All others at their lower bounds, which are often zeros."""
    words = "all others at the lower bounds, one record at the upper ones"
    yield from bench.changes(bench.all(bench.row(0.0)), bench.row(1.0, -1), words)


def highs(bench: Bench) -> Iterator[Draft]:
    """All others at their upper bounds."""
    words = "all others at the upper bounds, one record at the lower ones"
    yield from bench.changes(bench.all(bench.row(1.0)), bench.row(0.0, -1), words, at=-1)


def halves(bench: Bench) -> Iterator[Draft]:
    """Half of the records at either end: one more there, and the median is another one."""
    low, high, size = bench.row(0.0), bench.row(1.0, -1), bench.size
    rows = bench.of_users(((low, high) * size)[:size])
    yield from bench.changes(rows, high, "half of the records at either end of the bounds")


def some(categories: tuple[Any, ...]) -> tuple[Any, ...]:
    """A few of many: the first ones, one between, the last one."""
    if len(categories) <= FEW:
        return categories
    return (*categories[: FEW - 2], categories[len(categories) // 2], categories[-1])


def corners(bench: Bench, at: int) -> Iterator[Draft]:
    """A record of the table goes where it is farthest from itself, and inside its bounds."""
    rows = bench.table.rows
    if not rows:
        return
    cells = []
    for column, cell in zip(bench.columns, rows[at], strict=True):
        if column.kind == "number":
            near = isinstance(cell, int | float) and cell > (column.low + column.high) / 2
            cells.append(column.between(0.0 if near else 1.0))
        else:
            others = [one for one in column.categories if one != cell]
            cells.append(others[-1] if others else cell)
    which = "the last record" if at else "the first record"
    yield from bench.changes(rows, tuple(cells), f"{which} at the farthest bounds", at=at)


def keys(bench: Bench) -> Iterator[Draft]:
    """One record alone has its category, and with it the category comes and goes."""
    for at in bench.categories()[:2]:
        known = bench.columns[at]
        if len(known.categories) < 2:
            continue
        usual = bench.with_cell(bench.first(), at, known.categories[0])
        for other in known.categories[1:3]:
            rare = bench.with_cell(usual, at, other)
            rows = bench.of_users((rare, *(usual,) * max(1, bench.size - 1)))
            words = f"the only record of its category{bench.where(at)}"
            if bench.resizes:
                yield Draft(rows, Edit("remove", 0), words)
            if bench.replaces:
                yield Draft(rows, bench.replaced(rows, 0, usual), words)


def sizes(bench: Bench) -> Iterator[Draft]:
    """Records come and go: in the table, from two to one, from one to none."""
    if not bench.resizes:
        return
    rows = bench.table.rows
    if rows:
        yield Draft(rows, Edit("remove", 0))
    for share, size in ((0.0, 3), (1.0, 2), (0.5, 1)):
        yield Draft(bench.all(bench.row(share), size), Edit("remove", -1), "few records")
    if rows:
        yield Draft(rows, Edit("remove", -1))
        yield Draft(rows, bench.added(rows[0]), "the first record comes a second time")


def few(bench: Bench) -> Iterator[Draft]:
    """Two records and one, where nothing averages out."""
    if len(bench.table.rows) != 1:
        yield from bench.changes(bench.all(bench.row(0.0), 1), bench.row(1.0, -1), "one record")
    for share in (0.01, 1.0):
        pair = bench.of_users((bench.row(0.0), bench.row(share)))
        yield from bench.changes(pair, bench.row(1.0, -1), "two records")


def levels(bench: Bench) -> Iterator[Draft]:
    """All records equal but one, where sums and means are rounded."""
    for share, other, at in ((0.25, 0.5, 0), (0.25, 0.0, 0), (0.5, 1.0, 0), (0.5, 0.0, -1)):
        words = "all records are equal but one"
        yield from bench.changes(bench.all(bench.row(share)), bench.row(other), words, at=at)


def scales(bench: Bench) -> Iterator[Draft]:
    """Tables whose numbers are all huge, tiny, hard to round, or cancel."""
    places = bench.numbers()
    if not places:
        return

    def at(number: float) -> Row:
        record = bench.row(0.5)
        for place in places:
            column = bench.columns[place]
            record = bench.with_cell(record, place, column.number(number))
        return record

    if any(bench.columns[place].whole for place in places):
        whole = "whole numbers whose sum overflows"
        yield from bench.changes(bench.all(at(2**62)), at(0), whole)
    for all_, one, words in (
        (2.0**50 + 0.25, 2.0**50 + 0.5, "all numbers near 2^50"),
        (1e154, 1e155, "numbers whose squares overflow"),
        (1e-170, 1e-160, "numbers whose squares are 0"),
        (0.0, 1e-12, "all zeros but one tiny number"),
        (16777216.0, 16777217.0, "numbers that float32 rounds"),
    ):
        yield from bench.changes(bench.all(at(all_)), at(one), words)
    cancelling = ((at(1e16), at(1.0), at(-1e16)) * bench.size)[: max(2, bench.size)]
    words = "numbers whose sum cancels"
    yield from bench.changes(bench.of_users(cancelling), at(0.0), words, at=1)


def alone(bench: Bench) -> Iterator[Draft]:
    """One value at its upper bound where all others are at their lower ones, column by column."""
    zeros = bench.row(0.0)
    for at in bench.numbers() if len(bench.columns) > 1 else ():
        record = bench.with_cell(zeros, at, bench.columns[at].between(1.0))
        words = f"one value at its upper bound, all others at the lower ones{bench.where(at)}"
        yield from bench.changes(bench.all(zeros), record, words)


def missing(bench: Bench) -> Iterator[Draft]:
    """One record has a value where it is missing in all others."""
    for at in (*bench.numbers()[:2], *bench.categories()[:1]):
        empty = math.nan if bench.columns[at].kind == "number" else None
        words = f"the only value that is not missing{bench.where(at)}"
        rows = bench.all(bench.with_cell(bench.first(), at, empty))
        yield from bench.changes(rows, bench.row(1.0), words)


def labels(bench: Bench) -> Iterator[Draft]:
    """A record of the table gets another category."""
    rows = bench.table.rows
    for at in bench.categories():
        for category in some(bench.columns[at].categories) if rows else ():
            changed = bench.with_cell(rows[0], at, category)
            words = f"another category{bench.where(at)}"
            yield from bench.changes(rows, changed, words)


def duplicates(bench: Bench) -> Iterator[Draft]:
    """Records that are there more than once, and one that differs by the last bit."""
    rows, first = bench.table.rows, bench.first()
    if len(rows) > 1:
        again = "a record is replaced by the same as another one"
        yield from bench.changes(rows, rows[1], again)
    for at in bench.numbers()[:2]:
        cell = first[at]
        if isinstance(cell, float) and math.isfinite(cell):
            next_ = bench.with_cell(first, at, math.nextafter(cell, bench.columns[at].high))
            yield from bench.changes(bench.all(first), next_, "equal records, one by a bit")


def on_zeros(bench: Bench) -> Iterator[Draft]:
    """Odd values where all others are at their lower bounds, and where there is nothing else."""
    for at in (*bench.numbers()[:3], *bench.categories()[:2]):
        for value, words in itertools.islice(breakers(bench.columns[at]), 4):
            record = bench.with_cell(bench.row(0.0), at, value)
            told = words + bench.where(at)
            zeros = bench.all(bench.row(0.0))
            yield from bench.changes(zeros, record, f"{told}, all others at the lower bounds")
            yield from bench.changes(bench.all(bench.row(0.0), 1), record, f"{told}, one record")
            if bench.resizes and bench.adjacency == "either":
                yield Draft(bench.table.rows, bench.added(record), f"one more record: {told}")


def each(bench: Bench) -> Iterator[Draft]:
    """Every category for every other one, and bounds in one column alone."""
    rows, first = bench.table.rows, bench.first()
    for at in bench.categories():
        for one, other in itertools.combinations(bench.columns[at].categories, 2):
            base = bench.all(bench.with_cell(first, at, one), len(rows) or 1)
            yield from bench.changes(base, bench.with_cell(first, at, other), "another category")
    for at in bench.numbers():
        for share in (0.0, 1.0):
            changed = bench.with_cell(first, at, bench.columns[at].between(share))
            yield from bench.changes(rows, changed, f"a value at its bound{bench.where(at)}")
