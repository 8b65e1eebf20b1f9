"""Convert records to the form that libraries expect: numbers, codes of categories, or raw values.

Plain Python from 3.8 on, without dpframe and without NumPy. Programs import it from their own
folder.
"""

from __future__ import annotations

import math
from typing import Any


def records(data: Any) -> list[list[Any]]:
    """Return the records of a table, each as a list of its values.

    Args:
        data: an array, a list of records or, for tables with one column, a list of their values.
    """
    rows = data.tolist() if hasattr(data, "tolist") else list(data)
    return [list(row) if isinstance(row, (list, tuple)) else [row] for row in rows]


def number(value: Any) -> float:
    """Convert a value to a float; NaN if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def numbers(params: dict[str, Any], data: Any, column: int = 0) -> list[float]:
    """Return a column of numbers, cleaned if the parameter `clean` is true.

    Cleaning does what careful users do before they call a library: missing values become the lower
    bound, and all others are clipped to the bounds. Parameters: `bounds`, [low, high] of each
    column of numbers.
    """
    values = [number(row[column]) for row in records(data)]
    if not params.get("clean"):
        return values
    low, high = params["bounds"][column]
    return [low if math.isnan(x) else float(min(max(x, low), high)) for x in values]


def matrix(params: dict[str, Any], data: Any) -> list[list[float]]:
    """Return all columns of numbers, record by record; there is one for each pair of bounds."""
    columns = [numbers(params, data, at) for at in range(len(params["bounds"]))]
    return [list(row) for row in zip(*columns)]


def codes(params: dict[str, Any], data: Any, column: int = 0) -> list[int]:
    """Return the positions of a column's values among `categories`.

    An unknown value becomes the first category if the table is to be clean, and otherwise gets a
    code of its own after the last category.
    """
    categories = list(params["categories"])
    unknown = 0 if params.get("clean") else len(categories)
    values = [row[column] for row in records(data)]
    return [categories.index(x) if x in categories else unknown for x in values]


def rounded(value: Any, digits: int) -> Any:
    """Round all numbers in an answer to this many decimal digits, so that no other bits remain."""
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, dict):
        return {key: rounded(each, digits) for key, each in value.items()}
    if hasattr(value, "tolist"):
        return rounded(value.tolist(), digits)
    if isinstance(value, (list, tuple)):
        return [rounded(each, digits) for each in value]
    return value
