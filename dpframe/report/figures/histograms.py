"""Figures of counted scores: densities and inverse distribution functions."""

import math
import re
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from dpframe.common.types import Floats
from dpframe.report.figures import drawing, scales
from dpframe.report.figures.drawing import NAN, Picture, Sign
from dpframe.report.figures.points import by_setting
from dpframe.report.number_format import setting
from dpframe.results.model import CellRecord, Record

FEWEST_EDGES = 4  # a histogram with fewer counts decisions rather than scores
MOST_PANELS = 9
BARS = 64  # bars in a panel, at most about; each consists of whole bins
TAIL = 5e-4  # share of the draws beyond either end of a panel
SMALLEST = 1e-300
PROBABILITY_ROUNDING = 1e-12  # rounding of probabilities
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
SIDES = ((drawing.ON_D, drawing.EXACT_ON_D), (drawing.ON_D1, drawing.EXACT_ON_D1))
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


def find_histograms(record: Record) -> list[HistogramPanel] | str:
    """Return the finest histograms of each mechanism, attack and swept values, or why not."""
    kept: dict[tuple[str, ...], HistogramPanel] = {}
    cuts: dict[tuple[str, ...], set[float]] = {}
    for place in by_setting(record, ("audit.", "estimator.")):
        for cell in place.spot.done[:1]:
            cuts.setdefault(place.key, set()).update(_thresholds(cell))
            made = _histogram(place.title, cell)
            before = kept.get(place.key)
            if made and (before is None or len(made.edges) > len(before.edges)):
                kept[place.key] = made
    found = [h._replace(thresholds=tuple(sorted(cuts[key]))) for key, h in kept.items()]
    return found or "none of its cells counted scores in bins"


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
    if len(inner) < FEWEST_EDGES:
        return None
    first, last = int(inner[0]), int(inner[-1])

    def folded(table: Any) -> Floats:
        """Drop NaN, and add bins between edges that are padding to the outer bins."""
        bins = np.array(table, float)[:, 1:]
        low = bins[:, : first + 1].sum(axis=1, keepdims=True)
        high = bins[:, last + 1 :].sum(axis=1, keepdims=True)
        return np.hstack([low, bins[:, first + 1 : last + 1], high])

    table = cell.exact_shares or []
    exact = folded(table) if [len(row) for row in table] == [len(row) for row in counts] else None
    nan = (int(counts[0][0]), int(counts[1][0]))
    return HistogramPanel(title, known[first : last + 1], folded(counts), nan, exact=exact)


def _thresholds(cell: CellRecord) -> list[float]:
    """Return the thresholds in the statistic and in the estimator's notes."""
    listed = cell.statistic.get("threshold")
    found = [float(listed)] if isinstance(listed, int | float) else []
    notes = cell.estimate.notes if cell.estimate is not None else []
    return [*found, *(float(m.group(1)) for note in notes if (m := _THRESHOLD.search(note)))]


def draw_scores(picture: Picture, found: list[HistogramPanel]) -> None:
    """Draw the densities of the scores, in a panel for each mechanism and attack."""
    shown = picture.first(found, MOST_PANELS, "panel")
    axes = picture.grid([h.title for h in shown], "score", "density", height=1.5, shared=False)
    for ax, histogram in zip(axes, shown, strict=True):
        places, density, exact = _bars(histogram)
        ax.stairs(density[0], places, color=drawing.BLUE, alpha=0.35, fill=True, lw=0, zorder=2)
        for side, (counted, exactly) in enumerate(SIDES):
            picture.add(counted, ax.stairs, density[side], places, zorder=3)
            if exact is not None:
                middle = (places[1:] + places[:-1]) / 2
                picture.add(exactly, ax.plot, middle, exact[side])
        for threshold in histogram.thresholds:
            if places[0] <= threshold <= places[-1]:
                picture.add(drawing.THRESHOLD, ax.axvline, threshold, zorder=4)
        if places[0] < places[-1]:  # else all scores are equal
            ax.set_xlim(places[0], places[-1])
        ax.set_ylim(bottom=0)
    nan = sum(sum(histogram.nan) for histogram in shown)
    picture.remarks += drawing.counted(nan, "NaN score", "is not drawn", "are not drawn")


def _bars(histogram: HistogramPanel) -> tuple[Floats, Floats, Floats | None]:
    """Return edges of the bars, their densities and the exact densities, shape [2, bars]."""
    edges, counts, exact = histogram.edges, histogram.counts, histogram.exact
    totals = counts.sum(axis=1, keepdims=True)
    share = counts.cumsum(axis=1)[:, :-1] / np.maximum(totals, 1)  # below each edge
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


def draw_inverse_cdf(picture: Picture, found: list[HistogramPanel]) -> None:
    """Draw the inverse distribution functions, in a panel for each mechanism and attack."""
    shown = picture.first(found, MOST_PANELS, "panel")
    along = "uniform variable u; above, u − ½"
    axes = picture.grid([histogram.title for histogram in shown], along, "score", height=2.1)
    for ax, histogram in zip(axes, shown, strict=True):
        missing = []
        for side, (counted, exactly) in enumerate(SIDES):
            counts, nan = histogram.counts[side], histogram.nan[side]
            total = max(counts.sum() + nan, 1)
            missing.append(nan / total)
            _draw_inverse(picture, ax, counted, counts.cumsum()[:-1] / total, histogram.edges)
            if histogram.exact is not None:
                exact = histogram.exact[side].cumsum()[:-1]
                _draw_inverse(picture, ax, exactly, exact, histogram.edges, markevery=3)
        if min(missing) > 0:
            ax.axvspan(1 - min(missing), 1, **NAN.look, lw=0, zorder=0)
        if max(missing) > 0:
            picture.name(NAN)
        ax.set_xlim(0, 1)
        scales.fix_ticks(ax.xaxis, TICKS)
        upper = ax.secondary_xaxis("top")
        texts = [setting(tick - 0.5).replace("-", "−") for tick in TICKS]
        scales.fix_ticks(upper.xaxis, TICKS, texts)
        upper.tick_params(colors=drawing.QUIET)


def _draw_inverse(
    picture: Picture, ax: Axes, sign: Sign, below: Floats, edges: Floats, **marks: Any
) -> None:
    """Draw from the last edge without scores below it to the first with all scores below it."""
    first = max(int(np.searchsorted(below, PROBABILITY_ROUNDING, "right")) - 1, 0)
    last = int(np.searchsorted(below, below[-1] - PROBABILITY_ROUNDING, "left")) + 1
    picture.add(sign, ax.plot, below[first:last], edges[first:last], **marks)
