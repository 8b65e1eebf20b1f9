"""Edits of a table in a fixed order, random edits, and mutations."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpframe.builtin.table_edits import (
    MOST_RECORDS,
    Draft,
    EditableTable,
    breakers,
    with_cell,
)
from dpframe.builtin.tables import Edit, Row, Rows
from dpframe.plugins import plain

MOST_COLUMNS = 8  # columns of a single record that are first changed one by one
GROUPED = 12, 48, 200  # records of a table with groups
MOST_GROUPED = 2048  # cells of such a table
DESIGNS = (
    ((0.5, 1),),
    ((0.65, 1), (0.65, 0)),
    ((0.65, 1), (0.35, 1)),
    ((0.35, 0), (0.65, 0)),
    ((0.35, 0), (0.35, 1)),
    ((0.95, 1), (0.95, 0)),
    ((0.95, 1), (0.95, 1)),
)
"""By column in turn: the share of the first group, and 1 if a record moves there, 0 if away.

A choice between two columns loses most if the record joins the larger group of one, and leaves that
of the other, whichever groups these are."""
FEW_CATEGORIES = 4  # categories of a column that are tried first; the others come last


def planned(table: EditableTable) -> Iterator[Draft]:
    """Yield all planned edits, those that break libraries most often first."""
    if len(table.rows) == 1:
        yield from lone(table)
    if table.user is not None and table.rows:
        yield from users(table, table.user)
    numbers, categories = odd(table, table.numbers), odd(table, table.categories)
    next_of = itertools.islice
    yield from ends(table, 0.0)
    yield from next_of(numbers, 1)
    yield from corners(table, at=0)
    yield from next_of(categories, 1)
    yield from next_of(numbers, 2)
    yield from keys(table)
    yield from halves(table)
    yield from groups(table)
    yield from sizes(table)
    yield from few(table)
    yield from minimums(table, (5, 10))
    yield from next_of(numbers, 2)
    yield from next_of(categories, 1)
    yield from ends(table, 1.0)
    yield from levels(table)
    yield from next_of(numbers, 3)
    yield from next_of(categories, 2)
    yield from corners(table, at=-1)
    yield from scales(table)
    yield from alone(table)
    yield from missing(table)
    yield from minimums(table, (20, 50, 100))
    yield from next_of(numbers, 6)
    yield from next_of(categories, 4)
    yield from labels(table)
    yield from duplicates(table)
    yield from numbers
    yield from categories
    yield from on_zeros(table)
    yield from each(table)


def odd(table: EditableTable, places: list[int]) -> Iterator[Draft]:
    """Put values that break libraries in one record of the table.

    Each value is first used once, with the columns in turn, and then in all other columns.
    """
    listed = [breakers(table.columns[at]) for at in places]
    for shift in range(len(places)):
        for number in range(max(map(len, listed), default=0)):
            at = (number + shift) % len(places)
            if number >= len(listed[at]):
                continue
            value, words = listed[at][number]
            if not (isinstance(value, bool) and table.form in ("array", "integers")):
                record = with_cell(table.first(), places[at], value)
                yield from table.changes(table.rows, record, words + table.where(places[at]))


def lone(table: EditableTable) -> Iterator[Draft]:
    """Edit a single record, as for a local randomiser, where any two values are neighbours."""
    rows, first = table.rows, table.first()
    for at in table.categories[:MOST_COLUMNS]:
        for category in some(table.columns[at].categories):
            changed = with_cell(first, at, category)
            yield Draft(rows, table.replaced(rows, 0, changed), "another category")
    low = table.all(table.row(0.0), 1)
    yield Draft(low, table.replaced(low, 0, table.row(1.0, -1)), "from one end to the other")
    for at in table.numbers[:MOST_COLUMNS]:
        for share in (1.0, 0.0):
            changed = with_cell(first, at, table.columns[at].between(share))
            yield Draft(rows, table.replaced(rows, 0, changed), "a value at its bound")


def users(table: EditableTable, user: int) -> Iterator[Draft]:
    """Edit all records of a user with many of them: libraries must bound contributions.

    Last comes a user who has the values of all others and is before them. Libraries that count each
    value once, and bound contributions afterwards, count less with that user than without.
    """
    rows = table.rows
    if table.resizes:
        yield Draft(rows, Edit("remove", 0), "the first user")
    many = max(50, 3 * table.size)
    for others, base in (
        (table.all(table.row(0.0)), ", all others at the lower bounds"),
        (rows, ""),
    ):
        for record in (table.row(1.0, -1), table.row(0.0)):
            one = (record, *(table.row(1.0, number) for number in range(many - 1)))
            heavy = table.of_newcomer(one)
            words = f"a user with {many} records{base}"
            yield from table.losses((*others, *heavy), table.row(0.0), words, at=-1)
            if table.replaces:
                mine = tuple(with_cell(row, user, others[0][user]) for row in heavy)
                yield Draft(others, Edit("replace", 0, mine), words)
    size = max(2, table.size, *(len(table.columns[at].categories) for at in table.categories), 0)
    spread = tuple(table.row(n / (size - 1), n) for n in range(size))
    both = (*table.of_newcomer(spread), *table.of_users(spread))
    words = "the first user has the same records as the others"
    yield from table.losses(both, spread[0], words)


def ends(table: EditableTable, share: float) -> Iterator[Draft]:
    """Put all other records at their lower bounds, which are often zeros, or the upper ones."""
    low, high = ("lower", "upper") if share == 0 else ("upper", "lower")
    words = f"all others at the {low} bounds, one record at the {high} ones"
    rows, record = table.all(table.row(share)), table.row(1 - share, -1)
    yield from table.changes(rows, record, words, at=-1 if share else 0)


def halves(table: EditableTable) -> Iterator[Draft]:
    """Put half of the records at either end, so that one more changes the median."""
    low, high, size = table.row(0.0), table.row(1.0, -1), table.size
    rows = table.of_users(((low, high) * size)[:size])
    yield from table.changes(rows, high, "half of the records at each bound")


def groups(table: EditableTable) -> Iterator[Draft]:
    """Split a larger table into two groups by each column, and move a record to the other groups.

    Scores and thresholds count records, and lose most at some numbers of them.
    """
    two = table.row(0.0), table.row(1.0, 1)
    size = max(size for size in sizes_of(table) if size in (table.size, GROUPED[1]))
    for design in DESIGNS:
        turns = [design[at % len(design)] for at in range(len(table.columns))]
        rows = split(two, [share for share, _ in turns], size, np.random.default_rng(0))
        old, new = (
            tuple(two[joins if place else 1 - joins][at] for at, (_, joins) in enumerate(turns))
            for place in (1, 0)
        )
        words = f"groups of {'equal' if design is DESIGNS[0] else 'different'} sizes"
        yield from table.changes(table.of_users((old, *rows[1:])), new, words)


def split(
    two: tuple[Row, Row], shares: Sequence[float], size: int, rng: np.random.Generator
) -> Rows:
    """Return records with cells of two records, chosen in each column independently of the others.

    `shares` are those of the first record in the columns.
    """
    columns = []
    for cells, share in zip(zip(*two, strict=True), shares, strict=True):
        places = rng.permutation(size) < round(share * size)
        columns.append([cells[0] if first else cells[1] for first in places.tolist()])
    return tuple(zip(*columns, strict=True))


def sizes_of(table: EditableTable) -> list[int]:
    """Return numbers of records for a table with groups: that of the table, and others if allowed.

    Larger tables would make slow libraries slower.
    """
    most = max(table.size, MOST_GROUPED // len(table.columns))
    sizes = [size for size in GROUPED if size <= most and table.may_have(size)]
    return [table.size, *sizes]


def some(categories: tuple[Any, ...]) -> tuple[Any, ...]:
    """Choose a few categories: the first ones, the middle one, the last one."""
    if len(categories) <= FEW_CATEGORIES:
        return categories
    return (*categories[: FEW_CATEGORIES - 2], categories[len(categories) // 2], categories[-1])


def corners(table: EditableTable, at: int) -> Iterator[Draft]:
    """Move a record of the table to the bounds that are farthest from it."""
    if not table.rows:
        return
    cells = []
    for column, cell in zip(table.columns, table.rows[at], strict=True):
        if column.kind == "number":
            near = isinstance(cell, int | float) and cell > (column.low + column.high) / 2
            cells.append(column.between(0.0 if near else 1.0))
        else:
            others = [one for one in column.categories if one != cell]
            cells.append(others[-1] if others else cell)
    words = f"the {'last' if at else 'first'} record at the farthest bounds"
    yield from table.changes(table.rows, tuple(cells), words, at=at)


def keys(table: EditableTable) -> Iterator[Draft]:
    """Add or remove the only record of its category."""
    for at in table.categories[:2]:
        own = table.columns[at].categories
        usual = with_cell(table.first(), at, own[0] if own else None)
        for other in own[1:3]:
            rare = with_cell(usual, at, other)
            rows = table.of_users((rare, *(usual,) * max(1, table.size - 1)))
            words = f"the only record of its category{table.where(at)}"
            yield from table.losses(rows, usual, words)


def sizes(table: EditableTable) -> Iterator[Draft]:
    """Add or remove records: of the table, of few, of one."""
    if not table.resizes:
        return
    rows = table.rows
    if rows:
        yield Draft(rows, Edit("remove", 0))
    for share, size in ((0.0, 3), (1.0, 2), (0.5, 1)):
        yield Draft(table.all(table.row(share), size), Edit("remove", -1), "few records")
    if rows:
        yield Draft(rows, Edit("remove", -1))
        yield Draft(rows, table.added(rows[0]), "the first record occurs twice")


def minimums(table: EditableTable, usual: Sequence[int]) -> Iterator[Draft]:
    """Let a table, or the group of a category, pass a minimum below which libraries hide it."""
    for size in (number for least in usual for number in (least, least + 1)):
        words = f"{size} equal records"
        if table.resizes:
            yield Draft(table.all(table.row(0.5), size), Edit("remove", -1), words)
        elif table.categories:
            others = (table.row(0.5, 1),) * max(1, table.size - size)
            rows = table.of_users((*(table.row(0.5),) * size, *others))
            yield Draft(rows, table.replaced(rows, 0, others[0]), words)


def few(table: EditableTable) -> Iterator[Draft]:
    """Change one of two records, or the only one, so that nothing averages out."""
    high = table.row(1.0, -1)
    if len(table.rows) != 1:
        yield from table.changes(table.all(table.row(0.0), 1), high, "one record")
    for share in (0.01, 1.0):
        pair = table.of_users((table.row(0.0), table.row(share)))
        yield from table.changes(pair, high, "two records")


def levels(table: EditableTable) -> Iterator[Draft]:
    """Make all records equal but one, because sums and means are rounded."""
    for share, other, at in ((0.25, 0.5, 0), (0.25, 0.0, 0), (0.5, 1.0, 0), (0.5, 0.0, -1)):
        words = "all records are equal but one"
        yield from table.changes(table.all(table.row(share)), table.row(other), words, at=at)


def scales(table: EditableTable) -> Iterator[Draft]:
    """Make all numbers huge, tiny, hard to round, or cancelling."""
    places = table.numbers
    if not places:
        return

    def at(number: float) -> Row:
        record = table.row(0.5)
        for place in places:
            record = with_cell(record, place, table.columns[place].number(number))
        return record

    if any(table.columns[place].whole for place in places):
        yield from table.changes(table.all(at(2**62)), at(0), "whole numbers whose sum overflows")
    for all_, one, words in (
        (2.0**50 + 0.25, 2.0**50 + 0.5, "all numbers near 2^50"),
        (1e154, 1e155, "numbers whose squares overflow"),
        (1e-170, 1e-160, "numbers whose squares are 0"),
        (0.0, 1e-12, "all zeros but one tiny number"),
        (16777216.0, 16777217.0, "numbers that float32 rounds"),
    ):
        yield from table.changes(table.all(at(all_)), at(one), words)
    cancelling = ((at(1e16), at(1.0), at(-1e16)) * table.size)[: max(2, table.size)]
    words = "numbers whose sum cancels"
    yield from table.changes(table.of_users(cancelling), at(0.0), words, at=1)


def alone(table: EditableTable) -> Iterator[Draft]:
    """Put one value at its upper bound and all others at their lower ones, column by column."""
    zeros = table.row(0.0)
    for at in table.numbers if len(table.columns) > 1 else ():
        record = with_cell(zeros, at, table.columns[at].between(1.0))
        words = f"one value at its upper bound, all others at the lower ones{table.where(at)}"
        yield from table.changes(table.all(zeros), record, words)


def missing(table: EditableTable) -> Iterator[Draft]:
    """Give one record a value that is missing in all others."""
    for at in (*table.numbers[:2], *table.categories[:1]):
        empty = math.nan if table.columns[at].kind == "number" else None
        rows = table.all(with_cell(table.first(), at, empty))
        yield from table.changes(rows, table.row(1.0), f"the only value present{table.where(at)}")


def labels(table: EditableTable) -> Iterator[Draft]:
    """Give a record of the table another category."""
    for at in table.categories if table.rows else ():
        for category in some(table.columns[at].categories):
            changed = with_cell(table.rows[0], at, category)
            yield from table.changes(table.rows, changed, f"another category{table.where(at)}")


def duplicates(table: EditableTable) -> Iterator[Draft]:
    """Repeat records, and change one by the last bit."""
    rows, first = table.rows, table.first()
    if len(rows) > 1:
        again = "a record is replaced by a copy of another one"
        yield from table.changes(rows, rows[1], again)
    for at in table.numbers[:2]:
        cell = first[at]
        if isinstance(cell, float) and math.isfinite(cell):
            next_ = with_cell(first, at, math.nextafter(cell, table.columns[at].high))
            yield from table.changes(table.all(first), next_, "equal records, except for one bit")


def on_zeros(table: EditableTable) -> Iterator[Draft]:
    """Put odd values in a table at its lower bounds, and in one of a single record."""
    zeros, one = table.all(table.row(0.0)), table.all(table.row(0.0), 1)
    for at in (*table.numbers[:3], *table.categories[:2]):
        for value, what in breakers(table.columns[at])[:4]:
            record = with_cell(table.row(0.0), at, value)
            words = what + table.where(at)
            yield from table.changes(zeros, record, f"{words}, all others at the lower bounds")
            yield from table.changes(one, record, f"{words}, one record")
            if table.adjacency == "either":
                yield Draft(table.rows, table.added(record), f"one more record: {words}")


def each(table: EditableTable) -> Iterator[Draft]:
    """Try every pair of categories, and the bounds of each column."""
    rows, first = table.rows, table.first()
    for at in table.categories:
        for one, other in itertools.combinations(table.columns[at].categories, 2):
            base = table.all(with_cell(first, at, one), len(rows) or 1)
            yield from table.changes(base, with_cell(first, at, other), "another category")
    for at in table.numbers:
        for share in (0.0, 1.0):
            changed = with_cell(first, at, table.columns[at].between(share))
            yield from table.changes(rows, changed, f"a value at its bound{table.where(at)}")


# Random edits of a table, and mutations of those with the most evidence.


def by_chance(table: EditableTable, rng: np.random.Generator) -> Draft:
    """Draw a table like the given one, and an edit inside the schema."""
    rows = table.rows
    kind = rng.integers(6)
    if kind > 3:
        return grouped_by_chance(table, rng)
    if kind == 0 or not rows:
        rows = table.of_users(tuple(row_by_chance(table, rng) for _ in range(table.size)))
    elif kind == 1:
        rows = table.all(row_by_chance(table, rng))
    elif kind == 2 and len(rows) > 1:
        rows = rows[: int(rng.integers(1, len(rows) + 1))]
    return Draft(rows, edit_by_chance(table, rows, rng))


def grouped_by_chance(table: EditableTable, rng: np.random.Generator) -> Draft:
    """Draw a table with two groups by each column, and an edit that moves a record between them."""
    two = row_by_chance(table, rng), row_by_chance(table, rng)
    shares = [share_by_chance(rng) for _ in two[0]]
    rows = split(two, shares, int(rng.choice(sizes_of(table))), rng)
    record = tuple(both[int(rng.integers(2))] for both in zip(*two, strict=True))
    if table.replaces and (not table.resizes or rng.random() < 0.5):
        others = zip(*two, record, strict=True)
        other = tuple(b if plain.same_cell(a, cell) else a for a, b, cell in others)
        rows = table.of_users((record, *rows[1:]))
        return Draft(rows, table.replaced(rows, 0, other))
    return Draft(table.of_users(rows), table.added(record))


def share_by_chance(rng: np.random.Generator) -> float:
    """Draw the share of a group: equal to the other one, much larger or smaller, or any."""
    return float(rng.choice([0.5, 0.9, 0.1, 0.97, 0.03, *rng.random(3)]))


def edit_by_chance(table: EditableTable, rows: Rows, rng: np.random.Generator) -> Edit:
    """Replace, remove or add a record."""
    at = int(rng.integers(len(rows))) if rows else 0
    if rows and table.replaces and (not table.resizes or rng.random() < 0.5):
        return table.replaced(rows, at, row_by_chance(table, rng, rows[at]))
    if rows and rng.random() < 0.5:
        return Edit("remove", at)
    return table.added(row_by_chance(table, rng))


def row_by_chance(table: EditableTable, rng: np.random.Generator, like: Row | None = None) -> Row:
    """Draw a record inside the schema; half of its cells are those of `like`, if given."""
    drawn = tuple(cell_by_chance(table, at, rng) for at in range(len(table.columns)))
    if like is None:
        return drawn
    own = rng.random(len(drawn)) < 0.5
    return tuple(old if keep else new for old, new, keep in zip(like, drawn, own, strict=True))


def cell_by_chance(table: EditableTable, at: int, rng: np.random.Generator) -> Any:
    """Draw a value of a column: a bound, a value between them, or one of the table."""
    column, rows = table.columns[at], table.rows
    if rows and (column.kind == "user" or rng.random() < 0.25):
        return rows[int(rng.integers(len(rows)))][at]
    if column.kind == "category":
        categories = column.categories or (None,)
        return categories[int(rng.integers(len(categories)))]
    return column.between(float(rng.choice([0.0, 1.0, rng.random()])))


def changed(  # noqa: PLR0911  # one line for each kind of change
    table: EditableTable, parent: Draft, other: Draft, rng: np.random.Generator
) -> Draft:
    """Mutate a draft with much evidence; the result is one edit, perhaps of another table.

    `other` is another draft with evidence, or the same one.
    """
    rows, edit = parent.rows, parent.edit
    match int(rng.integers(8)):
        case 0:  # make all other records equal
            base = table.row(float(rng.choice([0.0, 1.0, 0.5])))
            if edit.kind == "add" or not rows or table.user is not None:
                return Draft(table.all(base, len(rows)), _placed(edit, len(rows)))
            at = edit.at % len(rows)
            return Draft(tuple(row if n == at else base for n, row in enumerate(rows)), edit)
        case 1:  # more or fewer records
            return _resized(table, rows, edit, rng)
        case 2:  # the edit of `other`
            return Draft(rows, _placed(other.edit, len(rows)))
        case 3:  # another relation
            return Draft(rows, _turned(table, rows, edit))
        case 4:  # another place
            return Draft(rows, edit._replace(at=int(rng.integers(max(1, len(rows))))))
        case 5:  # groups of other sizes
            return Draft(_regrouped(table, rows, edit, rng), edit)
        case 6:  # another value in one cell of the table
            return Draft(_cell_changed(table, rows, rng), edit)
        case _:  # another value in the new record
            return Draft(rows, _odder(table, rows, edit, rng))


def _resized(table: EditableTable, rows: Rows, edit: Edit, rng: np.random.Generator) -> Draft:
    size = int(rng.choice([1, 2, max(1, len(rows) // 2), 2 * len(rows), 10 * len(rows)]))
    if not rows or size > MOST_RECORDS:
        return Draft(table.all(table.row(0.5), 2), edit._replace(at=0))
    at = edit.at % len(rows)
    turned = (*rows[at:], *rows[:at])  # the record that is edited comes first
    resized = table.of_users((turned * -(-size // len(rows)))[:size])
    return Draft(resized, edit._replace(at=-1 if edit.kind == "add" else 0))


def _placed(edit: Edit, size: int) -> Edit:
    if edit.kind == "add":
        return edit._replace(at=-1)
    return edit if -size <= edit.at < size else edit._replace(at=0)


def _turned(table: EditableTable, rows: Rows, edit: Edit) -> Edit:
    """Swap a replacement for an addition or removal, or the reverse."""
    if rows and (table.user is not None or edit.kind == "remove"):
        return table.replaced(rows, edit.at % len(rows), table.row(0.0))
    if table.user is None and edit.kind == "replace":
        return Edit("add", -1, edit.by)
    return Edit("replace", 0, edit.by) if rows else edit


def _regrouped(table: EditableTable, rows: Rows, edit: Edit, rng: np.random.Generator) -> Rows:
    """Change the sizes of the groups of one column, but not the record that is edited."""
    at = int(rng.integers(len(table.columns)))
    cells = list({repr(row[at]): row[at] for row in rows}.values()) or [None]
    cells = cells if len(cells) > 1 else [*cells, cell_by_chance(table, at, rng)]
    if not rows or table.columns[at].kind == "user":
        return rows
    one, other = (cells[n] for n in rng.choice(len(cells), 2, replace=False))
    kept = edit.at % len(rows) if edit.kind != "add" else -1
    share = share_by_chance(rng)
    return tuple(
        row if n == kept else with_cell(row, at, one if rng.random() < share else other)
        for n, row in enumerate(rows)
    )


def _cell_changed(table: EditableTable, rows: Rows, rng: np.random.Generator) -> Rows:
    if not rows:
        return (table.first(),)
    n, at = int(rng.integers(len(rows))), int(rng.integers(len(table.columns)))
    if table.columns[at].kind == "user":
        return rows
    return (*rows[:n], with_cell(rows[n], at, cell_by_chance(table, at, rng)), *rows[n + 1 :])


def _odder(table: EditableTable, rows: Rows, edit: Edit, rng: np.random.Generator) -> Edit:
    at = int(rng.integers(len(table.columns)))
    listed = breakers(table.columns[at])
    if edit.kind == "remove" or not listed:  # none for the column of users
        return edit_by_chance(table, rows, rng)
    cell = edit.by[0][at]
    kind = int(rng.integers(3))
    if kind == 0:
        new = listed[int(rng.integers(len(listed)))][0]
    elif kind == 1 and isinstance(cell, float) and math.isfinite(cell):
        new = cell * float(rng.choice([-1.0, 0.1, 0.5, 2.0, 10.0]))
    else:
        new = cell_by_chance(table, at, rng)
    return edit._replace(by=(with_cell(edit.by[0], at, new),))
