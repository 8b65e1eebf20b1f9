"""Edits of a table, planned and by chance."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from dpframe.builtin.neighbourhoods import bench as tables
from dpframe.builtin.neighbourhoods.bench import MOST, Draft, breakers
from dpframe.builtin.pairs.table import Edit

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from dpframe.builtin.neighbourhoods.bench import Bench
    from dpframe.builtin.pairs.table import Row, Rows


# Edits by chance inside the schema, and changes of what earned most.


def by_chance(bench: Bench, rng: np.random.Generator) -> Draft:
    """A table, or one like it, and an edit inside the schema.

    Args:
        bench: the table, and what is known of it.
        rng: where all randomness comes from.
    """
    rows = bench.table.rows
    kind = rng.integers(4)
    if kind == 0 or not rows:
        rows = bench.of_users(tuple(row_by_chance(bench, rng) for _ in range(bench.size)))
    elif kind == 1:
        rows = bench.all(row_by_chance(bench, rng))
    elif kind == 2 and len(rows) > 1:
        rows = rows[: int(rng.integers(1, len(rows) + 1))]
    return Draft(rows, edit_by_chance(bench, rows, rng))


def edit_by_chance(bench: Bench, rows: Rows, rng: np.random.Generator) -> Edit:
    """A record is replaced, removed or added."""
    at = int(rng.integers(len(rows))) if rows else 0
    if rows and bench.replaces and (not bench.resizes or rng.random() < 0.5):
        return bench.replaced(rows, at, row_by_chance(bench, rng, rows[at]))
    if rows and rng.random() < 0.5:
        return Edit("remove", at)
    return bench.added(row_by_chance(bench, rng))


def row_by_chance(bench: Bench, rng: np.random.Generator, like: Row | None = None) -> Row:
    """A record inside the schema; half of its cells are another one's, if there is one."""
    drawn = tuple(cell_by_chance(bench, at, rng) for at in range(len(bench.columns)))
    if like is None:
        return drawn
    own = rng.random(len(drawn)) < 0.5
    return tuple(old if keep else new for old, new, keep in zip(like, drawn, own, strict=True))


def cell_by_chance(bench: Bench, at: int, rng: np.random.Generator) -> Any:
    """A value of a column: at a bound, anywhere between, or one of the table's."""
    column, rows = bench.columns[at], bench.table.rows
    if rows and (column.kind == "user" or rng.random() < 0.25):
        return rows[int(rng.integers(len(rows)))][at]
    if column.kind == "category":
        categories = column.categories or (None,)
        return categories[int(rng.integers(len(categories)))]
    share = rng.choice([0.0, 1.0, rng.random()])
    return column.between(float(share))


def changed(  # noqa: PLR0911  # one line for each kind of change
    bench: Bench, parent: Draft, other: Draft, rng: np.random.Generator
) -> Draft:
    """A child of what earned most: still one edit, of a table that may be another.

    Args:
        bench: the table, and what is known of it.
        parent: what it is a child of.
        other: another one that earned, or the same.
        rng: where all randomness comes from.
    """
    rows, edit = parent.rows, parent.edit
    match int(rng.integers(7)):
        case 0:  # the others are all alike
            base = bench.row(float(rng.choice([0.0, 1.0, 0.5])))
            return Draft(*_others(bench, rows, edit, base))
        case 1:  # more records, or fewer
            return _resized(bench, rows, edit, rng)
        case 2:  # the edit of another
            return Draft(rows, _placed(other.edit, len(rows)))
        case 3:  # another relation
            return _turned(bench, rows, edit)
        case 4:  # another place
            at = int(rng.integers(max(1, len(rows))))
            return Draft(rows, edit._replace(at=at))
        case 5:  # one cell of the table is another one
            return Draft(_cell_changed(bench, rows, rng), edit)
        case _:  # the new record is odder, or less so
            return Draft(rows, _odder(bench, rows, edit, rng))


def _others(bench: Bench, rows: Rows, edit: Edit, base: Row) -> tuple[Rows, Edit]:
    if edit.kind == "add" or not rows or bench.user is not None:
        return bench.all(base, len(rows)), _placed(edit, len(rows))
    at = edit.at % len(rows)
    return tuple(row if n == at else base for n, row in enumerate(rows)), edit


def _resized(bench: Bench, rows: Rows, edit: Edit, rng: np.random.Generator) -> Draft:
    size = int(rng.choice([1, 2, max(1, len(rows) // 2), 2 * len(rows), 10 * len(rows)]))
    if not rows or size > MOST:
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


def _turned(bench: Bench, rows: Rows, edit: Edit) -> Draft:
    """What was replaced is added or removed, or the other way round."""
    at = edit.at % len(rows) if rows else 0
    if bench.user is not None or edit.kind == "remove":
        return Draft(rows, bench.replaced(rows, at, bench.row(0.0)) if rows else edit)
    if edit.kind == "replace":
        return Draft(rows, Edit("add", -1, edit.by))
    return Draft(rows, Edit("replace", 0, edit.by)) if rows else Draft(rows, edit)


def _cell_changed(bench: Bench, rows: Rows, rng: np.random.Generator) -> Rows:
    if not rows:
        return (bench.first(),)
    n, at = int(rng.integers(len(rows))), int(rng.integers(len(bench.columns)))
    if bench.columns[at].kind == "user":
        return rows
    return (*rows[:n], bench.with_cell(rows[n], at, cell_by_chance(bench, at, rng)), *rows[n + 1 :])


def _odder(bench: Bench, rows: Rows, edit: Edit, rng: np.random.Generator) -> Edit:
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


# Pairs that break libraries, in the order of how often they do.


BITS = 8
"""Columns of a single record that are changed one by one at first."""


def planned(bench: Bench) -> Iterator[Draft]:
    """All pairs that are not made by chance, the most telling first.

    Args:
        bench: the table, and what is known of it.
    """
    if len(bench.table.rows) == 1:
        yield from lone(bench)
    if bench.user is not None:
        yield from users(bench)
    numbers, categories = (odd(bench, places) for places in (bench.numbers(), bench.categories()))

    def next_of(these: Iterator[Draft], number: int) -> Iterator[Draft]:
        return itertools.islice(these, number)

    yield from tables.lows(bench)
    yield from next_of(numbers, 1)
    yield from tables.corners(bench, at=0)
    yield from next_of(categories, 1)
    yield from next_of(numbers, 2)
    yield from tables.keys(bench)
    yield from tables.halves(bench)
    yield from tables.sizes(bench)
    yield from tables.few(bench)
    yield from next_of(numbers, 2)
    yield from next_of(categories, 1)
    yield from tables.highs(bench)
    yield from tables.levels(bench)
    yield from next_of(numbers, 3)
    yield from next_of(categories, 2)
    yield from tables.corners(bench, at=-1)
    yield from tables.scales(bench)
    yield from tables.alone(bench)
    yield from tables.missing(bench)
    yield from next_of(numbers, 6)
    yield from next_of(categories, 4)
    yield from tables.labels(bench)
    yield from tables.duplicates(bench)
    yield from numbers
    yield from categories
    yield from tables.on_zeros(bench)
    yield from tables.each(bench)


def odd(bench: Bench, places: list[int]) -> Iterator[Draft]:
    """Values that break libraries in one record of the table.

    Each once, in turn of the columns; then each of them in the columns where it was not yet.
    """
    listed = [list(breakers(bench.columns[at])) for at in places]
    for shift in range(len(places)):
        for number in range(max(map(len, listed), default=0)):
            at = (number + shift) % len(places)
            if number < len(listed[at]):
                value, words = listed[at][number]
                if isinstance(value, bool) and bench.form in ("array", "integers"):
                    continue  # it would be a number there
                yield from one_cell(bench, places[at], value, words)


def one_cell(bench: Bench, at: int, value: object, words: str) -> Iterator[Draft]:
    """One value in one record of the table."""
    record = bench.with_cell(bench.first(), at, value)
    yield from bench.changes(bench.table.rows, record, words + bench.where(at))


def lone(bench: Bench) -> Iterator[Draft]:
    """A single record, as a local randomiser has it: any two values are neighbours."""
    rows, first = bench.table.rows, bench.first()
    for at in bench.categories()[:BITS]:
        for category in tables.some(bench.columns[at].categories):
            changed = bench.with_cell(first, at, category)
            yield Draft(rows, bench.replaced(rows, 0, changed), "another category")
    ends = bench.all(bench.row(0.0), 1)
    yield Draft(ends, bench.replaced(ends, 0, bench.row(1.0, -1)), "from one end to the other")
    for at in bench.numbers()[:BITS]:
        for share in (1.0, 0.0):
            changed = bench.with_cell(first, at, bench.columns[at].between(share))
            yield Draft(rows, bench.replaced(rows, 0, changed), "a value at its bound")


def users(bench: Bench) -> Iterator[Draft]:
    """All records of one user, who has many of them: contributions have to be bounded."""
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
            if bench.resizes:
                yield Draft((*others, *heavy), Edit("remove", -1), told)
            if bench.replaces:
                edit = bench.replaced((*others, *heavy), -1, bench.row(0.0))
                yield Draft((*others, *heavy), edit, told)
                yield Draft(
                    others, Edit("replace", 0, _renamed(heavy, user, others[0][user])), told
                )
    yield from before_others(bench, user)


def before_others(bench: Bench, user: int) -> Iterator[Draft]:
    """A user who comes first and has what everybody has: whose a value is, must not matter.

    Libraries that count a value once, and only then bound what is one user's, count less with that
    user than without.
    """
    size = max(2, bench.size, *(len(bench.columns[at].categories) for at in bench.categories()), 0)
    spread = tuple(bench.row(n / (size - 1), n) for n in range(size))
    mine = tuple(bench.with_cell(row, user, bench.name(10**6)) for row in spread)
    rows = (*mine, *bench.of_users(spread))
    told = "the first user has what the others have"
    if bench.resizes:
        yield Draft(rows, Edit("remove", 0), told)
    if bench.replaces:
        yield Draft(rows, bench.replaced(rows, 0, spread[0]), told)


def _renamed(rows: tuple[Row, ...], user: int, name: object) -> tuple[Row, ...]:
    return tuple((*row[:user], name, *row[user + 1 :]) for row in rows)
