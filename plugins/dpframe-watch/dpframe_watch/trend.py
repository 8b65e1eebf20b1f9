"""Charts of the certified ε of an audit over the versions of its library."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

WIDTH, HEIGHT = 340, 132  # CSS pixels: fits a screen of 390, so that no text is scaled down
LEFT, RIGHT, TOP, BOTTOM = 40, 328, 12, 104  # of the plot
MOST = 24  # versions of a chart; further ones are too close to each other
HEADROOM = 1.12  # share of the height that the largest value leaves free
CROSS = 4.0  # half of the width of a cross, and radius of a circle


class Audited(NamedTuple):
    """The result at a version; numbers are None if there is no such result to show."""

    version: str
    claim: float | None
    certified: float | None
    state: str
    words: str  # of the result


class Mark(NamedTuple):
    """A version on the axis."""

    x: float
    y: float | None  # of the certified ε; None for a gap
    state: str
    title: str


@dataclasses.dataclass(frozen=True)
class Trend:
    """A chart, in pixels."""

    name: str
    marks: tuple[Mark, ...]
    curves: tuple[str, ...]
    """Points of a line for each run of versions without a gap."""
    claims: tuple[tuple[float, float, float], ...]
    """From and to which x the claim is drawn, and its y."""
    claim: tuple[float, str] | None
    """Height and text of the last claim."""
    labels: tuple[tuple[float, str, str], ...]
    """Position, anchor and text of the versions that are named on the axis."""
    left_out: int
    """Number of older versions."""
    summary: str

    width: ClassVar[int] = WIDTH
    height: ClassVar[int] = HEIGHT
    left: ClassVar[int] = LEFT
    right: ClassVar[int] = RIGHT
    bottom: ClassVar[int] = BOTTOM
    cross: ClassVar[float] = CROSS


def trend(name: str, results: Sequence[Audited]) -> Trend | None:
    """Return the chart of results by version, the oldest first; None without two numbers."""
    shown = results[-MOST:]
    known = [one for one in shown if _is_number(one.certified)]
    if len(known) < 2:
        return None
    values = [each for one in shown for each in (one.claim, one.certified) if _is_number(each)]
    top = HEADROOM * max([value for value in values if value is not None], default=1.0) or 1.0
    step = (RIGHT - LEFT) / len(shown)
    marks, claims = [], list[tuple[float, float, float]]()
    for at, one in enumerate(shown):
        x = round(LEFT + step * (at + 0.5), 1)
        y = None if not _is_number(one.certified) else _height(one.certified, top)
        marks.append(Mark(x, y, one.state, f"{one.version}: {one.words}"))
        if _is_number(one.claim):
            here = round(LEFT + step * at, 1), round(LEFT + step * (at + 1), 1)
            claims.append((*here, _height(one.claim, top)))
    last = next((one.claim for one in reversed(shown) if _is_number(one.claim)), None)
    ends = [(marks[0].x, "start", shown[0].version), (marks[-1].x, "end", shown[-1].version)]
    return Trend(
        name,
        tuple(marks),
        _curves(marks),
        tuple(claims),
        None if last is None else (_height(last, top), f"{last:.3g}"),
        tuple(ends),
        len(results) - len(shown),
        "; ".join(mark.title for mark in marks),
    )


def _curves(marks: Sequence[Mark]) -> tuple[str, ...]:
    """Return the points of each run of at least two versions without a gap."""
    runs = [list[str]()]
    for mark in marks:
        if mark.y is None:
            runs.append([])
        else:
            runs[-1].append(f"{mark.x},{mark.y}")
    return tuple(" ".join(run) for run in runs if len(run) > 1)


def _height(value: float | None, top: float) -> float:
    assert value is not None
    return round(BOTTOM - (BOTTOM - TOP) * max(0.0, min(value / top, 1.0)), 1)


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
