"""Records as libraries want them: numbers, codes of categories, whatever stands in a table.

Plain Python from 3.8 on, without dpframe and without NumPy. A program finds it beside itself.
"""

from __future__ import annotations

import math
from typing import Any


def records(data: Any) -> list[list[Any]]:
    """The records of a table, each a list of its values.

    Args:
        data: an array, a list of records or, of tables with one column, of their values.
    """
    rows = data.tolist() if hasattr(data, "tolist") else list(data)
    return [list(row) if isinstance(row, (list, tuple)) else [row] for row in rows]


def number(value: Any) -> float:
    """A value as a column of floats holds it: what is no number is NaN."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def numbers(params: dict[str, Any], data: Any, column: int = 0) -> list[float]:
    """A column of numbers, cleaned if the parameter `clean` says so.

    Clean is what careful users do before they call a library: values that are missing become the
    lower bound, all others are clipped to the bounds. Parameters: `bounds`, [low, high] of each
    column of numbers.
    """
    values = [number(row[column]) for row in records(data)]
    if not params.get("clean"):
        return values
    low, high = params["bounds"][column]
    return [low if math.isnan(x) else float(min(max(x, low), high)) for x in values]


def matrix(params: dict[str, Any], data: Any) -> list[list[float]]:
    """All columns of numbers, record by record; there are as many as bounds."""
    columns = [numbers(params, data, at) for at in range(len(params["bounds"]))]
    return [list(row) for row in zip(*columns)]


def codes(params: dict[str, Any], data: Any, column: int = 0) -> list[int]:
    """Positions of a column's values among `categories`.

    An unknown one is the first if the table is to be clean, else one more than there are.
    """
    categories = list(params["categories"])
    unknown = 0 if params.get("clean") else len(categories)
    values = [row[column] for row in records(data)]
    return [categories.index(x) if x in categories else unknown for x in values]


def rounded(value: Any, digits: int) -> Any:
    """An answer whose numbers have so many digits after the point, and no bits beyond."""
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, dict):
        return {key: rounded(each, digits) for key, each in value.items()}
    if hasattr(value, "tolist"):
        return rounded(value.tolist(), digits)
    if isinstance(value, (list, tuple)):
        return [rounded(each, digits) for each in value]
    return value
