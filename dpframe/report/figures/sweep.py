"""Figures of a sweep: loss and claim against the swept parameter, and the heat map."""

import bisect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dpframe.report.figures import drawing, points, scales
from dpframe.report.figures.drawing import CLAIMED, FAINT, INK, QUIET, TRUTH, Picture, shorten
from dpframe.report.figures.points import Published, SweepLayout, SweepLine, SweepPanel
from dpframe.report.figures.scales import Scale
from dpframe.report.group import Map, groups, maps, repeated
from dpframe.report.number_format import lower
from dpframe.report.verdict_text import SHADES, WORDS
from dpframe.results.model import Record

MOST_PANELS = 12
COINCIDING = 0.012  # lines nearer than this share of the axis hide each other
VARIANTS = ("-", (0, (4, 1.5)), (0, (1, 1)))


def find(record: Record) -> SweepLayout | str:
    """Return the layout of the figure, or the reason for none."""
    if not any(cell.estimate for cell in record.cells):
        return "none of its cells has an estimate"
    plan = points.planned(record)
    return plan if plan.panels else "no parameter that is a number is swept"


def draw(
    record: Record,
    plan: SweepLayout,
    together: Sequence[Sequence[str]] = (),
    beside: Published | None = None,
) -> Picture:
    """Draw the losses.

    `together` are labels of mechanisms that share a panel; default: a panel for each. Raises
    DpframeError if there are numbers from elsewhere (`beside`), but none for any cell.
    """
    if together:
        plan = points.planned(record, together)
    panels = plan.panels[:MOST_PANELS]
    spots = [spot for panel in panels for _, spot in panel.marks]
    published = points.all_published(spots, beside)
    references = [value for s in spots for value in (points.claimed(s), points.exact(s))]
    scaled = scales.scale(
        [*published, *(value for spot in spots for value in points.values(spot))],
        [value for value in references if value is not None],
    )
    picture, axes = drawing.grid(len(panels))
    for ax, panel in zip(axes, panels, strict=True):
        _draw(ax, panel, plan, scaled)
        found = scaled.columns((x, points.published(spot, beside)) for x, spot in panel.marks)
        if found[0]:
            ax.plot(*found, **drawing.BESIDE)
    _set_horizontal_axis(axes, sorted({x for panel in panels for x, _ in panel.marks}))
    drawing.name_axes(axes, _name(plan.key), "loss ε")
    return drawing.finish(
        picture,
        [*_legend(plan, panels), *points.handles(beside)],
        record,
        f"Loss of {drawing.audit_name(record)} against {_name(plan.key)}; between the swept "
        "values, lines and areas only guide the eye.",
        drawing.promise(record),
        _own_claims(panels),
        drawing.repeats(record),
        drawing.more(len(plan.panels) - MOST_PANELS, "panel"),
        drawing.more(plan.dropped, "line"),
    )


def _look(place: int, plan: SweepLayout) -> drawing.LineStyle:
    return drawing.ordered(place, len(plan.labels)) if plan.ordered else drawing.named(place)


def _draw(ax: Axes, panel: SweepPanel, plan: SweepLayout, scaled: Scale) -> None:
    ax.set_title(panel.title)
    apart = plan.line_key == "estimator" or len(panel.lines) == 1
    if not apart:
        _draw_band(ax, panel, scaled)
    for name in (CLAIMED, TRUTH):
        _draw_reference(ax, panel, plan, name, scaled)
    for line in panel.lines:
        look = _look(line.place, plan)
        style = VARIANTS[line.variant % 3] if plan.ordered else look.dashes
        if apart:
            bounds = [(x, points.certified(spot)) for x, spot in line.marks]
            ax.plot(*scaled.columns(bounds), **look.sign, ls="-", label=None, zorder=3)
            style = drawing.DOTTED
        means = [(x, spot.mean("epsilon")) for x, spot in line.marks]
        ax.plot(*scaled.columns(means), color=look.color, ls=style, lw=0.9, zorder=3)
        for (x, spot), (_, mean) in zip(line.marks, means, strict=True):
            if mean is not None:
                face = _face(None if apart else spot.verdict, look.color)
                ax.plot([x], [scaled.place(mean)], **look.sign, **face, zorder=3.5)
        for x, spot in line.marks:
            values = scaled.places(spot.estimates("epsilon"))
            if len(values) > 1:  # from the least to the largest of the replicates
                ax.plot([x, x], [min(values), max(values)], color=look.color, lw=0.8, zorder=2.9)
    _name_coinciding(ax, panel, plan, scaled)
    scales.dress(ax, "y", scaled)


def _face(verdict: str | None, color: str) -> dict[str, Any]:
    """Return the fill of a sign: full if violated, half if inconclusive, else empty."""
    if verdict not in ("violated", "inconclusive"):
        return {"markerfacecolor": "white"}
    half = {"fillstyle": "bottom", "markerfacecoloralt": "white"}
    return {"markerfacecolor": color, **(half if verdict == "inconclusive" else {})}


def _name_coinciding(ax: Axes, panel: SweepPanel, plan: SweepLayout, scaled: Scale) -> None:
    """Name lines that coincide, because only the last of them is visible."""
    together: list[tuple[dict[float, float], list[SweepLine]]] = []
    for line in panel.lines:
        means = {x: m for x, spot in line.marks if (m := spot.mean("epsilon")) is not None}
        heights = {x: scaled.height(mean) for x, mean in means.items() if not math.isnan(mean)}
        for other, lines in together:
            same = other.keys() == heights.keys()
            if same and all(abs(other[x] - heights[x]) < COINCIDING for x in other):
                lines.append(line)
                break
        else:
            together.append((heights, [line]))
    for heights, lines in together:
        if len(lines) > 1 and heights:
            middle = sorted(heights)[len(heights) // 2]
            above = heights[middle] < 0.5
            names = ", ".join(line.label for line in lines)
            if len(lines) == len(panel.lines):
                names = "both" if len(lines) == 2 else f"all {len(lines)}"
            ax.annotate(
                f"{shorten(names, 24)} coincide",
                (middle, heights[middle]),
                xycoords=ax.get_xaxis_transform(),
                xytext=(0, 5 if above else -5),
                textcoords="offset points",
                ha="center",
                va="bottom" if above else "top",
                fontsize=6.5,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8},
                zorder=4,
            )


def _draw_band(ax: Axes, panel: SweepPanel, scaled: Scale) -> None:
    """Fill the area below the largest certified bound of all lines."""
    best: dict[float, float] = {}
    for x, spot in panel.marks:
        if (bound := points.certified(spot)) is not None:
            best[x] = max(best.get(x, 0.0), bound)
    if best:
        xs, tops = scaled.columns(sorted(best.items()))
        ax.fill_between(xs, scaled.limits[0], tops, color=FAINT, lw=0, alpha=0.55, zorder=1)
        ax.plot(xs, tops, color=QUIET, lw=0.6, zorder=1.1)


def _draw_reference(
    ax: Axes, panel: SweepPanel, plan: SweepLayout, name: str, scaled: Scale
) -> None:
    """Draw the claimed or true loss, once for lines that share it."""
    known = [(line, _known(line, name)) for line in panel.lines]
    different = len({tuple(found) for _, found in known if found}) > 1
    drawn = set()
    for line, found in known:
        claims = [(x, spot.claim) for x, spot in line.marks]
        if not found or (name == TRUTH and found == claims) or tuple(found) in drawn:
            continue
        drawn.add(tuple(found))
        style = drawing.REFERENCES[name]
        if different:
            style = style | {"color": _look(line.place, plan).color}
        one = "_" if len(found) == 1 else None  # a line of one point would be invisible
        ax.add_line(Line2D(*scaled.columns(found), **style, marker=one, markersize=9, zorder=2))


def _known(line: SweepLine, name: str) -> list[tuple[float, float]]:
    """Return the claimed or true losses along a line."""
    pick = points.claimed if name == CLAIMED else points.exact
    return [(x, value) for x, spot in line.marks if (value := pick(spot)) is not None]


def _set_horizontal_axis(axes: Sequence[Axes], values: list[float]) -> None:
    """Set the horizontal axis, the same in all panels."""
    first, last = values[0], values[-1]
    log = first > 0 and last / first >= scales.WIDE
    for ax in axes:
        if log:
            ax.set_xscale("log")
            margin = (last / first) ** 0.05
            ax.set_xlim(first / margin, last * margin)
        else:
            margin = 0.05 * (last - first)
            ax.set_xlim(first - margin, last + margin)
        if len(values) <= 8:
            scales.log_ticks(ax.xaxis, values)


def _name(key: str) -> str:
    if key == "mechanism.epsilon":
        return "claimed ε"
    return {"audit.delta": "δ"}.get(key, (key.partition(".")[2] or key).replace("_", " "))


def _legend(plan: SweepLayout, panels: Sequence[SweepPanel]) -> list[Line2D | Patch]:
    lines = [line for panel in panels for line in panel.lines]
    spots = [spot for panel in panels for _, spot in panel.marks]
    bounded = {
        line.place for line in lines for _, s in line.marks if points.certified(s) is not None
    }
    apart = plan.line_key in ("estimator", None)
    handles: list[Line2D | Patch] = []
    for place, label in enumerate(plan.labels if plan.line_key else ()):
        look = _look(place, plan)
        text = f"{_name(plan.line_key or '')} {label}" if plan.ordered else label
        style = look.sign if apart and place in bounded else look.hollow
        dashes = "-" if plan.ordered or apart else look.dashes
        handles.append(drawing.entry(shorten(text, 40), **style, ls=dashes))
    if any(points.claimed(spot) is not None for spot in spots):
        handles.append(drawing.entry(CLAIMED, **drawing.REFERENCES[CLAIMED]))
    if any(points.exact(spot) not in (None, points.claimed(spot)) for spot in spots):
        handles.append(drawing.entry(TRUTH, **drawing.REFERENCES[TRUTH]))
    if bounded and apart:
        handles.append(drawing.entry(drawing.AT_LEAST, **drawing.SIGN))
    elif bounded:
        handles.append(Patch(color=FAINT, alpha=0.55, label="largest certified bound"))
    signs = {drawing.ESTIMATE: _face(None, INK)}
    if not apart:
        verdicts = dict.fromkeys(spot.verdict for spot in spots)
        signs = {f"estimate; {WORDS.get(v, 'failed')}": _face(v, INK) for v in verdicts}
    return handles + [drawing.entry(label, **drawing.SIGN | face) for label, face in signs.items()]


def _own_claims(panels: Sequence[SweepPanel]) -> str:
    """Say that claims have the colours of the lines if they differ."""
    for panel in panels:
        if len({tuple(found) for line in panel.lines if (found := _known(line, CLAIMED))}) > 1:
            return "Thick lines without markers: the claim for the line of the same shade."
    return ""


MOST_MAPS = 12
# The colours of the page: greys up to the claim, and beyond it reds that are darker.
_COLORS = ("#ffffff", "#e7ebf3", "#adbcd8", "#ff9085", "#9c1c16")
_MEANINGS = (
    "nothing certified",
    *(f"{text} × the claim" for *_, text in SHADES[1:-1]),
    f"over {SHADES[-2][0]:g} × the claim",
)
_ENDS = [0.0, 1e-9, *(most for most, *_ in SHADES[1:-1]), 1e300]


CELL = 0.27  # least width of a cell with a number in it, in inches


def find_heat_map(record: Record) -> list[Map] | str:
    """Return the maps of a record, or the reason for none."""
    found = list(maps(groups(record.cells)))
    if not any(spot.share is not None for one in found for spot in one.spots):
        return "none of its cells has a claim and a certified bound"
    return found


def draw_heat_map(record: Record, found: list[Map]) -> Picture:
    """Draw certified ε / claimed ε of every cell, with its verdict."""
    panels = [_cut(panel) for panel in found[:MOST_MAPS]]
    single = len(panels) == 1
    column = single and _room(panels[0], drawing.COLUMN) >= CELL
    width = drawing.COLUMN if column else drawing.PAGE
    numbers = single and _room(panels[0], width) >= CELL
    down, across = (max(len(p.rows) for p in panels), max(len(p.heads) for p in panels))
    height = min(max(0.2 * down + 0.2, 0.6), 3.2)
    sides = {(p.directions, *p.heads, *(label for label, _ in p.rows)) for p in panels}
    letters = max(len(name) for p in panels for name in p.heads) if _upright(panels[0]) else 0
    norm = BoundaryNorm(_ENDS, len(_COLORS))
    picture, axes = drawing.grid(
        len(panels), height=height + 0.055 * letters, shared=len(sides) == 1, width=width
    )
    wide = _room(panels[0], width) if single else 1.9 / across
    for ax, panel in zip(axes, panels, strict=True):
        _draw_map(ax, panel, norm, 72 * min(wide, height / down), numbers=numbers)
        ax.set(xlabel=_named(panel.across), ylabel=_named(panel.down))
        if len(sides) == 1:
            ax.label_outer()
    there = {spot.verdict for panel in panels for spot in panel.spots}
    handles: list[Line2D | Patch] = [_handle(verdict) for verdict in WORDS if verdict in there]
    shades = {_shade(spot.share) for panel in panels for spot in panel.spots}
    handles += [
        Patch(facecolor=color, edgecolor=QUIET, lw=0.4, label=text)
        for place, (color, text) in enumerate(zip(_COLORS, _MEANINGS, strict=True))
        if place in shades
    ]
    return drawing.finish(
        picture,
        handles,
        record,
        f"Certified ε / claimed ε of {drawing.audit_name(record)}, a cell each; above 1 "
        "the claim is refuted.",
        "Of repeats, the worst." if repeated(record.cells) else "",
        drawing.promise(record),
        drawing.more(len(found) - len(panels), "panel"),
    )


def _cut(panel: Map) -> Map:
    """Shorten names to the room that a panel has."""
    rows = [(shorten(label, 14 if panel.down else 34), row) for label, row in panel.rows]
    heads = [shorten(head, 18) for head in panel.heads]
    return panel._replace(title=shorten(panel.title, 30), heads=heads, rows=rows)


def _named(key: str) -> str:
    return "claimed ε" if key == "ε" else "" if key == "estimator" else key


def _room(panel: Map, width: float) -> float:
    """Return the width of each column, in inches."""
    labels = 0.06 * max(len(label) for label, _ in panel.rows)
    return (width - labels - 1.0) / len(panel.heads)


def _draw_map(ax: Axes, panel: Map, norm: BoundaryNorm, side: float, *, numbers: bool) -> None:
    """Draw one map; `side` is the shorter side of a cell in points."""
    ax.set_title(panel.title)
    spots = [row for _, row in panel.rows]
    shares = [[None if spot is None else spot.share for spot in row] for row in spots]
    most = _ENDS[-1] / 2
    filled = np.array([[np.nan if s is None else min(s, most) for s in row] for row in shares])
    edges: Any = {"edgecolors": "white", "linewidth": 0.6} if side > 5 else {}
    ax.pcolormesh(
        filled, cmap=ListedColormap(_COLORS), norm=norm, rasterized=filled.size > 2500, **edges
    )
    at: dict[tuple[str | None, bool], list[tuple[float, float]]] = {}
    for y, row in enumerate(spots):
        for x, spot in enumerate(row):
            if spot is not None:
                place = (x + (0.2 if numbers else 0.5), y + 0.5)
                at.setdefault((spot.verdict, _is_dark(shares[y][x])), []).append(place)
    for (verdict, dark), places in at.items():
        color = "white" if dark else INK
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
    for y, shown in enumerate(shares if numbers else []):
        for x, value in enumerate(shown):
            if value is not None:
                color = "white" if _is_dark(value) else INK
                text = "∞" if math.isinf(value) else lower(value)
                ax.text(x + 0.62, y + 0.53, text, ha="center", va="center", fontsize=6, color=color)
    sides = ((ax.xaxis, panel.heads, 12), (ax.yaxis, [label for label, _ in panel.rows], 20))
    for axis, labels, most in sides:
        step = math.ceil(len(labels) / most)
        axis.set_ticks([i + 0.5 for i in range(0, len(labels), step)], labels[::step])
        axis.set_tick_params(length=0)
    if _upright(panel):
        ax.tick_params(axis="x", labelrotation=90)
    ax.set_xlim(0, len(panel.heads))
    ax.set_ylim(len(panel.rows), 0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _upright(panel: Map) -> bool:
    """True if the column names are too long to print side by side."""
    return max(map(len, panel.heads)) * min(len(panel.heads), 12) > 45


def _is_dark(share: float | None) -> bool:
    return _shade(share) == len(_COLORS) - 1


def _shade(share: float | None) -> int | None:
    """Return the place of a share in `SHADES`."""
    return None if share is None else bisect.bisect_left([most for most, *_ in SHADES], share)


def _handle(verdict: str | None) -> Line2D:
    style = {"marker": drawing.mark(verdict), "color": INK, "ls": "none"}
    face = "none" if verdict == "consistent" else INK
    return drawing.entry(WORDS[verdict], **style, markerfacecolor=face)
