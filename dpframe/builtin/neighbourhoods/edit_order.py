"""Edits of a table in a fixed order, random edits, and mutations."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpframe.builtin.neighbourhoods.table_edits import MOST_RECORDS, Draft, EditableTable, breakers
from dpframe.builtin.pairs.table import Edit, Row, Rows

BITS = 8  # columns of a single record that are first changed one by one


def planned(bench: EditableTable) -> Iterator[Draft]:
    """Yield all planned edits, those that break libraries most often first."""
    if len(bench.table.rows) == 1:
        yield from lone(bench)
    if bench.user is not None:
        yield from users(bench)
    numbers, categories = (odd(bench, places) for places in (bench.numbers(), bench.categories()))
    next_of = itertools.islice
    yield from ends(bench, 0.0)
    yield from next_of(numbers, 1)
    yield from corners(bench, at=0)
    yield from next_of(categories, 1)
    yield from next_of(numbers, 2)
    yield from keys(bench)
    yield from halves(bench)
    yield from sizes(bench)
    yield from few(bench)
    yield from next_of(numbers, 2)
    yield from next_of(categories, 1)
    yield from ends(bench, 1.0)
    yield from levels(bench)
    yield from next_of(numbers, 3)
    yield from next_of(categories, 2)
    yield from corners(bench, at=-1)
    yield from scales(bench)
    yield from alone(bench)
    yield from missing(bench)
    yield from next_of(numbers, 6)
    yield from next_of(categories, 4)
    yield from labels(bench)
    yield from duplicates(bench)
    yield from numbers
    yield from categories
    yield from on_zeros(bench)
    yield from each(bench)


def odd(bench: EditableTable, places: list[int]) -> Iterator[Draft]:
    """Put values that break libraries in one record of the table.

    Each value is first used once, with the columns in turn, and then in all other columns.
    """
    listed = [list(breakers(bench.columns[at])) for at in places]
    for shift in range(len(places)):
        for number in range(max(map(len, listed), default=0)):
            at = (number + shift) % len(places)
            if number < len(listed[at]):
                value, words = listed[at][number]
                if isinstance(value, bool) and bench.form in ("array", "integers"):
                    continue  # a number in an array
                place = places[at]
                record = bench.with_cell(bench.first(), place, value)
                yield from bench.changes(bench.table.rows, record, words + bench.where(place))


def lone(bench: EditableTable) -> Iterator[Draft]:
    """Edit a single record, as for a local randomiser, where any two values are neighbours."""
    rows, first = bench.table.rows, bench.first()
    for at in bench.categories()[:BITS]:
        for category in some(bench.columns[at].categories):
            changed = bench.with_cell(first, at, category)
            yield Draft(rows, bench.replaced(rows, 0, changed), "another category")
    ends = bench.all(bench.row(0.0), 1)
    yield Draft(ends, bench.replaced(ends, 0, bench.row(1.0, -1)), "from one end to the other")
    for at in bench.numbers()[:BITS]:
        for share in (1.0, 0.0):
            changed = bench.with_cell(first, at, bench.columns[at].between(share))
            yield Draft(rows, bench.replaced(rows, 0, changed), "a value at its bound")


def users(bench: EditableTable) -> Iterator[Draft]:
    """Edit all records of a user with many of them: libraries must bound contributions."""
    rows, user = bench.table.rows, bench.user
    if user is None or not rows:
        return
    if bench.resizes:
        yield Draft(rows, Edit("remove", 0), "the first user")
    many = max(50, 3 * bench.size)
    for others, base in ((bench.all(bench.row(0.0)), "all others at the lower bounds"), (rows, "")):
        for record in (bench.row(1.0, -1), bench.row(0.0)):
            one = (record, *(bench.row(1.0, number) for number in range(many - 1)))
            heavy = tuple(bench.with_cell(row, user, bench.name(10**6)) for row in one)
            told = f"a user with {many} records{base and ', '}{base}"
            yield from bench.losses((*others, *heavy), bench.row(0.0), told, at=-1)
            if bench.replaces:
                mine = tuple(bench.with_cell(row, user, others[0][user]) for row in heavy)
                yield Draft(others, Edit("replace", 0, mine), told)
    yield from before_others(bench, user)


def before_others(bench: EditableTable, user: int) -> Iterator[Draft]:
    """Edit a user who comes first and has the values of all others.

    Libraries that count each value once, and bound contributions afterwards, count less with that
    user than without.
    """
    size = max(2, bench.size, *(len(bench.columns[at].categories) for at in bench.categories()), 0)
    spread = tuple(bench.row(n / (size - 1), n) for n in range(size))
    mine = tuple(bench.with_cell(row, user, bench.name(10**6)) for row in spread)
    rows = (*mine, *bench.of_users(spread))
    told = "the first user has the same records as the others"
    yield from bench.losses(rows, spread[0], told)


FEW = 4  # categories of a column that are tried first; the others come last


def ends(bench: EditableTable, share: float) -> Iterator[Draft]:
    """Put all other records at their lower bounds, which are often zeros, or the upper ones."""
    low, high = ("lower", "upper") if share == 0 else ("upper", "lower")
    words = f"all others at the {low} bounds, one record at the {high} ones"
    rows, record = bench.all(bench.row(share)), bench.row(1 - share, -1)
    yield from bench.changes(rows, record, words, at=-1 if share else 0)


def halves(bench: EditableTable) -> Iterator[Draft]:
    """Put half of the records at either end, so that one more changes the median."""
    low, high, size = bench.row(0.0), bench.row(1.0, -1), bench.size
    rows = bench.of_users(((low, high) * size)[:size])
    yield from bench.changes(rows, high, "half of the records at each bound")


def some(categories: tuple[Any, ...]) -> tuple[Any, ...]:
    """Choose a few categories: the first ones, the middle one, the last one."""
    if len(categories) <= FEW:
        return categories
    return (*categories[: FEW - 2], categories[len(categories) // 2], categories[-1])


def corners(bench: EditableTable, at: int) -> Iterator[Draft]:
    """Move a record of the table to the bounds that are farthest from it."""
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


def keys(bench: EditableTable) -> Iterator[Draft]:
    """Add or remove the only record of its category."""
    for at in bench.categories()[:2]:
        known = bench.columns[at]
        if len(known.categories) < 2:
            continue
        usual = bench.with_cell(bench.first(), at, known.categories[0])
        for other in known.categories[1:3]:
            rare = bench.with_cell(usual, at, other)
            rows = bench.of_users((rare, *(usual,) * max(1, bench.size - 1)))
            words = f"the only record of its category{bench.where(at)}"
            yield from bench.losses(rows, usual, words)


def sizes(bench: EditableTable) -> Iterator[Draft]:
    """Add or remove records: of the table, of few, of one."""
    if not bench.resizes:
        return
    rows = bench.table.rows
    if rows:
        yield Draft(rows, Edit("remove", 0))
    for share, size in ((0.0, 3), (1.0, 2), (0.5, 1)):
        yield Draft(bench.all(bench.row(share), size), Edit("remove", -1), "few records")
    if rows:
        yield Draft(rows, Edit("remove", -1))
        yield Draft(rows, bench.added(rows[0]), "the first record occurs twice")


def few(bench: EditableTable) -> Iterator[Draft]:
    """Change one of two records, or the only one, so that nothing averages out."""
    if len(bench.table.rows) != 1:
        yield from bench.changes(bench.all(bench.row(0.0), 1), bench.row(1.0, -1), "one record")
    for share in (0.01, 1.0):
        pair = bench.of_users((bench.row(0.0), bench.row(share)))
        yield from bench.changes(pair, bench.row(1.0, -1), "two records")


def levels(bench: EditableTable) -> Iterator[Draft]:
    """Make all records equal but one, because sums and means are rounded."""
    for share, other, at in ((0.25, 0.5, 0), (0.25, 0.0, 0), (0.5, 1.0, 0), (0.5, 0.0, -1)):
        words = "all records are equal but one"
        yield from bench.changes(bench.all(bench.row(share)), bench.row(other), words, at=at)


def scales(bench: EditableTable) -> Iterator[Draft]:
    """Make all numbers huge, tiny, hard to round, or cancelling."""
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


def alone(bench: EditableTable) -> Iterator[Draft]:
    """Put one value at its upper bound and all others at their lower ones, column by column."""
    zeros = bench.row(0.0)
    for at in bench.numbers() if len(bench.columns) > 1 else ():
        record = bench.with_cell(zeros, at, bench.columns[at].between(1.0))
        words = f"one value at its upper bound, all others at the lower ones{bench.where(at)}"
        yield from bench.changes(bench.all(zeros), record, words)


def missing(bench: EditableTable) -> Iterator[Draft]:
    """Give one record a value that is missing in all others."""
    for at in (*bench.numbers()[:2], *bench.categories()[:1]):
        empty = math.nan if bench.columns[at].kind == "number" else None
        words = f"the only value present{bench.where(at)}"
        rows = bench.all(bench.with_cell(bench.first(), at, empty))
        yield from bench.changes(rows, bench.row(1.0), words)


def labels(bench: EditableTable) -> Iterator[Draft]:
    """Give a record of the table another category."""
    rows = bench.table.rows
    for at in bench.categories():
        for category in some(bench.columns[at].categories) if rows else ():
            changed = bench.with_cell(rows[0], at, category)
            words = f"another category{bench.where(at)}"
            yield from bench.changes(rows, changed, words)


def duplicates(bench: EditableTable) -> Iterator[Draft]:
    """Repeat records, and change one by the last bit."""
    rows, first = bench.table.rows, bench.first()
    if len(rows) > 1:
        again = "a record is replaced by a copy of another one"
        yield from bench.changes(rows, rows[1], again)
    for at in bench.numbers()[:2]:
        cell = first[at]
        if isinstance(cell, float) and math.isfinite(cell):
            next_ = bench.with_cell(first, at, math.nextafter(cell, bench.columns[at].high))
            yield from bench.changes(bench.all(first), next_, "equal records, except for one bit")


def on_zeros(bench: EditableTable) -> Iterator[Draft]:
    """Put odd values in a table at its lower bounds, and in one of a single record."""
    for at in (*bench.numbers()[:3], *bench.categories()[:2]):
        for value, words in itertools.islice(breakers(bench.columns[at]), 4):
            record = bench.with_cell(bench.row(0.0), at, value)
            told = words + bench.where(at)
            zeros = bench.all(bench.row(0.0))
            yield from bench.changes(zeros, record, f"{told}, all others at the lower bounds")
            yield from bench.changes(bench.all(bench.row(0.0), 1), record, f"{told}, one record")
            if bench.resizes and bench.adjacency == "either":
                yield Draft(bench.table.rows, bench.added(record), f"one more record: {told}")


def each(bench: EditableTable) -> Iterator[Draft]:
    """Try every pair of categories, and the bounds of each column."""
    rows, first = bench.table.rows, bench.first()
    for at in bench.categories():
        for one, other in itertools.combinations(bench.columns[at].categories, 2):
            base = bench.all(bench.with_cell(first, at, one), len(rows) or 1)
            yield from bench.changes(base, bench.with_cell(first, at, other), "another category")
    for at in bench.numbers():
        for share in (0.0, 1.0):
            changed = bench.with_cell(first, at, bench.columns[at].between(share))
            yield from bench.changes(rows, changed, f"a value at its bound{bench.where(at)}")


# Random edits of a table, and mutations of those with the most evidence.


def by_chance(bench: EditableTable, rng: np.random.Generator) -> Draft:
    """Draw a table like the given one, and an edit inside the schema."""
    rows = bench.table.rows
    kind = rng.integers(4)
    if kind == 0 or not rows:
        rows = bench.of_users(tuple(row_by_chance(bench, rng) for _ in range(bench.size)))
    elif kind == 1:
        rows = bench.all(row_by_chance(bench, rng))
    elif kind == 2 and len(rows) > 1:
        rows = rows[: int(rng.integers(1, len(rows) + 1))]
    return Draft(rows, edit_by_chance(bench, rows, rng))


def edit_by_chance(bench: EditableTable, rows: Rows, rng: np.random.Generator) -> Edit:
    """Replace, remove or add a record."""
    at = int(rng.integers(len(rows))) if rows else 0
    if rows and bench.replaces and (not bench.resizes or rng.random() < 0.5):
        return bench.replaced(rows, at, row_by_chance(bench, rng, rows[at]))
    if rows and rng.random() < 0.5:
        return Edit("remove", at)
    return bench.added(row_by_chance(bench, rng))


def row_by_chance(bench: EditableTable, rng: np.random.Generator, like: Row | None = None) -> Row:
    """Draw a record inside the schema; half of its cells are those of `like`, if given."""
    drawn = tuple(cell_by_chance(bench, at, rng) for at in range(len(bench.columns)))
    if like is None:
        return drawn
    own = rng.random(len(drawn)) < 0.5
    return tuple(old if keep else new for old, new, keep in zip(like, drawn, own, strict=True))


def cell_by_chance(bench: EditableTable, at: int, rng: np.random.Generator) -> Any:
    """Draw a value of a column: a bound, a value between them, or one of the table."""
    column, rows = bench.columns[at], bench.table.rows
    if rows and (column.kind == "user" or rng.random() < 0.25):
        return rows[int(rng.integers(len(rows)))][at]
    if column.kind == "category":
        categories = column.categories or (None,)
        return categories[int(rng.integers(len(categories)))]
    share = rng.choice([0.0, 1.0, rng.random()])
    return column.between(float(share))


def changed(  # noqa: PLR0911  # one line for each kind of change
    bench: EditableTable, parent: Draft, other: Draft, rng: np.random.Generator
) -> Draft:
    """Mutate a draft with much evidence; the result is one edit, perhaps of another table.

    `other` is another draft with evidence, or the same one.
    """
    rows, edit = parent.rows, parent.edit
    match int(rng.integers(7)):
        case 0:  # make all other records equal
            base = bench.row(float(rng.choice([0.0, 1.0, 0.5])))
            return Draft(*_others(bench, rows, edit, base))
        case 1:  # more or fewer records
            return _resized(bench, rows, edit, rng)
        case 2:  # the edit of `other`
            return Draft(rows, _placed(other.edit, len(rows)))
        case 3:  # another relation
            return _turned(bench, rows, edit)
        case 4:  # another place
            at = int(rng.integers(max(1, len(rows))))
            return Draft(rows, edit._replace(at=at))
        case 5:  # another value in one cell of the table
            return Draft(_cell_changed(bench, rows, rng), edit)
        case _:  # another value in the new record
            return Draft(rows, _odder(bench, rows, edit, rng))


def _others(bench: EditableTable, rows: Rows, edit: Edit, base: Row) -> tuple[Rows, Edit]:
    if edit.kind == "add" or not rows or bench.user is not None:
        return bench.all(base, len(rows)), _placed(edit, len(rows))
    at = edit.at % len(rows)
    return tuple(row if n == at else base for n, row in enumerate(rows)), edit


def _resized(bench: EditableTable, rows: Rows, edit: Edit, rng: np.random.Generator) -> Draft:
    size = int(rng.choice([1, 2, max(1, len(rows) // 2), 2 * len(rows), 10 * len(rows)]))
    if not rows or size > MOST_RECORDS:
        return Draft(bench.all(bench.row(0.5), 2), edit._replace(at=0))
    at = edit.at % len(rows)
    turned = (*rows[at:], *rows[:at])  # the record that is edited comes first
    found = (turned * -(-size // len(rows)))[:size]
    if bench.user is not None:
        found = bench.of_users(found)
    return Draft(found, edit._replace(at=-1 if edit.kind == "add" else 0))


def _placed(edit: Edit, size: int) -> Edit:
    if edit.kind == "add":
        return edit._replace(at=-1)
    return edit if -size <= edit.at < size else edit._replace(at=0)


def _turned(bench: EditableTable, rows: Rows, edit: Edit) -> Draft:
    """Swap a replacement for an addition or removal, or the reverse."""
    at = edit.at % len(rows) if rows else 0
    if bench.user is not None or edit.kind == "remove":
        return Draft(rows, bench.replaced(rows, at, bench.row(0.0)) if rows else edit)
    if edit.kind == "replace":
        return Draft(rows, Edit("add", -1, edit.by))
    return Draft(rows, Edit("replace", 0, edit.by)) if rows else Draft(rows, edit)


def _cell_changed(bench: EditableTable, rows: Rows, rng: np.random.Generator) -> Rows:
    if not rows:
        return (bench.first(),)
    n, at = int(rng.integers(len(rows))), int(rng.integers(len(bench.columns)))
    if bench.columns[at].kind == "user":
        return rows
    return (*rows[:n], bench.with_cell(rows[n], at, cell_by_chance(bench, at, rng)), *rows[n + 1 :])


def _odder(bench: EditableTable, rows: Rows, edit: Edit, rng: np.random.Generator) -> Edit:
    at = int(rng.integers(len(bench.columns)))
    column = bench.columns[at]
    if edit.kind == "remove" or column.kind == "user":
        return edit_by_chance(bench, rows, rng)
    record = edit.by[0] if bench.user is not None else edit.by
    listed, cell = list(breakers(column)), record[at]
    kind = int(rng.integers(3))
    if kind == 0:
        new = listed[int(rng.integers(len(listed)))].value
    elif kind == 1 and isinstance(cell, float) and math.isfinite(cell):
        new = cell * float(rng.choice([-1.0, 0.1, 0.5, 2.0, 10.0]))
    else:
        new = cell_by_chance(bench, at, rng)
    record = bench.with_cell(record, at, new)
    return edit._replace(by=record if bench.user is None else (record,))
