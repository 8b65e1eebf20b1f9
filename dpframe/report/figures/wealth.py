"""How the evidence against claims grew: what bets on the draws have earned, as draws are added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from dpframe.report import evidence, words
from dpframe.report.figures import notes
from dpframe.report.figures.axis import decades, log_ticks
from dpframe.report.figures.picture import legend, new
from dpframe.report.figures.style import COLUMN, DOTTED, INK, mark, named, shorten
from dpframe.report.group import groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpframe.record.model import Record
    from dpframe.report.evidence import Growth
    from dpframe.report.figures.picture import Picture

MOST = 6
"""Lines in one figure."""
DEEP = 2.0
"""How far below 0 the figure goes at most, as a multiple of what refutes a claim."""


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not _growths(record):
        return "no cell has bets: they are what the estimator betting and searches make"
    return None


def draw(record: Record) -> Picture:
    """Draws it: a line for each cell, its verdict at its end, and where a claim is refuted."""
    every = _growths(record)
    shown = evidence.furthest(every, MOST)
    picture = new(COLUMN, 2.6)
    ax = picture.subplots()
    signs = []
    names = _names(shown, every)
    for place, growth in enumerate(shown):
        look = named(place)
        n, wealth = zip(*growth.points, strict=True)
        ax.plot(n, wealth, color=look.color, ls=look.dashes, zorder=2)
        ends = {"color": look.color, "marker": mark(growth.cell.verdict), "markersize": 5}
        ax.plot(n[-1:], wealth[-1:], ls="none", zorder=3, **ends)
        label = f"{shorten(names[place], 40)}: {growth.cell.verdict or 'no verdict'}"
        signs.append(Line2D([], [], ls=look.dashes, label=label, **ends))
    for level in dict.fromkeys(growth.level for growth in shown):
        ax.axhline(level, color=INK, lw=0.9, ls=DOTTED, zorder=1)
    refuted = f"where the claim is refuted: {evidence.levels(shown)}"
    signs.append(Line2D([], [], color=INK, lw=0.9, ls=DOTTED, label=refuted))
    _dress(ax, shown)
    legend(picture, signs)
    chosen = "" if len(every) == len(shown) else " Those that earned most."
    picture.caption = " ".join(
        [
            f"Growth of the evidence in {shorten(record.audit.name, 60)}: the logarithm of what "
            f"bets against the claim have earned, over draws on either dataset.{chosen} A sign at "
            "the end of a line is its verdict.",
            *notes.more(len(every) - len(shown), "cell"),
            *notes.left_out(record),
            notes.NO_PROOF,
        ]
    )
    return picture


def _growths(record: Record) -> list[Growth]:
    return evidence.growths(groups(record.cells), record)


def _names(shown: list[Growth], every: list[Growth]) -> list[str]:
    """What tells cells from all others; of one alone the mechanism."""
    parts = [growth.name.split(" · ") for growth in every]
    if len({len(part) for part in parts}) > 1:
        return [growth.name for growth in shown]
    telling = [n for n, column in enumerate(zip(*parts, strict=True)) if len(set(column)) > 1]
    named = (growth.name.split(" · ") for growth in shown)
    return [" · ".join(part[n] for n in telling or [0]) for part in named]


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
