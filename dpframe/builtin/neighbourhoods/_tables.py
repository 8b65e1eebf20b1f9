"""Tables in which an edit shows what it does not among others: at bounds, equal, few, huge."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from dpframe.builtin.neighbourhoods._bench import Draft
from dpframe.builtin.neighbourhoods._breakers import breakers
from dpframe.builtin.pairs._edit import Edit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.builtin.neighbourhoods._bench import Bench
    from dpframe.builtin.pairs._table import Row

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
