"""Figures of losses against the number of releases or draws."""

import math
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from dpframe.report.figures import drawing, points, scales
from dpframe.report.figures.drawing import DOTTED, INK, Picture, entry, named, shorten
from dpframe.report.figures.points import Published
from dpframe.report.figures.scales import Scale
from dpframe.report.group import Group, Spot, groups, same as same_value, telling
from dpframe.report.number_format import number
from dpframe.results.model import CellRecord, Record

PARAMETER = "compositions"
MOST_PANELS = 6
MOST_LINES = 8
CLAIM: Any = {"color": INK, "marker": "_", "markersize": 10, "markeredgewidth": 1.6, "ls": "none"}
CERTAIN: Any = {"color": INK, "marker": "^", "markersize": 5, "ls": "none", "zorder": 4}


class CompositionPanel(NamedTuple):
    """One mechanism behind one attack."""

    title: str
    lines: dict[str, list[tuple[float, Spot]]]  # by estimator; numbers of releases, ascending
    single: list[Spot]  # certified cells of a single release

    @property
    def marks(self) -> list[tuple[float, Spot]]:
        """The marks of all lines."""
        return [mark for line in self.lines.values() for mark in line]


def draw_compositions(
    record: Record, found: list[CompositionPanel], beside: Published | None = None
) -> Picture:
    """Draw a line for each estimator, and the claim and the bound of one release.

    `beside` has numbers from elsewhere, an accountant's for example. Raises DpframeError if
    there are such numbers, but none for any cell.
    """
    shown = found[:MOST_PANELS]
    labels = list(dict.fromkeys(name for panel in shown for name in panel.lines))[:MOST_LINES]
    spots = [s for p in shown for s in (*p.single, *(s for _, s in p.marks))]
    published = points.all_published(spots, beside)
    anchors = [v for spot in spots if (v := points.claimed(spot)) is not None]
    scaled = scales.scale([*(v for s in spots for v in points.values(s)), *published], anchors)
    picture, axes = drawing.grid(len(shown), height=2.2)
    for ax, panel in zip(axes, shown, strict=True):
        _draw(ax, panel, labels, scaled, beside)
    drawing.name_axes(axes, "releases", "loss ε")
    handles = [
        entry(f"{shorten(name, 40)}, {drawing.ESTIMATE}", **_style(place))
        for place, name in enumerate(labels)
    ]
    if anchors:
        handles.append(entry(f"{drawing.CLAIMED}, of one release", **CLAIM))
    if any(points.certified(spot) is not None for spot in spots):
        handles.append(entry(f"{drawing.CERTIFIED}, of one release", **CERTAIN))
    return drawing.finish(
        picture,
        [*handles, *points.handles(beside)],
        record,
        f"Loss of {drawing.audit_name(record)} after several releases, estimated from one: "
        "not a bound in either direction. Claimed and certified values are for one release.",
        drawing.repeats(record),
        drawing.more(len(found) - len(shown), "panel"),
    )


def _draw(
    ax: Axes, panel: CompositionPanel, labels: list[str], scaled: Scale, beside: Published | None
) -> None:
    ax.set_title(panel.title)
    for place, name in enumerate(labels):
        means = [(x, spot.mean("epsilon")) for x, spot in panel.lines.get(name, [])]
        ax.plot(*scaled.columns(means), **_style(place))
    marks = panel.marks
    spots = [*(spot for _, spot in marks), *panel.single]
    claims = {value for spot in spots if (value := points.claimed(spot)) is not None}
    ax.plot([1.0] * len(claims), scaled.places(claims), **CLAIM)
    bounds = [b for spot in panel.single if (b := points.certified(spot)) is not None]
    ax.plot([1.0] * len(bounds), scaled.places(bounds), **CERTAIN)
    crosses = [(x, points.published(spot, beside)) for x, spot in marks]
    ax.plot(*scaled.columns(crosses), **drawing.BESIDE)
    numbers = sorted({x for x, _ in marks})
    if numbers[-1] / numbers[0] >= scales.WIDE:
        ax.set_xscale("log")
    if len(numbers) <= 8:
        scales.log_ticks(ax.xaxis, numbers)
    scales.dress(ax, "y", scaled)


def _style(place: int) -> dict[str, Any]:
    return named(place).hollow | {"ls": DOTTED, "zorder": 3}


def find_compositions(record: Record) -> list[CompositionPanel] | str:
    """Return the lines of each panel, or the reason for none."""
    found = groups(record.cells)
    several = 1 in telling(found)
    panels: dict[tuple[str, ...], CompositionPanel] = {}
    for group in found:
        who = group.names[: 2 if several else 1]
        panel = panels.setdefault(who, CompositionPanel(shorten(" · ".join(who), 40), {}, []))
        for spot in group.spots:
            count = number(spot.cells[0].estimator.params.get(PARAMETER))
            if count is not None and 1 <= count < math.inf:
                panel.lines.setdefault(_name(found, group), []).append((count, spot))
            elif points.certified(spot) is not None:
                panel.single.append(spot)
    for panel in panels.values():
        for line in panel.lines.values():
            line.sort(key=lambda mark: mark[0])
    drawn = [panel for panel in panels.values() if panel.lines]
    if not any(len(line) > 1 for panel in drawn for line in panel.lines.values()):
        return "no estimator has results for several numbers of releases"
    return drawn


def _name(found: list[Group], group: Group) -> str:
    """Return the label, or the plugin's name if labels differ only in the number of releases."""

    def settings(one: Group) -> str:
        estimator = one.spots[0].cells[0].estimator
        params = {k: v for k, v in estimator.params.items() if k != PARAMETER}
        return same_value([estimator.use, params])

    same = {other.names[2] for other in found if settings(other) == settings(group)}
    if len(group.spots) == 1 and len(same) > 1:
        return group.spots[0].cells[0].estimator.use
    return group.names[2]


# Convergence: the error of a histogram's distance against the number of draws.

KEY = "audit.trials"
RATE = -1 / 3  # largest slope of the mean error for bins of Scott's width [Koskela2024, theorem 4]
MOST = 6  # lines in one figure


class CompositionLine(NamedTuple):
    """One mechanism behind one estimator."""

    name: str
    trials: list[float]  # draws on either dataset, ascending; two or more
    errors: list[list[float]]  # for each, the errors of the distance in all repeats

    @property
    def means(self) -> list[float]:
        """Mean errors."""
        return [float(np.mean(found)) for found in self.errors]

    @property
    def fit(self) -> Any:
        """Slope and offset of the mean errors on logarithmic axes, by least squares."""
        return np.polyfit(np.log(self.trials), np.log(self.means), 1)

    @property
    def slope(self) -> float:
        """Slope of the fit."""
        return float(self.fit[0])


def draw_convergence(record: Record, found: list[CompositionLine]) -> Picture:
    """Draw the error of each mechanism, its slope, and the slope of [Koskela2024, theorem 4]."""
    shown = found[:MOST]
    picture = drawing.new(drawing.COLUMN, 2.6)
    ax = picture.subplots()
    handles = []
    promise: Any = {"color": INK, "lw": 0.9, "ls": DOTTED}
    for place, line in enumerate(shown):
        look, means = named(place), line.means
        for n, errors in zip(line.trials, line.errors, strict=True):
            middle = [float(np.quantile(errors, share)) for share in (0.25, 0.75)]
            ax.plot([n, n], middle, color=look.color, lw=0.8, zorder=2)
        ax.plot(line.trials, means, **look.sign, ls="none", zorder=3)
        fitted = np.exp(np.polyval(line.fit, [math.log(n) for n in line.trials]))
        ax.plot(line.trials, fitted, color=look.color, ls=look.dashes, zorder=2)
        label = f"{shorten(line.name, 24)}: slope {line.slope:.2f}".replace("-", "−")
        handles.append(entry(label, **look.sign, ls=look.dashes))
        promised = means[0] * (np.array(line.trials) / line.trials[0]) ** RATE
        ax.plot(line.trials, promised, **promise, zorder=1)
    handles.append(entry("at least this fast in the limit: slope −⅓", **promise))
    ax.set(xscale="log", yscale="log", xlabel="trials on either dataset")
    ax.set_ylabel("error of the distance")
    for axis, ends in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        scales.log_ticks(axis, scales.decades(*ends))
    return drawing.finish(
        picture,
        handles,
        record,
        f"Error of the total variation distance of {drawing.audit_name(record)}, as its "
        "histograms have it, against the number of draws. Means over repeats, bars from the "
        "lower to the upper quartile.",
        drawing.more(len(found) - len(shown), "line"),
        proof=False,
    )


def find_convergence(record: Record) -> list[CompositionLine] | str:
    """Return the lines, or the reason for none."""
    found = groups(record.cells)
    several = 2 in telling(found)
    lines = []
    for group in found:
        errors: dict[float, list[float]] = {}
        for spot in group.spots:
            trials = number(spot.values.get(KEY))
            known = [error for cell in spot.done if (error := _error(cell)) is not None]
            if trials is not None and 0 < trials < math.inf and sum(known) > 0:
                errors.setdefault(trials, []).extend(known)
        if len(errors) > 1:
            name = group.names[0] if not several else f"{group.names[0]} · {group.names[2]}"
            lines.append(CompositionLine(name, sorted(errors), [errors[n] for n in sorted(errors)]))
    return lines or "no histogram with a known distance has several numbers of trials"


def _error(cell: CellRecord) -> float | None:
    """Return the error of an estimated δ at ε = 0 (the total variation distance), if known."""
    if cell.estimate is None or "edges" not in cell.statistic:
        return None
    profiles = [cell.estimate.profile]
    if cell.truth is not None:
        profiles.append(cell.truth.profile or (cell.claim.profile if cell.claim else None) or [])
    starts = [profile[0] for profile in profiles if profile and profile[0][0] == 0]
    if len(starts) < 2 or not all(math.isfinite(delta) for _, delta in starts):
        return None
    return abs(starts[0][1] - starts[1][1])
