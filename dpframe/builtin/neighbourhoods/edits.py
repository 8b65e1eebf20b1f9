"""Edits of a table by chance, and changes of those that earned most."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpframe.builtin.neighbourhoods.bench import MOST, Bench, Draft, breakers
from dpframe.builtin.pairs.table import Edit, Row, Rows


def by_chance(bench: Bench, rng: np.random.Generator) -> Draft:
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


def edit_by_chance(bench: Bench, rows: Rows, rng: np.random.Generator) -> Edit:
    """Replace, remove or add a record."""
    at = int(rng.integers(len(rows))) if rows else 0
    if rows and bench.replaces and (not bench.resizes or rng.random() < 0.5):
        return bench.replaced(rows, at, row_by_chance(bench, rng, rows[at]))
    if rows and rng.random() < 0.5:
        return Edit("remove", at)
    return bench.added(row_by_chance(bench, rng))


def row_by_chance(bench: Bench, rng: np.random.Generator, like: Row | None = None) -> Row:
    """Draw a record inside the schema; half of its cells are those of `like`, if given."""
    drawn = tuple(cell_by_chance(bench, at, rng) for at in range(len(bench.columns)))
    if like is None:
        return drawn
    own = rng.random(len(drawn)) < 0.5
    return tuple(old if keep else new for old, new, keep in zip(like, drawn, own, strict=True))


def cell_by_chance(bench: Bench, at: int, rng: np.random.Generator) -> Any:
    """Draw a value of a column: at a bound, anywhere between, or one of the table's."""
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
    """Change a draft that earned most; it is still one edit, perhaps of another table.

    Args:
        bench: the table and its rules.
        parent: the draft.
        other: another one that earned, or the same.
        rng: source of all randomness.
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
    """Swap a replacement for an addition or removal, or the reverse."""
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
