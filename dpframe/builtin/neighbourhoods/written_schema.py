"""Read the schema of a table in the forms in which people write it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from dpframe.plugins import DpframeError

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
        found = []
        for at, (name, entry) in enumerate(schema.items()):
            own = _column(str(name), known if named else [], names)
            one = _entry(own, entry, cells[own if named else names[at]])
            found.append(one | {"name": own})
        return found
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
    found = []
    for at, (name, entry) in enumerate(entries):
        own = names[at] if name is None else _column(name, names if named else [], names)
        place = names[at] if own not in cells and at < len(names) else own
        one = _entry(own, entry, cells.get(place, ()))
        found.append(one if name is None else one | {"name": own})
    return found


def _wrong_number(entries: int, names: Sequence[str]) -> DpframeError:
    some = "1 entry" if entries == 1 else f"{entries} entries"
    columns = "1 column" if len(names) == 1 else f"{len(names)} columns"
    return DpframeError(
        f"schema: it has {some}, but the table has {columns} ({_few(names)}); write {ACCEPTED}"
    )


def _column(name: str, known: Sequence[str], names: Sequence[str]) -> str:
    """Return the column that a name means."""
    if known and name not in known:
        hint = _meant(names, name)
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
    found: dict[str, Any] = {}
    for key, value in entry.items():
        own = _KEYS.get(key) if isinstance(key, str) else None
        if own is None:
            hint = _meant(_KEYS, str(key))
            raise DpframeError(
                f"{where}: unknown key {key!r}{hint}; accepted are name, low, high, integer, "
                "categories, user and nan"
            )
        if value is None or own == "name":
            continue
        if own in ("low", "high"):
            found[own] = _bound(where, own, value)
        elif own == "range":
            pair = tuple(value) if isinstance(value, list | np.ndarray) else value
            found |= _entry(where.removeprefix("schema: column "), pair, ())
        elif own == "type":
            found |= _of_type(where, value)
        elif own == "categories":
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise DpframeError(f'{where}: categories is {_shown(value)}; write ["a", "b"]')
            found[own] = [_plain(one) for one in value]
        elif isinstance(value, bool | np.bool_):
            found[own] = bool(value)
        else:
            raise DpframeError(f"{where}: {key} is {_shown(value)}; write True or False")
    return found | _checked(where, found)


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
    found = {name: _bound(where, name, one) for name, one in both.items() if one is not None}
    return found | _checked(where, found)


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


def _checked(where: str, found: Mapping[str, Any]) -> dict[str, Any]:
    low, high = found.get("low"), found.get("high")
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
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _meant(known: Iterable[str], wrong: str) -> str:
    close = difflib.get_close_matches(wrong.lower(), list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more
