"""Neighbours for a user's own query: tables that differ in one user, of all kinds."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dpframe_pipelines.own_tables import OwnColumn, OwnTable, OwnTables, Rows
from dpframe_pipelines.sql_text import Compared, Parsed

OTHERS = 12
"""Users of made-up tables, besides the one in whom D and D′ differ."""

SHARED = 100
"""Users of each of two keys of equal frequency."""

MOST_SHARING = 64
"""At most this many users share a key, in tables for thresholds."""

MOST_GROUP = 300
"""Largest group whose size a number of a query is compared with."""

FAR = 1e6
"""Distance of a number from its bounds, in widths of the bounds."""

NEVER = {
    "missing": "missing values (no column has any)",
    "beyond": "numbers out of bounds (give low and high of a column)",
}


class Neighbours(NamedTuple):
    """Two versions of the tables that differ in one user."""

    rows: Rows  # of all other users
    mine: Rows  # of the user, on D
    theirs: Rows  # of the user, on D′
    words: str


class Maker:
    """Makes neighbours for one query: rows that its comparisons keep, and groups of all sizes."""

    def __init__(self, tables: OwnTables, query: Parsed) -> None:
        self.tables, self.query = tables, query
        pinned: dict[str, list[Compared]] = {}
        for one in query.compared:
            pinned.setdefault(one.column.lower(), []).append(one)
        users = [v for t in tables.owned for c in t.columns if c.kind == "user" for v in c.values]
        # The same in all tables, and of nobody whose rows are given.
        self._first = 1 + max((one for one in users if isinstance(one, int | float)), default=0)
        self._mark = ""
        while any(re.fullmatch(rf"(me|u\d+){self._mark}", str(one), re.I) for one in users):
            self._mark += "_"
        self._columns = {
            (table.name, column.name): _kept(
                column, pinned.get(column.name.lower(), []), beyond=tables.beyond
            )
            for table in tables.owned
            for column in table.columns
        }
        self._keys = max(
            (len(c.values) for c in self._columns.values() if c.kind == "category"), default=1
        )

    def person(
        self,
        number: int,
        rows: int = 1,
        key: Callable[[int], int] | int = 0,
        share: Callable[[int], float] | float | None = 0.0,
        *,
        of: str | None = None,
        change: tuple[str, str, Any] | None = None,
    ) -> Rows:
        """Return the rows of a made-up user.

        Args:
            number: of the user; 0 is the one in whom D and D′ differ.
            rows: in each table, if users may own several.
            key: number of the value of each category, perhaps by row.
            share: place of numbers between their bounds, perhaps by row; None if they are missing.
            of: the only table with several rows.
            change: a table, a column of it, and another value for its cells.
        """
        found: Rows = {}
        for table in self.tables.owned:
            most = rows if of in (None, table.name) and not table.one else min(1, rows)
            made = []
            for at in range(most):
                cells = []
                for column in table.columns:
                    if change is not None and change[:2] == (table.name, column.name):
                        cells.append(change[2])
                        continue
                    one = key(at) if callable(key) else key
                    place = share(at) if callable(share) else share
                    cells.append(self._cell(table, column, number, at, one, place, found))
                made.append(tuple(cells))
            found[table.name] = tuple(made)
        return found

    def _cell(
        self,
        table: OwnTable,
        column: OwnColumn,
        number: int,
        at: int,
        key: int,
        share: float | None,
        own: Rows,
    ) -> Any:
        kept = self._columns[table.name, column.name]
        serial = column.type in ("INTEGER", "REAL")
        if column.kind == "user":
            name = f"u{number}" if number else "me"
            return self._first + number if serial else name + self._mark
        if column.kind == "link":
            return self._linked(table, at, own)
        if column.kind == "identifier":
            own_id = f"{column.name}-{number}-{at}"
            return max(column.values) + 1 + 1000 * number + at if serial else own_id
        if column.kind == "number":
            if share is None:
                return None if column.missing else kept.low
            cell = kept.low + share * (kept.high - kept.low)
            return round(cell) if column.type == "INTEGER" else cell
        values, place = column.values, number + at
        if column.kind == "category" and kept.values:
            values, place = kept.values, key
        return values[place % len(values)] if values else None

    def _linked(self, table: OwnTable, at: int, own: Rows) -> Any:
        """Return a value that links the nth row to one of the user's rows of the parent."""
        assert table.parent is not None
        assert table.key is not None
        rows, names = own[table.parent], self.tables.tables[table.parent].names
        return rows[at % len(rows)][names.index(table.key)] if rows else None

    def crowd(self, size: int, key: Callable[[int], int] | int = 0, share: Any = 0.0) -> Rows:
        """Return one row of each of some other users; `key` and `share` may depend on the user."""
        people = [
            self.person(
                1 + at,
                key=key(at) if callable(key) else key,
                share=share(at) if callable(share) else share,
            )
            for at in range(size)
        ]
        return _merged(people)

    def planned(self) -> Iterator[Neighbours]:
        """Yield neighbours in an order: the general ones, with those of groups between."""
        sources = [self._general(), self._groups(), self._given(), self._shared()]
        turns = itertools.cycle([0, 0, 1, 2, 3])
        active = set(range(len(sources)))
        for turn in turns:
            if not active:
                return
            if turn in active and (one := next(sources[turn], None)) is not None:
                yield one
            else:
                active.discard(turn)

    def _is_named(self, column: OwnColumn) -> bool:
        return column.name.lower() in self.query.words

    def _of(self, rows: Rows, mine: Rows, words: str) -> Neighbours:
        theirs = self.person(0, key=1) if self.tables.replace else {}
        return Neighbours(rows, mine, theirs, words)

    def _general(self) -> Iterator[Neighbours]:
        me, many, last = self.person, self.tables.many, -1
        low = self.crowd(OTHERS)
        mixed = self.crowd(OTHERS, lambda at: at, lambda at: at // 3 % 3 / 2)
        own = f"a user with {many} rows" if many > 1 else "a user with one row"
        yield self._of(low, me(0, many, last, 1.0), f"{own} of one key")
        yield self._of(low, me(0, many, lambda at: at, 1.0), f"{own} of all keys")
        apart = me(0, many, lambda at: at, lambda at: 1 - at / many)
        yield self._of(low, apart, f"{own} of all keys and numbers")
        yield self._of({}, me(0, 1, last, 1.0), "the only user")
        yield self._of(low, me(0, 1, last, 1.0), "a user with the only row of its key")
        yield self._of(mixed, me(0, many, last, 1.0), f"{own} of a key that others have")
        each = min(self._keys, many)
        yield self._of(low, me(0, min(2, each), lambda at: at, 1.0), "a user with two keys")
        yield self._of(low, me(0, each, lambda at: at, 1.0), "a user with a row of each key")
        for table in self.tables.owned:
            if len(self.tables.owned) > 1 and not table.one and many > 1:
                mine = me(0, many, last, 1.0, of=table.name)
                yield self._of(low, mine, f"a user with {many} rows of {table.name} alone")
                alone = {table.name: mine[table.name]}
                if table.parent is None:
                    yield self._of(low, alone, f"rows of {table.name} alone")
        for key in (1, 0):
            mine = me(0, 1, key, 1.0)
            yield self._of(self._equal, mine, "a user who decides which key is more frequent")
        for table in self.tables.owned:
            for column in filter(self._is_named, table.columns):
                where = table.name, column.name
                if column.missing:
                    mine = me(0, 1, last, 1.0, change=(*where, None))
                    yield self._of(low, mine, f"a user with a missing {'.'.join(where)}")
                for sign in (1, -1) if column.bounded and self.tables.beyond else ():
                    far = sign * FAR * max(1.0, column.high - column.low)
                    cell = round(far) if column.type == "INTEGER" else far
                    mine = me(0, 1, 0, 1.0, change=(*where, cell))
                    yield self._of(low, mine, f"a user with {'.'.join(where)} out of bounds")
        missing = any(
            c.missing and c.kind == "number" for t in self.tables.owned for c in t.columns
        )
        if missing:
            yield self._of(self.crowd(OTHERS, 0, None), me(0, 1, 0, 1.0), "others without numbers")

    @cached_property
    def _equal(self) -> Rows:
        return self.crowd(2 * SHARED, lambda at: at % 2, 0.5)

    def _groups(self) -> Iterator[Neighbours]:
        """Yield neighbours between which a group passes a number of the query."""
        mine = self.person(0, 1, 0, 1.0)
        for number in dict.fromkeys(self.query.numbers):
            if number == int(number) and 1 <= number <= MOST_GROUP:
                for size in (int(number) - 1, int(number)):
                    words = f"a user by whom a group passes {number:g} rows"
                    yield self._of(self.crowd(size), mine, words)
            for column in filter(self._is_named, self._columns.values()):
                if column.kind == "number" and column.high > max(0.0, column.low):
                    yield from self._sums(number, column)

    def _sums(self, number: float, column: OwnColumn) -> Iterator[Neighbours]:
        """Yield neighbours between which a sum, and a mean, of a column passes a number."""
        words = f"a user by whom {{}} of {column.name} passes {number:g}"
        width, mine = column.high - column.low, self.person(0, 1, 0, 1.0)
        before = number - column.high / 2
        size = math.ceil(before / column.high)
        if 1 <= size <= MOST_GROUP and column.low <= before / size:
            share = (before / size - column.low) / width
            yield self._of(self.crowd(size, 0, share), mine, words.format("a sum"))
        if column.low < number < column.high:
            share = (number - column.low) / width
            others = self.crowd(3, 0, share - (1 - share) / 6 if share > 1 / 7 else 0.0)
            yield self._of(others, mine, words.format("a mean"))

    def _given(self) -> Iterator[Neighbours]:
        """Yield the given tables with and without one of their users."""
        people = self.tables.given_users
        every = range(len(people))
        step = max(1, len(people) // 8)
        for at in [*every[:3], *every[3::step]]:
            rest = _merged([*people[:at], *people[at + 1 :]])
            yield self._of(rest, people[at], "the given tables, and one of their users")
        many = self.tables.many
        whole = _merged(people)
        yield self._of(whole, self.person(0, many, -1, 1.0), "the given tables, and one user more")
        spread = self.person(0, many, lambda at: at, 1.0)
        yield self._of(whole, spread, "the given tables, and one user more")

    def _shared(self) -> Iterator[Neighbours]:
        for size in range(1, MOST_SHARING):
            words = f"{size} others share the keys of a user"
            yield self._of(self.crowd(size, 0, 1.0), self.person(0, 1, 0, 1.0), words)

    def by_chance(self, rng: np.random.Generator) -> Neighbours:
        """Draw neighbours."""
        people = self.tables.given_users
        number = int(rng.integers(len(people) + 1))
        some = [people[int(at)] for at in rng.permutation(len(people))[:number]]
        shares = [0.0, 1.0, float(rng.random())]

        def chosen(_: int) -> int:
            return int(rng.integers(self._keys))

        rows = 1 + int(rng.integers(self.tables.many))
        mine = self.person(0, rows, chosen, shares[int(rng.integers(3))])
        crowd = self.crowd(int(rng.integers(OTHERS)), chosen, lambda _: float(rng.random()))
        return self._of(_merged([*some, crowd]), mine, "users by chance")


def _kept(column: OwnColumn, compared: Iterable[Compared], *, beyond: bool = True) -> OwnColumn:
    """Return a column with the values that comparisons with literals keep, if there are any."""
    least, most = (-math.inf, math.inf) if beyond else (column.low, column.high)
    for one in compared:
        if column.kind == "number" and all(isinstance(x, int | float) for x in one.literals):
            step = 1.0 if column.type == "INTEGER" else max(1e-9, (column.high - column.low) / 1e3)
            low, high = min(one.literals), max(one.literals)
            ends = {
                ">": (low + step, column.high),
                ">=": (low, column.high),
                "<": (column.low, high - step),
                "<=": (column.low, high),
            }.get(one.operator, (low, high))
            if ends[0] > ends[1]:
                ends = (ends[0], ends[0]) if one.operator[0] == ">" else (ends[1], ends[1])
            low, high = (float(min(max(end, least), most)) for end in ends)
            column = column._replace(low=low, high=high)
        elif column.kind == "category":
            kept = tuple(value for value in column.values if _holds(value, one))
            column = column._replace(values=kept or one.literals[:1])
    return column


def _holds(value: Any, one: Compared) -> bool:
    first, last = one.literals[0], one.literals[-1]
    try:
        if one.operator == "BETWEEN":
            return bool(first <= value <= last)
        order = {">": value > first, ">=": value >= first, "<": value < first, "<=": value <= first}
    except TypeError:
        return False
    return bool(order.get(one.operator, value in one.literals))


def _merged(people: Sequence[Rows]) -> Rows:
    """Return the rows of several users together."""
    names = dict.fromkeys(name for rows in people for name in rows)
    return {name: tuple(row for rows in people for row in rows.get(name, ())) for name in names}
