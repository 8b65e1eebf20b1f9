"""Queries of a small grammar, and their answers as fixed lists of numbers.

Plain Python from 3.8 on, without dpframe and without NumPy, so that it runs beside any library.
"""

from __future__ import annotations

import datetime
import itertools
import math
from typing import Any, NamedTuple, Optional, Tuple, Union

TABLE = "data"
"""Name of the table in every query."""

OTHER = "other"
"""Name of the table that a query may join."""

VALUE = "value"
"""Name of the aggregate in every query."""

BEFORE = "number of rows before that of "
"""Start of the names of the numbers that the order of an answer determines."""

TOTAL = "sum of "
"""Start of the name of the sum over all keys."""


DATES = {
    "DATE": datetime.date.fromisoformat,
    "TIMESTAMP": datetime.datetime.fromisoformat,
}
"""Functions that read the cells of columns by their type; all other cells are as they should be."""


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
    def values(self) -> Tuple[str, ...]:
        """The only aggregate."""
        return (self.value,)

    @property
    def ordered(self) -> bool:
        """True: an answer should come in an order that shows nothing."""
        return True

    @property
    def sql(self) -> str:
        """The query as text."""
        found = f"SELECT {', '.join([*self.group, f'{self.value} AS {VALUE}'])} FROM {TABLE}"
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


class SqlText(str):
    """The text of a user's own query, with the parts of its answers."""

    group: Tuple[str, ...]
    """Names of the columns that are keys."""
    values: Tuple[str, ...]
    """Names of all other columns."""
    order: Tuple[int, ...]
    """Places of the keys and then of the values in a row of the answer."""
    ordered: bool
    """True if the text has ORDER BY, so that the order of rows is part of an answer."""
    keys: list[list[Any]]
    """Possible combinations of keys."""

    @classmethod
    def made(cls, given: Any) -> SqlText:
        """Return a query from plain values, see `plain`."""
        text = cls(given["sql"])
        text.group, text.values = tuple(given["group"]), tuple(given["values"])
        text.order, text.ordered = tuple(given["order"]), given["ordered"]
        text.keys = [list(key) for key in given["keys"]]
        return text

    def __reduce__(self) -> Any:
        return SqlText.made, (self.plain(),)

    def plain(self) -> dict[str, Any]:
        """Return the query as plain values."""
        return {
            "sql": str(self),
            "group": list(self.group),
            "values": list(self.values),
            "order": list(self.order),
            "ordered": self.ordered,
            "keys": self.keys,
        }

    @property
    def sql(self) -> str:
        """The text."""
        return str(self)


AnyQuery = Union[Query, SqlText]


def literal(value: Any) -> str:
    """Return a value as SQL writes it."""
    return "'{}'".format(value.replace("'", "''")) if isinstance(value, str) else repr(value)


def told(query: Query) -> dict[str, Any]:
    """Return a query as plain values, without defaults."""
    found = {**query._asdict(), "group": list(query.group)}
    found["where"] = None if query.where is None else list(query.where)
    found["left"] = query.left or None
    return {name: value for name, value in found.items() if value not in (None, [])}


def read(given: Any) -> AnyQuery:
    """Return a query from plain values."""
    if "sql" in given:
        return SqlText.made(given)
    found = dict(given)
    if found.get("where") is not None:
        found["where"] = tuple(found["where"])
    return Query(**{**found, "group": tuple(found.get("group", ()))})


def table_of(data: dict[str, Any]) -> Any:
    """Return the table of a dataset, a dict for each row; of several tables, a dict by name."""
    if "tables" in data:
        return {name: table_of(one) for name, one in data["tables"].items()}
    dated = [at for at, kind in enumerate(data.get("types", ())) if kind in DATES]
    rows = [dict(zip(data["columns"], row)) for row in data["rows"]]
    for at, row in itertools.product(dated, rows):
        name = data["columns"][at]
        row[name] = None if row[name] is None else DATES[data["types"][at]](row[name])
    return {TABLE: rows, OTHER: table_of(data[OTHER])} if OTHER in data else rows


def keys_of(query: AnyQuery, categories: dict[str, list[Any]]) -> list[list[Any]]:
    """Return all combinations of keys in an answer: public values, and NULL."""
    if isinstance(query, SqlText):
        return query.keys
    return [
        list(key) for key in itertools.product(*([*categories[at], None] for at in query.group))
    ]


def features_of(query: AnyQuery) -> list[str]:
    """Return the parts of a query by which audits say what they asked."""
    if isinstance(query, SqlText):
        return [query.sql]
    column = "" if query.aggregate == "COUNT DISTINCT" else "column"
    value = query._replace(column="*" if query.column == "*" else column or "user").value
    keys = len(query.group)
    found = [value, f"GROUP BY {keys} key{'s' * (keys > 1)}" if keys else "without GROUP BY"]
    if query.where is not None:
        found.append("WHERE IS NOT NULL" if query.where[1] is None else "WHERE =")
    found += ["HAVING"] * (query.having is not None)
    if query.join is not None:
        found.append("LEFT JOIN" if query.left else "JOIN")
    return found


def names_of(query: AnyQuery, keys: list[list[Any]]) -> list[str]:
    """Return the names of the numbers that `numbers` returns."""
    found = ["number of rows", "number of rows with other keys", "number of repeated keys"]
    for key in keys:
        of = f" of {_key_words(query.group, key)}" if query.group else ""
        found.append(f"number of rows{of}" if query.group else "number of answers")
        for value in query.values:
            missing = f"{value}{of}" if len(query.values) > 1 else f"values{of}"
            found += [f"number of missing {missing}", f"{value}{of}"]
    if query.group:
        found += [f"{TOTAL}{value} over all keys" for value in query.values]
        found += [BEFORE + _key_words(query.group, key) for key in keys]
    return found


def _key_words(group: Tuple[str, ...], key: list[Any]) -> str:
    return " and ".join(f"{n} = {'NULL' if v is None else v}" for n, v in zip(group, key))


class Read(NamedTuple):
    """An answer, row by row."""

    rows: int
    ordered: bool
    """True if the order of the rows is part of the answer."""
    values: dict[int, list[Any]]
    """The values of each key, by its place among the keys."""
    places: dict[int, int]
    """The place of the first row of each key."""
    unknown: list[list[Any]]
    """Keys of rows with other keys; empty for a value without keys."""
    repeated: int


def read_answer(answer: Any, query: AnyQuery, keys: list[list[Any]]) -> Read:
    """Read an answer of any form.

    Args:
        answer: rows, each the keys and then the value, with or without a header, or each with
            names; a frame; columns by name; a dict or a series of values by key; or one value.
        query: that it answers.
        keys: all possible combinations of keys.
    """
    rows, ordered = _rows(answer, query)
    known = {tuple(map(_plain, key)): at for at, key in enumerate(keys)}
    width = len(query.group)
    if len(rows) > (width == 0) and _is_header(rows[0], known, width):
        rows = rows[1:]
    found = Read(len(rows), ordered, {}, {}, [], 0)
    repeated = 0
    for place, row in enumerate(rows):
        at = known.get(tuple(_plain(cell) for cell in row[:width]))
        if at is None:
            found.unknown.append(row[:width] if len(row) > width else [])
        elif at in found.values:
            repeated += 1
        else:
            cells = row[width : width + len(query.values)]
            found.values[at] = cells + [None] * (len(query.values) - len(cells))
            found.places[at] = place
    return found._replace(repeated=repeated)


def numbers(answer: Any, query: AnyQuery, keys: list[list[Any]]) -> list[float]:
    """Return the numbers of an answer, key by key; none of them is NaN.

    An absent key counts as after all rows. The rows of a dict have no order. The arguments are
    those of `read_answer`.
    """
    read = read_answer(answer, query, keys)
    values = {at: [number(cell) for cell in cells] for at, cells in read.values.items()}
    found = [float(read.rows), float(len(read.unknown)), float(read.repeated)]
    for at in range(len(keys)):
        found.append(float(at in values))
        for value in values.get(at, [0.0] * len(query.values)):
            missing = math.isnan(value)
            found += [float(missing), 0.0 if missing else value]
    if query.group:
        for column in range(len(query.values)):
            there = [cells[column] for cells in values.values()]
            found.append(float(sum(value for value in there if not math.isnan(value))))
        after = [read.places.get(at, read.rows) for at in range(len(keys))]
        ordered = read.ordered and query.ordered
        found += [float(place if ordered else 0) for place in after]
    return found


def number(cell: Any) -> float:
    """Return a value as a number, perhaps from a text or from a container of one; else NaN."""
    while isinstance(cell, (dict, list, tuple)) and len(cell) == 1:
        (cell,) = cell.values() if isinstance(cell, dict) else cell
    try:
        return math.nan if cell is None else float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _rows(answer: Any, query: AnyQuery) -> Tuple[list[list[Any]], bool]:
    """Return the rows of an answer, keys first, and True if their order is part of it."""
    for method in ("collect", "fetchall", "to_pylist"):  # of Polars; a cursor; a table of Arrow
        if callable(getattr(answer, method, None)):
            answer = getattr(answer, method)()
    if answer is None:
        return [], True
    if hasattr(answer, "columns") and not isinstance(answer, dict):
        return _of_frame(answer, query), True
    if hasattr(answer, "items"):  # a series of pandas has an order
        return _of_dict(dict(answer.items()), query), hasattr(answer, "index")
    answer = answer.tolist() if hasattr(answer, "tolist") else answer
    if isinstance(answer, (str, bytes)) or not hasattr(answer, "__iter__"):
        return [[answer]], True
    found = []
    for row in answer:
        if hasattr(row, "keys"):
            names = list(row.keys())
            found += _by_name(names, [[row[name] for name in names]], query)
        else:
            plain = row.tolist() if hasattr(row, "tolist") else row
            whole = list(plain) if isinstance(plain, (list, tuple)) else [plain]
            found.append(_placed(whole, query))
    return found, True


def _placed(row: list[Any], query: AnyQuery) -> list[Any]:
    """Return a row of an answer to a text with its keys first."""
    if isinstance(query, SqlText) and len(row) == len(query.order):
        return [row[at] for at in query.order]
    return row


def _of_frame(frame: Any, query: AnyQuery) -> list[list[Any]]:
    """Return the rows of a frame of Polars or pandas; keys may be in the index of pandas."""
    if callable(getattr(frame, "rows", None)):
        return _by_name(list(frame.columns), frame.rows(), query)
    if {*query.group} & {*frame.index.names}:
        frame = frame.reset_index()
    return _by_name(list(frame.columns), frame.itertuples(index=False), query)


def _of_dict(answer: dict[Any, Any], query: AnyQuery) -> list[list[Any]]:
    named = {str(name).lower() for name in answer}
    if query.group and named >= {name.lower() for name in query.group}:
        whole = all(isinstance(column, (list, tuple)) for column in answer.values())
        columns = [column if whole else [column] for column in answer.values()]
        return _by_name(list(answer), zip(*columns), query)
    if not query.group and len(query.values) > 1 and len(answer) == len(query.values):
        return [list(answer.values())]
    if not query.group and VALUE in named:
        return [[value] for name, value in answer.items() if str(name).lower() == VALUE]
    return [_of_key(*item, query) for item in answer.items()]


def _of_key(key: Any, value: Any, query: AnyQuery) -> list[Any]:
    """Return the row of a key and a value; a query without GROUP BY needs no key."""
    if not query.group:
        return [value]
    cells = list(value.values()) if isinstance(value, dict) else value
    several = len(query.values) > 1 and isinstance(cells, (list, tuple))
    return [*(key if isinstance(key, tuple) else (key,)), *(cells if several else [value])]


def _by_name(names: list[Any], rows: Any, query: AnyQuery) -> list[list[Any]]:
    """Return rows with the keys of a query first, then its value, if they have these names."""
    lower = [str(name).lower() for name in names]
    keys = [name.lower() for name in query.group]
    if not set(keys) <= set(lower):
        return [_placed(list(row), query) for row in rows]
    rest = [at for at, name in enumerate(lower) if name not in keys]
    rest = [at for at in rest if lower[at] == VALUE] or rest
    named = [value.lower() for value in query.values]
    rest = list(map(lower.index, named)) if set(named) <= set(lower) else rest
    return [[row[at] for at in [*map(lower.index, keys), *rest]] for row in map(list, rows)]


def _is_header(row: list[Any], known: Any, width: int) -> bool:
    """True if a first row has names: its value is a text, and its key is unknown or no key."""
    named = bool(row) and isinstance(row[-1], str) and math.isnan(number(row[-1]))
    return named and tuple(_plain(cell) for cell in row[:width] or [""]) not in known


def _plain(cell: Any) -> str:
    if cell is None or str(cell) in ("nan", "<NA>", "NaT"):
        return "NULL"
    # pandas makes floats of whole numbers beside missing ones.
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell)) if whole else str(cell)
