"""Pairs that break libraries, in the order of how often they do."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from dpframe.builtin.neighbourhoods import _tables as tables
from dpframe.builtin.neighbourhoods._bench import Draft
from dpframe.builtin.neighbourhoods._breakers import breakers
from dpframe.builtin.pairs._edit import Edit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.builtin.neighbourhoods._bench import Bench
    from dpframe.builtin.pairs._table import Row

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
