"""The loss after several releases, against their number."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.lines import Line2D

from dpframe.errors import DpframeError
from dpframe.report.figures import losses, notes
from dpframe.report.figures.axis import WIDE, dress, log_ticks, scale
from dpframe.report.figures.picture import grid, legend, name_axes
from dpframe.report.figures.style import (
    BESIDE,
    CERTIFIED,
    CLAIMED,
    DOTTED,
    ESTIMATE,
    INK,
    Look,
    named,
    shorten,
)
from dpframe.report.group import groups
from dpframe.report.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpframe.record.model import Record
    from dpframe.report.figures.axis import Scale
    from dpframe.report.figures.picture import Picture
    from dpframe.report.figures.published import Published
    from dpframe.report.group import Group, Spot

PARAMETER = "compositions"
MOST_PANELS = 6
MOST_LINES = 8
BOUND = Look(INK, ">", "none")


class Panel(NamedTuple):
    """One mechanism behind one attack."""

    title: str
    lines: dict[str, list[tuple[float, Spot]]]
    """By estimator: numbers of releases, ascending, and what was found of them."""
    single: list[Spot]
    """What was certified of one release."""


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not any(len(line) > 1 for panel in _panels(record) for line in panel.lines.values()):
        return "no estimator was asked about several numbers of releases"
    return None


def draw(record: Record, beside: Published | None = None) -> Picture:
    """Draws it: a line for each estimator, and what is claimed and certified of one release.

    Args:
        record: of a run.
        beside: numbers from elsewhere, an accountant's for example.

    Raises:
        DpframeError: there are such numbers, but none for any cell.
    """
    found = _panels(record)
    shown = found[:MOST_PANELS]
    labels = list(dict.fromkeys(name for panel in shown for name in panel.lines))[:MOST_LINES]
    spots = [s for p in shown for s in (*p.single, *(s for _, _, s in _points(p)))]
    published = [v for spot in spots if (v := losses.published(spot, beside)) is not None]
    if beside is not None and not published:
        raise DpframeError(f"{beside.name}: none of its rows is about a cell that is drawn")
    anchors = [v for spot in spots if (v := losses.claimed(spot)) is not None]
    values = [v for spot in spots for v in losses.values(spot)]
    scaled = scale([*values, *published], anchors)
    picture, axes = grid(len(shown), height=2.2)
    for ax, panel in zip(axes, shown, strict=True):
        _draw(ax, panel, labels, scaled, beside)
    name_axes(axes, "releases", "loss ε")
    legend(picture, _legend(labels, spots, beside))
    picture.caption = " ".join(
        [
            f"Loss of {shorten(record.audit.name, 60)} after several releases, estimated from one: "
            "no bound in either direction. What is claimed and certified is about one release.",
            *notes.repeats(record),
            *notes.more(len(found) - len(shown), "panel"),
            *notes.left_out(record),
            notes.NO_PROOF,
        ]
    )
    return picture


def _draw(
    ax: Axes, panel: Panel, labels: list[str], scaled: Scale, beside: Published | None
) -> None:
    ax.set_title(panel.title)
    for place, name in enumerate(labels):
        look = named(place)
        points = [
            (x, scaled.place(mean))
            for x, spot in panel.lines.get(name, [])
            if (mean := spot.mean("epsilon")) is not None
        ]
        ax.plot(*_columns(points), **_estimate(look))
    everything = [(x, spot) for _, x, spot in _points(panel)]
    every = [*everything, *((1.0, spot) for spot in panel.single)]
    claims = {value for _, spot in every if (value := losses.claimed(spot)) is not None}
    ax.plot([1.0] * len(claims), scaled.places(claims), **CLAIM)
    bounds = [b for spot in panel.single if (b := losses.certified(spot)) is not None]
    ax.plot([1.0] * len(bounds), scaled.places(bounds), **CERTAIN)
    crosses = [
        (x, scaled.place(value))
        for x, spot in everything
        if (value := losses.published(spot, beside)) is not None
    ]
    ax.plot(*_columns(crosses), **BESIDE)
    numbers = sorted({x for x, _ in everything})
    if numbers[-1] / numbers[0] >= WIDE:
        ax.set_xscale("log")
    if len(numbers) <= 8:
        log_ticks(ax.xaxis, numbers)
    dress(ax, "y", scaled)


CLAIM: Any = {"color": INK, "marker": "_", "markersize": 10, "markeredgewidth": 1.6, "ls": "none"}
CERTAIN: Any = {"color": INK, "marker": "^", "markersize": 5, "ls": "none", "zorder": 4}


def _estimate(look: Look) -> dict[str, Any]:
    style = {"color": look.color, "marker": look.marker, "ls": DOTTED, "markerfacecolor": "white"}
    return style | {"zorder": 3}


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _points(panel: Panel) -> list[tuple[str, float, Spot]]:
    return [(name, x, spot) for name, line in panel.lines.items() for x, spot in line]


def _legend(labels: list[str], spots: list[Spot], beside: Published | None) -> list[Line2D]:
    handles = [
        Line2D([], [], label=f"{shorten(name, 40)}, {ESTIMATE}", **_estimate(named(place)))
        for place, name in enumerate(labels)
    ]
    if any(losses.claimed(spot) is not None for spot in spots):
        handles.append(Line2D([], [], label=f"{CLAIMED}, of one release", **CLAIM))
    if any(losses.certified(spot) is not None for spot in spots):
        handles.append(Line2D([], [], label=f"{CERTIFIED}, of one release", **CERTAIN))
    if beside is not None:
        handles.append(Line2D([], [], label=f"as {shorten(beside.name, 30)} has it", **BESIDE))
    return handles


def _panels(record: Record) -> list[Panel]:
    found = groups(record.cells)
    several = len({group.names[1] for group in found}) > 1
    panels: dict[tuple[str, str], Panel] = {}
    for group in found:
        who = (group.names[0], group.names[1] if several else "")
        title = shorten(" · ".join(filter(None, who)), 40)
        panel = panels.setdefault(who, Panel(title, {}, []))
        for spot in group.spots:
            params = spot.cells[0].estimator.params
            count = number(params.get(PARAMETER))
            if count is not None and 1 <= count < math.inf:
                panel.lines.setdefault(_name(found, group), []).append((count, spot))
            elif losses.certified(spot) is not None:
                panel.single.append(spot)
    for panel in panels.values():
        for line in panel.lines.values():
            line.sort(key=lambda point: point[0])
    return [panel for panel in panels.values() if panel.lines]


def _name(found: list[Group], group: Group) -> str:
    """The label; where labels differ in the number of releases alone, the name of the plugin."""
    estimator = group.spots[0].cells[0].estimator
    same = {
        other.names[2]
        for other in found
        if _rest(other.spots[0].cells[0].estimator) == _rest(estimator)
    }
    alike = len(group.spots) == 1 and len(same) > 1
    return estimator.use if alike else group.names[2]


def _rest(estimator: Any) -> str:
    params = {k: v for k, v in estimator.params.items() if k != PARAMETER}
    return json.dumps([estimator.use, params], sort_keys=True, default=str)
