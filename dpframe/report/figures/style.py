"""How figures look: for print in one or two columns, in grey, and for every eye.

Nothing is told by colour alone: lines differ in marker and dashes too, ordered ones also in how
dark they are.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

COLUMN, PAGE = 3.4, 7.0
"""Widths of one column and of two, in inches."""

INK, QUIET, FAINT, WASH = "#000000", "#6b6b6b", "#bdbdbd", "#e4e4e4"
DOTTED: Any = (0, (1, 1.2))
CLAIMED, TRUTH = "claimed", "exact (truth)"
ESTIMATE, CERTIFIED = "estimate, no bound", "certified"

BESIDE: Any = {"color": INK, "marker": "+", "markersize": 5.5, "ls": "none", "zorder": 4}
"""What was found elsewhere."""

RC: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelpad": 2.5,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 4.0,
    "axes.titlesize": 7.5,
    "axes.unicode_minus": True,
    "figure.dpi": 150,
    "font.family": ["DejaVu Sans"],
    "font.size": 7.5,
    "hatch.linewidth": 0.5,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.1,
    "lines.markeredgewidth": 0.8,
    "lines.markersize": 3.8,
    "pdf.fonttype": 42,
    "savefig.dpi": 300,
    "svg.hashsalt": "dpframe",
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.labelsize": 7,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 1.4,
    "xtick.minor.width": 0.4,
    "ytick.labelsize": 7,
    "ytick.major.size": 2.5,
    "ytick.major.width": 0.6,
    "ytick.minor.size": 1.4,
    "ytick.minor.width": 0.4,
}
"""What of matplotlib's settings is ours; for the rest its defaults hold, not those of a user."""


class Look(NamedTuple):
    """How one line is told from the others."""

    color: str
    marker: str
    dashes: Any


# Okabe and Ito's colours without yellow, which paper swallows, and black, which is the claim's.
_NAMED = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
# From cividis, dark to light, not so light that a thin line is lost on paper.
_ORDERED = ("#00224e", "#32406c", "#575d6d", "#7d7c78", "#a49d6f", "#c9b75f")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (1, 1)),
    (0, (8, 2, 1.2, 1.2, 1.2, 2)),
)


def named(index: int) -> Look:
    """A look for one of several things without an order."""
    return Look(
        _NAMED[index % len(_NAMED)], _MARKERS[index % len(_MARKERS)], _DASHES[index % len(_DASHES)]
    )


def ordered(index: int, count: int) -> Look:
    """A look for one of `count` things in their order: the later, the lighter."""
    place = index * (len(_ORDERED) - 1) // max(count - 1, 1)
    return Look(
        _ORDERED[min(place, len(_ORDERED) - 1)],
        _MARKERS[index % len(_MARKERS)],
        _DASHES[index % len(_DASHES)],
    )


def mark(verdict: str | None) -> Any:
    """Marker of a verdict, after the report's symbols. None is a tick: nothing is proven."""
    shapes = {"violated": "X", "consistent": "o", None: "."}
    return shapes.get(verdict) or _letter({"inconclusive": "?"}.get(verdict or "", "!"))


@functools.cache
def _letter(letter: str) -> Any:
    """A letter as the shape of a marker, in the middle of its place."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    drawn = TextPath((0, 0), letter, 1, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = drawn.get_extents()
    middle = [(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2]
    return Path((drawn.vertices - middle) / box.height, drawn.codes)


def shorten(text: str, most: int) -> str:
    """A label in at most so many characters; what is left out is left out of its middle."""
    shown = "".join(c if c.isprintable() else "�" for c in text)
    if len(shown) <= most:
        return shown
    tail = (most - 1) // 2
    return f"{shown[: most - 1 - tail]}…{shown[len(shown) - tail :]}"
