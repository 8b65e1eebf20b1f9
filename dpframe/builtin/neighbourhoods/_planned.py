"""Pairs that break libraries, in the order of how often they do."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from dpframe.builtin.neighbourhoods._bench import Draft
from dpframe.builtin.neighbourhoods._breakers import breakers
from dpframe.builtin.pairs._edit import Edit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.builtin.neighbourhoods._bench import Bench
    from dpframe.builtin.pairs._table import Row

FEW = 4
"""Categories of a column that are tried first; the others come when all else was proposed."""

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

    yield from lows(bench)
    yield from next_of(numbers, 1)
    yield from corners(bench, at=0)
    yield from next_of(categories, 1)
    yield from next_of(numbers, 2)
    yield from keys(bench)
    yield from sizes(bench)
    yield from few(bench)
    yield from next_of(numbers, 2)
    yield from next_of(categories, 1)
    yield from highs(bench)
    yield from levels(bench)
    yield from next_of(numbers, 3)
    yield from next_of(categories, 2)
    yield from corners(bench, at=-1)
    yield from scales(bench)
    yield from next_of(numbers, 6)
    yield from next_of(categories, 4)
    yield from labels(bench)
    yield from duplicates(bench)
    yield from numbers
    yield from categories
    yield from on_zeros(bench)
    yield from each(bench)


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
    rows = bench.table.rows
    yield from bench.changes(rows, record, f"{words} in a record, column {bench.columns[at].name}")


def lone(bench: Bench) -> Iterator[Draft]:
    """A single record, as a local randomiser has it: any two values are neighbours."""
    rows, first = bench.table.rows, bench.first()
    for at in bench.categories()[:BITS]:
        for category in bench.columns[at].categories[:FEW]:
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
            heavy = tuple(bench.with_cell(record, user, bench.name(10**6)) for _ in range(many))
            told = f"a user with {many} records{base and ', '}{base}"
            if bench.resizes:
                yield Draft((*others, *heavy), Edit("remove", -1), told)
            if bench.replaces:
                edit = bench.replaced((*others, *heavy), -1, bench.row(0.0))
                yield Draft((*others, *heavy), edit, told)
                yield Draft(
                    others, Edit("replace", 0, _renamed(heavy, user, others[0][user])), told
                )


def _renamed(rows: tuple[Row, ...], user: int, name: object) -> tuple[Row, ...]:
    return tuple((*row[:user], name, *row[user + 1 :]) for row in rows)


def lows(bench: Bench) -> Iterator[Draft]:
    """All others at their lower bounds, which are often zeros."""
    words = "all others at the lower bounds, one record at the upper ones"
    yield from bench.changes(bench.all(bench.row(0.0)), bench.row(1.0, -1), words)


def highs(bench: Bench) -> Iterator[Draft]:
    """All others at their upper bounds."""
    words = "all others at the upper bounds, one record at the lower ones"
    yield from bench.changes(bench.all(bench.row(1.0)), bench.row(0.0, -1), words, at=-1)


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
            words = f"the only record of its category, column {known.name}"
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


def labels(bench: Bench) -> Iterator[Draft]:
    """A record of the table gets another category."""
    rows = bench.table.rows
    for at in bench.categories():
        for category in bench.columns[at].categories[:FEW] if rows else ():
            changed = bench.with_cell(rows[0], at, category)
            words = f"another category in column {bench.columns[at].name}"
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
            told = f"{words} in column {bench.columns[at].name}"
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
            yield from bench.changes(rows, changed, f"column {bench.columns[at].name} at its bound")
