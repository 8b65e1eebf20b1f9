"""The neighbourhood `records` for a table that a program has at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.builtin.pairs._plain import frozen, of_frame, written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpframe.builtin.neighbourhoods._bench import Adjacency
    from dpframe.builtin.pairs._table import Form


def records_params(
    table: Any,
    *,
    adjacency: Adjacency,
    schema: Sequence[Mapping[str, Any]] = (),
    form: Form | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Parameters of the neighbourhood `records` for a table of Python's.

    What the mechanism is given is of the type of the table: for an array an array, for a list a
    list, for a frame of pandas such a frame.

    Args:
        table: a list of values, of lists or of dicts; an array of one or two axes; a dict of
            columns, each a list or an array; a frame of pandas; a pair (X, y) of arrays; or one
            value alone, as a local randomiser has it.
        adjacency: "replace", "add-remove" or "either", as the claim says.
        schema: what is known of the columns, in their order or by name: dicts of name, low, high,
            integer, categories, user.
        form: what the mechanism is given, where it is not the type of the table.
        more: further parameters of the neighbourhood.

    Returns:
        The `params` of a spec's `[search]` with `use = "records"`.

    Raises:
        ValueError: the table is none.
    """
    rows, columns, own = _read(table)
    named = {"columns": columns} if columns else {}
    listed = {"schema": [_plain(entry) for entry in schema]} if schema else {}
    asked = {"adjacency": adjacency, "form": own if form is None else form}
    return {"table": written(frozen(rows)), **named, **listed, **asked, **more}


def _plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: written(frozen(value)) for name, value in entry.items() if value is not None}


def _read(table: Any) -> tuple[Any, list[str], str]:
    """Records, the names of their columns where they are beside them, and the form."""
    if hasattr(table, "columns") and hasattr(table, "to_dict"):
        columns = of_frame(table)
        return [list(row) for row in zip(*columns.values(), strict=True)], list(columns), "frame"
    if isinstance(table, tuple) and len(table) == 2 and np.ndim(table[0]) == 2:
        x, y = table
        if np.shape(y) != (len(x),):
            raise ValueError(f"X has {len(x)} records, and y the shape {np.shape(y)}")
        rows = [[*record, label] for record, label in zip(_lists(x), _lists(y), strict=True)]
        return rows, [*(f"x{at}" for at in range(np.shape(x)[1])), "y"], "xy"
    if isinstance(table, np.ndarray):
        if table.ndim not in (1, 2):
            raise ValueError(f"an array of shape {table.shape} is no table")
        kinds = {"f": "array", "b": "array", "i": "integers", "u": "integers"}
        return table.tolist(), [], kinds.get(table.dtype.kind, "rows")
    if isinstance(table, dict):
        arrays = any(isinstance(column, np.ndarray) for column in table.values())
        return dict(table), [], "arrays" if arrays else "columns"
    if isinstance(table, list | tuple):
        dicts = bool(table) and all(isinstance(row, dict) for row in table)
        return list(table), [], "dicts" if dicts else "rows"
    return [table], [], "record"


def _lists(values: Any) -> list[Any]:
    found: list[Any] = np.asarray(values).tolist()
    return found
