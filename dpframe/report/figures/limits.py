"""Figures of the power that a plan expects, and of the slack that a run leaves."""

from typing import NamedTuple

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dpframe.errors import DpframeError
from dpframe.report import content, words
from dpframe.report.figures import comparison, drawing, scales
from dpframe.report.figures.drawing import INK, Picture
from dpframe.report.figures.points import told
from dpframe.report.group import groups, telling
from dpframe.report.terminal.plan import Outlook
from dpframe.results.model import CellRecord, Record

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
            names = [*(group.names[part] for part in naming), *told(spot, spot.values)]
            for cell in spot.done:
                repeat = [f"repeat {cell.repeat}"] if len(spot.cells) > 1 else []
                if (bar := _bar(cell, drawing.shorten(" · ".join(names + repeat), 44))) is not None:
                    bars.append(bar)
    return bars or "none of its cells has slack: a certified bound below or above a finite claim"


def _bar(cell: CellRecord, label: str) -> Bar | None:
    lower = None if cell.estimate is None else cell.estimate.epsilon_lower
    if cell.slack is None or lower is None:
        return None
    parts = content.slack(cell)
    sizes = {"certified": lower} | {p.name: p.size for p in parts if p.size is not None}
    # The parts add up to the claim: they are claimed − certified ε, and the certified one.
    if (claimed := sum(sizes.values())) <= content.NEGLIGIBLE:
        return None
    shares = {name: size / claimed for name, size in sizes.items()}
    return Bar(label, shares, any(part.size is None or part.sign for part in parts))


def draw_slack(record: Record, found: list[Bar]) -> Picture:
    """Draw a bar for each cell: certified ε and the parts of the slack, which add up to 1."""
    bars = found[:MOST_BARS]
    picture = drawing.new(drawing.PAGE, comparison.ROW * (len(bars) + 2.4) + 0.3)
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
    ax.axvline(1, **drawing.REFERENCES[drawing.CLAIMED], zorder=3)
    drawing.name_rows(ax, [bar.label for bar in bars])
    ax.set_xlabel("ε / claimed ε")
    drawn = {name for bar in bars for name in bar.parts}
    handles = [
        Patch(facecolor=color, hatch=hatch, edgecolor=INK, lw=0.3, label=name)
        for name, (color, hatch) in PARTS.items()
        if name in drawn
    ]
    line = Line2D([], [], **drawing.REFERENCES[drawing.CLAIMED], label=drawing.CLAIMED)
    return drawing.finish(
        picture,
        [*handles, line],
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
        style = {"color": look.color, "marker": look.marker, "ls": look.dashes}
        for ax, row in zip(axes, rows, strict=True):
            ax.plot(*zip(*row["by_trials"][multiple], strict=True), **style)
        handles.append(Line2D([], [], **style, label=f"true loss {multiple:g} × claimed"))
    sizes = [n for row in rows for n, _ in row["by_trials"][losses[0]]]
    planned = {"color": drawing.QUIET, "lw": 0.8, "ls": drawing.DOTTED}
    for ax, row in zip(axes, rows, strict=True):
        ax.axvline(row["trials"], **planned, zorder=0.5)
        ax.axhline(row["probability"], color=drawing.FAINT, lw=0.6, zorder=0.5)
        ax.set(xscale="log", ylim=(-0.03, 1.03))
        scales.log_ticks(ax.xaxis, scales.decades(min(sizes), max(sizes)))
        ax.set_title(drawing.shorten(f"{row['label']}: ε = {words.brief(row['claimed'])}", 44))
    handles.append(Line2D([], [], **planned, label="planned trials"))
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
