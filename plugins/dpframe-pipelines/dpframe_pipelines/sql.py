"""Audits of SQL engines: draw queries and tables of users, and shrink findings."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from dpframe.plugins import (
    DpframeError,
    Earned,
    Ge,
    Le,
    Neighbourhood,
    Pair,
    ParameterError,
    Record,
    Values,
)
from dpframe_pipelines.boxes import (
    Budget,
    Column,
    Piped,
    audited,
    claim_of,
    columns_of,
    function_box,
)
from dpframe_pipelines.programs import queries
from dpframe_pipelines.programs.queries import Query
from dpframe_pipelines.trial_calls import (
    SECONDS,
    SHARE,
    of_function,
    of_program,
    takes_generator,
    unanswered,
)

Row = tuple[Any, ...]

Change = Literal["add-remove", "replace"]

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

UNASKABLE = (
    "MIN, MAX and quantiles",
    "SELECT DISTINCT",
    "ORDER BY and LIMIT",
    "WHERE with ranges",
    "several aggregates",
    "subqueries",
    "several queries",
)
"""Parts of an engine's queries that no query of the grammar has."""

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
        return Case(queries.read(pair.d0["query"]), rows, mine, theirs, words)

    def _rows(self, data: dict[str, Any]) -> list[Row]:
        joined = data.get(queries.OTHER, {}).get("rows", [])
        return [*map(tuple, data["rows"]), *(Joined(tuple(row)) for row in joined)]

    def _is_mine(self, row: Row) -> bool:
        if isinstance(row, Joined):
            return self.owner is not None and bool(row.cells[self.owner] == ME)
        return bool(row[self.user] == ME)


class UsersAndQueries(Neighbourhood, name="sql"):
    """A query and a table of users, of whom one is removed or changed.

    Queries are counts, sums and averages, perhaps by key, with WHERE and HAVING. The users
    have many rows, rare keys, missing values, or numbers out of bounds.
    """

    one_shape: ClassVar[bool] = False

    columns: tuple[Column, ...]
    """The columns: one identifies users, keys have categories, all others are numbers."""
    joined: tuple[Column, ...] = ()
    """The columns of a table `other` that every query joins. It shares one column: the user if
    users own its rows too, otherwise a key; then its rows are public."""
    change: Change = "add-remove"
    """"add-remove": a user is added or removed; "replace": its rows are replaced."""
    beyond: bool = True
    """True if numbers may lie out of bounds, which engines promise to clip."""
    batch: Annotated[int, Ge(1), Le(256)] = 150
    """Number of pairs to propose at a time."""
    rows_per_user: Annotated[int, Ge(1)] | None = None
    """Most rows of a user; no limit if it is not given. 1 tests a claim for single rows."""
    without: tuple[str, ...] = ()
    """Parts of queries that are not asked, such as "AVG(column)" or "COUNT(*) and HAVING"."""

    @property
    def adjacency(self) -> str:
        """The relation of D and D′."""
        return self.bench.adjacency

    def check(self) -> None:
        _check(self.columns, self.joined)
        every = dict.fromkeys(UNASKABLE)
        every.update(dict.fromkeys(self._bench().all_features()))
        for text in self.without:
            if unknown := [part for part in text.split(" and ") if part not in every]:
                known = ", ".join(part for part in every if part not in UNASKABLE)
                raise ParameterError("without", f"{unknown[0]!r} is none of: {known}")
        if not any(True for _ in self.bench.queries()):
            raise ParameterError("without", "leaves no query to ask")

    def params(self) -> dict[str, Any]:
        return {**super().params(), **_plain(self.columns, self.joined)}

    @property
    def bench(self) -> UserTables:
        """The columns, with the queries and users that they allow."""
        return self._bench(self.without)

    def _bench(self, without: Sequence[str] = ()) -> UserTables:
        more: dict[str, Any] = {
            "rows_per_user": self.rows_per_user,
            "without": without,
            "beyond": self.beyond,
        }
        return UserTables(self.columns, self.joined, replace=self.change == "replace", **more)

    def features(self, pair: Pair) -> Sequence[str]:
        """Return the parts of the query of a pair, and the kind of the user who differs."""
        return self.bench.features(self.bench.case(pair))

    def all_features(self) -> Sequence[str]:
        """Return the features of all pairs, and what no query has."""
        return [*self._bench().all_features(), *UNASKABLE]

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        bench, seen = self.bench, {earned.pair for earned in history}
        best = sorted(history, key=lambda earned: -earned.growth)[:4]
        chosen = [bench.case(one.pair) for one in best if one.growth > 0]

        def cases() -> Iterator[Case]:
            all_queries = list(bench.queries())
            for case in chosen:  # the same users, with other queries
                for at in rng.permutation(len(all_queries))[: self.batch // 8]:
                    yield bench.asking(case, all_queries[int(at)])
            yield from itertools.islice(bench.planned(), len(history) + self.batch)
            while True:
                yield bench.by_chance(rng)

        proposed: dict[Pair, None] = {}
        for case in itertools.islice(cases(), 20 * self.batch + len(history)):
            pair = bench.pair(case)
            if bench.are_neighbours(case) and pair not in seen:
                proposed[pair] = None
                if len(proposed) == self.batch:
                    break
        return list(proposed)


class SmallerCases(Neighbourhood, name="sql-smaller"):
    """The given cases, each a query on two tables, in order: candidates for shrinking."""

    one_shape: ClassVar[bool] = False
    adjacency: ClassVar[str] = "one user"

    pairs: tuple[str, ...]
    """The parameters of `values` pairs, as JSON."""

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        seen = {earned.pair for earned in history}
        made = [Values.from_params(json.loads(text)) for text in self.pairs]
        return [pair for pair in made if pair not in seen]


def smaller(case: Case) -> Iterator[Case]:
    """Yield simpler cases, from much simpler to slightly simpler."""
    query, rows, mine = case.query, case.rows, case.mine
    plain = case._replace(words="")
    if query.left:
        yield plain._replace(query=query._replace(left=False))
    if query.having is not None:
        yield plain._replace(query=query._replace(having=None))
    if query.where is not None:
        yield plain._replace(query=query._replace(where=None))
    for at in range(len(query.group)):
        yield plain._replace(
            query=query._replace(group=(*query.group[:at], *query.group[at + 1 :]))
        )
    if query.value != "COUNT(*)":
        yield plain._replace(query=query._replace(aggregate="COUNT", column="*"))
    for kept in _parts(rows):
        yield plain._replace(rows=kept)
    for kept in _parts(mine):
        yield plain._replace(mine=kept)
    for kept in _parts(case.theirs):
        yield plain._replace(theirs=kept)


def _parts(rows: tuple[Row, ...]) -> Iterator[tuple[Row, ...]]:
    """Yield fewer rows: none, then few, half, and all but one, from either end."""
    size = len(rows)
    for kept in dict.fromkeys((0, 1, 2, size // 2, size - 1)):
        if 0 <= kept < size:
            yield rows[:kept]
            yield rows[size - kept :]


class SqlEngine(Piped, name="sql-engine"):
    """An SQL engine: a program whose `prepare(params, table)` returns a function `ask(query)`.

    It returns one private answer: rows, a frame, a dict by key, or a number. The order of rows
    counts: sort them if the engine promises none. The table is a list of dicts; `query.sql` is the
    text, and `query` has its parts. If queries join a table, `table` is a dict of both, `data` and
    `other`, and `params` has `joined`.
    """

    users: ClassVar[int] = 1

    joined: tuple[Column, ...] = ()
    """The columns of the table `other`, if queries join one."""

    def check(self) -> None:
        super().check()
        _check(self.columns, self.joined)

    def params(self) -> dict[str, Any]:
        return {**super().params(), **_plain(self.columns, self.joined)}

    def names_of(self, pair: Pair) -> list[str]:
        """Return the names of the numbers of an answer."""
        return names_of(pair, categories_of((*self.columns, *self.joined)))

    def arguments(self) -> dict[str, Any]:
        arguments = super().arguments()
        arguments["given"] |= _plain(self.columns, self.joined)
        return {**arguments, "categories": categories_of((*self.columns, *self.joined))}


def _check(columns: Sequence[Column], joined: Sequence[Column]) -> None:
    try:
        columns_of(columns, users=1)
    except ValueError as error:
        raise ParameterError("columns", str(error)) from None
    if not joined:
        return
    try:
        columns_of(joined, users=sum(column.user for column in joined))
    except ValueError as error:
        raise ParameterError("joined", str(error)) from None
    own = {column.name: column for column in columns}
    shared = [(own[one.name], one) for one in joined if one.name in own]
    users = any(one.user for one in joined)
    if len(shared) != 1 or not all(c.user == users and (users or c.categories) for c in shared[0]):
        rule = "shares one column with `columns`: the user if it has one, otherwise a key"
        raise ParameterError("joined", f"the table `other` {rule}")


def _plain(columns: Sequence[Column], joined: Sequence[Column]) -> dict[str, Any]:
    return {
        "columns": [column.params() for column in columns],
        "joined": [column.params() for column in joined],
    }


def categories_of(columns: Sequence[Column]) -> dict[str, list[Any]]:
    """Return the values of each key column."""
    return {column.name: list(column.categories) for column in columns if column.categories}


def names_of(pair: Any, categories: dict[str, list[Any]]) -> list[str]:
    """Return the names of the numbers of an answer to the query of a pair."""
    query = queries.read(pair.d0["query"])
    return queries.names_of(query, queries.keys_of(query, categories))


def audit_sql(
    answer: Callable[..., Any] | str | os.PathLike[str],
    *,
    columns: Sequence[Mapping[str, Any]],
    epsilon: float,
    delta: float = 0.0,
    joined: Sequence[Mapping[str, Any]] = (),
    change: Change = "add-remove",
    beyond: bool = True,
    rows_per_user: int | None = None,
    without: Sequence[str] = (),
    trials: int = 20_000,
    seconds: float | None = None,
    limit: float | None = None,
    python: str | os.PathLike[str] | None = None,
    variant: str = "",
    confidence: float = 0.999,
    seed: int = 0,
) -> Record:
    """Search for a query and a table of users that refute a claim.

    Args:
        answer: returns one private answer, called as `answer(table, query)`, or as
            `answer(rng, table, query)` with a NumPy generator for all of its randomness; or the
            path of a program, as for `sql-engine`. An exception also counts as an answer, and so
            does the order of rows: sort them if the engine promises no order.
        columns: a dict for each column: `name`, and `user = True`, or `categories`, or `low` and
            `high`, as the engine is told.
        epsilon: the claimed ε of one query.
        delta: the claimed δ.
        joined: the columns of a table `other` that every query joins; then `table` is a dict of
            both tables, `data` and `other`. It shares one column with `columns`: the user if users
            own its rows too, otherwise a key; then its rows are public.
        change: "add-remove" if a user is added or removed, "replace" if its rows are replaced.
        beyond: True if numbers may lie out of bounds, which engines promise to clip.
        rows_per_user: most rows of a user, if the claim is limited to such tables; 1 for a claim
            about single rows.
        without: parts of queries that are not asked, as the record names them in its coverage:
            "HAVING", or several: "COUNT(*) and HAVING".
        trials: total number of answers on each of D and D′, over all queries and tables.
        seconds: time limit of the search.
        limit: time limit of one answer in seconds; one that exceeds it counts as TimeoutError.
        python: the interpreter of a program; default: this one.
        variant: passed to a program, which may have several configurations.
        confidence: of the verdict.
        seed: of all randomness.

    Returns:
        The record. Its witness is the query, the tables and the event with the strongest evidence.
        A consistent record never means that the engine is private.

    Raises:
        DpframeError: trial calls before the search show that answers cannot be read, or that
            queries fail by a mistake; the message names the query and the line.
        UndecidedError: all trial calls returned the same number.
    """
    known = columns_of(columns, users=1)
    more = columns_of(joined, users=sum(bool(one.get("user")) for one in joined)) if joined else ()
    params = {**_plain(known, more), "change": change, "beyond": beyond, "without": list(without)}
    params |= {} if rows_per_user is None else {"rows_per_user": rows_per_user}
    claim = claim_of(epsilon, delta)
    bench = UsersAndQueries.from_params(params).bench
    cases, categories = bench.trial_cases(), categories_of((*known, *more))
    until = time.monotonic() + min(SECONDS, math.inf if seconds is None else SHARE * seconds)
    if callable(answer):
        calls = list(of_function(answer, cases, categories, until, limit))
    else:
        settings = {"epsilon": epsilon, "delta": delta, "variant": variant, **_plain(known, more)}
        given = {"file": str(Path(answer).resolve()), "given": settings, "categories": categories}
        calls = list(of_program(given, cases, None if python is None else os.fspath(python), until))
    params["without"] += unanswered(calls, [column.name for column in (*known, *more)])
    search = {"use": "sql", "params": params}
    pipeline = _pipeline(answer, known, more, claim, variant)
    budget = Budget(trials, seconds, confidence, seed, limit)
    return audited(pipeline, search, budget, python)


def shrink(
    record: Record,
    answer: Callable[..., Any] | str | os.PathLike[str],
    *,
    trials: int = 4000,
    seconds: float | None = None,
    python: str | os.PathLike[str] | None = None,
) -> Record:
    """Look for the smallest query and table that still refute the claim of a record.

    Each step tries simpler queries and tables in an audit of its own, on new draws, at the
    confidence of the record.

    Args:
        record: a record of `audit_sql` with a violated claim.
        answer: the same argument as for `audit_sql`.
        trials: number of answers on each of D and D′ in one step.
        seconds: time limit of each step.
        python: the same argument as for `audit_sql`.

    Returns:
        The record of the smallest case found; the given one if no smaller one was found.

    Raises:
        DpframeError: the claim of the record is not violated.
    """
    cell: Any = record.cells[0]
    if cell.verdict != "violated":
        raise DpframeError(f"nothing to shrink: the claim is {cell.verdict or 'undecided'}")
    own = UsersAndQueries.from_params(dict(cell.search.neighbourhood.params))
    bench, variant = own.bench, cell.mechanism.params.get("variant", "")
    claim = claim_of(cell.claim.epsilon, cell.claim.delta)
    pipeline = _pipeline(answer, own.columns, own.joined, claim, variant)
    budget = Budget(trials, seconds, record.audit.confidence, record.seed)
    while True:
        case = bench.case(Values.from_params(record.cells[0].pair.params))
        tried = [bench.pair(one) for one in smaller(case) if bench.are_neighbours(one)]
        if not tried:
            return record
        budget = budget._replace(seed=budget.seed + 1)
        texts = [json.dumps(pair.params()) for pair in dict.fromkeys(tried)]
        search = {"use": "sql-smaller", "params": {"pairs": texts}}
        smaller_record = audited(pipeline, search, budget, python)
        if smaller_record.cells[0].verdict != "violated":
            return record
        record = smaller_record


def _pipeline(
    answer: Any, columns: Sequence[Column], joined: Sequence[Column], claim: Any, variant: str
) -> Any:
    if not callable(answer):
        given = {"file": str(answer), "epsilon": claim.epsilon, "delta": claim.delta}
        given |= {"variant": variant, **_plain(columns, joined)}
        return {"use": "sql-engine", "params": given}
    categories = categories_of((*columns, *joined))

    def prepare(data: Any) -> Any:
        query = queries.read(data["query"])
        keys = queries.keys_of(query, categories)
        return (queries.table_of(data), query), lambda given: queries.numbers(given, query, keys)

    seeded = takes_generator(answer, "table", "query")
    return function_box(answer, seeded, claim, lambda pair: names_of(pair, categories), prepare)
