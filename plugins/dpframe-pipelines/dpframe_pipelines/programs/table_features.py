"""Features of a synthetic table: fixed numbers that attacks compare.

Plain Python from 3.8 on, without dpframe and without NumPy, so that it runs beside any library.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections import Counter
from typing import Any

BINS = 4
"""Intervals of equal width into which the bounds of a column of numbers are cut."""

ENDS = ("smallest", "largest", "first", "last")
"""Values of a column of numbers that are features."""

MOST_STEPS = 9
"""Columns of at most this many kinds of cells have a feature for each pair of kinds in a row."""

MOST = 4000
"""At most this many features of marginals; marginals of more columns are dropped first."""


def rows_of(table: Any, names: list[str]) -> tuple[list[str], list[list[Any]]]:
    """Return the names of the columns of a table, and its rows.

    Args:
        table: a frame, a dict of columns, a list of dicts, or rows in the order of `names`.
        names: the expected columns.
    """
    if hasattr(table, "columns") and not isinstance(table, dict):
        table = {str(name): list(table[name]) for name in table.columns}
    if isinstance(table, dict):
        columns = [list(column) for column in table.values()]
        return [str(name) for name in table], [list(row) for row in zip(*columns)]
    listed = table.tolist() if hasattr(table, "tolist") else list(table)
    if listed and isinstance(listed[0], dict):
        found = list(dict.fromkeys(str(key) for row in listed for key in row))
        return found, [[row.get(name) for name in found] for row in listed]
    return names, [list(row) if isinstance(row, (list, tuple)) else [row] for row in listed]


class Features:
    """The features of tables with a public schema.

    Args:
        schema: a dict for each column: `name`, and `low` and `high`, or `categories`.
        targets: records, each a list of cells, whose copies and near copies are counted.
    """

    def __init__(self, schema: list[dict[str, Any]], targets: list[list[Any]]) -> None:
        self._schema, self._targets = schema, [list(target) for target in targets]
        self._columns = [str(column["name"]) for column in schema]
        self._bins = [_bins(column) for column in schema]
        self._codes = [_codes(column) for column in schema]
        self.sizes = [len(bins) - 1 for bins in self._bins]
        """Number of bins of each column without the last, for cells outside the schema."""
        self._marginals: list[tuple[tuple[int, ...], list[int]]] = []
        room = MOST
        for order in (1, 2, 3):
            for places in itertools.combinations(range(len(schema)), order):
                sizes = [len(self._bins[at]) for at in places]
                if math.prod(sizes) <= room:
                    room -= math.prod(sizes)
                    self._marginals.append((places, sizes))
        self.names = self._named()
        """One name for each feature, in order."""
        self.first_marginal = len(self.names) - sum(
            math.prod(sizes) for _, sizes in self._marginals
        )
        """Position of the first count of a marginal; all later features are such counts."""

    def _named(self) -> list[str]:
        found = ["number of rows", "number of missing columns", "number of unexpected columns"]
        found += ["first label of a row", "number of rows whose label is not their place"]
        for target in self._targets:
            told = ", ".join(str(cell) for cell in target)
            found += [
                f"number of records equal to ({told})",
                f"share of records equal to ({told})",
                f"number of records equal to ({told}) but for one column",
            ]
        for name in self._columns:
            found += [
                f"number of missing values of {name}",
                f"number of values of {name} outside the schema",
                f"number of values of {name} of another type",
                f"number of different values of {name}",
                f"place of column {name}",
                f"code of the type of column {name}",
                f"number of whole numbers of {name}",
            ]
        for column in self._schema:
            if "categories" not in column:
                found += [f"{which} value of {column['name']}" for which in ENDS]
        for name, bins in zip(self._columns, self._bins):
            found += [
                f"number of neighbouring rows with equal {name}",
                f"number of rows with a smaller {name} than the row before",
            ]
            for cell in bins:
                found.append(f"number of rows before the first with {name} {cell}")
                found.append(f"number of rows after the last with {name} {cell}")
            if len(bins) <= MOST_STEPS:
                for one, other in itertools.permutations(bins, 2):
                    found.append(f"number of rows with {name} {other} right after one {one}")
        for places, _ in self._marginals:
            for kinds in itertools.product(*(self._bins[at] for at in places)):
                of = [f"{self._columns[at]} {text}" for at, text in zip(places, kinds)]
                found.append(f"number of records with {' and '.join(of)}")
        return found

    def cells(self) -> list[tuple[tuple[int, int], ...]]:
        """Return the cell of each count of a marginal: the places of columns, with their bins."""
        return [
            tuple(zip(places, bins))
            for places, sizes in self._marginals
            for bins in itertools.product(*map(range, sizes))
        ]

    def code(self, place: int, cell: Any) -> int:
        """Return the bin of a cell of a column."""
        return int(self._codes[place](cell))

    def value(self, place: int, at: int) -> Any:
        """Return a value in the middle of a bin of a column."""
        column = self._schema[place]
        if "categories" in column:
            return column["categories"][at]
        low, high = column["low"], column["high"]
        middle = low + (high - low) * (at + 0.5) / BINS
        return int(middle) if column.get("integer") else middle

    def problems(self, table: Any) -> dict[str, str]:
        """Return why a table, or a column of it, shows nothing: an explanation by its kind.

        A table that is no table is read by nothing else; raises an exception for other objects.
        """
        if table is None:
            return {"none": "it returned None; forgot `return`?"}
        names, rows = rows_of(table, self._columns)
        if not rows:
            return {"empty": "it returned a table without rows"}
        found = {}
        for column, codes in zip(self._schema, self._codes):
            name = str(column["name"])
            at = names.index(name) if name in names else -1
            if at < 0 or all(len(row) <= at for row in rows):
                has = ", ".join(names) if at < 0 else f"rows of {max(map(len, rows))} cells"
                found[name] = f"column {name} is missing from its table, which has {has}"
                continue
            cells = [row[at] for row in rows if at < len(row)]
            outside = codes(object())
            if all(codes(cell) == outside for cell in cells):
                known = f"from {column.get('low')} to {column.get('high')}"
                known = f"one of {column['categories']}" if "categories" in column else known
                plain = names is self._columns
                hint = "; are its columns in the order of `columns`?" if plain else ""
                found[name] = (
                    f"no value of column {name} of its table is {known}: the first is "
                    f"{cells[0]!r}{hint}"
                )
        return found

    def of(self, table: Any) -> list[float]:
        """Return the features of a table, as many as there are names; none of them is NaN.

        In an empty column, the smallest and the last number are the upper bound, the largest and
        the first number the lower bound. An absent kind counts as after all rows.
        """
        labels, types = _labels(table), _types(table)
        names, rows = rows_of(table, self._columns)
        at = [names.index(name) if name in names else -1 for name in self._columns]
        records = [[row[place] if 0 <= place < len(row) else None for place in at] for row in rows]
        found = [
            float(len(rows)),
            float(sum(place < 0 for place in at)),
            float(sum(name not in self._columns for name in names)),
            labels[0] if labels else 0.0,
            float(sum(label != place for place, label in enumerate(labels))),
        ]
        for target in self._targets:
            apart = [sum(not _same(a, b) for a, b in zip(row, target)) for row in records]
            equal = apart.count(0)
            found += [float(equal), equal / max(1, len(rows)), float(apart.count(1))]
        coded, extremes = [], []
        for place, column in enumerate(self._schema):
            cells: list[Any] = [row[place] for row in records]
            codes = [self._codes[place](cell) for cell in cells]
            coded.append(codes)
            numeric = "categories" not in column
            there = [c for c in cells if not _missing(c)]
            numbers = [float(c) for c in there if numeric and _number(c)]
            finite = [x for x in numbers if math.isfinite(x)]
            found += [
                float(len(cells) - len(there)),
                float(codes.count(len(self._bins[place]) - 1) - (len(cells) - len(there))),
                float(len(there) - len(numbers) if numeric else 0),
                float(len({repr(c) for c in there})),
                float(at[place]),
                _code(types.get(self._columns[place]) or (cells and type(cells[0]).__name__)),
                float(sum(x.is_integer() for x in numbers)),
            ]
            if numeric:
                extremes += [
                    min(finite, default=float(column["high"])),
                    max(finite, default=float(column["low"])),
                    finite[0] if finite else float(column["low"]),
                    finite[-1] if finite else float(column["high"]),
                ]
        found += extremes
        for place, codes in enumerate(coded):
            cells = [row[place] for row in records]
            numeric = "categories" not in self._schema[place]
            found += _order(cells, codes, len(self._bins[place]), numeric)
        for places, sizes in self._marginals:
            counts = [0.0] * math.prod(sizes)
            for cell in zip(*(coded[place] for place in places)):
                index = 0
                for code, size in zip(cell, sizes):
                    index = index * size + code
                counts[index] += 1
            found += counts
        return found


def _labels(table: Any) -> list[float]:
    """Return the label of each row of a frame as a number; [] for other tables."""
    index = getattr(table, "index", None)
    if index is None or callable(index):  # a list has a method of that name
        return []
    return [float(one) if _number(one) and not _missing(one) else _code(one) for one in index]


def _types(table: Any) -> dict[str, str]:
    """Return the type of each column that is an array."""
    if not hasattr(table, "columns") and not isinstance(table, dict):
        return {}
    names = table if isinstance(table, dict) else table.columns
    return {str(n): str(table[n].dtype) for n in names if hasattr(table[n], "dtype")}


def _code(value: Any) -> float:
    """Return a number for a text or another value, the same in each process; 0 for none."""
    return float(zlib.crc32(str(value).encode())) if value else 0.0


def _order(cells: list[Any], codes: list[int], kinds: int, numeric: bool) -> list[float]:
    """Return the features of the order of a column; `codes` are the bins of its cells."""
    values: list[float] = list(codes)
    if numeric:
        values = [float(c) for c in cells if _number(c) and not _missing(c)]
    # itertools.pairwise needs Python 3.10.
    found = [
        float(sum(_same(a, b) for a, b in zip(cells, cells[1:]))),  # noqa: RUF007
        float(sum(b < a for a, b in zip(values, values[1:]))),  # noqa: RUF007
    ]
    for code in range(kinds):
        found += [float(at) for at in _around(codes, code)]
    if kinds <= MOST_STEPS:
        steps = Counter(zip(codes, codes[1:]))  # noqa: RUF007
        found += [float(steps[step]) for step in itertools.permutations(range(kinds), 2)]
    return found


def _around(codes: list[int], code: int) -> tuple[int, int]:
    """Return the number of rows before the first and after the last of a code."""
    if code not in codes:
        return len(codes), len(codes)
    return codes.index(code), codes[::-1].index(code)


def _missing(cell: Any) -> bool:
    return cell is None or str(cell) in ("nan", "<NA>", "NaT")


def _number(cell: Any) -> bool:
    if isinstance(cell, (str, bytes)):
        return False
    try:
        float(cell)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _same(cell: Any, other: Any) -> bool:
    if _missing(cell) or _missing(other):
        return _missing(cell) and _missing(other)
    if _number(cell) and _number(other):
        return float(cell) == float(other)
    return str(cell) == str(other)


def _bins(column: dict[str, Any]) -> list[str]:
    """Return a name for each bin of a column; the last bin has all cells outside the schema."""
    if "categories" in column:
        return [*(f"= {one}" for one in column["categories"]), "outside the schema or missing"]
    low, high = float(column["low"]), float(column["high"])
    ends = [low + (high - low) * at / BINS for at in range(BINS + 1)]
    inner = [f"from {ends[at]:g} to {ends[at + 1]:g}" for at in range(BINS)]
    return [*inner, "outside the schema or missing"]


def _codes(column: dict[str, Any]) -> Any:
    if "categories" in column:
        known = {str(one): at for at, one in enumerate(column["categories"])}
        for at, one in enumerate(column["categories"]):
            if _number(one):
                known.setdefault(str(float(one)), at)
        other = len(column["categories"])

        def category(cell: Any) -> int:
            return other if _missing(cell) else known.get(str(cell), other)

        return category
    low, high = float(column["low"]), float(column["high"])

    def interval(cell: Any) -> int:
        if _missing(cell) or not _number(cell):
            return BINS
        value = float(cell)
        if not low <= value <= high:
            return BINS
        return min(BINS - 1, int(BINS * (value - low) / (high - low)))

    return interval
