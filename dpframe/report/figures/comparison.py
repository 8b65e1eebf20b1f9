"""Figures that compare estimators or orders of divergences, and of power and slack."""

import math
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from dpframe.errors import DpframeError
from dpframe.report import verdict_text
from dpframe.report.figures import curves, drawing, scales
from dpframe.report.figures.drawing import CLAIMED, INK, TRUTH, Picture, entry
from dpframe.report.figures.scales import Scale
from dpframe.report.group import groups, same, telling
from dpframe.report.number_format import brief, setting
from dpframe.report.terminal.plan import Outlook
from dpframe.results.model import CellRecord, EstimateRecord, Record
from dpframe.stats import histograms, tradeoff

MOST_PANELS = 6
MOST_ROWS = 24  # in a panel
ROW = 0.17  # height of a row, in inches
BLUE, ORANGE = "#0072B2", "#D55E00"


class ComparisonRow(NamedTuple):
    """One estimator behind one attack."""

    label: str
    cell: CellRecord
    estimate: EstimateRecord


class ComparisonPanel(NamedTuple):
    """Rows about one mechanism."""

    title: str
    rows: list[ComparisonRow]


def draw_comparison(record: Record, found: list[ComparisonPanel]) -> Picture:
    """Draw a panel for each mechanism and swept value, with a row for each estimator."""
    panels = [panel._replace(rows=panel.rows[:MOST_ROWS]) for panel in found[:MOST_PANELS]]
    heights = [len(panel.rows) + 2.4 for panel in panels]
    picture = drawing.new(drawing.PAGE, ROW * sum(heights) + 0.3)
    axes = picture.subplots(len(panels), 1, squeeze=False, height_ratios=heights).ravel()
    for ax, panel in zip(axes, panels, strict=True):
        _draw(ax, panel)
    axes[-1].set_xlabel("loss ε")
    cut = sum(max(len(p.rows) - MOST_ROWS, 0) for p in found[:MOST_PANELS])
    return drawing.finish(
        picture,
        _legend([row for panel in panels for row in panel.rows]),
        record,
        f"Estimators of {drawing.audit_name(record)} on the same draws.",
        drawing.promise(record),
        "Intervals and point values are not bounds.",
        drawing.more(len(found) - len(panels), "panel"),
        drawing.more(cut, "row"),
    )


def find_comparison(record: Record) -> list[ComparisonPanel] | str:
    """Return the rows of each panel, or why there is nothing to compare."""
    found = groups(record.cells)
    several = 1 in telling(found)
    panels: dict[tuple[str, ...], ComparisonPanel] = {}
    for group in found:
        for spot in group.spots:
            # The first replicate: replicates are not estimators to compare.
            ran = ((c, c.estimate) for c in spot.done if c.estimate is not None)
            if (cell := next(ran, None)) is None:
                continue
            own = [k for k in spot.values if k.startswith(("estimator.", "attack."))]
            rest = [k for k in spot.values if k not in own]
            who = (group.names[0], *(same(spot.values[k]) for k in rest))
            title = drawing.shorten(" · ".join([group.names[0], *spot.texts(rest)]), 60)
            names = [*group.names[1 if several else 2 :], *spot.texts(own)]
            label = drawing.shorten(" · ".join(names), 40)
            panels.setdefault(who, ComparisonPanel(title, [])).rows.append(
                ComparisonRow(label, *cell)
            )
    if not panels:
        return "none of its cells has an estimate"
    if max(len(panel.rows) for panel in panels.values()) < 2:
        return "there is nothing to compare: one attack, one estimator"
    return list(panels.values())


def _draw(ax: Axes, panel: ComparisonPanel) -> None:
    ax.set_title(panel.title)
    anchors = [value for row in panel.rows for value in _references(row.cell).values()]
    scaled = scales.scale([*(v for row in panel.rows for v in _values(row)), *anchors], anchors)
    for name, style in drawing.REFERENCES.items():
        for value, first, end in _stretches(panel.rows, name):
            at = scaled.place(value)
            ax.plot([at, at], [first - 0.5, end - 0.5], **style, zorder=1)
    for place, row in enumerate(panel.rows):
        _draw_row(ax, place, row.estimate, scaled)
    scales.dress(ax, "x", scaled)
    drawing.name_rows(ax, [row.label for row in panel.rows])


def _stretches(rows: list[ComparisonRow], name: str) -> list[tuple[float, int, int]]:
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


def _draw_row(ax: Axes, place: int, estimate: EstimateRecord, scaled: Scale) -> None:
    ax.axhline(place, color=drawing.FAINT, lw=0.4, zorder=0.5)
    tick: Any = {"marker": "|", "markersize": 5, "zorder": 2}
    if estimate.interval is not None:
        ax.plot(scaled.places(estimate.interval), [place, place], color=ORANGE, lw=1.0, **tick)
    if estimate.epsilon_lower is not None:
        bound = scaled.place(estimate.epsilon_lower)
        if (limit := _limit(estimate)) is not None:
            ax.plot([bound, scaled.place(limit)], [place, place], color=BLUE, lw=0.8, zorder=2)
            ax.plot(scaled.place(limit), place, color=BLUE, **tick)
        ax.plot(bound, place, color=BLUE, marker=">", markersize=5, zorder=3)
    if not math.isnan(estimate.epsilon):
        point = scaled.place(estimate.epsilon)
        ax.plot(point, place, color=INK, marker="o", markerfacecolor="white", zorder=3)


def _limit(estimate: EstimateRecord) -> float | None:
    limit = estimate.epsilon_upper
    return limit if limit is not None and math.isfinite(limit) else None


def _values(row: ComparisonRow) -> list[float]:
    e = row.estimate
    found = [e.epsilon, e.epsilon_lower, *(e.interval or ()), _limit(e)]
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


def _legend(rows: list[ComparisonRow]) -> list[Any]:
    drawn = {name for row in rows for name in _references(row.cell)}
    found = [row.estimate for row in rows]
    handles = []
    if any(estimate.epsilon_lower is not None for estimate in found):
        handles.append(entry(drawing.AT_LEAST, color=BLUE, marker=">", ls="none", markersize=5))
    if any(_limit(estimate) is not None for estimate in found):
        label = "the most that this attack can show"
        handles.append(entry(label, color=BLUE, marker="|", lw=0.8, markersize=5))
    handles.append(entry(drawing.ESTIMATE, **drawing.SIGN, markerfacecolor="white"))
    if any(estimate.interval is not None for estimate in found):
        handles.append(entry("interval, no bound", color=ORANGE, marker="|", markersize=5))
    return handles + [entry(k, **style) for k, style in drawing.REFERENCES.items() if k in drawn]


# The best order: the spread of σ if it is computed from the divergence of each order.

FEWEST = 8  # replicates for a standard deviation, at least
MOST = 6  # mechanisms in one figure
ORDERS = np.geomspace(1, 10, 25)


def draw_best_order(record: Record, found: dict[float, list[CellRecord]]) -> Picture:
    """Draw a line for each σ, and where the slope of the divergence is steepest."""
    shown = sorted(found)[:MOST]
    picture = drawing.new(drawing.COLUMN, 2.4)
    ax = picture.subplots()
    star: Any = {"color": INK, "marker": "*", "markersize": 7, "ls": "none"}
    handles = []
    for place, sigma in enumerate(shown):
        look = drawing.ordered(place, len(shown))
        spread = np.array([_spread(found[sigma], order) / sigma for order in ORDERS])
        ax.plot(ORDERS, spread, **look.sign, markevery=(place % 4, 4))
        steepest = math.exp(1 / (2 * sigma**2))
        if steepest <= ORDERS[-1]:
            ax.plot(steepest, np.interp(steepest, ORDERS, spread), **star, zorder=4)
        handles.append(entry(f"σ = {setting(sigma)}", **look.sign))
    handles.append(entry("where the slope of the divergence is steepest", **star))
    ax.set(xscale="log", yscale="log", xlabel="order α", ylabel="spread of σ / σ")
    scales.log_ticks(ax.xaxis, (1, 2, 5, 10))
    low, high = ax.get_ylim()
    ticks = [m * 10.0**p for p in range(-4, 1) for m in (1, 3)]
    scales.log_ticks(ax.yaxis, [tick for tick in ticks if low <= tick <= high])
    return drawing.finish(
        picture,
        handles,
        record,
        f"Standard deviation of σ over the repeats of {drawing.audit_name(record)}, if it "
        "is read off the hockey-stick divergence of one order; as a share of σ.",
        drawing.more(len(found) - len(shown), "σ"),
        proof=False,
    )


def find_best_order(record: Record) -> dict[float, list[CellRecord]] | str:
    """Return the cells of each σ, of the first estimator that has enough of them."""
    found: dict[tuple[float, str], list[CellRecord]] = {}
    for cell in record.cells:
        claim = cell.claim
        if claim is None or claim.kind != "gaussian-dp" or "edges" not in cell.statistic:
            continue
        if cell.counts is not None and cell.status == "ok":
            (mu,) = curves.numbers_in(claim.parameters, "mu") or (0.0,)
            sigma = 1 / mu if mu else math.inf
            found.setdefault((sigma, cell.estimator.label), []).append(cell)
    enough: dict[float, list[CellRecord]] = {}
    for (sigma, _), cells in found.items():
        if len(cells) >= FEWEST and len({cell.repeat for cell in cells}) == len(cells):
            enough.setdefault(sigma, cells)
    return enough or f"no Gaussian claim has histograms of {FEWEST} repeats or more"


def _spread(cells: list[CellRecord], order: float) -> float:
    """Return the standard deviation of σ over replicates; NaN if some divergence is 0."""
    sigmas = []
    for cell in cells:
        counts: Any = cell.counts
        q, p = (np.array(row, float) / max(sum(row), 1) for row in counts)
        divergence = float(histograms.hockey_stick(p, q, math.log(order)))
        if not 0 < divergence < 1:
            return math.nan
        sigmas.append(1 / float(tradeoff.matching_mu(math.log(order), divergence)))
    return float(np.std(sigmas, ddof=1))


MOST_BARS = 40
BEYOND = 2.0  # claims: an axis ends here

# Colours of the bars on the page of a report, in their order; hatches for print in grey.
PARTS = {
    "certified": ("#4477aa", ""),
    "pair": ("#66ccee", "..."),
    "attack": ("#228833", "////"),
    "sampling": ("#ccbb44", ""),
    "confidence": ("#ee6677", "\\\\\\\\"),
    "cells": ("#aa3377", "xxxx"),
    "looks": ("#bbbbbb", "----"),
    "resolution": ("#000000", ""),
}


class Bar(NamedTuple):
    """Certified ε and the parts of the slack of one cell, as shares of the claimed ε."""

    label: str
    parts: dict[str, float]  # they add up to 1
    partial: bool  # True if a part is unknown or only limited


def find_slack(record: Record) -> list[Bar] | str:
    """Return a bar for each certified cell with slack, or the reason for none."""
    found, bars = groups(record.cells), []
    naming = telling(found)
    for group in found:
        for spot in group.spots:
            names = [*(group.names[part] for part in naming), *spot.texts(spot.values)]
            for cell in spot.done:
                name = drawing.shorten(" · ".join(names + spot.repeat(cell)), 44)
                if (bar := _bar(cell, name)) is not None:
                    bars.append(bar)
    return bars or "none of its cells has slack: a certified bound below or above a finite claim"


def _bar(cell: CellRecord, label: str) -> Bar | None:
    lower = None if cell.estimate is None else cell.estimate.epsilon_lower
    if cell.slack is None or lower is None:
        return None
    parts = verdict_text.slack(cell)
    sizes = {"certified": lower} | {p.name: p.size for p in parts if p.size is not None}
    # The parts add up to the claim: they are claimed − certified ε, and the certified one.
    if (claimed := sum(sizes.values())) <= verdict_text.NEGLIGIBLE:
        return None
    shares = {name: size / claimed for name, size in sizes.items()}
    return Bar(label, shares, any(part.size is None or part.sign for part in parts))


def draw_slack(record: Record, found: list[Bar]) -> Picture:
    """Draw a bar for each cell: certified ε and the parts of the slack, which add up to 1."""
    bars = found[:MOST_BARS]
    picture = drawing.new(drawing.PAGE, ROW * (len(bars) + 2.4) + 0.3)
    ax = picture.subplots()
    low, high = 0.0, 1.0
    for row, bar in enumerate(bars):
        ends = {True: 0.0, False: 0.0}  # right end of positive parts, left end of negative parts
        for name, size in bar.parts.items():
            color, hatch = PARTS[name]
            ax.barh(row, size, 0.72, ends[size > 0], color=color, hatch=hatch, ec=INK, lw=0.3)
            ends[size > 0] += size
        low, high = min(low, ends[False]), max(high, ends[True])
    cut = low < -BEYOND or high > BEYOND + 1
    ax.set_xlim(max(1.03 * low, -BEYOND), min(1.03 * high, BEYOND + 1))
    claimed = drawing.REFERENCES[CLAIMED]
    ax.axvline(1, **claimed, zorder=3)
    drawing.name_rows(ax, [bar.label for bar in bars])
    ax.set_xlabel("ε / claimed ε")
    drawn = {name for bar in bars for name in bar.parts}
    handles = [
        Patch(facecolor=color, hatch=hatch, edgecolor=INK, lw=0.3, label=name)
        for name, (color, hatch) in PARTS.items()
        if name in drawn
    ]
    return drawing.finish(
        picture,
        [*handles, entry(CLAIMED, **claimed)],
        record,
        f"Slack of {drawing.audit_name(record)}: certified ε and the parts of claimed − certified "
        "ε, as shares of the claimed ε. They add up to 1; parts below 0 are drawn left of 0.",
        "An unknown part is contained in the next one; if the limit of an attack is learned, "
        "attack is at least, and sampling at most, what is drawn."
        if any(bar.partial for bar in bars)
        else "",
        "Bars that pass the ends of the axis are cut." if cut else "",
        drawing.promise(record),
        drawing.more(len(found) - len(bars), "bar"),
    )


def draw_power(plan: Outlook) -> Picture:
    """Draw a panel for each claim of a plan: power against trials, a line for each true loss."""
    rows = [row for row in plan["power"] if row["by_trials"]]
    if not rows:
        raise DpframeError("no claim of this plan has a power that can be drawn against trials")
    picture, axes = drawing.grid(len(rows), across=2)
    losses = list(rows[0]["by_trials"])
    handles = []
    for place, multiple in enumerate(losses):
        look = drawing.ordered(place, len(losses))
        style = look.sign | {"ls": look.dashes}
        for ax, row in zip(axes, rows, strict=True):
            ax.plot(*zip(*row["by_trials"][multiple], strict=True), **style)
        handles.append(entry(f"true loss {multiple:g} × claimed", **style))
    sizes = [n for row in rows for n, _ in row["by_trials"][losses[0]]]
    planned = {"color": drawing.QUIET, "lw": 0.8, "ls": drawing.DOTTED}
    for ax, row in zip(axes, rows, strict=True):
        ax.axvline(row["trials"], **planned, zorder=0.5)
        ax.axhline(row["probability"], color=drawing.FAINT, lw=0.6, zorder=0.5)
        ax.set(xscale="log", ylim=(-0.03, 1.03))
        scales.log_ticks(ax.xaxis, scales.decades(min(sizes), max(sizes)))
        ax.set_title(drawing.shorten(f"{row['label']}: ε = {brief(row['claimed'])}", 44))
    handles.append(entry("planned trials", **planned))
    drawing.name_axes(axes, "trials per dataset", "power")
    drawing.legend(picture, handles)
    models = " or ".join(sorted({row["model"] for row in rows}))
    said = [
        f"Probability that {drawing.shorten(plan['name'], 60)} refutes a claim, against trials; "
        f"the grey line is {rows[0]['probability']:g}. Model of the true loss: {models}, for an "
        "attack that sees all of it. With a weaker attack, another pair, or a search of more "
        "pairs, it is detected less often.",
        drawing.more(len(plan["power"]) - len(rows), "claim"),
    ]
    picture.caption = " ".join(filter(None, said))
    return picture
