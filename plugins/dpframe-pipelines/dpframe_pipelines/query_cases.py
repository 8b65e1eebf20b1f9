"""Queries of the grammar, and tables of users in which one of them shows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe.plugins import Values
from dpframe_pipelines.boxes import Column
from dpframe_pipelines.programs import queries
from dpframe_pipelines.programs.queries import Query

Row = tuple[Any, ...]

OTHERS = 12
"""Users of a generated table, besides the one in whom D and D′ differ."""

ME = "me"
"""The user in whom D and D′ differ."""

MOST_USERS = 64
"""At most this many users share a key, in tables for thresholds."""

MANY_ROWS = 40
"""Number of rows of a user with many rows."""

ONE_KEY = "of one key, all others at the lower bounds"
SHARED_KEY = "of one key, which others have too"
ALL_KEYS = "of all keys"
LONE = "the only user"
TWO_KEYS = "a user with a row of each of two keys"
EACH_KEY = "a user with a row of each key"
FREQUENT = "a user whose key decides which of two keys is more frequent"
MISSING = "a user with a missing value"
NO_NUMBERS = "others without numbers"
BEYOND = "a user with a number out of bounds"
MATCHED = "a user whose row matches many rows"
UNMATCHED = "a user whose row matches none"
THRESHOLD = "others have its key"

OPTIONAL = {"WHERE =", "WHERE IS NOT NULL", "HAVING", "LEFT JOIN"}
"""Parts that a query has only if they are asked for."""

KEYED, WHOLE = "GROUP BY 1 key", "without GROUP BY"

FIRST = (
    ("COUNT(*)", KEYED, ONE_KEY),
    ("COUNT(*)", WHOLE, ALL_KEYS),
    ("COUNT(*)", KEYED, LONE),
    ("COUNT(*)", KEYED, ALL_KEYS),
    ("SUM(column)", KEYED, ONE_KEY),
    ("COUNT(*)", f"{KEYED} and HAVING", SHARED_KEY),
    ("COUNT(DISTINCT user)", KEYED, TWO_KEYS),
    ("AVG(column)", WHOLE, LONE),
    ("AVG(column)", KEYED, ONE_KEY),
    ("COUNT(*)", KEYED, FREQUENT),
    ("SUM(column)", WHOLE, ALL_KEYS),
    ("COUNT(*)", f"{KEYED} and HAVING", ONE_KEY),
    ("COUNT(DISTINCT user)", WHOLE, ALL_KEYS),
    ("SUM(column)", KEYED, BEYOND),
    ("SUM(column)", f"{KEYED} and HAVING", SHARED_KEY),
    ("COUNT(DISTINCT user)", KEYED, EACH_KEY),
    ("COUNT(*)", "WHERE =", ALL_KEYS),
    ("AVG(column)", f"{KEYED} and HAVING", SHARED_KEY),
    ("COUNT(column)", KEYED, ALL_KEYS),
    ("COUNT(DISTINCT user)", f"{KEYED} and HAVING", SHARED_KEY),
    ("COUNT(column)", f"{KEYED} and HAVING", SHARED_KEY),
    ("COUNT(*)", "WHERE IS NOT NULL", MISSING),
    ("AVG(column)", KEYED, NO_NUMBERS),
)
"""First cases: an aggregate, other parts of the query, and a part of the words for the tables."""

SHARED = 100
"""Users of each of two keys of about equal frequency: more than thresholds ask for."""

FAR = 1e6
"""Distance of a number from its bounds, in widths of the bounds."""


class Joined(NamedTuple):
    """A row of the table that queries join."""

    cells: Row


class Case(NamedTuple):
    """A query, and two tables that differ in one user."""

    query: Query
    rows: tuple[Row, ...]  # of all other users, those of the joined table last, as `Joined`
    mine: tuple[Row, ...]  # of the user, on D
    theirs: tuple[Row, ...] = ()  # of the user, on D′
    words: str = ""

    @property
    def size(self) -> tuple[int, int]:
        """The parts of the query, and the rows of both tables."""
        query = self.query
        parts = len(query.group) + (query.where is not None) + (query.having is not None)
        parts += query.left + (query.value != "COUNT(*)")
        return parts, len(self.rows + self.mine + self.theirs)


class UserTables:
    """The columns of the tables, with the queries and users that they allow."""

    def __init__(
        self,
        columns: Sequence[Column],
        joined: Sequence[Column],
        *,
        replace: bool,
        beyond: bool,
        rows_per_user: int | None = None,
        without: Sequence[str] = (),
    ) -> None:
        self.columns, self.joined, self.rows_per_user = columns, joined, rows_per_user
        self.replace, self.beyond = replace, beyond
        self.many = min(MANY_ROWS, rows_per_user or MANY_ROWS)
        self._without = [set(parts.split(" and ")) for parts in without]
        self.names = [column.name for column in columns]
        self.user = next(at for at, column in enumerate(columns) if column.user)
        self.keys = [at for at, column in enumerate(columns) if column.categories]
        self.numbers = [n for n in range(len(columns)) if n != self.user and n not in self.keys]
        self.categories = categories_of((*columns, *joined))
        self.owner = next((at for at, column in enumerate(joined) if column.user), None)
        self.on = next((column.name for column in joined if column.name in self.names), None)

    def row(self, user: str, key: int = 0, share: float | None = 0.0) -> Row:
        """Return a row with the nth value of each key; if share is None, numbers are missing."""
        return self._row_of(self.columns, user, key, share)

    def match(self, user: str, key: int = 0, share: float | None = 0.0) -> Row:
        """Return a row of the joined table, as `row` does."""
        return Joined(self._row_of(self.joined, user, key, share))

    def _row_of(self, columns: Sequence[Column], user: str, key: int, share: float | None) -> Row:
        values: list[Any] = []
        for column in columns:
            if column.user:
                values.append(user)
            elif column.categories:
                values.append(column.categories[key % len(column.categories)])
            elif share is None:
                values.append(None)
            else:
                low, high = (0.0 if end is None else end for end in (column.low, column.high))
                values.append(low + share * (high - low))
        return tuple(values)

    def with_cell(self, row: Row, at: int, cell: Any) -> Row:
        """Return a row with another value in one column."""
        return (*row[:at], cell, *row[at + 1 :])

    def queries(self) -> Iterator[Query]:
        """Yield the queries of the grammar, simple ones and those that break engines first."""
        keys = list(self.categories)
        numbers = [c.name for c in (*self.columns, *self.joined) if not (c.categories or c.user)]
        for query in self._queries(keys, numbers):
            variants = [query._replace(join=self.on)]
            if self.on and query.where is None and query.having is None:
                variants.append(query._replace(join=self.on, left=True))
            for one in variants:
                if not any(parts <= {*queries.features_of(one)} for parts in self._without):
                    yield one

    def _queries(self, keys: list[str], numbers: list[str]) -> Iterator[Query]:
        user = self.names[self.user]
        aggregates = [
            ("COUNT", "*"),
            *(("SUM", x) for x in numbers),
            *(("AVG", x) for x in numbers),
        ]
        aggregates += [("COUNT DISTINCT", user), *(("COUNT", x) for x in numbers)]
        groups: list[tuple[str, ...]] = [*((key,) for key in keys), ()]
        for (aggregate, column), group in itertools.product(aggregates, groups):
            yield Query(aggregate, column, group)
        for key, (aggregate, column) in itertools.product(keys, aggregates):
            yield Query(aggregate, column, where=(key, self.categories[key][-1]))
            yield Query(aggregate, column, where=(key, None))
        for key, (aggregate, column) in itertools.product(keys, aggregates):
            yield Query(aggregate, column, (key,), having=1.0)
            yield Query(aggregate, column, (key,), where=(key, self.categories[key][0]))
        for pair, (aggregate, column) in itertools.product(
            itertools.combinations(keys, 2), aggregates
        ):
            yield Query(aggregate, column, pair)

    def users(self) -> Iterator[tuple[tuple[Row, ...], tuple[Row, ...], str]]:
        """Yield the rows of other users, the rows of one user, and their description."""
        if self.joined:
            low = tuple(self.row(f"u{n}") for n in range(OTHERS))
            rows, mine = self._matched(low, (self.row(ME, -1, 1.0),))
            number = MANY_ROWS if self.owner is None else self.many - 1
            more = (self.match(ME, -1, 1.0),) * number
            both = (rows + more, mine) if self.owner is None else (rows, mine + more)
            yield *both, f"{MATCHED}, {number}"
            yield low, mine[:1], UNMATCHED
        seen = set()
        for rows, mine, words in self._users():
            if (rows, mine) not in seen:
                seen.add((rows, mine))
                yield *self._matched(rows, mine), words

    def _matched(
        self, rows: tuple[Row, ...], mine: tuple[Row, ...]
    ) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        """Add one row of the joined table for each user, or for each key if it has no users."""
        if self.owner is not None:
            users = dict.fromkeys(row[self.user] for row in rows)
            rows += tuple(self.match(user) for user in users)
            mine += (self.match(ME, -1, 1.0),) if mine else ()
        elif self.joined:
            most = max(len(column.categories) for column in self.joined)
            rows += tuple(self.match(ME, key) for key in range(most))
        return rows, mine

    def _users(self) -> Iterator[tuple[tuple[Row, ...], tuple[Row, ...], str]]:
        low = tuple(self.row(f"u{n}") for n in range(OTHERS))
        mixed = tuple(self.row(f"u{n}", n, n // 3 % 3 / 2) for n in range(OTHERS))
        one = (self.row(ME, -1, 1.0),)
        many, each = self.many, max((len(c.categories) for c in self.columns), default=0)
        own = f"a user with {many} row{'s' * (many > 1)}"
        yield low, one * many, f"{own} {ONE_KEY}"
        yield (), one, LONE
        yield low, one, "a user with the only row of its key"
        spread = tuple(self.row(ME, n, 1.0) for n in range(many))
        yield low, spread, f"{own} {ALL_KEYS}"
        yield low, spread[: min(2, each)], TWO_KEYS
        yield low, spread[:each], EACH_KEY
        yield mixed, one * many, f"{own} {SHARED_KEY}"
        equal = tuple(self.row(f"u{n}", n % 2, 0.5) for n in range(2 * SHARED if self.keys else 0))
        for key in (1, 0) if equal else ():
            yield equal, (self.row(ME, key, 1.0),), FREQUENT
        for at in (*self.keys, *self.numbers):
            yield low, (self.with_cell(one[0], at, None),), f"{MISSING} of {self.names[at]}"
        yield tuple(self.row(f"u{n}", 0, None) for n in range(OTHERS)), one, NO_NUMBERS
        for sign in (1.0, -1.0) if self.beyond and self.numbers else ():
            yield low, (self.row(ME, 0, sign * FAR),), BEYOND

    def planned(self) -> Iterator[Case]:
        """Yield all systematic cases, the most informative queries and tables first.

        The first ones have each part of a query and each kind of user once. Every third case tests
        thresholds on keys: some number of other users share the user's key.
        """
        general, thresholds = itertools.chain(self._first(), self._general()), self._thresholds()
        while True:
            batch = [*itertools.islice(general, 2), *itertools.islice(thresholds, 1)]
            if not batch:
                return
            yield from batch

    def _first(self) -> Iterator[Case]:
        """Yield cases until each part of a query and each kind of user has come once."""
        all_queries, tables = list(self.queries()), list(self.users())
        parts_of = [set(queries.features_of(query)) for query in all_queries]
        unasked = dict.fromkeys(
            part for query in all_queries for part in queries.features_of(query)
        )
        unused = dict.fromkeys(range(len(tables)))

        def case(parts: Iterable[str], at: int | None) -> Iterator[Case]:
            """Yield a case of a query with some parts; WHERE and HAVING only if they are named."""
            for query, own in zip(all_queries, parts_of, strict=True):
                if at is not None and own >= {*parts} and not (own - {*parts}) & OPTIONAL:
                    unused.pop(at, None)
                    for part in own:
                        unasked.pop(part, None)
                    yield self._case(query, *tables[at])
                    return

        def place(words: str) -> int | None:
            fit = (
                at for at, (*_, t) in enumerate(tables) if t.startswith(words) or t.endswith(words)
            )
            return next(fit, None)

        by_key = ["COUNT(*)", KEYED if self.keys else WHOLE]
        planned = [([value, *parts.split(" and ")], words) for value, parts, words in FIRST]
        if self.joined:
            left = ["COUNT(*)", WHOLE, "LEFT JOIN"]
            joins = [(by_key, MATCHED), ([*by_key, "LEFT JOIN"], MATCHED), (left, UNMATCHED)]
            planned = [*joins, *planned]
        of_number = [f"{MISSING} of {self.names[at]}" for at in self.numbers[:1]]
        planned += [(["SUM(column)", KEYED], words) for words in of_number]
        for parts, words in planned:
            # Without keys, or if an aggregate is left out, fewer parts remain.
            cases = list(case(parts, place(words)))
            yield from cases or case([parts[0], WHOLE], place(words))
        while unused:
            at = next(iter(unused))
            cases = list(case(by_key, at)) or list(case([], at))
            unused.pop(at, None)
            yield from cases
        while unasked:
            part = next(iter(unasked))
            cases = list(case([part], place(ALL_KEYS)))
            unasked.pop(part, None)
            yield from cases

    def trial_cases(self) -> list[dict[str, Any]]:
        """Return the first query of each kind, and of each column, on an ordinary table.

        The first queries come again on a table of three users.
        """
        by_kind: dict[Any, Query] = {}
        for query in self.queries():
            least = 1.0 if query.column == "*" else 0.0
            one = query if query.having is None else query._replace(having=least)
            for kind in (query.column, query.group, tuple(queries.features_of(query))):
                by_kind.setdefault(kind, one)
        people = [self.row(f"u{n}", n, (1 + n // 3 % 3) / 4) for n in range(SHARED)]
        tables = [self._matched(tuple(people[:size]), ())[0] for size in (SHARED, 3)]
        every = list(dict.fromkeys(by_kind.values()))
        first = [self._data(query, tables[0]) for query in every]
        return [*first, *(self._data(query, tables[1]) for query in every[:2])]

    def _general(self) -> Iterator[Case]:
        all_queries, tables = list(self.queries()), list(self.users())
        for reach in range(len(all_queries) + len(tables)):
            for at in range(max(0, reach - len(all_queries) + 1), min(reach + 1, len(tables))):
                yield self._case(all_queries[reach - at], *tables[at])

    def _thresholds(self) -> Iterator[Case]:
        for least in range(1, MOST_USERS if self.keys else 0):
            rows = tuple(self.row(f"u{n}", 0, 1.0) for n in range(least))
            query = Query("COUNT", "*", (self.names[self.keys[0]],), join=self.on)
            both = self._matched(rows, (self.row(ME, 0, 1.0),))
            yield self._case(query, *both, f"{least} {THRESHOLD}")

    def _case(self, query: Query, rows: tuple[Row, ...], mine: tuple[Row, ...], words: str) -> Case:
        theirs = self._matched((), (self.row(ME, 1),))[1] if self.replace else ()
        return self.asking(Case(query, rows, mine, theirs, words), query)

    def asking(self, case: Case, query: Query) -> Case:
        """Return a case with another query; HAVING gets the threshold that one row decides."""
        if query.having is None:
            return case._replace(query=query)
        mine, table = (
            [dict(zip(self.names, row, strict=True)) for row in rows if not isinstance(row, Joined)]
            for rows in (case.mine, case.rows)
        )
        needed = {*query.group, *([] if query.column == "*" else [query.column])}
        if not mine or not needed <= set(self.names):
            return case._replace(query=query._replace(having=1.0))
        group = [row for row in table if query.key_of(row) == query.key_of(mine[0])]
        before, after = (self._exact(query, rows) for rows in (group, [*group, mine[0]]))
        return case._replace(query=query._replace(having=(before + after) / 2))

    def _exact(self, query: Query, table: Sequence[Mapping[str, Any]]) -> float:
        """Return an aggregate of some rows, with numbers inside their bounds."""
        if query.aggregate == "COUNT DISTINCT" or query.column == "*":
            users = {row[self.names[self.user]] for row in table}
            return float(len(users if query.aggregate == "COUNT DISTINCT" else table))
        column = self.columns[self.names.index(query.column)]
        low, high = float(column.low or 0), float(column.high or 0)
        cells = [row[query.column] for row in table]
        numbers = [min(high, max(low, cell)) for cell in cells if cell is not None]
        if query.aggregate == "COUNT":
            return float(len(numbers))
        total = float(sum(numbers))
        return total / max(1, len(numbers)) if query.aggregate == "AVG" else total

    def by_chance(self, rng: np.random.Generator) -> Case:
        """Draw a case."""
        all_queries = list(self.queries())
        query = all_queries[int(rng.integers(len(all_queries)))]
        most, size = self.rows_per_user, int(rng.integers(60))
        # Without a limit, about five rows belong to each of the others.
        owners = [n // most if most else rng.integers(OTHERS) for n in range(size)]
        rows = tuple(self._row(rng, f"u{owner}") for owner in owners)
        mine = tuple(self._row(rng, ME) for _ in range(1 + rng.integers(self.many)))
        if self.joined:
            rows, mine = self._matched(rows, mine)
            number = int(rng.integers(MANY_ROWS if self.owner is None else self.many))
            more = (self.match(ME, int(rng.integers(8)), 1.0),) * number
            rows, mine = (rows + more, mine) if self.owner is None else (rows, mine + more)
        return self._case(query, rows, mine, "users by chance")

    def _row(self, rng: np.random.Generator, user: str) -> Row:
        share = [0.0, 1.0, None, float(rng.random())][int(rng.integers(4))]
        return self.row(user, int(rng.integers(8)), share)

    def are_neighbours(self, case: Case) -> bool:
        """True if the tables of a case differ in one user; both have that user if it is replaced.

        An engine may know the number of users if only replacing them has to stay secret.
        """
        both = (case.mine, case.theirs)
        there = (any(not isinstance(row, Joined) for row in rows) for rows in both)
        return case.mine != case.theirs and (not self.replace or all(there))

    def pair(self, case: Case) -> Values:
        """Return a case as a pair: D and D′ hold the same query."""
        # The user comes first, because its rows cannot change the order of keys otherwise.
        d0, d1 = (self._data(case.query, of + case.rows) for of in (case.mine, case.theirs))
        words = f"{case.query.sql}; {case.words}" if case.words else case.query.sql
        return Values(d0=d0, d1=d1, adjacency=self.adjacency, description=words)

    @property
    def adjacency(self) -> str:
        """The relation of D and D′."""
        change = "replace" if self.replace else "add or remove"
        if (most := self.rows_per_user) is None:
            return f"{change} all rows of one user"
        return f"{change} one user, who owns at most {most} row{'s' * (most > 1)}"

    def features(self, case: Case) -> list[str]:
        """Return the parts of a query, and the kind of the user in whom D and D′ differ."""
        words = case.words.partition(" ")[2] if THRESHOLD in case.words else case.words
        return [*queries.features_of(case.query), *([words] if words else [])]

    def all_features(self) -> list[str]:
        """Return the features of all cases."""
        features = dict.fromkeys(part for q in self.queries() for part in queries.features_of(q))
        features.update(dict.fromkeys(words for _, _, words in self.users()))
        return [*features, *([THRESHOLD] if self.keys else [])]

    def _data(self, query: Query, rows: tuple[Row, ...]) -> dict[str, Any]:
        own = [list(row) for row in rows if not isinstance(row, Joined)]
        data = {"query": queries.told(query), "columns": self.names, "rows": own}
        if self.joined:
            cells = [list(row.cells) for row in rows if isinstance(row, Joined)]
            names = [column.name for column in self.joined]
            data[queries.OTHER] = {"columns": names, "rows": cells}
        return data

    def case(self, pair: Any) -> Case:
        """Return the case of a pair."""
        d0, d1 = (self._rows(data) for data in (pair.d0, pair.d1))
        mine, theirs = (tuple(row for row in d if self._is_mine(row)) for d in (d0, d1))
        rows = tuple(row for row in d0 if not self._is_mine(row))
        words = pair.description.partition("; ")[2]
        query: Any = queries.read(pair.d0["query"])
        return Case(query, rows, mine, theirs, words)

    def _rows(self, data: dict[str, Any]) -> list[Row]:
        joined = data.get(queries.OTHER, {}).get("rows", [])
        return [*map(tuple, data["rows"]), *(Joined(tuple(row)) for row in joined)]

    def _is_mine(self, row: Row) -> bool:
        if isinstance(row, Joined):
            return self.owner is not None and bool(row.cells[self.owner] == ME)
        return bool(row[self.user] == ME)


def categories_of(columns: Sequence[Column]) -> dict[str, list[Any]]:
    """Return the values of each key column."""
    return {column.name: list(column.categories) for column in columns if column.categories}
