"""What the signs of a figure of curves mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        CLAIMED: Line2D([], [], color=INK, lw=1.6),
        TRUTH: Line2D([], [], color=QUIET, lw=1.4, ls=DOTTED),
        CERTIFIED: Line2D([], [], color=QUIET, marker="o"),
        ESTIMATE: Line2D([], [], color=QUIET, marker="o", markerfacecolor="white", ls=DOTTED),
    }
    for way, handle in ways.items():
        if way in drawn:
            handle.set_label(f"{way}: at least this" if way == CERTIFIED else way)
            handles.append(handle)
    return handles
