"""Audits of a user's own queries on a user's own tables."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
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
    SpecFile,
    Values,
    find_plugin,
    plain,
)
from dpframe_pipelines.boxes import Budget, audited
from dpframe_pipelines.engines import engine_box
from dpframe_pipelines.own_neighbours import NEVER, Maker, Neighbours
from dpframe_pipelines.own_tables import OwnTables, Rows, User, plain_table
from dpframe_pipelines.sql_text import equal_columns, parse, tables_in
from dpframe_pipelines.trial_calls import trial_calls, unanswered

MOST_KEYS = 256
"""Combinations of keys whose values have features of their own."""


class OwnQuery(NamedTuple):
    """A query with its claim."""

    name: str
    sql: str
    epsilon: float
    delta: float


def own_queries(given: Any, epsilon: float | None, delta: float) -> list[OwnQuery]:
    """Read queries: texts, texts by name, or dicts with `sql` and perhaps name and claim."""
    if isinstance(given, str):
        given = [given]
    items = given.items() if isinstance(given, Mapping) else ((None, one) for one in given)
    found = []
    for name, one in items:
        own = {"sql": one} if isinstance(one, str) else dict(one)
        if unknown := {*own} - {*OwnQuery._fields}:
            raise DpframeError(f"queries: {min(unknown)!r} is not one of {OwnQuery._fields}")
        sql = str(own.get("sql", "")).strip().rstrip("; \n")  # its lines may end with comments
        claimed = own.get("epsilon", epsilon)
        if not sql or claimed is None:
            lacks = "a text, sql" if not sql else "a claim: pass epsilon"
            raise DpframeError(f"queries: {own!r} lacks {lacks}")
        called = name or own.get("name") or " ".join(sql.split())
        found.append(OwnQuery(str(called), sql, float(claimed), float(own.get("delta", delta))))
    if not found:
        raise DpframeError("queries is empty")
    if twice := [one.name for one in found if [o.name for o in found].count(one.name) > 1]:
        raise DpframeError(f"queries: two queries are named {twice[0]!r}")
    return found


class OwnQueries(Neighbourhood, name="sql-queries"):
    """A query of the user, and the user's own tables, from which all rows of one user are removed.

    Rows are made of the values that the tables have, so that the query keeps them and its groups
    pass the numbers in its text; the given tables come too.
    """

    one_shape: ClassVar[bool] = False

    query: str = ""
    """The text of the query; [mechanism.search] gives each mechanism its own."""
    tables: plain.Given = ()  # type: ignore[assignment]
    """The tables by name, each a list of dicts or a dict of columns."""
    files: tuple[SpecFile, ...] = ()
    """Files of further tables, named as they are: .csv, .npy, .npz or .parquet."""
    user: plain.Given = ""  # type: ignore[assignment]
    """The column that identifies users, or one for each table; with the column of another table
    if it links to its rows, as ["order_id", "orders.id"]."""
    columns: plain.Given = ()  # type: ignore[assignment]
    """Parts of columns that are known: by table, then by column, `categories` or `low` and
    `high`. Default: as the rows of the tables."""
    change: Literal["add-remove", "replace"] = "add-remove"
    """"add-remove": a user is added or removed; "replace": its rows are replaced."""
    rows_per_user: Annotated[int, Ge(1)] | None = None
    """Most rows of a user in each table; no limit if it is not given."""
    beyond: bool = True
    """True if numbers may lie out of bounds."""
    understood: plain.Given = dataclasses.field(default=(), compare=False)  # type: ignore[assignment]
    """The owner of each table, and the type, categories or bounds of each column. Records have it;
    the tables must agree with it."""
    keys: plain.Given = ()  # type: ignore[assignment]
    """Further keys of answers, such as values of expressions in GROUP BY."""
    batch: Annotated[int, Ge(1), Le(256)] = 150
    """Number of pairs to propose at a time."""

    @property
    def adjacency(self) -> str:
        """The relation of D and D′."""
        return self.own.adjacency

    def check(self) -> None:
        own = self.own  # read here, so that a mistake is reported with its place
        owned = {table.name.lower() for table in own.owned}
        if self.query and not owned & {name[-1].lower() for name in tables_in(self.query)}:
            raise ParameterError(
                "query",
                f"{self.query} uses no table whose rows users own, so no user changes its "
                f"answers; there are {', '.join(table.name for table in own.owned)}",
            )

        found = plain.frozen(own.understood())
        if self.understood not in ((), found):
            raise ParameterError("understood", f"the tables are not as they were:\n{own}")

    def params(self) -> dict[str, Any]:
        written = {name: plain.written(getattr(self, name)) for name in _PLAIN}
        understood = plain.written(plain.frozen(self.own.understood()))
        return {**super().params(), **written, "understood": understood}

    @cached_property
    def own(self) -> OwnTables:
        """The tables with their owners."""
        tables = {str(n): _as_table(one) for n, one in (plain.thawed(self.tables) or {}).items()}
        for file in self.files:
            if not file.path.resolve().is_relative_to(file.folder.resolve()):
                raise ParameterError("files", f"{file} is not in the folder of the spec")
            whole = {"file": str(file.path.absolute()), "edit": {"remove": 0}, "form": "dicts"}
            tables[Path(file).stem] = plain_table(
                find_plugin("pair", "records").from_params(whole).d0
            )
        user, known = plain.thawed(self.user), plain.thawed(self.columns) or {}
        return OwnTables(
            tables,
            user,
            known,
            replace=self.change == "replace",
            rows_per_user=self.rows_per_user,
            beyond=self.beyond,
            equal=equal_columns(self.query),
        )

    @cached_property
    def maker(self) -> Maker:
        """Makes neighbours for the query."""
        if not self.query:
            raise ParameterError("query", "is missing: params.query, or search.params.query")
        return Maker(self.own, parse(self.query))

    @cached_property
    def asked(self) -> dict[str, Any]:
        """The query as plain values, with the possible keys of its answers."""
        parsed = self.maker.query
        values = [at for at in range(len(parsed.items)) if at not in parsed.keys]
        by_key = [[*self.own.categories(parsed.sources[at]), None] for at in parsed.keys]
        keys = itertools.islice(itertools.product(*by_key), MOST_KEYS)
        every = [*map(tuple, keys), *(tuple(key) for key in plain.thawed(self.keys) or ())]
        return {
            "sql": self.query,
            "group": [parsed.items[at] for at in parsed.keys],
            "values": [parsed.items[at] for at in values],
            "order": [*parsed.keys, *values],
            "ordered": parsed.ordered,
            "keys": [list(key) for key in dict.fromkeys(every)],
        }

    def pair(self, case: Neighbours) -> Values:
        """Return neighbours as a pair: D and D′ hold the same query."""
        # The user comes first, because its rows cannot change the order of keys otherwise.
        d0, d1 = (self.data(mine, case.rows) for mine in (case.mine, case.theirs))
        return Values(d0=d0, d1=d1, adjacency=self.adjacency, description=case.words)

    def data(self, mine: Rows, others: Rows) -> dict[str, Any]:
        """Return a dataset: the query, and the tables with rows of one user and of others."""
        tables = {}
        for name, table in self.own.tables.items():
            rows = self.own.public.get(name) or mine.get(name, ()) + others.get(name, ())
            types = [column.type for column in table.columns]
            tables[name] = {"columns": table.names, "types": types, "rows": list(map(list, rows))}
        return {"query": self.asked, "tables": tables}

    def trial_cases(self) -> list[dict[str, Any]]:
        """Return datasets for calls before the search."""
        cases = list(itertools.islice(self.maker.planned(), 2))
        every: Rows = {}
        for rows in self.own.given_users:
            every = {n: every.get(n, ()) + rows.get(n, ()) for n in {*every, *rows}}
        return [self.data({}, every), *(self.data(case.mine, case.rows) for case in cases)]

    def features(self, pair: Pair) -> Sequence[str]:
        """Return the kind of the user who differs."""
        return [_kind(getattr(pair, "description", ""))]

    def all_features(self) -> Sequence[str]:
        """Return the kinds of all users, and what the tables do not allow to try."""
        kinds = dict.fromkeys(_kind(case.words) for case in self.maker.planned())
        words = self.maker.query.words
        columns = [c for table in self.own.owned for c in table.columns if c.name.lower() in words]
        never = [NEVER["missing"]] * (not any(one.missing for one in columns))
        numbers = [one for one in columns if one.kind == "number"]
        if self.beyond:
            given = any(one.bounded for one in numbers)
            never += [NEVER["beyond"]] * (bool(numbers) and not given)
        else:
            never += ["numbers out of bounds (beyond is false)"] * bool(numbers)
        return [*kinds, *never, "several queries"]

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        seen = {earned.pair for earned in history}

        def cases() -> Iterator[Neighbours]:
            yield from self.maker.planned()
            while True:
                yield self.maker.by_chance(rng)

        proposed: dict[Pair, None] = {}
        for case in itertools.islice(cases(), 20 * self.batch + len(history)):
            if case.mine == case.theirs or (
                self.change == "replace" and not any(case.mine.values())
            ):
                continue
            pair = self.pair(case)
            if pair not in seen:
                proposed[pair] = None
                if len(proposed) == self.batch:
                    break
        return list(proposed)


class OwnSettings(NamedTuple):
    """The tables of a user, and the neighbours that a claim is about."""

    tables: Mapping[str, Any]
    user: Any
    columns: Mapping[str, Any]
    change: str = "add-remove"
    rows_per_user: int | None = None
    beyond: bool = True

    def params(self) -> dict[str, Any]:
        """Return the parameters of `sql-queries` without a query."""
        found = {name: value for name, value in self._asdict().items() if value not in (None, {})}
        return {n: plain.written(plain.frozen(v)) if n in _PLAIN else v for n, v in found.items()}


def read_tables(given: Any, engine: Any) -> dict[str, Any]:
    """Return tables as plain values; given names are read by the engine."""
    if not isinstance(given, Mapping):
        if not hasattr(engine, "read"):
            raise DpframeError("tables is a dict of tables by name; only a database reads names")
        given = engine.read([given] if isinstance(given, str) else given)
    return {str(name): _as_table(one) for name, one in given.items()}


def grammar_columns(
    tables: Mapping[str, Any], user: Any, columns: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the columns of the only table, for queries of the grammar."""
    own = OwnTables(tables, user, columns)
    if len(own.tables) > 1:
        raise DpframeError("queries are generated for one table; pass queries for several tables")
    (table,) = own.tables.values()
    found: list[dict[str, Any]] = []
    for column in table.columns:
        if column.kind == "user":
            found.append({"name": column.name, "user": True})
        elif column.kind == "category":
            found.append({"name": column.name, "categories": list(column.values)})
        elif column.kind == "number" and column.low < column.high:
            found.append({"name": column.name, "low": column.low, "high": column.high})
    return found


def describe_tables(
    tables: Mapping[str, Any],
    *,
    user: User = "user_id",
    columns: Mapping[str, Any] | None = None,
    queries: Any = (),
) -> str:
    """Return a line for each table: whose its rows are, and its columns, as `audit_sql` reads them.

    The joins of `queries` link tables.

    Raises:
        ParameterError: the tables do not fit the owners or columns.
    """
    equal = joins(own_queries(queries, 1.0, 0.0)) if queries else ()
    return str(OwnTables(read_tables(tables, None), user, columns or {}, equal=equal))


def joins(asked: Iterable[OwnQuery]) -> list[Any]:
    """Return the pairs of columns that queries require to be equal."""
    return [pair for query in asked for pair in equal_columns(query.sql)]


def audit_own(
    engine: Any,
    asked: Sequence[OwnQuery],
    settings: OwnSettings,
    budget: Budget,
    python: Any = None,
    variant: str = "",
) -> Record:
    """Audit own queries on own tables, each as a mechanism with a search of its own.

    Raises:
        ParameterError: the tables do not fit the settings.
        DpframeError, UndecidedError: trial calls show that nothing would be tested.
    """
    # A link in one query holds for all.
    own = OwnTables(settings.tables, settings.user, settings.columns, equal=joins(asked))
    shared, entries = settings._replace(user=own.stated()).params(), []
    for query in asked:
        # PostgreSQL would read the user's own table, the same for D and D′.
        named = {name.lower() for name in settings.tables}
        for *qualified, name in tables_in(query.sql):
            if qualified and name.lower() in named:
                whole = ".".join([*qualified, name])
                raise DpframeError(f"{query.sql}: write {name} in place of {whole}")
        search = OwnQueries.from_params({**shared, "query": query.sql})
        claim = {"epsilon": query.epsilon, "delta": query.delta}
        calls = trial_calls(
            engine,
            {**claim, "columns": [], "variant": variant},
            search.trial_cases(),
            {},
            budget,
            python,
        )
        other = [key for call in calls for key in call.outcome.get("other keys", ())]
        unanswered(calls, ())
        params = {"query": query.sql, "keys": plain.written(plain.frozen(other))}
        only = {"params": params if other else {"query": query.sql}}
        entries.append({"label": query.name, "params": claim, "search": only})
    shared_search = {
        "use": "dpframe-pipelines/sql-queries",
        "params": {**shared, "query": asked[0].sql},
    }
    first = asked[0]
    pipeline: Any = {"use": "sql-engine", "params": {"file": str(engine), "variant": variant}}
    if not isinstance(engine, str | os.PathLike):
        pipeline = engine_box(engine, first.epsilon, first.delta, {})
    return audited(pipeline, shared_search, budget, python, entries)


_PLAIN = ("tables", "user", "columns", "understood", "keys")


def _as_table(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping) and {*given} == {"columns", "types", "rows"}:
        return dict(given)
    try:
        return plain_table(given)
    except ValueError as error:
        raise ParameterError("tables", str(error)) from None


def _kind(words: str) -> str:
    """Return the description of neighbours without the number of others."""
    number, _, rest = words.partition(" ")
    return rest if number.isdigit() else words
