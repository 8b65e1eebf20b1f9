"""Figures of score histograms."""

import math
import re
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from dpframe.common.types import Floats
from dpframe.report.figures import drawing, scales
from dpframe.report.figures.drawing import FAINT, INK, QUIET, Picture
from dpframe.report.group import groups, same, telling
from dpframe.report.number_format import number, setting
from dpframe.results.model import CellRecord, Record

FEWEST = 4  # edges; a histogram with fewer counts decisions rather than scores

_THRESHOLD = re.compile(
    r"scores (?:(?:from|above|below|up to|more than|less than|at most) )?(-?[\d.]+(?:e[-+]?\d+)?)"
)


class HistogramPanel(NamedTuple):
    """The counts of one attack on one mechanism."""

    title: str
    edges: Floats  # inner edges, ascending, shape [k − 1]
    counts: Floats  # on D and on D′, of k bins, the outer two open; shape [2, k]
    nan: tuple[int, int]
    thresholds: tuple[float, ...] = ()
    exact: Floats | None = None  # exact probability of each bin, if known; shape [2, k]


def histograms(record: Record) -> list[HistogramPanel]:
    """List the histograms with the finest bins of each mechanism, attack and swept values."""
    found = groups(record.cells)
    several = 1 in telling(found)
    kept: dict[tuple[str, ...], HistogramPanel] = {}
    cuts: dict[tuple[str, ...], set[float]] = {}
    for group in found:
        for spot in group.spots:
            keys = [k for k in spot.values if not k.startswith(("audit.", "estimator."))]
            who = (group.names[0], group.names[1], *(same(spot.values[k]) for k in keys))
            names = [*group.names[: 2 if several else 1], *spot.texts(keys)]
            for cell in spot.done[:1]:
                cuts.setdefault(who, set()).update(_thresholds(cell))
                made = _histogram(drawing.shorten(" · ".join(names), 40), cell)
                if made and (who not in kept or len(made.edges) > len(kept[who].edges)):
                    kept[who] = made
    return [h._replace(thresholds=tuple(sorted(cuts[who]))) for who, h in kept.items()]


def _histogram(title: str, cell: CellRecord) -> HistogramPanel | None:
    """Return the histograms between recorded edges; the first count is that of NaN."""
    edges = cell.statistic.get("edges")
    counts: Any = cell.counts
    if not isinstance(edges, list) or not isinstance(counts, list) or len(edges) < 2:
        return None
    if any(not isinstance(row, list) or len(row) != len(edges) + 2 for row in counts):
        return None
    known = np.array([float(edge) for edge in edges])
    inner = np.flatnonzero(np.isfinite(known) & (np.abs(known) < 1e30))
    if len(inner) < FEWEST:
        return None
    first, last = int(inner[0]), int(inner[-1])

    def folded(table: Any) -> Floats:
        """Drop NaN, and add bins between edges that are padding to the outer bins."""
        bins = np.array(table, float)[:, 1:]
        low = bins[:, : first + 1].sum(axis=1, keepdims=True)
        high = bins[:, last + 1 :].sum(axis=1, keepdims=True)
        return np.hstack([low, bins[:, first + 1 : last + 1], high])

    shares = cell.exact_shares or []
    exact = folded(shares) if [len(row) for row in shares] == [len(row) for row in counts] else None
    nan = (int(counts[0][0]), int(counts[1][0]))
    return HistogramPanel(title, known[first : last + 1], folded(counts), nan, exact=exact)


def _thresholds(cell: CellRecord) -> list[float]:
    """Return the thresholds in the statistic and in the estimator's notes."""
    listed = cell.statistic.get("threshold")
    found = [float(listed)] if isinstance(listed, int | float) else []
    remarks = cell.estimate.notes if cell.estimate is not None else []
    return [*found, *(float(m.group(1)) for note in remarks if (m := _THRESHOLD.search(note)))]


MOST_PANELS = 9
BARS = 64  # bars in a panel, at most about; each consists of whole bins
TAIL = 5e-4  # share of the draws beyond either end of a panel
SMALLEST = 1e-300
D_COLOR, D1_COLOR, DASHED = "#0072B2", "#D55E00", (0, (3, 1))

DOTS: Any = {"color": INK, "marker": "o", "markersize": 1.9, "markeredgewidth": 0.5, "ls": "none"}
THRESHOLD: Any = {"color": INK, "lw": 0.9, "ls": (0, (5, 1.5))}


def find_histograms(record: Record) -> list[HistogramPanel] | str:
    """Return the histograms of a record, or the reason for none."""
    return histograms(record) or "none of its cells counted scores in bins"


def draw_scores(record: Record, found: list[HistogramPanel]) -> Picture:
    """Draw the densities of the scores, in a panel for each mechanism and attack."""
    shown = found[:MOST_PANELS]
    picture, axes = drawing.grid(len(shown), height=1.5, shared=False)
    for ax, histogram in zip(axes, shown, strict=True):
        _draw_density(ax, histogram)
    drawing.name_axes(axes, "score", "density")
    handles: list[Artist] = [
        Patch(facecolor=D_COLOR, alpha=0.5, edgecolor=D_COLOR, label="D"),
        *_side_handles(shown),
    ]
    if any(histogram.thresholds for histogram in shown):
        handles.append(drawing.entry("threshold that was used", **THRESHOLD))
    nan = sum(sum(h.nan) for h in shown)
    return drawing.finish(
        picture,
        handles,
        record,
        f"Scores of {drawing.audit_name(record)} on D and on D′, as counted; beyond the "
        f"ends of a panel are {100 * TAIL:g} % of them or fewer.",
        f"{nan} scores that are NaN are not drawn." if nan else "",
        drawing.more(len(found) - len(shown), "panel"),
        proof=False,
    )


def _side_handles(shown: list[HistogramPanel]) -> list[Artist]:
    """Return the handles of D′ and of exact values."""
    handles: list[Artist] = [drawing.entry("D′", color=D1_COLOR, ls=DASHED)]
    if any(histogram.exact is not None for histogram in shown):
        handles.append(drawing.entry("exactly, on D", **DOTS, markerfacecolor=INK))
        handles.append(drawing.entry("exactly, on D′", **DOTS, markerfacecolor="white"))
    return handles


def _draw_density(ax: Axes, histogram: HistogramPanel) -> None:
    ax.set_title(histogram.title)
    places, density, exact = _bars(histogram)
    ax.stairs(density[0], places, color=D_COLOR, lw=1.0, zorder=3)
    ax.stairs(density[0], places, color=D_COLOR, alpha=0.35, fill=True, lw=0, zorder=2)
    ax.stairs(density[1], places, color=D1_COLOR, lw=1.0, ls=DASHED, zorder=3)
    if exact is not None:
        middle = (places[1:] + places[:-1]) / 2
        for row, face in ((exact[0], INK), (exact[1], "white")):
            ax.plot(middle, row, **DOTS, markerfacecolor=face)
    for threshold in histogram.thresholds:
        if places[0] <= threshold <= places[-1]:
            ax.axvline(threshold, **THRESHOLD, zorder=4)
    if places[0] < places[-1]:  # else all scores are equal
        ax.set_xlim(places[0], places[-1])
    ax.set_ylim(bottom=0)


def _bars(histogram: HistogramPanel) -> tuple[Floats, Floats, Floats | None]:
    """Return edges of the bars, their densities and the exact densities, shape [2, bars]."""
    edges, counts, exact = histogram.edges, histogram.counts, histogram.exact
    totals = counts.sum(axis=1, keepdims=True)
    cumulated = counts.cumsum(axis=1)[:, :-1]  # below each edge
    share = cumulated / np.maximum(totals, 1)
    seen = np.flatnonzero((share.max(axis=0) > TAIL) & (share.min(axis=0) < 1 - TAIL))
    first, last = (int(seen[0]), int(seen[-1])) if len(seen) else (0, len(edges) - 1)
    first, last = max(first - 1, 0), min(last + 1, len(edges) - 1)
    # Rice's rule. Slightly more bins stay as they are, so that all bars have one width.
    bars = min(BARS, math.ceil(2 * float(np.cbrt(totals.max()))))
    wanted = np.linspace(edges[first], edges[last], bars + 1)
    chosen = np.unique(np.clip(np.searchsorted(edges, wanted), first, last))
    if last - first <= 2 * bars:
        chosen = np.arange(first, last + 1)
    chosen = chosen[np.append(True, np.diff(edges[chosen]) > 0)]  # equal edges make no bar
    places = edges[chosen]

    def density(table: Floats) -> Floats:
        whole = np.maximum(table.sum(axis=1, keepdims=True), SMALLEST)
        inside = np.diff(table.cumsum(axis=1)[:, :-1][:, chosen], axis=1)
        return np.asarray(inside / whole / np.diff(places))

    return places, density(counts), None if exact is None else density(exact)


# The inverse distribution functions of the scores.

NOTHING = 1e-12  # rounding of probabilities
NAN: Any = {"facecolor": "none", "edgecolor": FAINT, "hatch": "////"}
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def draw_inverse_cdf(record: Record, found: list[HistogramPanel]) -> Picture:
    """Draw the inverse distribution functions, in a panel for each mechanism and attack."""
    shown = found[:MOST_PANELS]
    picture, axes = drawing.grid(len(shown), height=2.1)
    for ax, histogram in zip(axes, shown, strict=True):
        _draw_inverse(ax, histogram)
    drawing.name_axes(axes, "uniform variable u; above, u − ½", "score")
    handles = [drawing.entry("D", color=D_COLOR), *_side_handles(shown)]
    if any(any(histogram.nan) for histogram in shown):
        handles.append(Patch(**NAN, label="NaN"))
    return drawing.finish(
        picture,
        handles,
        record,
        f"Inverse distribution functions of the scores of {drawing.audit_name(record)}: a "
        "share u of the draws is below the curve's height. NaN scores come last.",
        drawing.more(len(found) - len(shown), "panel"),
        proof=False,
    )


def _draw_inverse(ax: Axes, histogram: HistogramPanel) -> None:
    ax.set_title(histogram.title)
    missing = []
    for side, color, dashes, face in ((0, D_COLOR, "-", INK), (1, D1_COLOR, DASHED, "white")):
        counts, nan = histogram.counts[side], histogram.nan[side]
        total = max(counts.sum() + nan, 1)
        _curve(ax, counts.cumsum()[:-1] / total, histogram.edges, color=color, ls=dashes)
        if histogram.exact is not None:
            exact = histogram.exact[side].cumsum()[:-1]
            _curve(ax, exact, histogram.edges, **DOTS, markerfacecolor=face, markevery=3)
        missing.append(nan / total)
    if min(missing) > 0:
        ax.axvspan(1 - min(missing), 1, **NAN, lw=0, zorder=0)
    ax.set_xlim(0, 1)
    scales.log_ticks(ax.xaxis, TICKS)
    upper = ax.secondary_xaxis("top")
    scales.log_ticks(upper.xaxis, TICKS, [setting(tick - 0.5).replace("-", "−") for tick in TICKS])
    upper.tick_params(colors=QUIET)


def _curve(ax: Axes, below: Floats, edges: Floats, **look: Any) -> None:
    """Draw from the last edge without scores below it to the first with all scores below it."""
    first = max(int(np.searchsorted(below, NOTHING, "right")) - 1, 0)
    last = int(np.searchsorted(below, below[-1] - NOTHING, "left")) + 1
    ax.plot(below[first:last], edges[first:last], zorder=2, **look)


KEY = "estimator.bins"
Distances = dict[str, dict[float, list[float]]]
"""Distances by mechanism and number of bins, of all replicates of one estimator."""


def draw_total_variation(record: Record, found: Distances) -> Picture:
    """Draw the distance against the number of bins, with the range of replicates."""
    picture = drawing.new(drawing.COLUMN, 2.4)
    ax = picture.subplots()
    claimed = _claims(record)
    handles = []
    for place, (name, points) in enumerate(found.items()):
        look, bins = drawing.named(place), sorted(points)
        means = [float(np.mean(points[b])) for b in bins]
        for b in bins:
            ends = [min(points[b]), max(points[b])]
            ax.plot([b, b], ends, color=look.color, lw=0.8, zorder=2)
        ax.plot(bins, means, ls=drawing.DOTTED, zorder=3, **look.hollow)
        label = f"{drawing.shorten(name, 30)}, {drawing.ESTIMATE}"
        handles.append(drawing.entry(label, ls=":", **look.hollow))
        if name in claimed:
            ax.axhline(claimed[name], color=INK, lw=1.2, zorder=1)
    if claimed:
        handles.append(drawing.entry(drawing.CLAIMED, color=INK, lw=1.2))
    ax.set(xscale="log", xlabel="bins", ylabel="total variation distance")
    ax.set_ylim(bottom=-0.01)
    most = 2 * max(map(max, found.values()))
    scales.log_ticks(ax.xaxis, [10.0**p for p in range(1, 5) if 10.0**p <= most])
    return drawing.finish(
        picture,
        handles,
        record,
        f"Total variation distance of {drawing.audit_name(record)} between two "
        "histograms, against their number of bins: an estimate, not a bound.",
        drawing.repeats(record),
    )


def _claims(record: Record) -> dict[str, float]:
    """Return the claimed δ at ε = 0, the total variation distance that a claim allows."""
    return {
        cell.mechanism.label: cell.claim.profile[0][1]
        for cell in record.cells
        if cell.claim is not None and cell.claim.profile
    }


def find_total_variation(record: Record) -> Distances | str:
    """Return the distances, or the reason for none."""
    found: Distances = {}
    for group in groups(record.cells):
        points: dict[float, list[float]] = {}
        for spot in group.spots:
            bins = number(spot.values.get(KEY))
            for cell in spot.done:
                if bins is not None and (distance := _distance(cell)) is not None:
                    points.setdefault(bins, []).append(distance)
        if points:
            found.setdefault(group.names[0], points)
    if not any(len(points) > 1 for points in found.values()):
        return "the number of bins of a histogram is not swept"
    return found


def _distance(cell: CellRecord) -> float | None:
    counts: Any = cell.counts
    if "edges" not in cell.statistic or not isinstance(counts, list) or len(counts) != 2:
        return None
    q, p = (np.array(row, float) / max(sum(row), 1) for row in counts)
    return float(np.abs(p - q).sum() / 2)
