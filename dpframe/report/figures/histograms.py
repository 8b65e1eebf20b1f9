"""Figures of score histograms."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dpframe.report.figures import drawing as notes
from dpframe.report.figures.drawing import (
    CLAIMED,
    COLUMN,
    ESTIMATE,
    FAINT,
    INK,
    QUIET,
    grid,
    legend,
    log_ticks,
    name_axes,
    named,
    new,
    shorten,
)
from dpframe.report.group import groups, same, short
from dpframe.report.words import number, setting

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from dpframe.report.figures.drawing import Picture
    from dpframe.results.model import CellRecord, Record


# Scores that were counted in bins, on D and on D′, as a record has them.


if TYPE_CHECKING:
    import numpy.typing as npt

    from dpframe.results.model import CellRecord, Record

    Floats = npt.NDArray[np.float64]

NONE = "none of its cells counted scores in bins"
FEWEST = 4
"""Edges; with fewer it is decisions, or almost, that were counted."""

_THRESHOLD = re.compile(r"scores (?:from|above|below|up to) (-?[\d.]+(?:e[-+]?\d+)?)")


class Histogram(NamedTuple):
    """The counts of one attack on one mechanism."""

    title: str
    edges: Floats
    """Inner edges, ascending, shape [k − 1]."""
    counts: Floats
    """On D and on D′, of k bins, the outer two open; shape [2, k]."""
    nan: tuple[int, int]
    thresholds: tuple[float, ...] = ()
    exact: Floats | None = None
    """Exact probability of each bin, if known; shape [2, k]."""

    @property
    def finest(self) -> int:
        """Number of bins."""
        return len(self.edges) + 1


def histograms(record: Record) -> list[Histogram]:
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
        """Without NaN; bins between edges that are padding, or ends of float32, in the outer."""
        bins = np.array(table, float)[:, 1:]
        low = bins[:, : first + 1].sum(axis=1, keepdims=True)
        high = bins[:, last + 1 :].sum(axis=1, keepdims=True)
        return np.hstack([low, bins[:, first + 1 : last + 1], high])

    shares = cell.exact_shares or []
    exact = folded(shares) if [len(row) for row in shares] == [len(row) for row in counts] else None
    nan = (int(counts[0][0]), int(counts[1][0]))
    return Histogram(title, known[first : last + 1], folded(counts), nan, exact=exact)


def _thresholds(cell: CellRecord) -> list[float]:
    """Those that the statistic names, or a remark of the estimator."""
    listed = cell.statistic.get("threshold")
    found = [float(listed)] if isinstance(listed, int | float) else []
    remarks = cell.estimate.notes if cell.estimate is not None else []
    return [*found, *(float(m.group(1)) for note in remarks if (m := _THRESHOLD.search(note)))]


# Histograms of the scores on D and on D′, with the thresholds that were used.


MOST_PANELS = 9
BARS = 64
"""About so many bars are drawn at most, each of whole bins."""
TAIL = 5e-4
"""Share of the draws beyond either end of a panel."""
SMALLEST = 1e-300
D_COLOR, D1_COLOR = "#0072B2", "#D55E00"

DOTS: Any = {"color": INK, "marker": "o", "markersize": 1.9, "markeredgewidth": 0.5, "ls": "none"}


def unfit_scores(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not histograms(record):
        return NONE
    return None


def draw_scores(record: Record) -> Picture:
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


# Inverse distribution functions of the scores: what a uniform variable becomes.


NOTHING = 1e-12
"""Rounding of probabilities."""
HATCH = "////"
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def unfit_inverse_cdf(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    return None if histograms(record) else NONE


def draw_inverse_cdf(record: Record) -> Picture:
    """Draws it: a panel for each mechanism and attack."""
    found = histograms(record)
    shown = found[:MOST_PANELS]
    picture, axes = grid(len(shown), height=2.1)
    for ax, histogram in zip(axes, shown, strict=True):
        _inverse_cdf_draw(ax, histogram)
    name_axes(axes, "uniform variable u; above, u − ½", "score")
    legend(picture, _inverse_cdf_legend(shown))
    picture.caption = " ".join(
        [
            f"Inverse distribution functions of the scores of {shorten(record.audit.name, 60)}: a "
            "share u of the draws is below the curve's height. Scores that are NaN stand last.",
            *notes.more(len(found) - len(shown), "panel"),
            *notes.left_out(record),
        ]
    )
    return picture


def _inverse_cdf_draw(ax: Axes, histogram: Histogram) -> None:
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


def _inverse_cdf_legend(shown: list[Histogram]) -> list[Artist]:
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


# The total variation distance of two histograms, against the number of bins.


KEY = "estimator.bins"


def unfit_total_variation(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not any(len(points) > 1 for points in _distances(record).values()):
        return "the number of bins of a histogram is not swept"
    return None


def draw_total_variation(record: Record) -> Picture:
    """Draws it: a line for each mechanism, means and the range of replicates."""
    found = _distances(record)
    picture = new(COLUMN, 2.4)
    ax = picture.subplots()
    exact = _claims(record)
    signs = []
    for place, (name, points) in enumerate(found.items()):
        look, bins = named(place), sorted(points)
        means = [float(np.mean(points[b])) for b in bins]
        for b in bins:
            ends = [min(points[b]), max(points[b])]
            ax.plot([b, b], ends, color=look.color, lw=0.8, zorder=2)
        style: Any = {"color": look.color, "marker": look.marker, "markerfacecolor": "white"}
        ax.plot(bins, means, ls=(0, (1, 1.2)), zorder=3, **style)
        signs.append(Line2D([], [], ls=":", label=f"{shorten(name, 30)}, {ESTIMATE}", **style))
        if name in exact:
            ax.axhline(exact[name], color=INK, lw=1.2, zorder=1)
    if exact:
        signs.append(Line2D([], [], color=INK, lw=1.2, label=CLAIMED))
    ax.set(xscale="log", xlabel="bins", ylabel="total variation distance")
    ax.set_ylim(bottom=-0.01)
    log_ticks(
        ax.xaxis, [10.0**p for p in range(1, 5) if 10.0**p <= 2 * max(map(max, found.values()))]
    )
    legend(picture, signs)
    picture.caption = " ".join(
        [
            f"Total variation distance of {shorten(record.audit.name, 60)} between two "
            "histograms, against their number of bins: an estimate and no bound.",
            *notes.repeats(record),
            *notes.left_out(record),
            notes.NO_PROOF,
        ]
    )
    return picture


def _claims(record: Record) -> dict[str, float]:
    """δ at ε = 0, which is the total variation distance that a claim allows."""
    return {
        cell.mechanism.label: cell.claim.profile[0][1]
        for cell in record.cells
        if cell.claim is not None and cell.claim.profile
    }


def _distances(record: Record) -> dict[str, dict[float, list[float]]]:
    """For each mechanism and number of bins, those of all replicates; of one estimator."""
    found: dict[str, dict[float, list[float]]] = {}
    for group in groups(record.cells):
        points: dict[float, list[float]] = {}
        for spot in group.spots:
            bins = number(spot.values.get(KEY))
            for cell in spot.done:
                if bins is not None and (distance := _distance(cell)) is not None:
                    points.setdefault(bins, []).append(distance)
        if points and group.names[0] not in found:
            found[group.names[0]] = points
    return found


def _distance(cell: CellRecord) -> float | None:
    counts: Any = cell.counts
    if "edges" not in cell.statistic or not isinstance(counts, list) or len(counts) != 2:
        return None
    q, p = (np.array(row, float) / max(sum(row), 1) for row in counts)
    return float(np.abs(p - q).sum() / 2)
