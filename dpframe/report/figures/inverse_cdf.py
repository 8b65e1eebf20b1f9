"""Inverse distribution functions of the scores: what a uniform variable becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dpframe.report.figures import notes
from dpframe.report.figures.axis import log_ticks
from dpframe.report.figures.histograms import NONE, histograms
from dpframe.report.figures.picture import grid, legend, name_axes
from dpframe.report.figures.scores import D1_COLOR, D_COLOR, DOTS, MOST_PANELS
from dpframe.report.figures.style import FAINT, INK, QUIET, shorten
from dpframe.report.words import setting

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from dpframe.record.model import Record
    from dpframe.report.figures.histograms import Floats, Histogram
    from dpframe.report.figures.picture import Picture

NOTHING = 1e-12
"""Rounding of probabilities."""
HATCH = "////"
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    return None if histograms(record) else NONE


def draw(record: Record) -> Picture:
    """Draws it: a panel for each mechanism and attack."""
    found = histograms(record)
    shown = found[:MOST_PANELS]
    picture, axes = grid(len(shown), height=2.1)
    for ax, histogram in zip(axes, shown, strict=True):
        _draw(ax, histogram)
    name_axes(axes, "uniform variable u; above, u − ½", "score")
    legend(picture, _legend(shown))
    picture.caption = " ".join(
        [
            f"Inverse distribution functions of the scores of {shorten(record.audit.name, 60)}: a "
            "share u of the draws is below the curve's height. Scores that are NaN stand last.",
            *notes.more(len(found) - len(shown), "panel"),
            *notes.left_out(record),
        ]
    )
    return picture


def _draw(ax: Axes, histogram: Histogram) -> None:
    ax.set_title(histogram.title)
    looks = ((0, D_COLOR, "-", INK), (1, D1_COLOR, (0, (3, 1)), "white"))
    for side, color, dashes, face in looks:
        counts, nan = histogram.counts[side], histogram.nan[side]
        below = counts.cumsum()[:-1] / max(counts.sum() + nan, 1)
        _curve(ax, below, histogram.edges, color=color, ls=dashes)
        if histogram.exact is not None:
            exact = histogram.exact[side].cumsum()[:-1]
            _curve(ax, exact, histogram.edges, **DOTS, markerfacecolor=face, markevery=3)
    numbers = 1 - min(nan / max(c.sum() + nan, 1) for c, nan in _sides(histogram))
    if numbers < 1:
        ax.axvspan(numbers, 1, facecolor="none", edgecolor=FAINT, hatch=HATCH, lw=0, zorder=0)
    ax.set_xlim(0, 1)
    log_ticks(ax.xaxis, TICKS)
    upper = ax.secondary_xaxis("top")
    log_ticks(upper.xaxis, TICKS, [setting(tick - 0.5).replace("-", "−") for tick in TICKS])
    upper.tick_params(colors=QUIET)


def _sides(histogram: Histogram) -> list[tuple[Floats, int]]:
    return list(zip(histogram.counts, histogram.nan, strict=True))


def _curve(ax: Axes, below: Floats, edges: Floats, **look: Any) -> None:
    """From the last edge that nothing is below to the first that all is below."""
    first = max(int(np.searchsorted(below, NOTHING, "right")) - 1, 0)
    last = int(np.searchsorted(below, below[-1] - NOTHING, "left")) + 1
    ax.plot(below[first:last], edges[first:last], zorder=2, **look)


def _legend(shown: list[Histogram]) -> list[Artist]:
    handles: list[Artist] = [
        Line2D([], [], color=D_COLOR, label="D"),
        Line2D([], [], color=D1_COLOR, ls=(0, (3, 1)), label="D′"),
    ]
    if any(histogram.exact is not None for histogram in shown):
        handles += [
            Line2D([], [], **DOTS, markerfacecolor=face, label=f"exactly, on {name}")
            for name, face in (("D", INK), ("D′", "white"))
        ]
    if any(any(histogram.nan) for histogram in shown):
        handles.append(Patch(facecolor="none", edgecolor=FAINT, hatch=HATCH, label="NaN"))
    return handles
