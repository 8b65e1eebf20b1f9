"""Figures of counted scores: densities, distances of histograms, and rates at thresholds."""

import math
import re
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy import special

from dpframe.common.types import Floats
from dpframe.report.figures import drawing, scales
from dpframe.report.figures.curves import numbers_in
from dpframe.report.figures.drawing import CLAIMED, NAN, TRUTH, Picture, Sign, named
from dpframe.report.figures.points import by_setting, series, shares
from dpframe.report.group import group_name, groups, telling
from dpframe.report.number_format import setting
from dpframe.results.model import CellRecord, Record
from dpframe.stats import histograms as stats
from dpframe.stats.tradeoff import matching_mu

FEWEST_EDGES = 4  # a histogram with fewer counts decisions rather than scores
MOST_PANELS = 9
BARS = 64  # bars in a panel, at most about; each consists of whole bins
TAIL = 5e-4  # share of the draws beyond either end of a panel
SMALLEST = 1e-300
NOTHING = 1e-12  # rounding of probabilities
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
    if nan := sum(sum(histogram.nan) for histogram in shown):
        picture.remarks.append(f"{nan} scores that are NaN are not drawn.")


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
    first = max(int(np.searchsorted(below, NOTHING, "right")) - 1, 0)
    last = int(np.searchsorted(below, below[-1] - NOTHING, "left")) + 1
    picture.add(sign, ax.plot, below[first:last], edges[first:last], **marks)


# Total variation: the distance of two histograms against their number of bins.


Series = dict[str, dict[float, list[float]]]  # by name and place, of all replicates


def find_total_variation(record: Record) -> Series | str:
    """Return the distances by mechanism and number of bins, or the reason for none."""

    def distance(cell: CellRecord) -> float | None:
        table = shares(cell)
        return None if table is None else float(np.abs(table[0] - table[1]).sum() / 2)

    found: Series = {}
    for group, points in series(record, lambda c: c.swept.get("estimator.bins"), distance):
        found.setdefault(group.names[0], points)
    if not any(len(points) > 1 for points in found.values()):
        return "the number of bins of a histogram is not swept"
    return found


def draw_total_variation(picture: Picture, found: Series) -> None:
    """Draw the distance against the number of bins, with the range of replicates."""
    (ax,) = picture.grid([""], "bins", "total variation distance", height=1.9)
    # The claimed δ at ε = 0 is the total variation distance that a claim allows.
    claims = {
        cell.mechanism.label: cell.claim.profile[0][1]
        for cell in picture.cells
        if cell.claim is not None and cell.claim.profile
    }
    for place, (name, points) in enumerate(found.items()):
        look = named(place)
        for bins, distances in points.items():
            ends = [min(distances), max(distances)]
            ax.plot([bins, bins], ends, color=look.color, lw=0.8, zorder=2)
        label = f"{drawing.shorten(name, 30)}, {drawing.ESTIMATE.label}"
        means = [*map(np.mean, points.values())]
        picture.add(label, ax.plot, [*points], means, **look.estimate)
        if name in claims:
            picture.add(CLAIMED, ax.axhline, claims[name], zorder=1)
    ax.set(xscale="log")
    ax.set_ylim(bottom=-0.01)
    most = 2 * max(map(max, found.values()))
    scales.fix_ticks(ax.xaxis, [10.0**p for p in range(1, 5) if 10.0**p <= most])


# Convergence: the error of a histogram's distance against the number of draws.

RATE = -1 / 3  # largest slope of the mean error for bins of Scott's width [Koskela2024, theorem 4]
MOST_CONVERGENCES = 6  # lines in one figure


def find_convergence(record: Record) -> Series | str:
    """Return the errors of the distance by number of draws on either dataset, or why not."""
    naming, found = telling(groups(record.cells)), {}
    for group, points in series(record, lambda c: c.swept.get("audit.trials"), _error):
        known = {n: errors for n, errors in points.items() if n > 0 and sum(errors) > 0}
        if len(known) > 1:
            found[group_name(group, naming)] = known
    return found or "no histogram with a known distance has several numbers of trials"


def _error(cell: CellRecord) -> float | None:
    """Return the error of an estimated δ at ε = 0 (the total variation distance), if known."""
    if cell.estimate is None or cell.truth is None or "edges" not in cell.statistic:
        return None
    exact = cell.truth.profile or (cell.claim.profile if cell.claim else None) or []
    starts = [p[0] for p in (cell.estimate.profile, exact) if p and p[0][0] == 0]
    if len(starts) < 2 or not all(math.isfinite(delta) for _, delta in starts):
        return None
    return abs(starts[0][1] - starts[1][1])


def draw_convergence(picture: Picture, found: Series) -> None:
    """Draw the error of each mechanism, its slope, and the slope of [Koskela2024, theorem 4]."""
    (ax,) = picture.grid([""], "trials on either dataset", "error of the distance", height=2.1)
    shown = picture.first(list(found.items()), MOST_CONVERGENCES, "line")
    for place, (name, points) in enumerate(shown):
        look, trials = named(place), np.array([*points])
        for n, errors in points.items():
            middle = np.quantile(errors, [0.25, 0.75])
            ax.plot([n, n], middle, color=look.color, lw=0.8, zorder=2)
        means = np.array([np.mean(errors) for errors in points.values()])
        ax.plot(trials, means, **look.sign, ls="none", zorder=3)
        slope, offset = np.polyfit(np.log(trials), np.log(means), 1)
        fitted = np.exp(offset + slope * np.log(trials))
        ax.plot(trials, fitted, color=look.color, ls=look.dashes, zorder=2)
        label = f"{drawing.shorten(name, 24)}: slope {slope:.2f}".replace("-", "−")
        picture.name(label, **look.sign, ls=look.dashes)
        promised = means[0] * (trials / trials[0]) ** RATE
        picture.add(drawing.FASTEST, ax.plot, trials, promised, zorder=1)
    ax.set(xscale="log", yscale="log")
    for axis, ends in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        scales.fix_ticks(axis, scales.decades(*ends))


# The best order: the spread of σ if it is computed from the divergence of each order.

FEWEST_REPEATS = 8  # replicates for a standard deviation, at least
MOST_SIGMAS = 6  # lines in one figure
ORDERS = np.geomspace(1, 10, 25)


def find_best_order(record: Record) -> dict[float, list[CellRecord]] | str:
    """Return the cells of each σ, of the first estimator that has enough of them."""
    found: dict[tuple[float, str], list[CellRecord]] = {}
    for cell in record.cells:
        claim = cell.claim
        if claim is None or claim.kind != "gaussian-dp" or shares(cell) is None:
            continue
        (mu,) = numbers_in(claim.parameters, "mu") or (0.0,)
        found.setdefault((1 / mu if mu else math.inf, cell.estimator.label), []).append(cell)
    enough: dict[float, list[CellRecord]] = {}
    for (sigma, _), cells in found.items():
        if len(cells) >= FEWEST_REPEATS and len({cell.repeat for cell in cells}) == len(cells):
            enough.setdefault(sigma, cells)
    return enough or f"no Gaussian claim has histograms of {FEWEST_REPEATS} repeats or more"


def draw_best_order(picture: Picture, found: dict[float, list[CellRecord]]) -> None:
    """Draw a line for each σ, and where the slope of the divergence is steepest."""
    (ax,) = picture.grid([""], "order α", "spread of σ / σ", height=1.9)
    shown = picture.first(sorted(found), MOST_SIGMAS, "σ")
    for place, sigma in enumerate(shown):
        look = drawing.ordered(place, len(shown))
        spread = np.array([_spread(found[sigma], order) / sigma for order in ORDERS])
        every = (place % 4, 4)
        picture.add(f"σ = {setting(sigma)}", ax.plot, ORDERS, spread, **look.sign, markevery=every)
        steepest = math.exp(1 / (2 * sigma**2))
        if steepest <= ORDERS[-1]:
            height = np.interp(steepest, ORDERS, spread)
            picture.add(drawing.STEEPEST, ax.plot, steepest, height, zorder=4)
    ax.set(xscale="log", yscale="log")
    scales.fix_ticks(ax.xaxis, (1, 2, 5, 10))
    low, high = ax.get_ylim()
    ticks = [m * 10.0**p for p in range(-4, 1) for m in (1, 3)]
    scales.fix_ticks(ax.yaxis, [tick for tick in ticks if low <= tick <= high])


def _spread(cells: list[CellRecord], order: float) -> float:
    """Return the standard deviation of σ over replicates; NaN if some divergence is 0."""
    sigmas = []
    for cell in cells:
        q, p = shares(cell) or (np.zeros(1), np.zeros(1))
        divergence = float(stats.hockey_stick(p, q, math.log(order)))
        if not 0 < divergence < 1:
            return math.nan
        sigmas.append(1 / float(matching_mu(math.log(order), divergence)))
    return float(np.std(sigmas, ddof=1))


# μ against the threshold: the loss that one threshold implies if the noise is Gaussian.

MOST_CURVES = 6  # mechanisms in one figure


class Cut(NamedTuple):
    """A threshold and the values of μ there."""

    threshold: float
    mu: float
    low: float
    high: float
    exact: float  # from the exact error rates; NaN if they are unknown


def find_threshold_curve(record: Record) -> dict[str, list[Cut]] | str:
    """Return the cuts of each mechanism with several of them, or the reason for none."""
    found: dict[str, list[Cut]] = {}
    for group, points in series(record, lambda c: c.statistic.get("threshold"), _cut):
        found.setdefault(group.names[0], []).extend(cuts[0] for cuts in points.values())
    several = {name: sorted(cuts) for name, cuts in found.items() if len(cuts) > 1}
    return several or "no estimator with the Gaussian assumption has several thresholds"


def _cut(cell: CellRecord) -> Cut | None:
    """Return μ at a fixed threshold, from counts of decisions."""
    threshold, counts, estimate = cell.statistic.get("threshold"), cell.counts, cell.estimate
    if cell.estimator.use != "gdp" or estimate is None or not isinstance(threshold, int | float):
        return None
    if not isinstance(counts, list) or [len(row) for row in counts] != [2, 2]:
        return None

    def mu_of(table: list[list[float]]) -> float:
        """Return μ of two Gaussians with these rates beyond a threshold (equation 3.1)."""
        fpr, tpr = (row[1] / sum(row) for row in table)
        return float(special.ndtri(tpr) - special.ndtri(fpr))

    def mu_at(epsilon: float) -> float:
        finite = 0 < epsilon < math.inf
        return float(matching_mu(epsilon, estimate.delta)) if finite else epsilon

    mu, (low, high) = mu_of(counts), map(mu_at, estimate.interval or (math.nan, math.nan))
    table = cell.exact_shares or []
    exact = max(mu_of(table), 0.0) if [len(row) for row in table] == [2, 2] else math.nan
    return Cut(float(threshold), math.inf if math.isnan(mu) else max(mu, 0.0), low, high, exact)


def draw_threshold_curve(picture: Picture, found: dict[str, list[Cut]]) -> None:
    """Draw a panel for each mechanism."""
    shown = picture.first(list(found.items()), MOST_CURVES, "panel")
    claims = {
        cell.mechanism.label: mu
        for cell in picture.cells
        if cell.claim is not None and cell.claim.kind == "gaussian-dp"
        for mu in numbers_in(cell.claim.parameters, "mu")
    }
    values = [value for _, cuts in shown for cut in cuts for value in cut[1:]]
    scaled = scales.scale(values, claims.values(), log=False)
    axes = picture.grid([name for name, _ in shown], "threshold", "μ")
    look = named(0)
    for ax, (name, cuts) in zip(axes, shown, strict=True):
        if name in claims:
            picture.add(CLAIMED, ax.axhline, claims[name], zorder=1)
        for cut in cuts:
            ends = scaled.places((cut.low, cut.high))
            picture.add(drawing.GAUSSIAN_INTERVAL, ax.plot, [cut.threshold] * 2, ends)
        estimates = scaled.columns((cut.threshold, cut.mu) for cut in cuts)
        picture.add(drawing.ESTIMATE, ax.plot, *estimates, **look.estimate)
        if exact := [(cut.threshold, cut.exact) for cut in cuts if cut.exact >= 0]:
            picture.add(TRUTH, ax.plot, *scaled.columns(exact), zorder=1.5)
        scales.dress(ax, "y", scaled)
