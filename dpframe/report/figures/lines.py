"""Which cell becomes a point of which line in which panel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.errors import DpframeError
from dpframe.report.figures.select import value_of
from dpframe.report.figures.style import shorten
from dpframe.report.group import FIRST_KEYS, Group, Spot, groups, same, short
from dpframe.report.words import number, setting
from dpframe.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.record.model import Record

MOST_LINES = 8
"""In a panel; of more, evenly chosen ones are shown."""
TITLE = 38
"""Letters that fit above a panel."""


class Line(NamedTuple):
    """Cells along the swept key, all else fixed."""

    label: str
    place: int
    """Which of the figure's lines it is: lines of other panels with this place look alike."""
    variant: int
    """Which of the mechanisms that share the panel it belongs to."""
    marks: tuple[tuple[float, Spot], ...]
    """Value of the swept key, and the cells there."""


class Panel(NamedTuple):
    """Lines that are drawn together."""

    title: str
    lines: tuple[Line, ...]


class Plan(NamedTuple):
    """What a figure over a swept parameter shows."""

    key: str
    """The swept key along the horizontal axis."""
    line_key: str | None
    """What tells the lines apart: a swept key, `estimator`, or nothing."""
    labels: tuple[str, ...]
    """Of the lines, by their places."""
    ordered: bool
    """Whether the lines have an order, as numbers do."""
    panels: tuple[Panel, ...]
    dropped: int
    """Lines left out, because there are too many."""


def planned(record: Record, together: Sequence[Sequence[str]] = ()) -> Plan:
    """Lays out a record with a swept parameter; without panels if none is swept.

    Args:
        record: of a run.
        together: labels of mechanisms, those of one panel together; default: a panel for each.

    Raises:
        DpframeError: a panel names a mechanism that is not there.
    """
    found = groups(record.cells)
    key = _along(found)
    found = [g for g in found if any(number(value_of(s, key)) is not None for s in g.spots)]
    line_key = _between(found, key)
    several = len({group.names[2] for group in found}) > 1
    if line_key is None and several:
        line_key = "estimator"
    values = _line_values(found, line_key)
    ordered = line_key != "estimator" and all(number(value) is not None for value in values)
    if ordered:
        values.sort(key=float)
    shown = _some(values)
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
    return Plan(key, line_key, labels, ordered, panels, len(values) - len(shown))


def _along(found: list[Group]) -> str:
    """The key along the axis: the claim's ε, else the one with most values."""
    counts: dict[str, int] = {}
    for group in found:
        for key in group.keys:
            axis = [number(value) for value in group.axis(key)]
            if len(axis) > 1 and all(v is not None and math.isfinite(v) for v in axis):
                counts[key] = max(counts.get(key, 0), len(axis))
    first = next((key for key in FIRST_KEYS if key in counts), None)
    return first or max(counts, key=lambda key: counts[key], default="")


def _between(found: list[Group], along: str) -> str | None:
    """The key that tells lines apart: of those left, the one with most values."""
    counts: dict[str, int] = {}
    for group in found:
        for key in group.keys:
            if key != along:
                counts[key] = max(counts.get(key, 0), len(group.axis(key)))
    few = {key: count for key, count in counts.items() if count <= MOST_LINES}
    return max(few or counts, key=lambda key: counts[key], default=None)


def _line_value(group: Group, spot: Spot, key: str | None) -> Any:
    return group.names[2] if key == "estimator" else value_of(spot, key) if key else ""


def _line_values(found: list[Group], key: str | None) -> list[Any]:
    values = [_line_value(group, spot, key) for group in found for spot in group.spots]
    return list({same(value): value for value in values}.values())


def _some(values: list[Any]) -> list[Any]:
    if len(values) <= MOST_LINES:
        return values
    step = (len(values) - 1) / (MOST_LINES - 1)
    return [values[round(index * step)] for index in range(MOST_LINES)]


def _panel(group: Group, spot: Spot, key: str, line_key: str | None) -> tuple[str, ...]:
    """What a panel is named by: mechanism, attack, estimator, and the keys that are left."""
    rest = [k for k in group.keys if k not in (key, line_key)]
    estimator = "" if line_key == "estimator" else group.names[2]
    fixed = ", ".join(f"{_spoken(short(k, group.swept))} {setting(spot.values[k])}" for k in rest)
    return (group.names[0], group.names[1], estimator, fixed)


def _spoken(key: str) -> str:
    """Estimator's sampling probability, for estimator.sampling_probability."""
    return key.replace(".", "'s ").replace("_", " ")


def _panels(
    bins: dict[tuple[str, ...], dict[int, list[tuple[float, Spot]]]],
    labels: tuple[str, ...],
    together: Sequence[Sequence[str]],
    named: list[tuple[str, str, str]],
) -> tuple[Panel, ...]:
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
        merged: dict[tuple[str, ...], list[Line]] = {}
        for where, lines in bins.items():
            if where[0] not in shared:
                continue
            for place, marks in sorted(lines.items()):
                variant = list(shared).index(where[0])
                line = Line(labels[place], place, variant, tuple(sorted(marks, key=_x)))
                merged.setdefault(where[1:], []).append(line)
        for rest, found in merged.items():
            extra = [rest[0] if telling[0] else "", rest[1] if telling[1] else "", rest[2]]
            names = [shorten(label, TITLE // len(shared)) for label in shared]
            if len(mechanisms) == 1 and any(extra):
                names = []  # it says nothing that tells panels apart
            title = " · ".join(part for part in (", ".join(names), *extra) if part)
            panels.append(Panel(shorten(title, TITLE), tuple(found)))
    return tuple(panels)


def _x(mark: tuple[float, Spot]) -> float:
    return mark[0]
