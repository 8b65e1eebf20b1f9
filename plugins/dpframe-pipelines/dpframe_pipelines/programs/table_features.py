"""Features of a synthetic table: fixed numbers that attacks compare.

Plain Python from 3.8 on, without dpframe and without NumPy, so that it runs beside any library.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

BINS = 4
"""Intervals of equal width into which the bounds of a column of numbers are cut."""

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

    def _named(self) -> list[str]:
        found = ["number of rows", "number of missing columns", "number of unexpected columns"]
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
            ]
        for column in self._schema:
            if "categories" not in column:
                found += [f"{which} value of {column['name']}" for which in ("smallest", "largest")]
        for places, _ in self._marginals:
            for cell in itertools.product(*(self._bins[at] for at in places)):
                of = [f"{self._columns[at]} {text}" for at, text in zip(places, cell)]
                found.append(f"number of records with {' and '.join(of)}")
        return found

    def of(self, table: Any) -> list[float]:
        """Return the features of a table, as many as there are names; none of them is NaN.

        In an empty column, the smallest number is the upper bound and the largest the lower bound.
        """
        names, rows = rows_of(table, self._columns)
        at = [names.index(name) if name in names else -1 for name in self._columns]
        records = [[row[place] if 0 <= place < len(row) else None for place in at] for row in rows]
        found = [
            float(len(rows)),
            float(sum(place < 0 for place in at)),
            float(sum(name not in self._columns for name in names)),
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
            ]
            if numeric:
                extremes += [
                    min(finite, default=float(column["high"])),
                    max(finite, default=float(column["low"])),
                ]
        found += extremes
        for places, sizes in self._marginals:
            counts = [0.0] * math.prod(sizes)
            for cell in zip(*(coded[place] for place in places)):
                index = 0
                for code, size in zip(cell, sizes):
                    index = index * size + code
                counts[index] += 1
            found += counts
        return found


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
