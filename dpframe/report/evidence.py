"""The growth of evidence, read from the record."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, NamedTuple

from dpframe.report import words
from dpframe.report.group import short
from dpframe.results.verdict import look_price

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpframe.report.group import Group
    from dpframe.results.model import CellRecord, Record


# How evidence grew: what the terminal and the figures show of it, read from the record alone.


class Growth(NamedTuple):
    """What bets against the claim of one cell earned."""

    cell: CellRecord
    name: str
    points: list[tuple[float, float]]
    """Draws on each dataset, and the logarithm of the wealth; two or more."""
    level: float
    """Logarithm of the wealth that refutes the claim alone, at the cell's share of the error."""


def needed(record: Record, look: int = 1) -> float:
    """Logarithm of the wealth that refutes a claim alone, at its share of the error.

    Args:
        record: with so many claims and such a confidence.
        look: which look at its draws a cell is.
    """
    divide = max(1, record.summary.m) if record.audit.multiplicity != "none" else 1
    return math.log(divide * look_price(look) / (1 - record.audit.confidence))


def growths(found: list[Group], record: Record) -> list[Growth]:
    """Of all cells that bet."""
    shown = []
    for group in found:
        for spot in group.spots:
            for cell in spot.cells:
                wealth = cell.estimate.wealth if cell.estimate is not None else []
                points = [(float(n), float(y)) for n, y in wealth if float(n) > 0]
                if len(points) > 1:
                    swept = (f"{short(k)} {words.setting(v)}" for k, v in spot.values.items())
                    repeat = [f"repeat {cell.repeat}"] if len(spot.cells) > 1 else []
                    name = " · ".join([*group.names, *swept, *repeat])
                    look = cell.basis.look if cell.basis is not None else 1
                    shown.append(Growth(cell, name, points, needed(record, look)))
    return shown


def levels(found: Iterable[Growth]) -> str:
    """Where the claims are refuted, in words: a further look needs more."""
    return " or ".join(dict.fromkeys(f"{growth.level:.3g}" for growth in found))


# Of many growths of evidence a few that differ: what would lie on one line is drawn once.


ALIKE = 0.015
"""Share of the picture below which nobody sees two lines."""

STEPS = 32
"""Places at which lines are compared."""

DEEP = 2.0
"""How far below 0 lines are told apart, as a multiple of what refutes a claim."""


class Line(NamedTuple):
    """Cells whose evidence has grown alike, to the same verdict; in the order of the record."""

    cells: list[Growth]

    @property
    def first(self) -> Growth:
        """The one that is drawn."""
        return self.cells[0]


def distinct(found: Sequence[Growth], most: int) -> list[Line]:
    """Lines that differ, at most so many, in the order of the record.

    The one that earned most is among them; then come those that lie farthest from all before.

    Args:
        found: at least one.
        most: lines.
    """
    shapes = dict(enumerate(_shapes(found)))
    order = sorted(shapes, key=lambda n: -max(y for _, y in found[n].points))
    lines: list[list[int]] = []
    for n in order:
        for line in lines:
            if (
                _ends(found[n]) == _ends(found[line[0]])
                and _apart(shapes[n], shapes[line[0]]) < ALIKE
            ):
                line.append(n)
                break
        else:
            lines.append([n])
    chosen, left = lines[:1], lines[1:]
    while left and len(chosen) < most:
        far = max(left, key=lambda a: min(_apart(shapes[a[0]], shapes[b[0]]) for b in chosen))
        chosen.append(far)
        left.remove(far)
    return [Line([found[n] for n in members]) for members in sorted(map(sorted, chosen))]


def named(line: Line, names: Sequence[str]) -> str:
    """What a line is called: where its cells differ in one part alone, with all of its values.

    Args:
        line: the line.
        names: of its cells, parts with " · " between them.
    """
    parts = [name.split(" · ") for name in names]
    if len({len(own) for own in parts}) == 1:
        columns = [list(dict.fromkeys(column)) for column in zip(*parts, strict=True)]
        if sum(len(column) > 1 for column in columns) <= 1:
            return " · ".join(map(_joined, columns))
    return f"{names[0]} and {words.quantity(len(names) - 1)} like it"


def _ends(growth: Growth) -> tuple[str | None, float]:
    return growth.cell.verdict, growth.level


def _joined(values: list[str]) -> str:
    """Dim 1, 2, 8."""
    first, *others = values
    key = first.rpartition(" ")[0]
    return ", ".join(
        [first, *(value.removeprefix(f"{key} ") if key else value for value in others)]
    )


def _shapes(found: Sequence[Growth]) -> list[list[float]]:
    """Heights at the same places, and where a line ends; all as shares of the picture."""
    start = math.log(min(growth.points[0][0] for growth in found))
    end = math.log(max(growth.points[-1][0] for growth in found))
    floor = -DEEP * max(growth.level for growth in found)
    top = max(y for growth in found for _, y in growth.points)
    low = max(floor, min(y for growth in found for _, y in growth.points))
    height, width = max(top - low, 1e-9), max(end - start, 1e-9)
    places = [start + width * k / (STEPS - 1) for k in range(STEPS)]
    shapes = []
    for growth in found:
        logs = [math.log(n) for n, _ in growth.points]
        heights = [max(_at(growth.points, logs, place), floor) / height for place in places]
        shapes.append([*heights, (logs[-1] - start) / width])
    return shapes


def _at(points: Sequence[tuple[float, float]], logs: Sequence[float], place: float) -> float:
    """Height at a logarithm of draws; before the first point and after the last as there."""
    right = bisect.bisect_left(logs, place)
    if right in (0, len(logs)):
        return points[min(right, len(logs) - 1)][1]
    share = (place - logs[right - 1]) / max(logs[right] - logs[right - 1], 1e-12)
    return points[right - 1][1] + share * (points[right][1] - points[right - 1][1])


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))
