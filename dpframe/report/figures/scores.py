"""Histograms of the scores on D and on D′, with the thresholds that were used."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dpframe.report.figures import notes
from dpframe.report.figures.histograms import NONE, histograms
from dpframe.report.figures.picture import grid, legend, name_axes
from dpframe.report.figures.style import INK, shorten

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from dpframe.record.model import Record
    from dpframe.report.figures.histograms import Floats, Histogram
    from dpframe.report.figures.picture import Picture

MOST_PANELS = 9
BARS = 64
"""About so many bars are drawn at most, each of whole bins."""
TAIL = 5e-4
"""Share of the draws beyond either end of a panel."""
SMALLEST = 1e-300
D_COLOR, D1_COLOR = "#0072B2", "#D55E00"

DOTS: Any = {"color": INK, "marker": "o", "markersize": 1.9, "markeredgewidth": 0.5, "ls": "none"}


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not histograms(record):
        return NONE
    return None


def draw(record: Record) -> Picture:
    """Draws it: a panel for each mechanism and attack."""
    found = histograms(record)
    shown = found[:MOST_PANELS]
    picture, axes = grid(len(shown), height=1.5, shared=False)
    for ax, histogram in zip(axes, shown, strict=True):
        _draw(ax, histogram)
    name_axes(axes, "score", "density")
    legend(picture, _legend(shown))
    nan = [sum(h.nan) for h in shown]
    picture.caption = " ".join(
        [
            f"Scores of {shorten(record.audit.name, 60)} on D and on D′, as counted; beyond the "
            f"ends of a panel are {100 * TAIL:g} % of them or fewer.",
            *([f"{sum(nan)} scores that are NaN are not drawn."] if any(nan) else []),
            *notes.more(len(found) - len(shown), "panel"),
            *notes.left_out(record),
        ]
    )
    return picture


def _draw(ax: Axes, histogram: Histogram) -> None:
    ax.set_title(histogram.title)
    places, density, exact = _bars(histogram)
    for side, color, fill, dashes in ((0, D_COLOR, 0.35, "-"), (1, D1_COLOR, 0.0, (0, (3, 1)))):
        ax.stairs(density[side], places, color=color, lw=1.0, ls=dashes, zorder=3)
        if fill:
            ax.stairs(density[side], places, color=color, alpha=fill, fill=True, lw=0, zorder=2)
    if exact is not None:
        middle = (places[1:] + places[:-1]) / 2
        for row, face in ((exact[0], INK), (exact[1], "white")):
            ax.plot(middle, row, **DOTS, markerfacecolor=face)
    for threshold in histogram.thresholds:
        if places[0] <= threshold <= places[-1]:
            ax.axvline(threshold, color=INK, lw=0.9, ls=(0, (5, 1.5)), zorder=4)
    ax.set_xlim(places[0], places[-1])
    ax.set_ylim(bottom=0)


def _bars(histogram: Histogram) -> tuple[Floats, Floats, Floats | None]:
    """Edges of the bars, their densities and what these are exactly, shape [2, bars]."""
    edges, counts = histogram.edges, histogram.counts
    totals = counts.sum(axis=1, keepdims=True)
    cumulated = counts.cumsum(axis=1)[:, :-1]  # below each edge
    share = cumulated / np.maximum(totals, 1)
    seen = np.flatnonzero((share.max(axis=0) > TAIL) & (share.min(axis=0) < 1 - TAIL))
    first, last = (int(seen[0]), int(seen[-1])) if len(seen) else (0, len(edges) - 1)
    first, last = max(first - 1, 0), min(last + 1, len(edges) - 1)
    # Rice's rule; what is little more is left as it is, for bars that are all of one width.
    bars = min(BARS, math.ceil(2 * float(np.cbrt(totals.max()))))
    wanted = np.linspace(edges[first], edges[last], bars + 1)
    chosen = np.unique(np.clip(np.searchsorted(edges, wanted), first, last))
    if last - first <= 2 * bars:
        chosen = np.arange(first, last + 1)
    places = edges[chosen]

    def density(table: Floats) -> Floats:
        whole = np.maximum(table.sum(axis=1, keepdims=True), SMALLEST)
        inside = np.diff(table.cumsum(axis=1)[:, :-1][:, chosen], axis=1)
        return np.asarray(inside / whole / np.diff(places))

    exact = histogram.exact
    return places, density(counts), None if exact is None else density(exact)


def _legend(shown: list[Histogram]) -> list[Artist]:
    handles: list[Artist] = [
        Patch(facecolor=D_COLOR, alpha=0.5, edgecolor=D_COLOR, label="D"),
        Line2D([], [], color=D1_COLOR, ls=(0, (3, 1)), label="D′"),
    ]
    if any(histogram.exact is not None for histogram in shown):
        handles += [
            Line2D([], [], **DOTS, markerfacecolor=face, label=f"exactly, on {name}")
            for name, face in (("D", INK), ("D′", "white"))
        ]
    if any(histogram.thresholds for histogram in shown):
        label = "threshold that was used"
        handles.append(Line2D([], [], color=INK, lw=0.9, ls=(0, (5, 1.5)), label=label))
    return handles
