"""The growth of the wealth of anytime estimators."""

import bisect
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dpframe.report.group import Group
from dpframe.report.number_format import quantity
from dpframe.results.model import CellRecord, Record
from dpframe.results.verdict import look_price

SAME_LINE = 0.015  # share of the picture; lines that differ by less look alike
STEPS = 32  # places at which lines are compared
DEEP = 2.0  # lines are compared down to minus this multiple of the level that refutes a claim


class Growth(NamedTuple):
    """The wealth of the bets against the claim of one cell."""

    cell: CellRecord
    name: str
    points: list[tuple[float, float]]
    """Draws on each dataset, and the logarithm of the wealth; two or more."""
    level: float
    """Logarithm of the wealth that refutes this claim at the cell's share of the error."""


class WealthCurve(NamedTuple):
    """Cells with nearly equal wealth at all draws and the same verdict, in the record's order."""

    cells: list[Growth]

    @property
    def first(self) -> Growth:
        """The cell that is drawn."""
        return self.cells[0]


def needed(record: Record, look: int = 1) -> float:
    """Return the logarithm of the wealth that refutes a claim at its share of the error.

    `look` is the number of the look at the draws of the cell, from 1.
    """
    divide = max(1, record.summary.m) if record.audit.multiplicity != "none" else 1
    return math.log(divide * look_price(look) / (1 - record.audit.confidence))


def growths(found: list[Group], record: Record) -> list[Growth]:
    """Return the wealth of each cell whose estimator bets."""
    shown = []
    for group in found:
        for spot in group.spots:
            for cell in spot.cells:
                wealth = cell.estimate.wealth if cell.estimate is not None else []
                points = [(float(n), float(y)) for n, y in wealth if float(n) > 0]
                if len(points) > 1:
                    level = needed(record, cell.basis.look if cell.basis is not None else 1)
                    shown.append(Growth(cell, group.name_of(spot, cell), points, level))
    return shown


def levels(found: Iterable[Growth]) -> str:
    """Write the levels at which the claims are refuted; each further look raises the level."""
    return " or ".join(dict.fromkeys(f"{growth.level:.3g}" for growth in found))


def distinct(found: Sequence[Growth], most: int) -> list[WealthCurve]:
    """Return at most `most` different lines, in the order of the record.

    The line with the largest wealth is chosen first, then always the line farthest from all chosen
    ones.
    """
    shapes = _shapes(found)

    def apart(one: int, other: int) -> float:
        return max(abs(a - b) for a, b in zip(shapes[one], shapes[other], strict=True))

    def equal(one: int, other: int) -> bool:
        a, b = found[one], found[other]
        ends = a.cell.verdict == b.cell.verdict and a.level == b.level
        return ends and apart(one, other) < SAME_LINE

    lines: list[list[int]] = []
    for n in sorted(range(len(found)), key=lambda n: -max(y for _, y in found[n].points)):
        if line := next((line for line in lines if equal(n, line[0])), None):
            line.append(n)
        else:
            lines.append([n])
    chosen, left = lines[:1], lines[1:]
    while left and len(chosen) < most:
        far = max(left, key=lambda line: min(apart(line[0], other[0]) for other in chosen))
        chosen.append(far)
        left.remove(far)
    return [WealthCurve([found[n] for n in members]) for members in sorted(map(sorted, chosen))]


def named(line: WealthCurve, names: Sequence[str]) -> str:
    """Name a line by the names of its cells, whose parts are separated by " · ".

    If the names differ in only one part, its values are listed.
    """
    parts = [name.split(" · ") for name in names]
    if len({len(own) for own in parts}) == 1:
        columns = [list(dict.fromkeys(column)) for column in zip(*parts, strict=True)]
        if sum(len(column) > 1 for column in columns) <= 1:
            return " · ".join(map(_joined, columns))
    return f"{names[0]} and {quantity(len(names) - 1)} like it"


def _joined(values: list[str]) -> str:
    """Join settings of one key: `dim 1, 2, 8`."""
    key = "".join(values[0].rpartition(" ")[:2])
    return key + ", ".join(value.removeprefix(key) for value in values)


def _shapes(found: Sequence[Growth]) -> list[list[float]]:
    """Return heights at the same places and each line's end, all as shares of the picture."""
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
        heights = [max(height_at(growth.points, logs, place), floor) / height for place in places]
        shapes.append([*heights, (logs[-1] - start) / width])
    return shapes


def height_at(points: Sequence[tuple[float, float]], logs: Sequence[float], place: float) -> float:
    """Interpolate the wealth at a logarithm of draws; beyond the ends it is constant."""
    right = bisect.bisect_left(logs, place)
    if right in (0, len(logs)):
        return points[min(right, len(logs) - 1)][1]
    share = (place - logs[right - 1]) / max(logs[right] - logs[right - 1], 1e-12)
    return points[right - 1][1] + share * (points[right][1] - points[right - 1][1])
