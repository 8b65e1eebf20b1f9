"""Estimators beside each other: what each certifies, estimates, and how sure it says it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from matplotlib.lines import Line2D

from dpframe.report.figures import notes
from dpframe.report.figures.axis import Scale, dress, scale
from dpframe.report.figures.picture import legend, new
from dpframe.report.figures.style import (
    CERTIFIED,
    CLAIMED,
    DOTTED,
    ESTIMATE,
    FAINT,
    INK,
    PAGE,
    QUIET,
    TRUTH,
    shorten,
)
from dpframe.report.group import groups, same, short
from dpframe.report.words import setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpframe.record.model import CellRecord, Record
    from dpframe.report.figures.picture import Picture
    from dpframe.report.group import Spot

MOST_PANELS = 6
MOST_ROWS = 24
"""In a panel."""
ROW = 0.17
"""Height of a row, in inches."""
BLUE, ORANGE = "#0072B2", "#D55E00"


class Row(NamedTuple):
    """One estimator behind one attack."""

    label: str
    cell: CellRecord


class Panel(NamedTuple):
    """Rows about one mechanism."""

    title: str
    rows: list[Row]


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    panels = _panels(record)
    if not panels:
        return "none of its cells has an estimate"
    if max(len(panel.rows) for panel in panels) < 2:
        return "nothing is there to compare: one attack, one estimator"
    return None


def draw(record: Record) -> Picture:
    """Draws it: a panel for each mechanism and swept value, a row for each estimator."""
    found = _panels(record)
    panels = [Panel(p.title, p.rows[:MOST_ROWS]) for p in found[:MOST_PANELS]]
    heights = [len(panel.rows) + 2.4 for panel in panels]
    picture = new(PAGE, ROW * sum(heights) + 0.3)
    axes = picture.subplots(len(panels), 1, squeeze=False, height_ratios=heights).ravel()
    for ax, panel in zip(axes, panels, strict=True):
        _draw(ax, panel)
    axes[-1].set_xlabel("loss ε")
    legend(picture, _legend(panels))
    cut = sum(max(len(p.rows) - MOST_ROWS, 0) for p in found[:MOST_PANELS])
    picture.caption = " ".join(
        [
            f"Estimators of {shorten(record.audit.name, 60)} on the same draws.",
            notes.promise(record),
            "Intervals and point values are no bounds.",
            *notes.more(len(found) - len(panels), "panel"),
            *notes.more(cut, "row"),
            *notes.left_out(record),
            notes.NO_PROOF,
        ]
    )
    return picture


def _panels(record: Record) -> list[Panel]:
    found = groups(record.cells)
    several = len({group.names[1] for group in found}) > 1
    rows: dict[tuple[str, ...], list[Row]] = {}
    titles = {}
    for group in found:
        for spot in group.spots:
            cell = _first(spot)
            if cell is None:
                continue
            own = [k for k in spot.values if k.startswith(("estimator.", "attack."))]
            rest = [k for k in spot.values if k not in own]
            who = (group.names[0], *(same(spot.values[k]) for k in rest))
            place = [f"{short(k, spot.values)} {setting(spot.values[k])}" for k in rest]
            titles[who] = shorten(" · ".join([group.names[0], *place]), 60)
            detail = [f"{short(k, spot.values)} {setting(spot.values[k])}" for k in own]
            names = [*([group.names[1]] if several else []), group.names[2], *detail]
            rows.setdefault(who, []).append(Row(shorten(" · ".join(names), 40), cell))
    return [Panel(titles[who], listed) for who, listed in rows.items()]


def _first(spot: Spot) -> CellRecord | None:
    """Of replicates the first: they are no estimators to be compared."""
    return next((cell for cell in spot.done if cell.estimate is not None), None)


def _draw(ax: Axes, panel: Panel) -> None:
    ax.set_title(panel.title)
    anchors = [v for row in panel.rows for v in _references(row.cell).values()]
    values = [v for row in panel.rows for v in _values(row.cell)]
    scaled = scale([*values, *anchors], anchors, log=None)
    for name, color, width, dashes in ((CLAIMED, INK, 1.6, "-"), (TRUTH, QUIET, 1.4, DOTTED)):
        for value, first, end in _stretches(panel.rows, name):
            at, ends = scaled.place(value), [first - 0.5, end - 0.5]
            ax.plot([at, at], ends, color=color, lw=width, ls=dashes, zorder=1)
    for place, row in enumerate(panel.rows):
        _row(ax, place, row.cell, scaled)
    dress(ax, "x", scaled)
    ax.set_ylim(len(panel.rows) - 0.4, -0.6)
    ax.set_yticks(range(len(panel.rows)), [row.label for row in panel.rows])
    ax.tick_params(axis="y", length=0)


def _stretches(rows: list[Row], name: str) -> list[tuple[float, int, int]]:
    """What is claimed, or true, and the rows from which and to which it is so."""
    found: list[tuple[float, int, int]] = []
    for place, row in enumerate(rows):
        value = _references(row.cell).get(name)
        if value is None:
            continue
        if found and found[-1][0] == value and found[-1][2] == place:
            found[-1] = (value, found[-1][1], place + 1)
        else:
            found.append((value, place, place + 1))
    return found


def _row(ax: Axes, place: int, cell: CellRecord, scaled: Scale) -> None:
    estimate = cell.estimate
    assert estimate is not None
    ax.axhline(place, color=FAINT, lw=0.4, zorder=0.5)
    if estimate.interval is not None:
        ends = scaled.places(estimate.interval)
        ax.plot(ends, [place, place], color=ORANGE, lw=1.0, marker="|", markersize=5, zorder=2)
    if estimate.epsilon_lower is not None:
        bound = scaled.place(estimate.epsilon_lower)
        limit = estimate.epsilon_upper
        if limit is not None and math.isfinite(limit):
            ax.plot([bound, scaled.place(limit)], [place, place], color=BLUE, lw=0.8, zorder=2)
            ax.plot(scaled.place(limit), place, color=BLUE, marker="|", markersize=5, zorder=2)
        ax.plot(bound, place, color=BLUE, marker=">", markersize=5, zorder=3)
    if not math.isnan(estimate.epsilon):
        point = scaled.place(estimate.epsilon)
        ax.plot(point, place, color=INK, marker="o", markerfacecolor="white", zorder=3)


def _values(cell: CellRecord) -> list[float]:
    estimate = cell.estimate
    assert estimate is not None
    limit = estimate.epsilon_upper
    found = [estimate.epsilon, estimate.epsilon_lower, *(estimate.interval or ())]
    if limit is not None and math.isfinite(limit):
        found.append(limit)
    return [value for value in found if value is not None]


def _references(cell: CellRecord) -> dict[str, float]:
    """What is claimed and what is true of what was estimated."""
    if cell.estimator.params.get("compositions", 1) != 1:
        return {}
    found = {}
    if cell.claim is not None:
        found[CLAIMED] = cell.claim.epsilon
    if cell.truth is not None and (cell.claim is None or cell.truth.epsilon != cell.claim.epsilon):
        found[TRUTH] = cell.truth.epsilon
    return found


def _legend(panels: list[Panel]) -> list[Line2D]:
    cells = [row.cell for panel in panels for row in panel.rows]
    estimates = [cell.estimate for cell in cells if cell.estimate is not None]
    drawn = {name for cell in cells for name in _references(cell)}
    handles = []
    if any(estimate.epsilon_lower is not None for estimate in estimates):
        label = f"{CERTIFIED}: at least this"
        handles.append(Line2D([], [], color=BLUE, marker=">", ls="none", markersize=5, label=label))
    if any(e.epsilon_upper is not None and math.isfinite(e.epsilon_upper) for e in estimates):
        label = "the most that this attack can show"
        handles.append(Line2D([], [], color=BLUE, marker="|", lw=0.8, markersize=5, label=label))
    handles.append(
        Line2D([], [], color=INK, marker="o", markerfacecolor="white", ls="none", label=ESTIMATE)
    )
    if any(estimate.interval is not None for estimate in estimates):
        label = "interval, no bound"
        handles.append(Line2D([], [], color=ORANGE, marker="|", markersize=5, label=label))
    if CLAIMED in drawn:
        handles.append(Line2D([], [], color=INK, lw=1.6, label=CLAIMED))
    if TRUTH in drawn:
        handles.append(Line2D([], [], color=QUIET, lw=1.4, ls=DOTTED, label=TRUTH))
    return handles
