"""Adapters of SQL engines and synthesizers, with answers of several forms."""

import itertools
import sqlite3

import numpy as np
import pytest


def counts(rng, table, query):
    """Return noisy counts: of each city, or of all rows."""
    kept = [row.get("city") for row in table if query.keeps(row)]
    keys = ("a", "b") if query.group else ("all",)
    found = {key: (kept.count(key) if query.group else len(kept)) + rng.laplace() for key in keys}
    return {key: value for key, value in found.items() if query.shows(value)}


def one_or(found, query):
    return found if query.group else found.get("all")


def as_frame(found, query):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(list(found.items()), columns=["city", "value"])


def as_index(found, query):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"value": list(found.values())}, pandas.Index(found, name="city"))


def as_series(found, query):
    return pytest.importorskip("pandas").Series(found)


FORMS = {
    "named": lambda found, query: found,
    "texts": lambda found, query: (
        [[key, str(value)] for key, value in found.items()]
        if query.group
        else str(found.get("all"))
    ),
    "dicts": lambda found, query: [{"value": v, "city": k} for k, v in found.items()],
    "columns": lambda found, query: {"city": [*found], "value": [*found.values()]},
    "tuples": lambda found, query: {(key,): value for key, value in found.items()},
    "lists": lambda found, query: {key: [value] for key, value in found.items()},
    "generator": lambda found, query: (
        ((key, value) for key, value in found.items())
        if query.group
        else (value for value in found.values())
    ),
    "array": lambda found, query: (
        np.array([[key, value] for key, value in found.items()])
        if query.group
        else np.array([*found.values()])
    ),
    "frame": as_frame,
    "index": as_index,
    "series": as_series,
}


def rows(query, table):
    """Return the rows of each user that count, the first of each."""
    seen = {}
    for row in table:
        seen.setdefault(row["user"], []).append(row)
    return [row for own in seen.values() for row in own[:1] if query.keeps(row)]


def bounded(rng, table, query, mistake="", scale=1.0):
    """Return noisy counts of users with one row each; HAVING is private, or exact by mistake."""
    found = {}
    keys = itertools.product(*({"city": "ab", "side": "lr"}[name] for name in query.group))
    for key in keys:
        exact = sum(query.key_of(row) == key for row in rows(query, table))
        value = exact + rng.laplace(scale=scale)
        if query.shows(exact if mistake == "having" and query.aggregate == "COUNT" else value):
            found[key] = value
    return found


def synthesize(rng, table):
    """Return noisy counts of both sexes as rows with uniform pay."""
    found = []
    for sex in "fm":
        number = sum(row[0] == sex for row in table) + rng.laplace()
        found += [[sex, rng.uniform(0, 1000)] for _ in range(round(max(0, number)))]
    return found


def misspelt(rng, table, query):
    return counts(rng, table, query) if query.aggregate == "COUNT" else table[0]["agee"]


def binder(rng, table, query):
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE data (user, town)")
    return database.execute(query.sql).fetchall()


def no_table(rng, table, query):
    return sqlite3.connect(":memory:").execute(query.sql).fetchall()


def returns(make):
    return lambda rng, table, query: make(counts(rng, table, query), query)
