"""Histograms of the scores on D and on D′, with the thresholds that were used."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dpframe.report.figures import notes
from dpframe.report.figures.picture import grid, legend, name_axes
from dpframe.report.figures.style import INK, shorten
from dpframe.report.group import groups, same, short
from dpframe.report.words import setting

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from dpframe.record.model import CellRecord, Record
    from dpframe.report.figures.picture import Picture

    Floats = npt.NDArray[np.float64]

MOST_PANELS = 9
BARS = 64
"""About so many bars are drawn, each of whole bins."""
TAIL = 5e-4
"""Share of the draws beyond either end of a panel."""
FEWEST = 4
"""Edges; with fewer it is decisions, or almost, that were counted."""
D_COLOR, D1_COLOR = "#0072B2", "#D55E00"

_THRESHOLD = re.compile(r"scores (?:from|above|below|up to) (-?[\d.]+(?:e[-+]?\d+)?)")


class Histogram(NamedTuple):
    """What was counted of one attack on one mechanism."""

    title: str
    edges: Floats
    """Inner edges, ascending, shape [k − 1]."""
    counts: Floats
    """On D and on D′, of k bins, the outer two open; shape [2, k]."""
    nan: tuple[int, int]
    thresholds: tuple[float, ...]

    @property
    def finest(self) -> int:
        """Number of bins."""
        return len(self.edges) + 1


def unfit(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not _histograms(record):
        return "none of its cells counted scores in bins"
    return None


def draw(record: Record) -> Picture:
    """Draws it: a panel for each mechanism and attack."""
    found = _histograms(record)
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


def _histograms(record: Record) -> list[Histogram]:
    """One for each mechanism, attack and swept values: of several the one with finest bins."""
    found = groups(record.cells)
    several = len({group.names[1] for group in found}) > 1
    kept: dict[tuple[str, ...], Histogram] = {}
    cuts: dict[tuple[str, ...], set[float]] = {}
    for group in found:
        for spot in group.spots:
            keys = [k for k in spot.values if not k.startswith(("audit.", "estimator."))]
            who = (group.names[0], group.names[1], *(same(spot.values[k]) for k in keys))
            place = [f"{short(k, spot.values)} {setting(spot.values[k])}" for k in keys]
            names = [group.names[0], *([group.names[1]] if several else []), *place]
            for cell in spot.done[:1]:
                cuts.setdefault(who, set()).update(_thresholds(cell))
                new = _histogram(shorten(" · ".join(names), 40), cell)
                if new is not None and (who not in kept or new.finest > kept[who].finest):
                    kept[who] = new
    return [h._replace(thresholds=tuple(sorted(cuts[who]))) for who, h in kept.items()]


def _histogram(title: str, cell: CellRecord) -> Histogram | None:
    """Of bins between recorded edges; the first count of a statistic with edges is that of NaN."""
    edges = cell.statistic.get("edges")
    counts: Any = cell.counts
    if not isinstance(edges, list) or not isinstance(counts, list) or len(edges) < 2:
        return None
    if any(not isinstance(row, list) or len(row) != len(edges) + 2 for row in counts):
        return None
    known = np.array([float(edge) for edge in edges])
    finite = np.isfinite(known) & (np.abs(known) < 1e30)
    table = np.array(counts, float)
    bins = table[:, 1:]
    # Bins between edges that are padding, or ends of float32, go into the outer ones.
    inner = np.flatnonzero(finite)
    if len(inner) < FEWEST:
        return None
    first, last = int(inner[0]), int(inner[-1])
    low = bins[:, : first + 1].sum(axis=1, keepdims=True)
    high = bins[:, last + 1 :].sum(axis=1, keepdims=True)
    middle = bins[:, first + 1 : last + 1]
    nan = (int(table[0, 0]), int(table[1, 0]))
    return Histogram(title, known[first : last + 1], np.hstack([low, middle, high]), nan, ())


def _thresholds(cell: CellRecord) -> list[float]:
    """Those that the statistic names, or a remark of the estimator."""
    listed = cell.statistic.get("threshold")
    found = [float(listed)] if isinstance(listed, int | float) else []
    remarks = cell.estimate.notes if cell.estimate is not None else []
    return [*found, *(float(m.group(1)) for note in remarks if (m := _THRESHOLD.search(note)))]


def _draw(ax: Axes, histogram: Histogram) -> None:
    ax.set_title(histogram.title)
    places, density = _bars(histogram)
    for side, color, fill, dashes in ((0, D_COLOR, 0.35, "-"), (1, D1_COLOR, 0.0, (0, (3, 1)))):
        ax.stairs(density[side], places, color=color, lw=1.0, ls=dashes, zorder=3)
        if fill:
            ax.stairs(density[side], places, color=color, alpha=fill, fill=True, lw=0, zorder=2)
    for threshold in histogram.thresholds:
        if places[0] <= threshold <= places[-1]:
            ax.axvline(threshold, color=INK, lw=0.9, ls=(0, (5, 1.5)), zorder=4)
    ax.set_xlim(places[0], places[-1])
    ax.set_ylim(bottom=0)


def _bars(histogram: Histogram) -> tuple[Floats, Floats]:
    """Edges of the bars and their densities, shape [2, bars]."""
    edges, counts = histogram.edges, histogram.counts
    totals = counts.sum(axis=1, keepdims=True)
    cumulated = counts.cumsum(axis=1)[:, :-1]  # below each edge
    share = cumulated / np.maximum(totals, 1)
    seen = np.flatnonzero((share.max(axis=0) > TAIL) & (share.min(axis=0) < 1 - TAIL))
    first, last = (int(seen[0]), int(seen[-1])) if len(seen) else (0, len(edges) - 1)
    first, last = max(first - 1, 0), min(last + 1, len(edges) - 1)
    wanted = np.linspace(edges[first], edges[last], BARS + 1)
    chosen = np.unique(np.clip(np.searchsorted(edges, wanted), first, last))
    places = edges[chosen]
    inside = np.diff(cumulated[:, chosen], axis=1)
    return places, inside / np.maximum(totals, 1) / np.diff(places)


def _legend(shown: list[Histogram]) -> list[Artist]:
    handles: list[Artist] = [
        Patch(facecolor=D_COLOR, alpha=0.5, edgecolor=D_COLOR, label="D"),
        Line2D([], [], color=D1_COLOR, ls=(0, (3, 1)), label="D′"),
    ]
    if any(histogram.thresholds for histogram in shown):
        label = "threshold that was used"
        handles.append(Line2D([], [], color=INK, lw=0.9, ls=(0, (5, 1.5)), label=label))
    return handles
