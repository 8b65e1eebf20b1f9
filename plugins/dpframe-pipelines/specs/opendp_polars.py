"""OpenDP's Polars contexts as an SQL engine: in their right form, or with one misuse.

Without δ, key values are public. With δ, OpenDP hides rare keys.
"""

import functools
import itertools
import json
import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")

ROWS = 1000
"""No table has more rows."""

OF_ROWS = ("rows", "margin", "lengths")
"""Misuses whose privacy unit is a number of rows, not a user."""


def prepare(params, table):
    """Return a function that answers a query."""
    text = json.dumps(params, sort_keys=True)
    types = {c["name"]: pl.Float64 if "low" in c else pl.String for c in params["columns"]}
    data = pl.LazyFrame(table, schema=types)

    def ask(query):
        # The search for the scale takes a second, and sees no data unless it is misused.
        found = measurement(text, query, taken(params, table, query))
        rows = context(params, data, query)(found).collect().rows()
        # OpenDP promises no order of keys.
        answer = sorted((row[: len(query.group) + 1] for row in rows), key=str)
        return [row for row in answer if query.shows(row[-1])]

    return ask


def taken(params, table, query):
    """Return the keys or the bounds that a misuse takes from the data."""
    if params["variant"] == "keys from the data":
        return tuple(sorted({query.key_of(row) for row in table}, key=str))
    if params["variant"] == "bounds from the data" and query.aggregate in ("SUM", "AVG"):
        numbers = [row[query.column] for row in table if row[query.column] is not None] or [0.0]
        return min(numbers), max(numbers) + 1e-6
    return None


def context(params, data, query):
    """Return a context with the budget of one query."""
    misuse, delta = params["variant"], {"delta": params["delta"]} if params["delta"] else {}
    user = next(c["name"] for c in params["columns"] if c.get("user"))
    unit = {"contributions": 40 if misuse == "margin" else 1}
    most = 1 if misuse == "margin" else ROWS
    return dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(**unit, identifier=None if misuse in OF_ROWS else pl.col(user)),
        privacy_loss=dp.loss_of(epsilon=params["epsilon"], **delta),
        split_evenly_over=1,
        margins=[
            dp.polars.Margin(
                by=query.group,
                max_length=most,
                max_groups=most,
                invariant="lengths" if misuse == "lengths" else None,
            )
        ],
    )


@functools.cache
def measurement(text, query, known):
    """Return the measurement of a query, with the scale of its noise."""
    params = json.loads(text)
    told, misuse = {c["name"]: c for c in params["columns"]}, params["variant"]
    types = {name: pl.Float64 if "low" in c else pl.String for name, c in told.items()}
    frame = context(params, pl.LazyFrame(schema=types), query).query()
    if query.where is not None:
        key, value = pl.col(query.where[0]), query.where[1]
        frame = frame.filter(key.is_not_null() if value is None else key == value)
    if misuse not in OF_ROWS:
        frame = frame.truncate_per_group(1)
    column = pl.col(query.column)
    if query.aggregate in ("SUM", "AVG"):
        low_high = told[query.column]["low"], told[query.column]["high"]
        bounds = known if misuse == "bounds from the data" else low_high
        clean = column.fill_nan(0.0).fill_null(0.0).dp
        found = [clean.sum(bounds) if query.aggregate == "SUM" else clean.mean(bounds)]
    elif query.aggregate == "COUNT DISTINCT":
        found = [column.dp.n_unique(signed=True)]
    else:
        found = [dp.len(signed=True) if query.column == "*" else column.dp.count(signed=True)]
    if not query.group:
        return frame.select(*found).resolve()
    if params["delta"] and query.value != "COUNT(*)":
        found.append(dp.len(signed=True))  # OpenDP compares this number with a threshold
    frame = frame.group_by(query.group).agg(*found)
    if not params["delta"] and misuse != "lengths":
        public = itertools.product(*(told[name]["categories"] for name in query.group))
        keys = list(known if misuse == "keys from the data" else public)
        frame = frame.with_keys(
            pl.DataFrame(keys, dict.fromkeys(query.group, pl.String), orient="row")
        )
    return frame.resolve()
