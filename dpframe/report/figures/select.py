"""Which cells of a record a figure shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.errors import DpframeError
from dpframe.report.group import same
from dpframe.report.words import number, setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpframe.record.model import CellRecord, Record
    from dpframe.report.group import Spot

PARTS = ("mechanism", "attack", "estimator")
MOST_LISTED = 12


def kept(record: Record, where: Mapping[str, object]) -> Record:
    """The record with those cells alone that have these labels and swept values.

    Args:
        record: of a run.
        where: label of `mechanism`, `attack` or `estimator`, or the value of a swept key; a list
            stands for any of its items.

    Raises:
        DpframeError: nothing has such a key, or such a value.
    """
    cells = record.cells
    for key, wanted in where.items():
        there = {same(value): value for cell in cells for value in _values(cell, key)}
        if not there:
            known = ", ".join(dict.fromkeys([*PARTS, *(k for c in cells for k in c.swept)]))
            raise DpframeError(f"no cell has {key!r}; there are {known}")
        options = wanted if isinstance(wanted, list | tuple) else [wanted]
        chosen = [c for c in cells if any(_is(v, o) for v in _values(c, key) for o in options)]
        if not chosen:
            listed = [setting(value) for value in there.values()]
            more = f" and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
            values = ", ".join(listed[:MOST_LISTED]) + more
            raise DpframeError(f"no cell has {key} = {setting(wanted)}; there are {values}")
        cells = chosen
    return record if cells is record.cells else record.model_copy(update={"cells": cells})


def value_of(spot: Spot, key: str) -> Any:
    """Value of a swept key, also where all cells that are left of a group have the same."""
    return spot.values.get(key, spot.cells[0].swept.get(key))


def _values(cell: CellRecord, key: str) -> list[object]:
    if key in PARTS:
        return [getattr(cell, key).label]
    return [cell.swept[key]] if key in cell.swept else []


def _is(value: object, wanted: object) -> bool:
    one, other = number(value), number(wanted)
    if one is not None and other is not None:
        return one == other
    return value == wanted or setting(value) == setting(wanted)
