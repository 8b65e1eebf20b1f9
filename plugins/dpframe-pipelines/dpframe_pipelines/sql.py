"""Audits of SQL engines: draw queries and tables of users, and shrink findings."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

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
)
from dpframe_pipelines.engines import engine_box, engine_of
from dpframe_pipelines.own_queries import (
    OwnSettings,
    audit_own,
    grammar_columns,
    own_queries,
    read_tables,
)
from dpframe_pipelines.own_tables import User
from dpframe_pipelines.programs import queries as grammar
from dpframe_pipelines.query_cases import Case, Row, UserTables, categories_of
from dpframe_pipelines.trial_calls import trial_calls, unanswered

Change = Literal["add-remove", "replace"]

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
                raise ParameterError("without", f"{unknown[0]!r} is not one of: {known}")
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
    `other`, and `params` has `joined`. In a search of `sql-queries` it is a dict of all tables.
    """

    users: ClassVar[int] = 1

    columns: tuple[Column, ...] = ()
    """The columns of its tables, as declared to the pipeline; none for `sql-queries`."""

    joined: tuple[Column, ...] = ()
    """The columns of the table `other`, if queries join one."""

    def check(self) -> None:
        self.consented(self.file.path)
        if self.columns or self.joined:
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


def names_of(pair: Any, categories: dict[str, list[Any]]) -> list[str]:
    """Return the names of the numbers of an answer to the query of a pair."""
    query = grammar.read(pair.d0["query"])
    return grammar.names_of(query, grammar.keys_of(query, categories))


def audit_sql(
    answer: Any,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    tables: Mapping[str, Any] | Sequence[str] | None = None,
    queries: Sequence[Any] | Mapping[str, Any] | None = None,
    user: User = "user_id",
    columns: Any = None,
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

    With `tables` and `queries`, each of your own queries is a claim of its own, in a cell of its
    own. Otherwise queries are generated.

    Args:
        answer: returns one private answer, called as `answer(table, query)`, or as
            `answer(rng, table, query)` with a NumPy generator for all of its randomness; or an
            engine, such as `PostgreSQL(…)`, whose `prepare(tables)` returns a function
            `ask(query)`; or the path of a program, as for `sql-engine`. An exception also counts
            as an answer, and so does the order of rows if the query has ORDER BY or is generated.
        epsilon: the claimed ε of one query; queries may have their own.
        delta: the claimed δ.
        tables: your own tables by name: lists of dicts, dicts of columns, or frames of pandas or
            Polars; or the names of tables that the engine reads from its source.
        queries: texts, by name if you like, or dicts with `sql`, `name`, `epsilon` and `delta`.
        user: the column of the tables that identifies users; or one for each table, None for a
            public one, and `("order_id", "orders.id")` if rows belong to those of `orders`. Rows of
            a table without it belong to the rows of another one if a query joins them by a column
            that is unique there, or if both tables have such a column by the same name.
        columns: of your own tables, what their rows do not tell: by table, then by column, a dict
            with `categories`, or `low` and `high`. Without own tables a dict for each column:
            `name`, and `user = True`, or `categories`, or `low` and `high`, as the engine is told.
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
        ParameterError: the tables, or `user`, do not fit each other, or the query.
        DpframeError: trial calls before the search show that answers cannot be read, or that
            queries fail by a mistake; the message names the query and the line.
        UndecidedError: all trial calls returned the same number.
    """
    budget = Budget(trials, seconds, confidence, seed, limit)
    engine = answer if isinstance(answer, str | os.PathLike) else engine_of(answer)
    if tables is not None:
        given = read_tables(tables, engine), user, columns or {}
        if queries is not None:
            own = OwnSettings(*given, change, rows_per_user, beyond)
            asked = own_queries(queries, epsilon, delta)
            return audit_own(engine, asked, own, budget, python, variant)
        columns = grammar_columns(*given)
    if queries is not None or columns is None or epsilon is None:
        lacks = "epsilon, the claim" if epsilon is None else "columns"
        raise DpframeError("queries needs tables" if queries is not None else f"pass {lacks}")
    known = columns_of(columns, users=1)
    more = columns_of(joined, users=sum(bool(one.get("user")) for one in joined)) if joined else ()
    params = {**_plain(known, more), "change": change, "beyond": beyond, "without": list(without)}
    params |= {} if rows_per_user is None else {"rows_per_user": rows_per_user}
    claim = claim_of(epsilon, delta)
    bench = UsersAndQueries.from_params(params).bench
    cases, categories = bench.trial_cases(), categories_of((*known, *more))
    settings = {"epsilon": epsilon, "delta": delta, "variant": variant, **_plain(known, more)}
    calls = trial_calls(engine, settings, cases, categories, budget, python)
    params["without"] += unanswered(calls, [column.name for column in (*known, *more)])
    search = {"use": "sql", "params": params}
    return audited(_pipeline(engine, known, more, claim, variant), search, budget, python)


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
    if cell.search.neighbourhood.use not in ("sql", "sql-smaller"):
        raise DpframeError("only findings of generated queries can be shrunk")
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
    epsilon, delta = claim.epsilon, claim.delta
    if not isinstance(answer, str | os.PathLike):
        categories = categories_of((*columns, *joined))
        return engine_box(engine_of(answer), epsilon, delta, categories)
    given = {"file": str(answer), "epsilon": epsilon, "delta": delta, "variant": variant}
    return {"use": "sql-engine", "params": {**given, **_plain(columns, joined)}}
