"""Read a Python table, and its schema in the forms in which people write it."""

from __future__ import annotations

import array
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from dpframe.common.text import cut, did_you_mean
from dpframe.errors import DpframeError
from dpframe.interfaces.plain import (
    CATEGORY,
    frozen,
    is_frame,
    is_series,
    of_frame,
    scalar,
    written,
)


def records_params(
    table: Any,
    *,
    adjacency: str,
    schema: Any = (),
    form: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the parameters of the neighbourhood `records` for a Python table.

    The mechanism gets data of the table's own type: an array, a list, a pandas frame.

    Args:
        table: a list of values, of lists or of dicts; an array of one or two axes; a dict of
            columns, each a list or an array; a pandas frame; a pair (X, y) of arrays; or a single
            value, as for a local randomiser.
        adjacency: "replace", "add-remove", "either" or "zero-out", as the claim says.
        schema: of the columns, in their order or by name: dicts of name, low, high,
            integer, categories, user, nan; or (low, high), a list of categories, a type.
        form: given to the mechanism, if it is not the type of the table.
        more: further parameters of the neighbourhood.

    Returns:
        The `params` of a spec's `[search]` with `use = "records"`.

    Raises:
        ValueError: `table` is not a table.
        DpframeError: the schema cannot be read, or does not fit the table.
    """
    if is_series(table) or isinstance(table, array.array):
        table = np.asarray(table)
    rows, columns, own = _read(table)
    named = {"columns": columns} if columns else {}
    names, cells = _columns_of(rows, columns)
    written_down = read_schema(schema, names, cells, named=bool(columns) or isinstance(rows, dict))
    listed = [
        {name: written(frozen(value)) for name, value in entry.items() if value is not None}
        for entry in written_down
    ]
    params: dict[str, Any] = {"adjacency": adjacency, "form": own if form is None else form}
    params |= {"types": types} if any(types := _types(table)) else {}
    described = {"schema": listed} if listed else {}
    return {"table": written(frozen(rows)), **named, **described, **params, **more}


def _columns_of(rows: Any, columns: list[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """Return the names of a table's columns, with the cells of each."""
    if isinstance(rows, dict):
        return [str(name) for name in rows], {str(n): _cells(of) for n, of in rows.items()}
    if rows and all(isinstance(row, dict) for row in rows):
        names = [str(name) for name in rows[0]]
        return names, {name: [row.get(name) for row in rows] for name in names}
    flat = [list(row) if isinstance(row, list | tuple) else [row] for row in rows]
    width = max(map(len, flat), default=1)
    names = columns or [f"c{at}" for at in range(width)]
    return names, {
        name: [row[at] for row in flat if at < len(row)] for at, name in enumerate(names)
    }


def _cells(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)


def _read(table: Any) -> tuple[Any, list[str], str]:  # noqa: PLR0911
    """Return the records, the names of the columns if given separately, and the form."""
    if is_frame(table):
        columns = of_frame(table)
        return [list(row) for row in zip(*columns.values(), strict=True)], list(columns), "frame"
    if has_one_feature(table):
        rows, _, form = _read((np.asarray(table[0]).reshape(-1, 1), table[1]))
        return rows, ["x", "y"], form
    if isinstance(table, tuple) and len(table) == 2 and np.ndim(table[0]) == 2:
        x, y = table
        if np.shape(y) != (len(x),):
            raise ValueError(f"X has {len(x)} records, and y the shape {np.shape(y)}")
        records, labels = np.asarray(x).tolist(), np.asarray(y).tolist()
        rows = [[*record, label] for record, label in zip(records, labels, strict=True)]
        named = of_frame(x) if is_frame(x) else [f"x{at}" for at in range(np.shape(x)[1])]
        return rows, [*named, "y"], "xy"
    if isinstance(table, np.ndarray):
        if table.ndim not in (1, 2):
            raise ValueError(f"an array of shape {table.shape} is not a table")
        kinds = {"f": "array", "b": "array", "i": "integers", "u": "integers"}
        return table.tolist(), [], kinds.get(table.dtype.kind, "rows")
    if isinstance(table, dict):
        arrays = any(isinstance(column, np.ndarray) for column in table.values())
        return dict(table), [], "arrays" if arrays else "columns"
    if isinstance(table, list | tuple):
        dicts = bool(table) and all(isinstance(row, dict) for row in table)
        return list(table), [], "dicts" if dicts else "rows"
    return [table], [], "record"


def has_one_feature(table: Any) -> bool:
    """True for a pair (x, y) of arrays of one axis and equal length."""
    if not isinstance(table, tuple) or len(table) != 2:
        return False
    arrays = all(hasattr(one, "dtype") and np.ndim(one) == 1 for one in table)
    return arrays and len(table[0]) == len(table[1])


def _types(table: Any) -> list[str]:
    """Return the types of the columns of a Python table; "" if the cells determine the type."""
    if isinstance(table, np.ndarray):
        return [_type(table.dtype)] * (table.shape[1] if table.ndim == 2 else 1)
    if is_frame(table):
        return [_type(table[name].dtype) for name in table.columns]
    if isinstance(table, dict):
        return [_type(getattr(column, "dtype", "")) for column in table.values()]
    return []


def _type(dtype: Any) -> str:
    categories = getattr(dtype, "categories", None)
    if categories is not None:
        return f"{CATEGORY}{json.dumps([scalar(one) for one in categories])}"
    return "" if str(dtype) in ("float64", "int64", "bool", "object", "str") else str(dtype)


# The schema.

ACCEPTED = 'one entry for each column, such as {"name": "age", "low": 0, "high": 120}'

_NAMES = {
    "name": "name column col field",
    "low": "low lo lb lower lower_bound min minimum",
    "high": "high hi ub upper upper_bound max maximum",
    "range": "range bounds bound limits interval domain",
    "type": "type dtype kind",
    "categories": "categories category values levels choices options enum",
    "integer": "integer int integral whole",
    **{name: name for name in ("user", "nan", "out_of_bounds", "unknown_categories")},
}
_KEYS = {word: key for key, words in _NAMES.items() for word in words.split()}
_LONGEST = 60  # characters of a value in a message
_LABELS = ("y", "label", "labels", "target", "class")

_WHOLE = ("int", "integer", "whole")
_OTHER = ("float", "double", "real", "number", "numeric", "str", "string", "text", "object")
_CATEGORY = ("category", "categorical", "factor")


def read_schema(
    schema: Any, names: Sequence[str], cells: Mapping[str, Sequence[Any]], *, named: bool = True
) -> list[dict[str, Any]]:
    """Return a schema as a list of dicts of name, low, high, integer, categories, user and nan.

    An entry may be such a dict, (low, high), a list of categories or a type; the whole schema may
    be a list of entries, a dict of entries by column, or the entry of a table's only column.

    Args:
        schema: the schema as it was written.
        names: of the table's columns.
        cells: of each column, by its name.
        named: False if the table itself has no names; the schema may then name its columns.

    Raises:
        DpframeError: it cannot be read; the message shows an accepted form.
    """
    if schema is None or (isinstance(schema, Sequence | Mapping) and not schema):
        return []
    if hasattr(schema, "to_dict"):  # the types of a frame, `frame.dtypes`
        schema = schema.to_dict()
    if isinstance(schema, Mapping) and not (set(schema) <= set(_KEYS) - set(names)):
        if not named and len(schema) != len(names):
            raise _wrong_number(len(schema), names)
        known = [*names, *_LABELS] if "y" in names else names
        columns = []
        for at, (name, entry) in enumerate(schema.items()):
            own = _column(str(name), known if named else [], names)
            one = _entry(own, entry, cells[own if named else names[at]])
            columns.append(one | {"name": own})
        return columns
    alone = isinstance(schema, Mapping | str | type | range | set | frozenset) or _is_range(schema)
    if alone or not isinstance(schema, Sequence | np.ndarray):
        if len(names) != 1:
            raise DpframeError(
                f"schema: {_shown(schema)} describes one column, but the table has {len(names)} "
                f"({_few(names)}); write {ACCEPTED}"
            )
        schema = [schema]
    entries = [(_own_name(entry), entry) for entry in schema]
    if any(name is None for name, _ in entries) and len(entries) != len(names):
        raise _wrong_number(len(entries), names)
    columns = []
    for at, (name, entry) in enumerate(entries):
        own = names[at] if name is None else _column(name, names if named else [], names)
        place = names[at] if own not in cells and at < len(names) else own
        one = _entry(own, entry, cells.get(place, ()))
        columns.append(one if name is None else one | {"name": own})
    return columns


def _wrong_number(entries: int, names: Sequence[str]) -> DpframeError:
    some = "1 entry" if entries == 1 else f"{entries} entries"
    columns = "1 column" if len(names) == 1 else f"{len(names)} columns"
    return DpframeError(
        f"schema: it has {some}, but the table has {columns} ({_few(names)}); write {ACCEPTED}"
    )


def _column(name: str, known: Sequence[str], names: Sequence[str]) -> str:
    """Return the column that a name means."""
    if known and name not in known:
        hint = did_you_mean(names, name)
        raise DpframeError(f"schema: the table has no column {name!r}; it has {_few(names)}{hint}")
    return "y" if name in _LABELS and name not in names and "y" in names else name


def _own_name(entry: Any) -> str | None:
    for key, value in entry.items() if isinstance(entry, Mapping) else ():
        if _KEYS.get(key) == "name":
            return str(value)
    if isinstance(entry, str) and entry not in (*_WHOLE, *_OTHER, *_CATEGORY):
        return entry
    return None


def _entry(column: str, entry: Any, cells: Sequence[Any]) -> dict[str, Any]:  # noqa: PLR0911
    where = f"schema: column {column}"
    if entry is None:
        return {}
    if isinstance(entry, Mapping):
        return _of_dict(where, entry, cells)
    if isinstance(entry, str) and entry not in (*_WHOLE, *_OTHER, *_CATEGORY):
        return {}  # a name alone
    if isinstance(entry, str | type) or _is_type(entry):
        return _of_type(where, entry)
    if isinstance(entry, range):
        if abs(entry.step) != 1 or not entry:
            return {"categories": list(entry)}
        return {"low": min(entry), "high": max(entry), "integer": True}
    if isinstance(entry, set | frozenset):
        return {"categories": sorted(map(_plain, entry), key=repr)}
    if hasattr(entry, "dtype") or isinstance(entry, tuple | list):
        listed = list(map(_plain, entry))
        if isinstance(entry, list) and _is_range(listed) and set(cells) <= set(listed):
            raise DpframeError(
                f"{where}: {listed} may be a range or two categories; write "
                f'{{"low": {listed[0]}, "high": {listed[1]}}} or {{"categories": {listed}}}'
            )
        # A text beside a number is a bound too, though a wrong one; so are two among numbers.
        numbers = any(_is_number(one) or one is None for one in listed)
        if len(listed) == 2 and (numbers or (cells and all(map(_is_number, cells)))):
            return _bounds(where, *listed)
        if listed:
            return {"categories": listed}
    raise DpframeError(f"{where}: {_shown(entry)} cannot be read; write {ACCEPTED}")


def _of_dict(where: str, entry: Mapping[Any, Any], cells: Sequence[Any]) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for key, value in entry.items():
        own = _KEYS.get(key) if isinstance(key, str) else None
        if own is None:
            raise DpframeError(
                f"{where}: unknown key {key!r}; accepted are name, low, high, integer, categories, "
                f"user and nan{did_you_mean(_KEYS, str(key))}"
            )
        if value is None or own == "name":
            continue
        if own in ("low", "high"):
            parts[own] = _bound(where, own, value)
        elif own == "range":
            pair = tuple(value) if isinstance(value, list | np.ndarray) else value
            parts |= _entry(where.removeprefix("schema: column "), pair, ())
        elif own == "type":
            parts |= _of_type(where, value)
        elif own == "categories":
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise DpframeError(f'{where}: categories is {_shown(value)}; write ["a", "b"]')
            parts[own] = [_plain(one) for one in value]
        elif isinstance(value, bool | np.bool_):
            parts[own] = bool(value)
        else:
            raise DpframeError(f"{where}: {key} is {_shown(value)}; write True or False")
    return parts | _checked(where, parts)


def _of_type(where: str, kind: Any) -> dict[str, Any]:
    """Return what a type says: Python's, NumPy's or that of a column of pandas, or its name."""
    if (categories := getattr(kind, "categories", None)) is not None:
        return {"categories": [_plain(one) for one in categories]}
    word = kind.lower() if isinstance(kind, str) else ""
    if word in _WHOLE or kind is int:
        return {"integer": True}
    if word in (*_OTHER, *_CATEGORY) or kind in (float, str, object):
        return {}
    letter: str
    try:
        letter = np.dtype(word or kind).kind
    except TypeError:
        letter = str(getattr(kind, "kind", ""))
    if letter == "b":
        return {"categories": [False, True]}
    if letter in "iufOUST" and letter:
        return {"integer": True} if letter in "iu" else {}
    raise DpframeError(f"{where}: unknown type {_shown(kind)}; write int, float, str or bool")


def _bounds(where: str, low: Any, high: Any) -> dict[str, Any]:
    both = {"low": low, "high": high}
    bounds = {name: _bound(where, name, one) for name, one in both.items() if one is not None}
    return bounds | _checked(where, bounds)


def _bound(where: str, name: str, value: Any) -> Any:
    value = _plain(value)
    if isinstance(value, str):
        hint = ""
        try:
            hint = f"; write {float(value):g}"
        except ValueError:
            hint = "; write a number"
        raise DpframeError(f"{where}: {name} is {value!r}, a text{hint}")
    if not _is_number(value) or math.isnan(value):
        raise DpframeError(f"{where}: {name} is {_shown(value)}; write a number")
    return value if isinstance(value, int) else float(value)


def _checked(where: str, column: Mapping[str, Any]) -> dict[str, Any]:
    low, high = column.get("low"), column.get("high")
    if low is not None and high is not None and low > high:
        raise DpframeError(f"{where}: low is {low} and high is {high}; exchange them")
    return {}


def _plain(value: Any) -> Any:
    """Return a scalar of NumPy as a value of Python."""
    return value.item() if isinstance(value, np.generic) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | np.number) and not isinstance(value, bool)


def _is_type(value: Any) -> bool:
    """True for a type of NumPy, or of a column of pandas."""
    return hasattr(value, "kind") and hasattr(value, "name") and not isinstance(value, Mapping)


def _is_range(value: Any) -> bool:
    listed = isinstance(value, tuple | list | np.ndarray)
    return listed and len(value) == 2 and all(_is_number(one) for one in value)


def _shown(value: Any) -> str:
    return cut(" ".join(repr(value).split()), _LONGEST)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more
