"""The cells and numbers that a figure shows."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from dpframe.errors import DpframeError
from dpframe.report.figures.drawing import BESIDE, Picture, shorten
from dpframe.report.group import GridCell, Group, groups, same, telling
from dpframe.report.number_format import number, setting
from dpframe.results.model import CellRecord, Record

T = TypeVar("T")
PARTS = ("mechanism", "attack", "estimator")
MOST_LISTED = 12


def kept(record: Record, where: Mapping[str, object]) -> Record:
    """Return the record with only the cells that have these labels and swept values.

    `where` maps `mechanism`, `attack` or `estimator` to a label, or a swept key to a value; a list
    stands for any of its items. Raises DpframeError if no cell has such a key or value.
    """

    def values(cell: CellRecord, key: str) -> list[object]:
        if key in PARTS:
            return [getattr(cell, key).label]
        return [cell.swept[key]] if key in cell.swept else []

    cells = record.cells
    for key, wanted in where.items():
        present = {same(value): value for cell in cells for value in values(cell, key)}
        if not present:
            known = ", ".join(dict.fromkeys([*PARTS, *(k for c in cells for k in c.swept)]))
            raise DpframeError(f"no cell has {key!r}; there are {known}")
        options = wanted if isinstance(wanted, list | tuple) else [wanted]
        chosen = [c for c in cells if any(_equal(v, o) for v in values(c, key) for o in options)]
        if not chosen:
            listed = [setting(value) for value in present.values()]
            more = f" and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
            raise DpframeError(
                f"no cell has {key} = {setting(wanted)}; "
                f"there are {', '.join(listed[:MOST_LISTED])}{more}"
            )
        cells = chosen
    return record if cells is record.cells else record.model_copy(update={"cells": cells})


def _equal(value: object, wanted: object) -> bool:
    one, other = number(value), number(wanted)
    if one is not None and other is not None:
        return one == other
    return value == wanted or setting(value) == setting(wanted)


class Setting(NamedTuple):
    """A spot of the sweep, sorted under the labels and swept values that a panel stands for."""

    key: tuple[str, ...]  # equal for all spots of one panel
    title: str
    group: Group
    spot: GridCell
    rest: list[str]  # swept keys that vary within the panel


def by_setting(
    record: Record, within: tuple[str, ...], *, attack: bool = True
) -> Iterator[Setting]:
    """Sort the cells by mechanism, attack (if so asked) and swept keys.

    Keys that begin with a text in `within` vary within a panel.
    """
    found = groups(record.cells)
    several = attack and 1 in telling(found)
    for group in found:
        for spot in group.spots:
            keys = [key for key in spot.values if not key.startswith(within)]
            labels = group.names[: 2 if attack else 1]
            title = [*group.names[: 2 if several else 1], *spot.texts(keys)]
            yield Setting(
                (*labels, *(same(spot.values[key]) for key in keys)),
                " · ".join(title),
                group,
                spot,
                [key for key in spot.values if key not in keys],
            )


def named_cells(record: Record) -> Iterator[tuple[str, CellRecord]]:
    """Name each cell that ran by what distinguishes it."""
    found = groups(record.cells)
    naming = telling(found)
    for group in found:
        for spot in group.spots:
            for cell in spot.done:
                labels = [group.names[part] for part in naming]
                yield " · ".join([*labels, *spot.texts(spot.values), *spot.repeat(cell)]), cell


def one_release(cell: CellRecord) -> bool:
    """True if the estimate is about one release, as the claim and the truth are."""
    return bool(cell.estimator.params.get("compositions", 1) == 1)


def claimed(spot: GridCell) -> float | None:
    """Return the claimed loss."""
    return spot.claim if all(map(one_release, spot.cells)) else None


def exact(spot: GridCell) -> float | None:
    """Return the true loss, if it is known."""
    truths = [cell.truth.epsilon for cell in spot.cells if cell.truth is not None]
    return truths[0] if truths and all(map(one_release, spot.cells)) else None


def certified(spot: GridCell) -> float | None:
    """Return the certified bound; the smallest one among replicates."""
    return min(spot.estimates("epsilon_lower"), default=None)


def losses(spots: Sequence[GridCell]) -> list[float | None]:
    """Return the estimated and the certified losses."""
    return [value for spot in spots for value in (spot.mean("epsilon"), certified(spot))]


MECHANISM, EPSILON = "mechanism", "epsilon"


class Published:
    """Values of ε from elsewhere, such as a paper, by mechanism and swept values."""

    def __init__(self, text: str, name: str) -> None:
        """Read the table of a file.

        It is CSV with the columns `mechanism` (a label or the name of a plugin), `epsilon`
        (inf is allowed) and the swept keys, or other parameters, that distinguish the cells of a
        mechanism. Lines above the table that begin with # are ignored. Raises DpframeError if a
        column is missing or a value is not a number.
        """
        rows = text.splitlines()
        before = len(list(itertools.takewhile(lambda row: row.startswith("#"), rows)))
        lines = csv.DictReader(rows[before:])
        columns = list(lines.fieldnames or ())
        if missing := [c for c in (MECHANISM, EPSILON) if c not in columns]:
            raise DpframeError(f"{name}: no column {' and no column '.join(missing)}")
        self.name = name
        self.keys = [column for column in columns if column not in (MECHANISM, EPSILON)]
        self._table: dict[tuple[str, ...], float] = {}
        for row in lines:
            try:
                epsilon = float(row[EPSILON])
                place = [_text(row[key]) for key in self.keys]
            except (TypeError, ValueError):
                epsilon, place = math.nan, []
            if math.isnan(epsilon) or epsilon < 0:
                where = f"{name}:{before + lines.line_num}"
                raise DpframeError(f"{where}: epsilon is {row[EPSILON]!r}; it must be a loss")
            self._table[(str(row[MECHANISM]), *place)] = epsilon

    def of(self, cell: CellRecord) -> float | None:
        """Return the published ε of a cell, if there is one."""
        known = [_setting(cell, key) for key in self.keys]
        if any(value is None for value in known):
            return None
        place = tuple(map(_text, known))
        own = self._table.get((cell.mechanism.label, *place))
        return self._table.get((cell.mechanism.use, *place)) if own is None else own

    def losses(self, spots: Sequence[GridCell]) -> list[float | None]:
        """Return the published losses; raise DpframeError if there is none."""
        found = [self.of(spot.cells[0]) for spot in spots]
        if all(value is None for value in found):
            raise DpframeError(f"{self.name}: none of its rows belongs to a cell in the figure")
        return found

    def draw(
        self, picture: Picture, ax: Any, marks: Sequence[tuple[float, GridCell]], at: Any
    ) -> None:
        """Draw crosses at the published losses; `at` is the scale of the panel."""
        columns = at.columns((x, self.of(spot.cells[0])) for x, spot in marks)
        if columns[0]:
            ax.plot(*columns, **BESIDE)
        picture.name(f"as {shorten(self.name, 30)} has it", **BESIDE)


def _setting(cell: CellRecord, key: str) -> object:
    """Return a swept value, or a parameter that is the same in all cells; None for neither."""
    part, _, name = key.partition(".")
    if key in cell.swept or part not in ("mechanism", "pair", "attack", "estimator"):
        return cell.swept.get(key)
    return getattr(cell, part).params.get(name)


def _text(value: object) -> str:
    """Return a text that is equal for equal values, such as 1, 1.0 and "1"."""
    if isinstance(value, str):
        try:
            return repr(float(value))
        except ValueError:
            return value
    known = number(value)
    return str(value) if known is None else repr(known)
