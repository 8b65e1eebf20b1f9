"""The signs of a figure of curves: how each is drawn, and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D

from dpframe.report.figures.style import (
    CERTIFIED,
    CLAIMED,
    DOTTED,
    ESTIMATE,
    INK,
    QUIET,
    TRUTH,
    named,
    shorten,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from matplotlib.axes import Axes

    from dpframe.report.figures.curves import Floats


REFERENCES: dict[str, dict[str, Any]] = {
    CLAIMED: {"color": INK, "lw": 1.6, "ls": "-"},
    TRUTH: {"color": QUIET, "lw": 1.4, "ls": DOTTED},
}


def draw_references(ax: Axes, x: Floats, claimed: Floats | None, exact: Floats | None) -> set[str]:
    """Draws what is claimed and what is true, where it is known; returns which of them are."""
    known = {CLAIMED: claimed, TRUTH: exact}
    for name, style in REFERENCES.items():
        if (y := known[name]) is not None:
            ax.plot(x, y, **style, zorder=2)
    return {name for name, y in known.items() if y is not None}


def draw_estimate(ax: Axes, x: Floats, y: Floats, place: int, every: tuple[int, int]) -> None:
    """Draws the estimate of the estimator with so many before it: dotted, its signs empty."""
    look = named(place)
    style: Any = {"color": look.color, "marker": look.marker, "markevery": every}
    ax.plot(x, y, lw=0.9, ls=DOTTED, markerfacecolor="white", zorder=3, **style)


def draw_bound(ax: Axes, x: Floats, y: Floats, place: int, **marks: Any) -> None:
    """Draws what an estimator certifies: a line, and full signs where `marks` say so."""
    ax.plot(x, y, color=named(place).color, **{"lw": 1.0, "zorder": 3.1, **marks})


def curve_key(labels: Sequence[str], drawn: Collection[object]) -> list[Line2D]:
    """A handle for each estimator and for each way of drawing that there is.

    Args:
        labels: of estimators, by their looks.
        drawn: `CLAIMED`, `TRUTH`, `CERTIFIED` and `ESTIMATE`, and `(label,)` of each estimator.
    """
    handles = []
    for index, label in enumerate(labels):
        look, shown = named(index), shorten(label, 40)
        if (label,) in drawn:
            handles.append(Line2D([], [], color=look.color, marker=look.marker, label=shown))
    ways = {
        **{name: Line2D([], [], **style) for name, style in REFERENCES.items()},
        CERTIFIED: Line2D([], [], color=QUIET, marker="o"),
        ESTIMATE: Line2D([], [], color=QUIET, marker="o", markerfacecolor="white", ls=DOTTED),
    }
    for way, handle in ways.items():
        if way in drawn:
            handle.set_label(f"{way}: at least this" if way == CERTIFIED else way)
            handles.append(handle)
    return handles
