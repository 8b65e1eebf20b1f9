"""Figures of losses against the number of releases or draws."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D

from dpframe.errors import DpframeError
from dpframe.report import evidence, words
from dpframe.report.evidence import DEEP, distinct
from dpframe.report.evidence import named as called
from dpframe.report.figures import drawing as notes
from dpframe.report.figures import points as losses
from dpframe.report.figures.drawing import (
    BESIDE,
    CERTIFIED,
    CLAIMED,
    COLUMN,
    DOTTED,
    ESTIMATE,
    INK,
    WIDE,
    Look,
    decades,
    dress,
    grid,
    legend,
    log_ticks,
    mark,
    name_axes,
    named,
    new,
    scale,
    shorten,
)
from dpframe.report.group import groups
from dpframe.report.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpframe.report.evidence import Growth
    from dpframe.report.evidence import Line as EvidenceLine
    from dpframe.report.figures.drawing import Picture, Scale
    from dpframe.report.figures.points import Published
    from dpframe.report.group import Group, Spot
    from dpframe.results.model import CellRecord, Record


# The loss after several releases, against their number.


PARAMETER = "compositions"
MOST_PANELS = 6
MOST_LINES = 8
BOUND = Look(INK, ">", "none")


class Panel(NamedTuple):
    """One mechanism behind one attack."""

    title: str
    lines: dict[str, list[tuple[float, Spot]]]
    """By estimator: numbers of releases, ascending, and what was found of them."""
    single: list[Spot]
    """Certified cells of a single release."""


def unfit_compositions(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not any(len(line) > 1 for panel in _panels(record) for line in panel.lines.values()):
        return "no estimator was asked about several numbers of releases"
    return None


def draw_compositions(record: Record, beside: Published | None = None) -> Picture:
    """Draws it: a line for each estimator, and what is claimed and certified of one release.

    Args:
        record: of a run.
        beside: numbers from elsewhere, an accountant's for example.

    Raises:
        DpframeError: there are such numbers, but none for any cell.
    """
    found = _panels(record)
    shown = found[:MOST_PANELS]
    labels = list(dict.fromkeys(name for panel in shown for name in panel.lines))[:MOST_LINES]
    spots = [s for p in shown for s in (*p.single, *(s for _, _, s in _points(p)))]
    published = [v for spot in spots if (v := losses.published(spot, beside)) is not None]
    if beside is not None and not published:
        raise DpframeError(f"{beside.name}: none of its rows is about a cell that is drawn")
    anchors = [v for spot in spots if (v := losses.claimed(spot)) is not None]
    values = [v for spot in spots for v in losses.values(spot)]
    scaled = scale([*values, *published], anchors)
    picture, axes = grid(len(shown), height=2.2)
    for ax, panel in zip(axes, shown, strict=True):
        _draw(ax, panel, labels, scaled, beside)
    name_axes(axes, "releases", "loss ε")
    legend(picture, _legend(labels, spots, beside))
    picture.caption = " ".join(
        [
            f"Loss of {shorten(record.audit.name, 60)} after several releases, estimated from one: "
            "no bound in either direction. What is claimed and certified is about one release.",
            *notes.repeats(record),
            *notes.more(len(found) - len(shown), "panel"),
            *notes.left_out(record),
            notes.NO_PROOF,
        ]
    )
    return picture


def _draw(
    ax: Axes, panel: Panel, labels: list[str], scaled: Scale, beside: Published | None
) -> None:
    ax.set_title(panel.title)
    for place, name in enumerate(labels):
        look = named(place)
        points = [
            (x, scaled.place(mean))
            for x, spot in panel.lines.get(name, [])
            if (mean := spot.mean("epsilon")) is not None
        ]
        ax.plot(*_columns(points), **_estimate(look))
    everything = [(x, spot) for _, x, spot in _points(panel)]
    every = [*everything, *((1.0, spot) for spot in panel.single)]
    claims = {value for _, spot in every if (value := losses.claimed(spot)) is not None}
    ax.plot([1.0] * len(claims), scaled.places(claims), **CLAIM)
    bounds = [b for spot in panel.single if (b := losses.certified(spot)) is not None]
    ax.plot([1.0] * len(bounds), scaled.places(bounds), **CERTAIN)
    crosses = [
        (x, scaled.place(value))
        for x, spot in everything
        if (value := losses.published(spot, beside)) is not None
    ]
    ax.plot(*_columns(crosses), **BESIDE)
    numbers = sorted({x for x, _ in everything})
    if numbers[-1] / numbers[0] >= WIDE:
        ax.set_xscale("log")
    if len(numbers) <= 8:
        log_ticks(ax.xaxis, numbers)
    dress(ax, "y", scaled)


CLAIM: Any = {"color": INK, "marker": "_", "markersize": 10, "markeredgewidth": 1.6, "ls": "none"}
CERTAIN: Any = {"color": INK, "marker": "^", "markersize": 5, "ls": "none", "zorder": 4}


def _estimate(look: Look) -> dict[str, Any]:
    style = {"color": look.color, "marker": look.marker, "ls": DOTTED, "markerfacecolor": "white"}
    return style | {"zorder": 3}


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _points(panel: Panel) -> list[tuple[str, float, Spot]]:
    return [(name, x, spot) for name, line in panel.lines.items() for x, spot in line]


def _legend(labels: list[str], spots: list[Spot], beside: Published | None) -> list[Line2D]:
    handles = [
        Line2D([], [], label=f"{shorten(name, 40)}, {ESTIMATE}", **_estimate(named(place)))
        for place, name in enumerate(labels)
    ]
    if any(losses.claimed(spot) is not None for spot in spots):
        handles.append(Line2D([], [], label=f"{CLAIMED}, of one release", **CLAIM))
    if any(losses.certified(spot) is not None for spot in spots):
        handles.append(Line2D([], [], label=f"{CERTIFIED}, of one release", **CERTAIN))
    if beside is not None:
        handles.append(Line2D([], [], label=f"as {shorten(beside.name, 30)} has it", **BESIDE))
    return handles


def _panels(record: Record) -> list[Panel]:
    found = groups(record.cells)
    several = len({group.names[1] for group in found}) > 1
    panels: dict[tuple[str, str], Panel] = {}
    for group in found:
        who = (group.names[0], group.names[1] if several else "")
        title = shorten(" · ".join(filter(None, who)), 40)
        panel = panels.setdefault(who, Panel(title, {}, []))
        for spot in group.spots:
            params = spot.cells[0].estimator.params
            count = number(params.get(PARAMETER))
            if count is not None and 1 <= count < math.inf:
                panel.lines.setdefault(_name(found, group), []).append((count, spot))
            elif losses.certified(spot) is not None:
                panel.single.append(spot)
    for panel in panels.values():
        for line in panel.lines.values():
            line.sort(key=lambda point: point[0])
    return [panel for panel in panels.values() if panel.lines]


def _name(found: list[Group], group: Group) -> str:
    """The label; where labels differ in the number of releases alone, the name of the plugin."""
    estimator = group.spots[0].cells[0].estimator
    same = {
        other.names[2]
        for other in found
        if _rest(other.spots[0].cells[0].estimator) == _rest(estimator)
    }
    alike = len(group.spots) == 1 and len(same) > 1
    return estimator.use if alike else group.names[2]


def _rest(estimator: Any) -> str:
    params = {k: v for k, v in estimator.params.items() if k != PARAMETER}
    return json.dumps([estimator.use, params], sort_keys=True, default=str)


# How fast what histograms say of a mechanism approaches what is exact, as draws are added.


KEY = "audit.trials"
RATE = -1 / 3
"""Slope of the mean error, at least, with bins of Scott's width [Koskela2024, theorem 4]."""
MOST = 6
"""Lines in one figure."""


class Line(NamedTuple):
    """One mechanism behind one estimator."""

    name: str
    trials: list[float]
    """Draws on either dataset, ascending; two or more."""
    errors: list[list[float]]
    """For each, how far the distance is from the exact one, of all repeats."""

    @property
    def means(self) -> list[float]:
        """Mean errors."""
        return [float(np.mean(found)) for found in self.errors]

    @property
    def slope(self) -> float:
        """Fit the slope of the mean errors on logarithmic axes by least squares."""
        return float(np.polyfit(np.log(self.trials), np.log(self.means), 1)[0])


def unfit_convergence(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not _lines(record):
        return "no histogram of a known distance has several numbers of trials"
    return None


def draw_convergence(record: Record) -> Picture:
    """Draws it: a line for each mechanism, its slope, and the slope that theorem 4 promises."""
    found = _lines(record)
    shown = found[:MOST]
    picture = new(COLUMN, 2.6)
    ax = picture.subplots()
    signs = []
    for place, line in enumerate(shown):
        look, means = named(place), line.means
        for n, errors in zip(line.trials, line.errors, strict=True):
            ax.plot([n, n], _middle(errors), color=look.color, lw=0.8, zorder=2)
        ax.plot(line.trials, means, color=look.color, marker=look.marker, ls="none", zorder=3)
        fitted = np.exp(np.polyval(np.polyfit(np.log(line.trials), np.log(means), 1), _log(line)))
        ax.plot(line.trials, fitted, color=look.color, ls=look.dashes, zorder=2)
        name = f"{shorten(line.name, 24)}: slope {line.slope:.2f}".replace("-", "−")
        style = {"color": look.color, "marker": look.marker, "ls": look.dashes}
        signs.append(Line2D([], [], label=name, **style))
        promised = means[0] * (np.array(line.trials) / line.trials[0]) ** RATE
        ax.plot(line.trials, promised, color=INK, lw=0.9, ls=DOTTED, zorder=1)
    label = "at least so fast in the limit: slope −⅓"
    signs.append(Line2D([], [], color=INK, lw=0.9, ls=DOTTED, label=label))
    ax.set(xscale="log", yscale="log", xlabel="trials on either dataset")
    ax.set_ylabel("error of the distance")
    for axis, ends in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        log_ticks(axis, decades(*ends))
    legend(picture, signs)
    picture.caption = " ".join(
        [
            f"Error of the total variation distance of {shorten(record.audit.name, 60)}, as its "
            "histograms have it, against the number of draws. Means over repeats, bars from the "
            "lower to the upper quartile.",
            *notes.more(len(found) - len(shown), "line"),
            *notes.left_out(record),
        ]
    )
    return picture


def _log(line: Line) -> list[float]:
    return [math.log(n) for n in line.trials]


def _middle(errors: list[float]) -> list[float]:
    return [float(np.quantile(errors, share)) for share in (0.25, 0.75)]


def _lines(record: Record) -> list[Line]:
    found = groups(record.cells)
    several = len({group.names[2] for group in found}) > 1
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
            lines.append(Line(name, sorted(errors), [errors[n] for n in sorted(errors)]))
    return lines


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


# How the evidence against claims grew: what bets on the draws have earned, as draws are added.


MOST_WEALTH = 6
"""Lines in one figure."""


def unfit_wealth(record: Record) -> str | None:
    """Why a record cannot be drawn so."""
    if not _growths(record):
        return "no cell has bets: they are what the estimator betting and searches make"
    return None


def draw_wealth(record: Record) -> Picture:
    """Draws it: a line for each cell, its verdict at its end, and where a claim is refuted."""
    every = _growths(record)
    lines = distinct(every, MOST_WEALTH)
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


def _names(lines: list[EvidenceLine], every: list[Growth]) -> list[str]:
    """Name cells by what tells them apart; a single one by its mechanism."""
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
