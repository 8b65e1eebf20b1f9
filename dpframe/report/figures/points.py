"""The cells and numbers that a figure shows."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpframe.common.text import did_you_mean
from dpframe.errors import DpframeError
from dpframe.report.figures.drawing import BESIDE, entry, shorten
from dpframe.report.group import FIRST_KEYS, Group, Spot, groups, same, short, telling
from dpframe.report.number_format import number, setting
from dpframe.results.model import CellRecord, Record


def values(spot: Spot) -> list[float]:
    """Return the estimated and the certified losses."""
    found = [spot.mean("epsilon"), certified(spot)]
    return [value for value in found if value is not None]


def published(spot: Spot, beside: Published | None) -> float | None:
    """Return the published loss, if there is one."""
    return None if beside is None else beside.of(spot.cells[0])


def all_published(spots: Sequence[Spot], beside: Published | None) -> list[float]:
    """Return all published losses; raise DpframeError if there is a table but no loss."""
    found = [value for spot in spots if (value := published(spot, beside)) is not None]
    if beside is not None and not found:
        raise DpframeError(f"{beside.name}: none of its rows belongs to a cell in the figure")
    return found


def handles(beside: Published | None) -> list[Any]:
    """Return the handle of published losses, if there are some."""
    return [] if beside is None else [entry(f"as {shorten(beside.name, 30)} has it", **BESIDE)]


def certified(spot: Spot) -> float | None:
    """Return the certified bound; the smallest one among replicates."""
    bounds = spot.estimates("epsilon_lower")
    return min(bounds) if bounds else None


def claimed(spot: Spot) -> float | None:
    """Return the claimed loss."""
    return spot.claim if _single(spot) else None


def _single(spot: Spot) -> bool:
    """True if the estimates are about one release, as the claim and the truth are."""
    return all(cell.estimator.params.get("compositions", 1) == 1 for cell in spot.cells)


def exact(spot: Spot) -> float | None:
    """Return the true loss, if it is known."""
    truths = [cell.truth.epsilon for cell in spot.cells if cell.truth is not None]
    return truths[0] if truths and _single(spot) else None


PARTS = ("mechanism", "attack", "estimator")
MOST_LISTED = 12


def kept(record: Record, where: Mapping[str, object]) -> Record:
    """Return the record with only the cells that have these labels and swept values.

    `where` maps `mechanism`, `attack` or `estimator` to a label, or a swept key to a value; a list
    stands for any of its items. Raises DpframeError if no cell has such a key or value.
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
    """Return the value of a swept key, even if all remaining cells of a group share it."""
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


MOST_LINES = 8  # lines of a panel; of more, evenly chosen ones are shown
TITLE = 38  # letters that fit above a panel


class SweepLine(NamedTuple):
    """Cells along the swept key, all else fixed."""

    label: str
    place: int  # index of the line in the figure; lines with one index look alike in all panels
    variant: int  # index of its mechanism among those that share the panel
    marks: tuple[tuple[float, Spot], ...]  # value of the swept key, and the cells there


class SweepPanel(NamedTuple):
    """Lines that are drawn together."""

    title: str
    lines: tuple[SweepLine, ...]

    @property
    def marks(self) -> list[tuple[float, Spot]]:
        """The marks of all lines."""
        return [mark for line in self.lines for mark in line.marks]


class SweepLayout(NamedTuple):
    """The layout of a figure over a swept parameter."""

    key: str  # the swept key along the horizontal axis
    line_key: str | None  # the key that distinguishes the lines: a swept key, `estimator`, or None
    labels: tuple[str, ...]  # labels of the lines, by index
    ordered: bool  # true if the lines are ordered, as numbers are
    panels: tuple[SweepPanel, ...]
    dropped: int  # lines left out, because there are too many


def planned(record: Record, together: Sequence[Sequence[str]] = ()) -> SweepLayout:
    """Lay out a record with a swept parameter; the plan has no panels if none is swept.

    `together` lists the labels of mechanisms that share a panel; default: a panel for each. Raises
    DpframeError if a panel names an unknown mechanism.
    """
    found = groups(record.cells)
    key = _along(found)
    found = [g for g in found if any(number(value_of(s, key)) is not None for s in g.spots)]
    line_key = _between(found, key)
    if line_key is None and 2 in telling(found):
        line_key = "estimator"
    every = [_line_value(group, spot, line_key) for group in found for spot in group.spots]
    values = list({same(value): value for value in every}.values())
    ordered = line_key != "estimator" and all(number(value) is not None for value in values)
    if ordered:
        values.sort(key=float)
    shown = values
    if len(values) > MOST_LINES:
        step = (len(values) - 1) / (MOST_LINES - 1)
        shown = [values[round(index * step)] for index in range(MOST_LINES)]
    places = {same(value): place for place, value in enumerate(shown)}
    bins: dict[tuple[str, ...], dict[int, list[tuple[float, Spot]]]] = {}
    for group in found:
        for spot in group.spots:
            x = number(value_of(spot, key))
            place = places.get(same(_line_value(group, spot, line_key)))
            if x is None or place is None or not math.isfinite(x):
                continue
            where = _panel(group, spot, key, line_key)
            bins.setdefault(where, {}).setdefault(place, []).append((x, spot))
    labels = tuple(setting(value) for value in shown)
    panels = _panels(bins, labels, together, [group.names for group in found])
    return SweepLayout(key, line_key, labels, ordered, panels, len(values) - len(shown))


def _along(found: list[Group]) -> str:
    """Return the key along the axis: the claim's ε, else the one with most values."""
    counts: dict[str, int] = {}
    for group in found:
        for key in group.keys:
            axis = [number(value) for value in group.axis(key)]
            if len(axis) > 1 and all(v is not None and math.isfinite(v) for v in axis):
                counts[key] = max(counts.get(key, 0), len(axis))
    first = next((key for key in FIRST_KEYS if key in counts), None)
    return first or max(counts, key=lambda key: counts[key], default="")


def _between(found: list[Group], along: str) -> str | None:
    """Return the remaining key with most values, up to `MOST_LINES`, to distinguish the lines."""
    counts: dict[str, int] = {}
    for group in found:
        for key in group.keys:
            if key != along:
                counts[key] = max(counts.get(key, 0), len(group.axis(key)))
    few = {key: count for key, count in counts.items() if count <= MOST_LINES}
    return max(few or counts, key=lambda key: counts[key], default=None)


def _line_value(group: Group, spot: Spot, key: str | None) -> Any:
    return group.names[2] if key == "estimator" else value_of(spot, key) if key else ""


def _panel(group: Group, spot: Spot, key: str, line_key: str | None) -> tuple[str, ...]:
    """Name a panel by mechanism, attack, estimator, and the remaining keys."""
    rest = [k for k in group.keys if k not in (key, line_key)]
    estimator = "" if line_key == "estimator" else group.names[2]
    # Such as "estimator's sampling probability" for estimator.sampling_probability.
    spoken = {k: short(k, group.swept).replace(".", "'s ").replace("_", " ") for k in rest}
    fixed = ", ".join(f"{name} {setting(spot.values[k])}" for k, name in spoken.items())
    return (group.names[0], group.names[1], estimator, fixed)


def _panels(
    bins: dict[tuple[str, ...], dict[int, list[tuple[float, Spot]]]],
    labels: tuple[str, ...],
    together: Sequence[Sequence[str]],
    named: list[tuple[str, str, str]],
) -> tuple[SweepPanel, ...]:
    telling = [len({where[part] for where in bins}) > 1 for part in (1, 2)]
    mechanisms = list(dict.fromkeys(who[0] for who in named))
    for label in (label for labels in together for label in labels):
        if label not in mechanisms:
            raise DpframeError(
                f"no mechanism {label!r} to make a panel of{did_you_mean(mechanisms, label)} "
                f"There are: {', '.join(mechanisms)}"
            )
    panels = []
    for shared in together or [[label] for label in mechanisms]:
        merged: dict[tuple[str, ...], list[SweepLine]] = {}
        for where, lines in bins.items():
            if where[0] not in shared:
                continue
            for place, marks in sorted(lines.items()):
                variant = list(shared).index(where[0])
                line = SweepLine(
                    labels[place], place, variant, tuple(sorted(marks, key=lambda mark: mark[0]))
                )
                merged.setdefault(where[1:], []).append(line)
        for rest, found in merged.items():
            extra = [rest[0] if telling[0] else "", rest[1] if telling[1] else "", rest[2]]
            names = [shorten(label, TITLE // len(shared)) for label in shared]
            if len(mechanisms) == 1 and any(extra):
                names = []  # it does not distinguish panels
            title = " · ".join(part for part in (", ".join(names), *extra) if part)
            panels.append(SweepPanel(shorten(title, TITLE), tuple(found)))
    return tuple(panels)


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
        self._found: dict[tuple[str, ...], float] = {}
        for row in lines:
            try:
                epsilon = float(row[EPSILON])
                place = [_same(row[key]) for key in self.keys]
            except (TypeError, ValueError):
                epsilon, place = math.nan, []
            if math.isnan(epsilon) or epsilon < 0:
                where = f"{name}:{before + lines.line_num}"
                raise DpframeError(f"{where}: epsilon is {row[EPSILON]!r}; it must be a loss")
            self._found[(str(row[MECHANISM]), *place)] = epsilon

    def of(self, cell: CellRecord) -> float | None:
        """Return the published ε of a cell, if there is one."""
        known = [_setting(cell, key) for key in self.keys]
        if any(value is None for value in known):
            return None
        place = [_same(value) for value in known]
        found = (
            self._found.get((who, *place)) for who in (cell.mechanism.label, cell.mechanism.use)
        )
        return next((epsilon for epsilon in found if epsilon is not None), None)


def _setting(cell: CellRecord, key: str) -> object:
    """Return a swept value, or a parameter that is the same in all cells; None for neither."""
    part, _, name = key.partition(".")
    if key in cell.swept or part not in ("mechanism", "pair", "attack", "estimator"):
        return cell.swept.get(key)
    return getattr(cell, part).params.get(name)


def _same(value: object) -> str:
    """Return a text that is equal for equal values, such as 1, 1.0 and "1"."""
    if isinstance(value, str):
        try:
            return repr(float(value))
        except ValueError:
            return value
    known = number(value)
    return str(value) if known is None else repr(known)
