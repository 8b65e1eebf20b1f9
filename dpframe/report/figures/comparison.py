"""Figures that compare estimators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D

from dpframe.report.figures import drawing as notes
from dpframe.report.figures.drawing import (
    CERTIFIED,
    CLAIMED,
    COLUMN,
    DOTTED,
    ESTIMATE,
    FAINT,
    INK,
    PAGE,
    QUIET,
    TRUTH,
    Scale,
    dress,
    legend,
    log_ticks,
    new,
    ordered,
    scale,
    shorten,
)
from dpframe.report.group import groups, same, short
from dpframe.report.words import setting
from dpframe.stats.histograms import hockey_stick
from dpframe.stats.tradeoff import matching_mu

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpframe.report.figures.drawing import Picture
    from dpframe.report.group import Spot
    from dpframe.results.model import CellRecord, Record


# Estimators beside each other: what each certifies, estimates, and how sure it says it is.


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


def unfit_comparison(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    panels = _panels(record)
    if not panels:
        return "none of its cells has an estimate"
    if max(len(panel.rows) for panel in panels) < 2:
        return "nothing is there to compare: one attack, one estimator"
    return None


def draw_comparison(record: Record) -> Picture:
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
    """Return the first replicate: replicates are not estimators to compare."""
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
    """Return each claimed or true loss with the range of rows that share it."""
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
    """Return the claimed and the true value of the estimated loss."""
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


# How well each hockey-stick divergence determines the noise of a Gaussian mechanism.


FEWEST = 8
"""Replicates from which a spread can be told."""
MOST = 6
"""Mechanisms in one figure."""
ORDERS = np.geomspace(1, 10, 25)


def unfit_best_order(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not _replicates(record):
        return f"no Gaussian claim has histograms of {FEWEST} repeats or more"
    return None


def draw_best_order(record: Record) -> Picture:
    """Draws it: a line for each σ, and where the slope of the divergence is steepest."""
    found = _replicates(record)
    shown = sorted(found)[:MOST]
    picture = new(COLUMN, 2.4)
    ax = picture.subplots()
    signs = []
    for place, sigma in enumerate(shown):
        look = ordered(place, len(shown))
        spread = np.array([_spread(found[sigma], order) / sigma for order in ORDERS])
        ax.plot(ORDERS, spread, color=look.color, marker=look.marker, markevery=(place % 4, 4))
        steepest = math.exp(1 / (2 * sigma**2))
        if steepest <= ORDERS[-1]:
            height = np.interp(steepest, ORDERS, spread)
            ax.plot(steepest, height, color=INK, marker="*", markersize=7, ls="none", zorder=4)
        label = f"σ = {setting(sigma)}"
        signs.append(Line2D([], [], color=look.color, marker=look.marker, label=label))
    star = "where the slope of the divergence is steepest"
    signs.append(Line2D([], [], color=INK, marker="*", markersize=7, ls="none", label=star))
    ax.set(xscale="log", yscale="log", xlabel="order α", ylabel="spread of σ / σ")
    log_ticks(ax.xaxis, (1, 2, 5, 10))
    low, high = ax.get_ylim()
    ticks = [m * 10.0**p for p in range(-4, 1) for m in (1, 3)]
    log_ticks(ax.yaxis, [tick for tick in ticks if low <= tick <= high])
    legend(picture, signs)
    picture.caption = " ".join(
        [
            f"Standard deviation of σ over the repeats of {shorten(record.audit.name, 60)}, if it "
            "is read off the hockey-stick divergence of one order; as a share of σ.",
            *notes.more(len(found) - len(shown), "σ"),
            *notes.left_out(record),
        ]
    )
    return picture


def _replicates(record: Record) -> dict[float, list[CellRecord]]:
    """The cells of each σ, of the first estimator that has enough of them."""
    found: dict[tuple[float, str], list[CellRecord]] = {}
    for cell in record.cells:
        claim = cell.claim
        if claim is None or claim.kind != "gaussian-dp" or "edges" not in cell.statistic:
            continue
        if cell.counts is not None and cell.status == "ok":
            sigma = 1 / float(claim.parameters["mu"])
            found.setdefault((sigma, cell.estimator.label), []).append(cell)
    enough: dict[float, list[CellRecord]] = {}
    for (sigma, _), cells in found.items():
        if len(cells) >= FEWEST and len({cell.repeat for cell in cells}) == len(cells):
            enough.setdefault(sigma, cells)
    return enough


def _spread(cells: list[CellRecord], order: float) -> float:
    """Standard deviation of σ over replicates; NaN where some divergence is 0."""
    sigmas = []
    for cell in cells:
        counts: Any = cell.counts
        q, p = (np.array(row, float) / max(sum(row), 1) for row in counts)
        divergence = float(hockey_stick(p, q, math.log(order)))
        if not 0 < divergence < 1:
            return math.nan
        sigmas.append(1 / float(matching_mu(math.log(order), divergence)))
    return float(np.std(sigmas, ddof=1))
