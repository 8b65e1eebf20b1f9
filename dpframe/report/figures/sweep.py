"""Figures of a sweep: loss and claim against the swept parameter, and the heat map."""

import bisect
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from dpframe.common.text import did_you_mean
from dpframe.errors import DpframeError
from dpframe.report.figures import drawing, points, scales
from dpframe.report.figures.drawing import CLAIMED, INK, QUIET, TRUTH, Picture, Sign, shorten
from dpframe.report.figures.points import Published
from dpframe.report.figures.scales import Scale
from dpframe.report.group import (
    FIRST_KEYS,
    SEARCH,
    GridCell,
    Group,
    Map,
    groups,
    maps,
    same,
    telling,
)
from dpframe.report.number_format import lower, number, setting
from dpframe.report.verdict_text import SHADES, WORDS
from dpframe.results.model import CellRecord, Record

MOST_PANELS = 12
MOST_LINES = 8  # lines of a panel; of more, evenly chosen ones are shown
TITLE = 38  # letters that fit above a panel
COINCIDING = 0.012  # lines nearer than this share of the axis hide each other
VARIANTS = ("-", (0, (4, 1.5)), (0, (1, 1)))


class SweepLine(NamedTuple):
    """Cells along the swept key, all else fixed."""

    place: int  # index of the line in the figure; lines with one index look alike in all panels
    variant: int  # index of its mechanism among those that share the panel
    marks: list[tuple[float, GridCell]]  # value of the swept key, ascending, and the cells there

    def losses(self, sign: Sign) -> list[tuple[float, float]]:
        """Return the known claimed or true losses."""
        pick = points.claimed if sign is CLAIMED else points.exact
        return [(x, value) for x, spot in self.marks if (value := pick(spot)) is not None]


class SweepPanel(NamedTuple):
    """Lines that are drawn together."""

    title: str
    lines: list[SweepLine]

    @property
    def marks(self) -> list[tuple[float, GridCell]]:
        """The marks of all lines."""
        return [mark for line in self.lines for mark in line.marks]


class SweepLayout(NamedTuple):
    """The layout of a figure over a swept parameter."""

    key: str  # the swept key along the horizontal axis
    line_key: str | None  # the key that distinguishes the lines: a swept key, `estimator`, or None
    labels: list[str]  # labels of the lines, by index
    ordered: bool  # true if the lines are ordered, as numbers are
    panels: list[SweepPanel]
    dropped: int  # lines left out, because there are too many

    @property
    def along(self) -> str:
        """The name of the horizontal axis."""
        return _name(self.key)

    def look(self, place: int) -> drawing.LineStyle:
        """Return the look of a line."""
        return drawing.ordered(place, len(self.labels)) if self.ordered else drawing.named(place)


def find_sweep(record: Record) -> SweepLayout | str:
    """Return the layout of the figure, or the reason for none."""
    if not any(cell.estimate for cell in record.cells):
        return "none of its cells has an estimate"
    plan = _lay_out(record.cells)
    return plan if plan.panels else "no parameter that is a number is swept"


def draw_sweep(
    picture: Picture,
    plan: SweepLayout,
    together: Sequence[Sequence[str]] = (),
    beside: Published | None = None,
) -> None:
    """Draw the losses in a panel for each mechanism, or for those that are listed `together`."""
    plan = _lay_out(picture.cells, together) if together else plan
    panels = picture.first(plan.panels, MOST_PANELS, "panel")
    picture.leave_out(plan.dropped, "line")
    spots = [spot for panel in panels for _, spot in panel.marks]
    scaled = scales.scale(
        points.losses(spots) + (beside.losses(spots) if beside else []),
        [value for spot in spots for value in (points.claimed(spot), points.exact(spot))],
    )
    axes = picture.grid([panel.title for panel in panels], plan.along, "loss ε")
    bounded = {line.place for panel in panels for line in panel.lines if _bounds(line)}
    apart = plan.line_key in ("estimator", None)
    for place, label in enumerate(plan.labels if plan.line_key else ()):
        look = plan.look(place)
        text = shorten(f"{_name(plan.line_key or '')} {label}" if plan.ordered else label, 40)
        style = look.sign if apart and place in bounded else look.hollow
        picture.name(text, **style, ls="-" if plan.ordered or apart else look.dashes)
    for ax, panel in zip(axes, panels, strict=True):
        _draw_panel(picture, ax, panel, plan, scaled)
        if beside:
            beside.draw(picture, ax, panel.marks, scaled)
        scales.dress_swept(ax, sorted({x for one in panels for x, _ in one.marks}))
        scales.dress(ax, "y", scaled)
    if any(len({tuple(c) for ln in p.lines if (c := ln.losses(CLAIMED))}) > 1 for p in panels):
        picture.remarks.append(
            "Thick lines without markers: the claim for the line of the same shade."
        )


def _bounds(line: SweepLine) -> list[tuple[float, float]]:
    return [(x, b) for x, spot in line.marks if (b := points.certified(spot)) is not None]


def _draw_panel(
    picture: Picture, ax: Axes, panel: SweepPanel, plan: SweepLayout, scaled: Scale
) -> None:
    """Draw a line for each estimator with its bounds, or a band of the largest bounds of all."""
    apart = plan.line_key == "estimator" or len(panel.lines) == 1
    best = sorted(dict(sorted(b for line in panel.lines for b in _bounds(line))).items())
    if best and not apart:
        xs, tops = scaled.columns(best)
        low = scaled.limits[0]
        picture.add(drawing.LARGEST_BOUND, ax.fill_between, xs, low, tops, zorder=1)
        ax.plot(xs, tops, color=QUIET, lw=0.6, zorder=1.1)
    for sign in (CLAIMED, TRUTH):
        _draw_reference(picture, ax, panel, plan, sign, scaled)
    for line in panel.lines:
        look = plan.look(line.place)
        style = VARIANTS[line.variant % 3] if plan.ordered else look.dashes
        if apart:
            style = drawing.DOTTED
            if bounds := _bounds(line):
                ax.plot(*scaled.columns(bounds), **look.sign, zorder=3)
                picture.name(drawing.AT_LEAST)
        means = [(x, spot.mean("epsilon")) for x, spot in line.marks]
        ax.plot(*scaled.columns(means), color=look.color, ls=style, lw=0.9, zorder=3)
        for x, spot in line.marks:
            places = scaled.places(spot.estimates("epsilon"))
            if len(places) > 1:  # from the least to the largest of the replicates
                ax.plot([x, x], [min(places), max(places)], color=look.color, lw=0.8, zorder=2.9)
            if (mean := spot.mean("epsilon")) is None:
                continue
            face = _face(None if apart else spot.verdict, look.color)
            ax.plot([x], [scaled.place(mean)], **look.sign, **face, zorder=3.5)
            if apart:
                picture.name(drawing.ESTIMATE)
            else:
                filled = drawing.AT_LEAST.look | _face(spot.verdict, INK)
                picture.name(f"estimate; {WORDS[spot.verdict]}", **filled)
    _name_coinciding(ax, panel, plan, scaled)


def _face(verdict: str | None, color: str) -> dict[str, Any]:
    """Return the fill of a sign: full if violated, half if inconclusive, else empty."""
    if verdict not in ("violated", "inconclusive"):
        return drawing.HOLLOW
    half = {"fillstyle": "bottom", "markerfacecoloralt": "white"}
    return {"markerfacecolor": color, **(half if verdict == "inconclusive" else {})}


def _draw_reference(
    picture: Picture, ax: Axes, panel: SweepPanel, plan: SweepLayout, sign: Sign, scaled: Scale
) -> None:
    """Draw the claimed or true loss, once for lines that share it."""
    known: dict[tuple[tuple[float, float], ...], SweepLine] = {}
    for line in panel.lines:
        known.setdefault(tuple(line.losses(sign)), line)
    for losses, line in known.items():
        if not losses or (sign is TRUTH and list(losses) == line.losses(CLAIMED)):
            continue
        own = {"color": plan.look(line.place).color} if len({*known} - {()}) > 1 else {}
        one = "_" if len(losses) == 1 else None  # a line of one point would be invisible
        picture.add(sign, ax.plot, *scaled.columns(losses), marker=one, markersize=9, **own)


def _name_coinciding(ax: Axes, panel: SweepPanel, plan: SweepLayout, scaled: Scale) -> None:
    """Name lines that coincide, because only the last of them is visible."""
    together: list[tuple[dict[float, float], list[str]]] = []
    for line in panel.lines:
        means = {x: m for x, spot in line.marks if (m := spot.mean("epsilon")) is not None}
        heights = {x: scaled.height(mean) for x, mean in means.items() if not math.isnan(mean)}
        for other, labels in together:
            equal = other.keys() == heights.keys()
            if equal and all(abs(other[x] - heights[x]) < COINCIDING for x in other):
                labels.append(plan.labels[line.place])
                break
        else:
            together.append((heights, [plan.labels[line.place]]))
    for heights, labels in together:
        if len(labels) < 2 or not heights:
            continue
        x = sorted(heights)[len(heights) // 2]
        text = ", ".join(labels)
        if len(labels) == len(panel.lines):
            text = "both" if len(labels) == 2 else f"all {len(labels)}"
        above = heights[x] < 0.5
        ax.annotate(
            f"{shorten(text, 24)} coincide",
            (x, heights[x]),
            xycoords=ax.get_xaxis_transform(),
            xytext=(0, 5 if above else -5),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            fontsize=6.5,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8},
            zorder=4,
        )


def _name(key: str) -> str:
    if key == "mechanism.epsilon":
        return "claimed ε"
    return {"audit.delta": "δ"}.get(key, (key.partition(".")[2] or key).replace("_", " "))


def _lay_out(cells: Sequence[CellRecord], together: Sequence[Sequence[str]] = ()) -> SweepLayout:
    """Lay out cells with a swept parameter; the layout has no panels if none is swept.

    `together` lists the labels of mechanisms that share a panel; default: a panel for each. Raises
    DpframeError if it names an unknown mechanism.
    """
    found = groups(list(cells))
    key = _along(found)
    found = [g for g in found if any(number(_value(g, s, key)) is not None for s in g.spots)]
    line_key = _between(found, key)
    every = [_value(group, spot, line_key) for group in found for spot in group.spots]
    values = list({same(value): value for value in every}.values())
    ordered = line_key != "estimator" and all(number(value) is not None for value in values)
    if ordered:
        values.sort(key=float)
    dropped = max(len(values) - MOST_LINES, 0)
    if dropped:
        step = (len(values) - 1) / (MOST_LINES - 1)
        values = [values[round(index * step)] for index in range(MOST_LINES)]
    places = {same(value): place for place, value in enumerate(values)}
    mechanisms = list(dict.fromkeys(group.names[0] for group in found))
    for label in itertools.chain(*together):
        if label not in mechanisms:
            raise DpframeError(
                f"no mechanism {label!r} to make a panel of{did_you_mean(mechanisms, label)} "
                f"There are: {', '.join(mechanisms)}"
            )
    members = [list(one) for one in together] or [[label] for label in mechanisms]
    attacks, estimators = (len({group.names[part] for group in found}) > 1 for part in (1, 2))
    lines: dict[tuple[int, str], dict[tuple[int, int], list[tuple[float, GridCell]]]] = {}
    for group in found:
        fixed = [group.names[1]] if attacks else []
        fixed += [group.names[2]] if estimators and line_key != "estimator" else []
        rest = [k for k in group.keys if k not in (key, line_key)]
        for spot in group.spots:
            x = number(_value(group, spot, key))
            place = places.get(same(_value(group, spot, line_key)))
            if x is None or place is None or not math.isfinite(x):
                continue
            texts = ", ".join(spot.texts(rest, group.swept)).replace("_", " ")
            panel = " · ".join(filter(None, [*fixed, texts]))
            for index, labels in enumerate(members):
                if group.names[0] in labels:
                    line = labels.index(group.names[0]), place
                    lines.setdefault((index, panel), {}).setdefault(line, []).append((x, spot))
    panels = []
    for (index, panel), by_line in sorted(lines.items(), key=lambda item: item[0][0]):
        names = [shorten(label, TITLE // len(members[index])) for label in members[index]]
        if len(mechanisms) == 1 and panel:
            names = []  # it does not distinguish panels
        title = shorten(" · ".join(filter(None, [", ".join(names), panel])), TITLE)
        drawn = [
            SweepLine(place, variant, sorted(marks, key=lambda m: m[0]))
            for (variant, place), marks in sorted(by_line.items())
        ]
        panels.append(SweepPanel(title, drawn))
    return SweepLayout(key, line_key, [*map(setting, values)], ordered, panels, dropped)


def _value(group: Group, spot: GridCell, key: str | None) -> Any:
    """Return the value of a swept key, even if all remaining cells of a group share it."""
    if key == "estimator":
        return group.names[2]
    return spot.values.get(key, spot.cells[0].swept.get(key)) if key else ""


def _longest_axes(found: list[Group]) -> dict[str, list[Any]]:
    """Return the values of each key in the group that has most of them."""
    axes: dict[str, list[Any]] = {}
    for group in found:
        for key in group.keys:
            axes[key] = max(axes.get(key, []), group.axis(key), key=len)
    return axes


def _along(found: list[Group]) -> str:
    """Return the key along the axis: the claim's ε, else the one with most values."""
    numbers = {key: [*map(number, axis)] for key, axis in _longest_axes(found).items()}
    fit = {
        key: len(axis)
        for key, axis in numbers.items()
        if len(axis) > 1 and all(value is not None and math.isfinite(value) for value in axis)
    }
    first = next((key for key in FIRST_KEYS if key in fit), None)
    return first or max(fit, key=fit.__getitem__, default="")


def _between(found: list[Group], along: str) -> str | None:
    """Return the key that distinguishes the lines: that with most values, up to `MOST_LINES`."""
    counts = {key: len(axis) for key, axis in _longest_axes(found).items() if key != along}
    few = {key: count for key, count in counts.items() if count <= MOST_LINES}
    chosen = max(few or counts, key=counts.__getitem__, default=None)
    return "estimator" if chosen is None and 2 in telling(found) else chosen


# The heat map.

_MEANINGS = ("nothing certified", *(f"{text} × the claim" for *_, text in SHADES[1:]))
TALLEST = 9.0  # inches of a panel
MOST_NAMED = int(TALLEST / drawing.ROW)  # rows with a name, if they have numbers
CELL = 0.27  # least width of a cell with a number in it, in inches


def find_heat_map(record: Record) -> list[Map] | str:
    """Return the maps of a record, or the reason for none."""
    found = list(maps(groups(record.cells)))
    if not any(spot.share is not None for one in found for spot in one.spots):
        return "none of its cells has a claim and a certified bound"
    return found


def draw_heat_map(picture: Picture, found: list[Map]) -> None:
    """Draw certified ε / claimed ε of every cell, with its verdict."""
    panels = [_cut(panel) for panel in picture.first(found, MOST_PANELS, "panel")]
    single = len(panels) == 1
    column = single and _room(panels[0], drawing.COLUMN) >= CELL
    width = drawing.COLUMN if column else drawing.PAGE
    numbers = single and _room(panels[0], width) >= CELL
    down, across = max(len(p.rows) for p in panels), max(len(p.heads) for p in panels)
    height = min(
        max(0.2 * down + 0.2, 0.6), max(3.2, drawing.ROW * down if numbers else 0), TALLEST
    )
    sides = {(p.directions, *p.heads, *(label for label, _ in p.rows)) for p in panels}
    letters = max(len(name) for p in panels for name in p.heads) if _upright(panels[0]) else 0
    axes = picture.grid(
        [panel.title for panel in panels],
        height=height + 0.055 * letters,
        shared=len(sides) == 1,
        width=width,
    )
    wide = _room(panels[0], width) if single else 1.9 / across
    for ax, panel in zip(axes, panels, strict=True):
        _draw_map(ax, panel, 72 * min(wide, height / down), numbers=numbers)
        ax.set(xlabel=panel.across, ylabel=panel.down)
        if len(sides) == 1:
            ax.label_outer()
    spots = [spot for panel in panels for spot in panel.spots]
    for verdict in (verdict for verdict in WORDS if verdict in {spot.verdict for spot in spots}):
        face = "none" if verdict == "consistent" else INK
        style = {"marker": drawing.mark(verdict), "color": INK, "ls": "none"}
        picture.name(WORDS[verdict], **style, markerfacecolor=face)
    for shade in sorted({_shade(s.share) for s in spots if s.share is not None}):
        color = drawing.SHADE_COLORS[shade]
        picture.name(_MEANINGS[shade], facecolor=color, edgecolor=QUIET, lw=0.4)
    if any(cell.repeat for cell in picture.cells):
        picture.remarks.append("Of repeats, the worst.")


def _cut(panel: Map) -> Map:
    """Name the axes of a panel, and shorten names to the room that it has."""
    suffix = (
        f" · {SEARCH}" if all(label.endswith(f" · {SEARCH}") for label, _ in panel.rows) else ""
    )
    rows = [
        (shorten(label.removesuffix(suffix), 14 if panel.down else 34), row)
        for label, row in panel.rows
    ]
    heads = [shorten(head, 18) for head in panel.heads]
    named = {"estimator": "", "ε": "claimed ε"}
    across, down = (named.get(key, key) for key in (panel.across, panel.down))
    return Map(shorten(panel.title, 30), down, across, heads, rows)


def _room(panel: Map, width: float) -> float:
    """Return the width of each column, in inches."""
    labels = 0.06 * max(len(label) for label, _ in panel.rows)
    return (width - labels - 1.0) / len(panel.heads)


def _draw_map(ax: Axes, panel: Map, side: float, *, numbers: bool) -> None:
    """Draw one map; `side` is the shorter side of a cell in points."""
    darkest = len(_MEANINGS) - 1
    filled = np.full((len(panel.rows), len(panel.heads)), np.nan)
    at: dict[tuple[str | None, str], list[tuple[float, float]]] = {}
    for y, (_, row) in enumerate(panel.rows):
        for x, spot in enumerate(row):
            if spot is None:
                continue
            share = spot.share
            filled[y, x] = np.nan if share is None else _shade(share)
            color = "white" if filled[y, x] == darkest else INK
            place = (x + (0.2 if numbers else 0.5), y + 0.5)
            at.setdefault((spot.verdict, color), []).append(place)
            if numbers and share is not None:
                text = "∞" if math.isinf(share) else lower(share)
                style: Any = {"ha": "center", "va": "center", "fontsize": 6, "color": color}
                ax.text(x + 0.62, y + 0.53, text, **style)
    edges: Any = {"edgecolors": "white", "linewidth": 0.6} if side > 5 else {}
    colors: Any = {"cmap": ListedColormap(drawing.SHADE_COLORS), "vmin": 0, "vmax": darkest}
    ax.pcolormesh(filled, rasterized=filled.size > 2500, **colors, **edges)
    for (verdict, color), places in at.items():
        xs, ys = zip(*places, strict=True)
        ax.scatter(
            xs,
            ys,
            s=min(max(0.35 * side, 0.6), 3.7) ** 2,
            marker=drawing.mark(verdict),
            facecolors="none" if verdict == "consistent" else color,
            edgecolors=color,
            linewidths=min(0.05 * side, 0.6),
        )
    rows = [label for label, _ in panel.rows]
    sides = ((ax.xaxis, panel.heads, 12), (ax.yaxis, rows, MOST_NAMED if numbers else 20))
    for axis, labels, fitting in sides:
        step = math.ceil(len(labels) / fitting)
        axis.set_ticks([i + 0.5 for i in range(0, len(labels), step)], labels[::step])
        axis.set_tick_params(length=0)
    if _upright(panel):
        ax.tick_params(axis="x", labelrotation=90)
    ax.set(xlim=(0, len(panel.heads)), ylim=(len(panel.rows), 0))
    for spine in ax.spines.values():
        spine.set_visible(False)


def _upright(panel: Map) -> bool:
    """True if the column names are too long to print side by side."""
    return max(map(len, panel.heads)) * min(len(panel.heads), 12) > 45


def _shade(share: float) -> int:
    """Return the place of a share in `SHADES`."""
    return bisect.bisect_left([most for most, *_ in SHADES], share)
