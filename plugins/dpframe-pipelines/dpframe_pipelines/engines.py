"""Engines that get their tables once: functions, and databases with a private layer on top."""

from __future__ import annotations

import inspect
import sqlite3
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pickle import dumps, loads
from typing import Any

import numpy as np

from dpframe.plugins import Claim, DpframeError, HostMechanism, Pair
from dpframe_pipelines.boxes import claim_of
from dpframe_pipelines.own_tables import plain_table, rows_of, tables_of
from dpframe_pipelines.programs import queries
from dpframe_pipelines.programs.queries import TABLE
from dpframe_pipelines.trial_calls import GENERATORS, takes_generator

Tables = Any
"""A list of dicts, or one for each table."""

BLOCK = 100
"""Rows that one INSERT writes."""


class FunctionEngine:
    """A function of tables and a query, perhaps with a generator before them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seeded = takes_generator(function, "table", "query")
        self.copies = False
        """True if the function changes its tables, so that each call needs a copy."""
        self.name = getattr(function, "__name__", "")

    def prepare(self, tables: Tables) -> Callable[..., Any]:
        """Return the function with its tables."""
        packed = dumps(tables) if self.copies else b""
        if self.seeded:
            return lambda rng, query: self.function(rng, loads(packed) if packed else tables, query)
        return lambda query: self.function(loads(packed) if packed else tables, query)


class Database:
    """A database of the tables, and a private layer that answers queries on it.

    Args:
        answer: called as `answer(connection, sql)`; returns rows, a cursor, a frame or a value. Or
            a function `rewrite(sql)` that returns the text to run. Either may take a NumPy
            generator first. Default: the text is run as it is.
        source: the database whose tables `audit_sql(tables=["users", …])` reads.
        setup: called with each new connection after its tables are loaded, to define functions.
    """

    mark = "?"
    types: Mapping[str, str] = {}  # names that differ

    def __init__(
        self,
        answer: Callable[..., Any] | None = None,
        source: Any = "",
        setup: Callable[[Any], Any] | None = None,
    ) -> None:
        self.answer, self.source, self.setup = answer, source, setup
        names = [] if answer is None else _required(answer)
        self.seeded = bool(names) and names[0].lower() in GENERATORS
        self.rewrites = len(names) - self.seeded == 1
        self.name = getattr(answer, "__name__", "")
        if answer is not None and len(names) - self.seeded not in (1, 2):
            raise DpframeError(
                f"{self.name} takes {', '.join(names)}: it is called as {self.name}(connection, "
                f"sql), or as {self.name}(sql) if it returns the text to run"
            )

    def connect(self) -> Any:
        """Return a new connection."""
        raise NotImplementedError

    def run(self, connection: Any, sql: str) -> Any:
        """Run a text, and return all rows of its result."""
        return connection.execute(sql).fetchall()

    def load(self, connection: Any, tables: Mapping[str, Mapping[str, Any]]) -> None:
        """Create tables with their rows, in the form that `plain_table` returns."""
        for name, table in tables.items():
            self.create(connection, name, table["columns"], table["types"])
            for at in range(0, len(table["rows"]), BLOCK):
                rows = table["rows"][at : at + BLOCK]
                marks = f"({', '.join([self.mark] * len(table['columns']))})"
                text = f"INSERT INTO {quoted(name)} VALUES {', '.join([marks] * len(rows))}"
                self.execute(connection, text, [cell for row in rows for cell in row])

    def create(
        self, connection: Any, name: str, columns: Sequence[str], types: Sequence[str]
    ) -> None:
        """Create a table without rows."""
        both = zip(columns, types, strict=True)
        listed = ", ".join(f"{quoted(one)} {self.types.get(kind, kind)}" for one, kind in both)
        self.execute(connection, f"CREATE TEMPORARY TABLE {quoted(name)} ({listed})")

    def execute(self, connection: Any, text: str, cells: Iterable[Any] = ()) -> Any:
        """Run a statement with cells for its marks."""
        return connection.execute(text, list(cells))

    def read(self, names: Iterable[str]) -> dict[str, Any]:
        """Return tables of the source: a dict of columns for each."""
        connection = self.opened()
        found = {}
        try:
            for name in names:
                cursor = self.execute(connection, f"SELECT * FROM {quoted(name)}")
                columns = [one[0] for one in cursor.description]
                rows = cursor.fetchall()
                found[name] = {one: [row[at] for row in rows] for at, one in enumerate(columns)}
        finally:
            connection.close()
        return found

    def opened(self) -> Any:
        """Return a connection to the source."""
        return self.connect()

    def prepare(self, tables: Tables) -> Callable[..., Any]:
        """Load tables into a new connection, and return a function that answers queries there."""
        named = tables if isinstance(tables, Mapping) else {TABLE: tables}
        connection = self.connect()
        self.load(connection, {name: typed(named, name) for name in named})
        if self.setup is not None:
            self.setup(connection)
        return Session(self, connection)


class Session:
    """A connection with its tables, and the private layer that asks it."""

    def __init__(self, database: Database, connection: Any) -> None:
        self._database, self.connection = database, connection

    def __call__(self, *arguments: Any) -> Any:
        """Return one private answer, to a query or to a generator and a query."""
        database, query = self._database, arguments[-1]
        generator = arguments[:1] if database.seeded else ()
        if database.answer is None:
            return database.run(self.connection, query.sql)
        if database.rewrites:
            return database.run(self.connection, database.answer(*generator, query.sql))
        answer = database.answer(*generator, self.connection, query.sql)
        return answer.fetchall() if hasattr(answer, "fetchall") else answer

    def close(self) -> None:
        """Close the connection."""
        connection, self.connection = self.connection, None
        if hasattr(connection, "close"):
            connection.close()

    __del__ = close


class SQLite(Database):
    """Tables in SQLite, in memory; `source` is a file."""

    types = {"BOOLEAN": "INTEGER", "DATE": "TEXT", "TIMESTAMP": "TEXT"}  # noqa: RUF012

    def connect(self) -> Any:
        return sqlite3.connect(":memory:", isolation_level=None)

    def opened(self) -> Any:
        return sqlite3.connect(self.source)

    def execute(self, connection: Any, text: str, cells: Iterable[Any] = ()) -> Any:
        plain = [one.isoformat() if hasattr(one, "isoformat") else one for one in cells]
        return connection.execute(text, plain)


class DuckDB(Database):
    """Tables in DuckDB, in memory; `source` is a file."""

    types = {"INTEGER": "BIGINT", "REAL": "DOUBLE"}  # noqa: RUF012

    def connect(self) -> Any:
        return self._database(":memory:", {"threads": 1})

    def opened(self) -> Any:
        return self._database(str(self.source), {"access_mode": "READ_ONLY"})

    @staticmethod
    def _database(path: str, config: dict[str, Any]) -> Any:
        return _imported("duckdb").connect(path, config=config)


class PostgreSQL(Database):
    """Temporary tables on a server, which hide tables of the same names; nothing else is written.

    `source` is the text for `psycopg.connect`, or a function that returns a connection in which
    each statement commits itself. Columns get the types of tables of the same names, if any.
    """

    mark = "%s"
    types = {  # noqa: RUF012
        "INTEGER": "BIGINT",
        "REAL": "DOUBLE PRECISION",
    }

    def connect(self) -> Any:
        if callable(self.source):
            return self.source()
        return _imported("psycopg").connect(self.source, autocommit=True, client_encoding="utf8")

    def create(
        self, connection: Any, name: str, columns: Sequence[str], types: Sequence[str]
    ) -> None:
        listed = ", ".join(map(quoted, columns))
        like = f"AS SELECT {listed} FROM {quoted(name)} WITH NO DATA"
        try:
            self.execute(connection, f"CREATE TEMPORARY TABLE {quoted(name)} {like}")
        except Exception:  # there is no such table, or it has other columns
            super().create(connection, name, columns, types)

    def run(self, connection: Any, sql: str) -> Any:
        cursor = connection.cursor()
        cursor.execute(sql)
        return cursor.fetchall()

    def execute(self, connection: Any, text: str, cells: Iterable[Any] = ()) -> Any:
        cursor = connection.cursor()
        cursor.execute(*((text, list(cells)) if cells else (text,)))
        return cursor


class Polars(Database):
    """Lazy frames of Polars: `answer(frames, sql)` gets a dict of them and returns a frame."""

    def connect(self) -> Any:
        return {}

    def load(self, connection: Any, tables: Mapping[str, Mapping[str, Any]]) -> None:
        polars = _imported("polars")
        types = {
            "INTEGER": polars.Int64,
            "REAL": polars.Float64,
            "TEXT": polars.String,
            "BOOLEAN": polars.Boolean,
            "DATE": polars.Date,
            "TIMESTAMP": polars.Datetime,
        }
        for name, table in tables.items():
            schema = dict(zip(table["columns"], map(types.get, table["types"]), strict=True))
            rows = table["rows"]
            connection[name] = polars.DataFrame(rows, schema=schema, orient="row").lazy()

    def run(self, connection: Any, sql: str) -> Any:
        return _imported("polars").SQLContext(connection).execute(sql, eager=True)


def engine_of(answer: Any) -> Any:
    """Return an engine: the object itself if it has `prepare`, or the one of a function."""
    if not hasattr(answer, "prepare"):
        return FunctionEngine(answer)
    if not hasattr(answer, "seeded"):
        answer.seeded = False
    return answer


def engine_box(
    engine: Any, epsilon: float, delta: float, categories: dict[str, list[Any]]
) -> type[HostMechanism]:
    """Return a mechanism that asks an engine, and returns the numbers of its answer.

    Args:
        engine: its `prepare(tables)` is called once for each dataset and process.
        epsilon: the claimed ε, which a spec may change.
        delta: the claimed δ, likewise.
        categories: values of the keys of queries of the grammar.
    """

    def names_of(self: Any, pair: Any) -> list[str]:
        query = queries.read(pair.d0["query"])
        return queries.names_of(query, queries.keys_of(query, categories))

    def claim(self: Any, pair: Pair) -> Claim:
        return claim_of(self.epsilon, self.delta)

    def prepare(self: Any, data: Any) -> Any:
        query = queries.read(data["query"])
        return engine.prepare(tables_of(data)), query

    def release(self: Any, rng: np.random.Generator, data: Any) -> list[float]:
        ask, query = data
        answer = ask(rng, query) if engine.seeded else ask(query)
        return queries.numbers(answer, query, queries.keys_of(query, categories))

    title = getattr(engine, "name", "")
    title = title if title.isidentifier() and title.isascii() else "engine"  # as of a lambda
    body = {
        "__doc__": "An SQL engine.",
        "__annotations__": {"epsilon": float, "delta": float},
        "epsilon": epsilon,
        "delta": delta,
        "seedable": engine.seeded,
        "claim": claim,
        "names_of": names_of,
        "prepare": prepare,
        "release": release,
    }
    return types.new_class(title, (HostMechanism,), {"name": title}, lambda ns: ns.update(body))


def typed(tables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a table of an engine with columns, types and rows."""
    types = getattr(tables, "types", {}).get(name)
    if types is None:
        return plain_table(tables[name])
    names, rows = rows_of(tables[name])
    if not rows:
        names = list(types)
    return {"columns": names, "types": [types[one] for one in names], "rows": rows}


def quoted(name: str) -> str:
    """Return a name as SQL quotes it."""
    return '"{}"'.format(name.replace('"', '""'))


def _required(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that a call must give."""
    every = inspect.signature(function).parameters.values()
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in every if one.kind in places and one.default is one.empty]


def _imported(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        extra = "postgresql" if name == "psycopg" else name
        raise DpframeError(
            f"{name} is not installed: pip install 'dpframe-pipelines[{extra}]'"
        ) from None
