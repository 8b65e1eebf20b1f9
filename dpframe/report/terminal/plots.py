"""Plots of what was certified along the claimed curve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

from dpframe.report import words
from dpframe.report.group import short
from dpframe.report.terminal.curve import evidence
from dpframe.report.terminal.ink import GAP, STYLE, SYMBOL, Ink
from dpframe.report.terminal.panel import draw, linear_axis, log_axis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.record.model import ClaimRecord
    from dpframe.report.group import Group, Spot
    from dpframe.report.terminal.curve import Plotted

MOST = 4
"""Plots in a report."""
HEIGHT = 14
WIDEST = 78
NARROWEST = 50
"""Columns of one panel; a second one is drawn beside it where there is room for both."""
DECADES = (2, 12)
"""Least and most decades of false-positive rates that a panel shows."""


def plots(found: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    """Draws the cells whose claim is a curve; if there are many, those that reach lowest."""
    shown = [
        (best, _name(group, spot, best))
        for group in found
        for spot in group.spots
        if (best := _furthest(spot)) is not None
    ]
    if not shown:
        return
    which = ""
    if len(shown) > MOST:
        which = f": {MOST} of {len(shown)} cells, those that show most against their claim"
        order = sorted(range(len(shown)), key=lambda i: -shown[i][0].gap)
        shown = [shown[i] for i in sorted(order[:MOST])]
    signs = " ".join(dict.fromkeys(SYMBOL[best.cell.verdict] for best, _ in shown))
    yield ink.text("")
    yield ink.text("Along the claimed curve", "bold").append(ink.plain(which), "not bold")
    yield ink.text(
        f"{signs} certified: the mechanism's curve runs below or through here. Line: as "
        "claimed; below it is more loss. Dotted: guessing.",
        "dim",
    )
    for best, name in shown:
        yield ink.text("")
        yield _title(best, name, ink)
        yield from _panels(best, ink, width)


def _furthest(spot: Spot) -> Plotted | None:
    shown = [found for cell in spot.cells if (found := evidence(cell)) is not None]
    return max(shown, key=lambda found: found.gap, default=None)


def _name(group: Group, spot: Spot, best: Plotted) -> str:
    place = [f"{short(key)} {words.setting(value)}" for key, value in spot.values.items()]
    if len(spot.cells) > 1:
        place.append(f"repeat {best.cell.repeat}")
    return " · ".join((*group.names, *place))


def _title(best: Plotted, name: str, ink: Ink) -> Text:
    verdict = best.cell.verdict
    text = ink.text("")
    text.append(ink.plain(f"{SYMBOL[verdict]} "), STYLE[verdict])
    text.append(ink.plain(name), "bold")
    if (claim := best.cell.claim) is not None:
        text.append(ink.plain(f"\n  claim {claim.kind}{_parameters(claim)}"), "dim")
    return text


def _parameters(claim: ClaimRecord) -> str:
    values = [f"{name} {words.setting(value)}" for name, value in claim.parameters.items()]
    return ": " + ", ".join(values) if values else ""


def _panels(best: Plotted, ink: Ink, width: int) -> Iterator[Text]:
    verdict = best.cell.verdict
    axes = [log_axis(_decades(best))]
    if width >= 2 * NARROWEST + GAP:
        axes.append(linear_axis())
    size = (min(WIDEST, (width - GAP * (len(axes) - 1)) // len(axes)), HEIGHT)
    sign = (ink.plain(SYMBOL[verdict]), STYLE[verdict])
    panels = [draw(best.claimed.at, best.certified, sign, axis, size, ink) for axis in axes]
    for parts in zip(*panels, strict=True):
        yield Text(" " * GAP).join(parts)


def _decades(best: Plotted) -> int:
    """Down to where curve and points have come within a hundredth of 1."""
    telling = [x for x, y in (*best.claimed.points, *best.certified) if x > 0 and y < 0.99]
    least = min(telling, default=1.0)
    return min(max(math.ceil(-math.log10(least)), DECADES[0]), DECADES[1])
