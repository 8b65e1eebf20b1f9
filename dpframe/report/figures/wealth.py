"""How the evidence against claims grew: what bets on the draws have earned, as draws are added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from dpframe.report import evidence, words
from dpframe.report.distinct import DEEP, distinct
from dpframe.report.distinct import named as called
from dpframe.report.figures import notes
from dpframe.report.figures.axis import decades, log_ticks
from dpframe.report.figures.picture import legend, new
from dpframe.report.figures.style import COLUMN, DOTTED, INK, mark, named, shorten
from dpframe.report.group import groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpframe.record.model import Record
    from dpframe.report.distinct import Line
    from dpframe.report.evidence import Growth
    from dpframe.report.figures.picture import Picture

MOST = 6
"""Lines in one figure."""


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not _growths(record):
        return "no cell has bets: they are what the estimator betting and searches make"
    return None


def draw(record: Record) -> Picture:
    """Draws it: a line for each cell, its verdict at its end, and where a claim is refuted."""
    every = _growths(record)
    lines = distinct(every, MOST)
    shown = [line.first for line in lines]
    picture = new(COLUMN, 2.6)
    ax = picture.subplots()
    signs = []
    names = _names(lines, every)
    for place, growth in enumerate(shown):
        look = named(place)
        n, wealth = zip(*growth.points, strict=True)
        ax.plot(n, wealth, color=look.color, ls=look.dashes, zorder=2)
        ends = {"color": look.color, "marker": mark(growth.cell.verdict), "markersize": 5}
        ax.plot(n[-1:], wealth[-1:], ls="none", zorder=3, **ends)
        label = f"{shorten(names[place], 48)}: {growth.cell.verdict or 'no verdict'}"
        signs.append(Line2D([], [], ls=look.dashes, label=label, **ends))
    for level in dict.fromkeys(growth.level for growth in shown):
        ax.axhline(level, color=INK, lw=0.9, ls=DOTTED, zorder=1)
    refuted = f"where the claim is refuted: {evidence.levels(shown)}"
    signs.append(Line2D([], [], color=INK, lw=0.9, ls=DOTTED, label=refuted))
    _dress(ax, shown)
    legend(picture, signs)
    drawn = sum(len(line.cells) for line in lines)
    chosen = " Cells whose lines are alike share one." if drawn > len(lines) else ""
    if drawn < len(every):
        chosen += " Of all lines those that differ most."
    picture.caption = " ".join(
        [
            f"Growth of the evidence in {shorten(record.audit.name, 60)}: the logarithm of what "
            f"bets against the claim have earned, over draws on either dataset.{chosen} A sign at "
            "the end of a line is its verdict.",
            *notes.more(len(every) - drawn, "cell"),
            *notes.left_out(record),
            notes.NO_PROOF,
        ]
    )
    return picture


def _growths(record: Record) -> list[Growth]:
    return evidence.growths(groups(record.cells), record)


def _names(lines: list[Line], every: list[Growth]) -> list[str]:
    """What tells cells from all others; of one alone the mechanism."""
    parts = [growth.name.split(" · ") for growth in every]
    alike = len({len(part) for part in parts}) == 1
    columns = enumerate(zip(*parts, strict=True)) if alike else ()
    telling = [n for n, column in columns if len(set(column)) > 1] or [0]

    def name(growth: Growth) -> str:
        own = growth.name.split(" · ")
        return " · ".join(own[n] for n in telling) if alike else growth.name

    return [called(line, [name(growth) for growth in line.cells]) for line in lines]


def _dress(ax: Axes, shown: list[Growth]) -> None:
    lowest = min(y for growth in shown for _, y in growth.points)
    level = max(growth.level for growth in shown)
    ax.set(xscale="log", xlabel="draws on either dataset", ylabel="ln wealth")
    if lowest < -DEEP * level:
        ax.set_ylim(bottom=-DEEP * level)
    first = min(growth.points[0][0] for growth in shown)
    last = max(growth.points[-1][0] for growth in shown)
    ticks = decades(first, last)
    log_ticks(ax.xaxis, ticks, [words.quantity(int(tick)) for tick in ticks])
