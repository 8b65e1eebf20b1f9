"""Queries of a small grammar, and their answers as fixed lists of numbers.

Plain Python from 3.8 on, without dpframe and without NumPy, so that it runs beside any library.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple, Optional, Tuple

TABLE = "data"
"""Name of the table in every query."""

OTHER = "other"
"""Name of the table that a query may join."""

BEFORE = "number of rows before that of "
"""Start of the names of the numbers that the order of an answer determines."""


class Query(NamedTuple):
    """One aggregate of a table, perhaps joined with another one, perhaps by key."""

    aggregate: str
    """COUNT, SUM, AVG, or COUNT DISTINCT, which counts users."""
    column: str = "*"
    """The column that is aggregated; `*` for rows."""
    group: Tuple[str, ...] = ()
    """Key columns of GROUP BY."""
    where: Optional[Tuple[str, Any]] = None
    """(key column, value) that rows must have; the value None means IS NOT NULL."""
    having: Optional[float] = None
    """Least value of the aggregate in a row of the answer."""
    join: Optional[str] = None
    """The column on which the table is joined with the other one."""
    left: bool = False
    """True if LEFT JOIN keeps rows that match none."""

    @property
    def value(self) -> str:
        """The aggregate as SQL writes it."""
        if self.aggregate == "COUNT DISTINCT":
            return f"COUNT(DISTINCT {self.column})"
        return f"{self.aggregate}({self.column})"

    @property
    def sql(self) -> str:
        """The query as text."""
        found = f"SELECT {', '.join([*self.group, f'{self.value} AS value'])} FROM {TABLE}"
        if self.join is not None:
            found += f" {'LEFT ' if self.left else ''}JOIN {OTHER} USING ({self.join})"
        if self.where is not None:
            column, value = self.where
            found += f" WHERE {column} {'IS NOT NULL' if value is None else '= ' + literal(value)}"
        if self.group:
            found += f" GROUP BY {', '.join(self.group)}"
        if self.having is not None:
            found += f" HAVING {self.value} >= {self.having:g}"
        return found

    def keeps(self, row: dict[str, Any]) -> bool:
        """True if WHERE keeps a row, for engines that do not take SQL text."""
        if self.where is None:
            return True
        column, value = self.where
        return row[column] is not None if value is None else bool(row[column] == value)

    def key_of(self, row: dict[str, Any]) -> Tuple[Any, ...]:
        """Return the keys of a row."""
        return tuple(row[column] for column in self.group)

    def shows(self, value: Any) -> bool:
        """True if HAVING keeps a row of the answer with this value."""
        return self.having is None or (value is not None and value >= self.having)


def literal(value: Any) -> str:
    """Return a value as SQL writes it."""
    return "'{}'".format(value.replace("'", "''")) if isinstance(value, str) else repr(value)


def told(query: Query) -> dict[str, Any]:
    """Return a query as plain values, without defaults."""
    found = {**query._asdict(), "group": list(query.group)}
    found["where"] = None if query.where is None else list(query.where)
    found["left"] = query.left or None
    return {name: value for name, value in found.items() if value not in (None, [])}


def read(given: Any) -> Query:
    """Return a query from plain values."""
    found = dict(given)
    if found.get("where") is not None:
        found["where"] = tuple(found["where"])
    return Query(**{**found, "group": tuple(found.get("group", ()))})


def table_of(data: dict[str, Any]) -> Any:
    """Return the table of a dataset, a dict for each row; of two tables, a dict by name."""
    rows = [dict(zip(data["columns"], row)) for row in data["rows"]]
    return {TABLE: rows, OTHER: table_of(data[OTHER])} if OTHER in data else rows


def keys_of(query: Query, categories: dict[str, list[Any]]) -> list[list[Any]]:
    """Return all combinations of keys in an answer: public values, and NULL."""
    return [
        list(key) for key in itertools.product(*([*categories[at], None] for at in query.group))
    ]


def names_of(query: Query, keys: list[list[Any]]) -> list[str]:
    """Return the names of the numbers that `numbers` returns."""
    found = ["number of rows", "number of rows with other keys", "number of repeated keys"]
    for key in keys:
        of = f" of {_key_words(query.group, key)}" if query.group else ""
        count = f"number of rows{of}" if query.group else "number of answers"
        found += [count, f"number of missing values{of}", f"{query.value}{of}"]
    if query.group:
        found += [BEFORE + _key_words(query.group, key) for key in keys]
    return found


def _key_words(group: Tuple[str, ...], key: list[Any]) -> str:
    return " and ".join(f"{n} = {'NULL' if v is None else v}" for n, v in zip(group, key))


def numbers(answer: Any, keys: list[list[Any]]) -> list[float]:
    """Return the numbers of an answer, key by key; none of them is NaN.

    An absent key counts as after all rows. The rows of a dict have no order.

    Args:
        answer: rows, each the keys and then the value, with or without a header; a frame; a dict
            of values by key; or one value.
        keys: all possible combinations of keys.
    """
    rows, ordered = _rows(answer), not isinstance(answer, dict)
    known = {tuple(map(_plain, key)): at for at, key in enumerate(keys)}
    width = len(keys[0]) if keys else 0
    found: list[float] = [float(len(rows)), 0.0, 0.0]
    values: dict[int, float] = {}
    places: dict[int, int] = {}
    for place, row in enumerate(rows):
        at = known.get(tuple(_plain(cell) for cell in row[:width]))
        if at is None:
            found[1] += 1
        elif at in values:
            found[2] += 1
        else:
            values[at] = _number(row[width] if len(row) > width else None)
            places[at] = place
    for at in range(len(keys)):
        value = values.get(at, 0.0)
        missing = math.isnan(value)
        found += [float(at in values), float(missing), 0.0 if missing else value]
    if width:
        found += [float(places.get(at, len(rows)) if ordered else 0) for at in range(len(keys))]
    return found


def _rows(answer: Any) -> list[list[Any]]:
    if answer is None:
        return []
    if hasattr(answer, "rows") and callable(answer.rows):  # a frame of Polars
        return [list(row) for row in answer.rows()]
    if hasattr(answer, "itertuples"):  # a frame of pandas
        return [list(row) for row in answer.itertuples(index=False)]
    if isinstance(answer, dict):
        return [[*(k if isinstance(k, tuple) else (k,)), v] for k, v in answer.items()]
    if not isinstance(answer, (list, tuple)):
        return [[answer]]
    rows = [list(row) if isinstance(row, (list, tuple)) else [row] for row in answer]
    header = bool(rows) and bool(rows[0]) and isinstance(rows[0][-1], str)
    return rows[1:] if header else rows


def _plain(cell: Any) -> str:
    missing = cell is None or str(cell) in ("nan", "<NA>", "NaT")
    return "NULL" if missing else str(cell)


def _number(cell: Any) -> float:
    try:
        return math.nan if cell is None else float(cell)
    except (TypeError, ValueError):
        return math.nan
