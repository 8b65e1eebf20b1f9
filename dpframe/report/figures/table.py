"""Tables of cells: rows and columns are swept keys, or names where nothing is swept."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dpframe.report.figures.select import value_of
from dpframe.report.figures.style import shorten
from dpframe.report.group import Group, Spot, same, short
from dpframe.report.words import setting


class Table(NamedTuple):
    """One table of cells."""

    title: str
    rows: list[str]
    columns: list[str]
    spots: list[list[Spot | None]]


class Layout(NamedTuple):
    """All tables, and what their sides are named by."""

    down: str
    across: str
    tables: list[Table]


def share(spot: Spot) -> float | None:
    """Certified / claimed; of replicates the least. None without both."""
    bounds, claim = spot.estimates("epsilon_lower"), spot.claim
    if not bounds or claim is None or math.isnan(claim):
        return None
    if claim == 0:
        return math.inf if min(bounds) > 0 else 0.0
    return min(bounds) / claim


def layout(found: list[Group]) -> Layout:
    """Two swept keys make a table for each group, one makes rows of groups, none rows of names."""
    keys = list(dict.fromkeys(key for group in found for key in group.keys))
    if len(keys) < 2:
        return _rows(found, keys)
    sizes = {key: max(len(g.axis(key)) for g in found if key in g.keys) for key in keys}
    keys.sort(key=lambda key: (not key.endswith(".epsilon"), -sizes[key]))
    across, down = keys[:2]
    parts: dict[tuple[str, ...], list[Spot]] = {}
    telling = [len({group.names[part] for group in found}) > 1 for part in range(3)]
    telling[0] = telling[0] or not any(telling)
    for group in found:
        for spot in group.spots:
            rest = [
                f"{short(k, keys)} {setting(spot.values[k])}" for k in group.keys if k in keys[2:]
            ]
            named = [name for name, tells in zip(group.names, telling, strict=True) if tells]
            parts.setdefault((*named, *rest), []).append(spot)
    rows, columns = _values(found, down), _values(found, across)
    tables = []
    for who, spots in parts.items():
        at = {(same(value_of(s, down)), same(value_of(s, across))): s for s in spots}
        table = [[at.get((same(row), same(column))) for column in columns] for row in rows]
        title = shorten(" · ".join(who), 30)
        tables.append(Table(title, _texts(rows), _texts(columns), table))
    return Layout(short(down, keys), _claimed(short(across, keys)), tables)


def _rows(found: list[Group], keys: list[str]) -> Layout:
    """One table: a row for each group, a column for each value or each estimator."""
    if keys:
        columns = _values(found, keys[0])
        who = [" · ".join(_telling(group, found, range(3))) for group in found]
        table = []
        for group in found:
            at = {same(value_of(spot, keys[0])): spot for spot in group.spots}
            table.append([at.get(same(column)) for column in columns])
        names = [shorten(name, 30) for name in who]
        return Layout("", _claimed(short(keys[0])), [Table("", names, _texts(columns), table)])
    estimators = list(dict.fromkeys(group.names[2] for group in found))
    rows = list(dict.fromkeys((group.names[0], group.names[1]) for group in found))
    at_names = {group.names: group.spots[0] for group in found}
    table = [[at_names.get((*row, name)) for name in estimators] for row in rows]
    named = [shorten(" · ".join(row), 34) for row in rows]
    return Layout("", "", [Table("", named, [shorten(e, 18) for e in estimators], table)])


def _telling(group: Group, found: list[Group], parts: range) -> list[str]:
    return [
        group.names[part]
        for part in parts
        if part == 0 or len({other.names[part] for other in found}) > 1
    ]


def _claimed(name: str) -> str:
    return "claimed ε" if name == "ε" else name


def _values(found: list[Group], key: str) -> list[Any]:
    spots = [spot for group in found for spot in group.spots]
    values = [value_of(spot, key) for spot in spots if key in spot.cells[0].swept]
    unique = list({same(value): value for value in values}.values())
    return sorted(unique) if all(isinstance(v, int | float) for v in unique) else unique


def _texts(values: list[Any]) -> list[str]:
    return [shorten(setting(value), 14) for value in values]
