"""The heat map of certified ε / claimed ε, which shows where in a sweep a claim fails."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.lines import Line2D

from dpframe.report.figures import drawing
from dpframe.report.figures.drawing import INK, Picture, mark, shorten
from dpframe.report.group import Map, Spot, groups, maps, repeated, weight, worst
from dpframe.report.words import WORDS, lower
from dpframe.results.model import Record

MOST_PANELS = 12
BEYOND = 2.0  # all shares from here on are equally dark

# White at 0, greys up to the claim, and beyond it reds that are darker than every grey.
_MAP = LinearSegmentedColormap.from_list(
    "certified", [(0, "#ffffff"), (0.5, "#a9bdd0"), (0.501, "#e08a5b"), (1, "#8c2f04")]
)


CELL = 0.27  # least width of a cell with a number in it, in inches


def find(record: Record) -> list[Map] | str:
    """Return the maps of a record, or the reason for none."""
    found = list(maps(groups(record.cells)))
    if not any(share(spot) is not None for one in found for spot in one.spots):
        return "none of its cells has a claim and a certified bound"
    return found


def share(spot: Spot) -> float | None:
    """Return certified ε / claimed ε of the worst replicate; None if one of them is missing."""
    cell = worst(spot.done)
    found = None if cell is None else weight(cell)
    return None if found is None else found.ratio


def draw(record: Record, found: list[Map]) -> Picture:
    """Draw certified ε / claimed ε of every cell, with its verdict."""
    panels = [_cut(panel) for panel in found[:MOST_PANELS]]
    single = len(panels) == 1
    column = single and _room(panels[0], drawing.COLUMN) >= CELL
    width = drawing.COLUMN if column else drawing.PAGE
    numbers = single and _room(panels[0], width) >= CELL
    down, across = (max(len(p.rows) for p in panels), max(len(p.heads) for p in panels))
    height = min(max(0.2 * down + 0.2, 0.6), 3.2)
    sides = {(p.directions, *p.heads, *(label for label, _ in p.rows)) for p in panels}
    letters = max(len(name) for p in panels for name in p.heads) if _upright(panels[0]) else 0
    norm = Normalize(0, BEYOND)
    picture, axes = drawing.grid(
        len(panels), height=height + 0.055 * letters, shared=len(sides) == 1, width=width
    )
    wide = _room(panels[0], width) if single else 1.9 / across
    for ax, panel in zip(axes, panels, strict=True):
        _draw(ax, panel, norm, 72 * min(wide, height / down), numbers=numbers)
        ax.set(xlabel=_named(panel.across), ylabel=_named(panel.down))
        if len(sides) == 1:
            ax.label_outer()
    bar = picture.colorbar(ScalarMappable(norm, _MAP), ax=axes, aspect=22, pad=0.015, shrink=0.9)
    bar.set_ticks([0, 0.5, 1, 1.5, 2], labels=["0", "0.5", "1", "1.5", "≥ 2"])
    bar.set_label("certified / claimed")
    bar.outline.set_linewidth(0.4)
    bar.ax.axhline(1, color=INK, lw=1.2)
    there = {spot.verdict for panel in panels for spot in panel.spots}
    handles = [_handle(verdict) for verdict in WORDS if verdict in there]
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


def _draw(ax: Axes, panel: Map, norm: Normalize, side: float, *, numbers: bool) -> None:
    """Draw one map; `side` is the shorter side of a cell in points."""
    ax.set_title(panel.title)
    spots = [row for _, row in panel.rows]
    shares = [[None if spot is None else share(spot) for spot in row] for row in spots]
    filled = np.array([[np.nan if s is None else min(s, BEYOND) for s in row] for row in shares])
    edges: Any = {"edgecolors": "white", "linewidth": 0.6} if side > 5 else {}
    ax.pcolormesh(filled, cmap=_MAP, norm=norm, rasterized=filled.size > 2500, **edges)
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
            marker=mark(verdict),
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
    return share is not None and share > 1.3


def _handle(verdict: str | None) -> Line2D:
    style = {"marker": mark(verdict), "label": WORDS[verdict], "color": INK, "ls": "none"}
    return Line2D([], [], **style, markerfacecolor="none" if verdict == "consistent" else INK)
