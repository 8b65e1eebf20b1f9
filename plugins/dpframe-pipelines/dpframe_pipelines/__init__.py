"""Audits of pipelines: synthesizers of tables, and SQL engines."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dpframe.plugins import hookimpl

if TYPE_CHECKING:
    from dpframe.plugins import Attack, ForeignMechanism, Neighbourhood
    from dpframe_pipelines.engines import (
        DuckDB as DuckDB,
        Polars as Polars,
        PostgreSQL as PostgreSQL,
        SQLite as SQLite,
    )
    from dpframe_pipelines.own_queries import describe_tables as describe_tables
    from dpframe_pipelines.sql import audit_sql as audit_sql, shrink as shrink
    from dpframe_pipelines.synthetic import audit_synthesizer as audit_synthesizer

_HOME = {
    "DuckDB": "engines",
    "Polars": "engines",
    "PostgreSQL": "engines",
    "SQLite": "engines",
    "audit_sql": "sql",
    "audit_synthesizer": "synthetic",
    "describe_tables": "own_queries",
    "shrink": "sql",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


@hookimpl
def dpframe_mechanisms() -> list[type[ForeignMechanism]]:
    """Return the mechanisms: a synthesizer and an SQL engine, each a program, and commands."""
    from dpframe_pipelines.command import Command
    from dpframe_pipelines.sql import SqlEngine
    from dpframe_pipelines.synthetic import Synthesizer

    return [Synthesizer, SqlEngine, Command]


@hookimpl
def dpframe_attacks() -> list[type[Attack]]:
    """Return the attack on named features."""
    from dpframe_pipelines.features import NamedFeatures

    return [NamedFeatures]


@hookimpl
def dpframe_neighbourhoods() -> list[type[Neighbourhood]]:
    """Return the neighbourhoods: of SQL queries, generated or not, and of planted records."""
    from dpframe_pipelines.own_queries import OwnQueries
    from dpframe_pipelines.sql import SmallerCases, UsersAndQueries
    from dpframe_pipelines.synthetic import PlantedRecords

    return [UsersAndQueries, SmallerCases, OwnQueries, PlantedRecords]
