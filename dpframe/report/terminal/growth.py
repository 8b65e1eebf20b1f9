"""How the evidence against a claim grew: ln of the wealth over draws on a logarithmic axis."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING

from rich.text import Text

from dpframe.report import evidence, words
from dpframe.report.distinct import distinct, named
from dpframe.report.terminal.ink import GAP, STYLE, SYMBOL
from dpframe.report.terminal.panel import Axis, Upright, draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dpframe.record.model import Record
    from dpframe.report.distinct import Line
    from dpframe.report.group import Group
    from dpframe.report.terminal.ink import Ink

MOST = 4
"""Plots in a report."""
SIZE = (78, 12)
NARROWEST = 50
"""Columns of one panel; a second one is drawn beside it where there is room for both."""

Points = list[tuple[float, float]]


def growths(found: list[Group], record: Record, ink: Ink, width: int) -> Iterator[Text]:
    """Draws how wealth grew; of many cells those in which it differs most."""
    every = evidence.growths(found, record)
    if not every:
        return
    lines = distinct(every, MOST)
    shown, which = [line.first for line in lines], ""
    if len(every) > len(lines):
        which = f": {len(lines)} of {len(every)} cells, those in which it differs most"
    yield ink.text("")
    yield ink.text("Growth of the evidence", "bold").append(ink.plain(which), "not bold")
    yield ink.text(
        "ln W, the logarithm of what bets against the claim have earned, over n draws per dataset. "
        f"Dotted: {evidence.levels(shown)}, where the claim is refuted at the cell's share of the "
        "error.",
        "dim",
    )
    panels = [_panel(line, ink, width) for line in lines]
    across = 2 if width >= 2 * NARROWEST + GAP and len(panels) > 1 else 1
    for at in range(0, len(panels), across):
        yield ink.text("")
        for parts in zip(*panels[at : at + across], strict=True):
            yield Text(" " * GAP).join(parts)


def _panel(line: Line, ink: Ink, width: int) -> list[Text]:
    cell, points, level = line.first.cell, line.first.points, line.first.level
    name = named(line, [growth.name for growth in line.cells])
    columns = width if width < 2 * NARROWEST + GAP else (width - GAP) // 2
    size = (min(SIZE[0], columns), SIZE[1])
    axis = _draws(points[0][0], points[-1][0])
    upright = _upright(points, level)
    verdict = cell.verdict
    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(ink.plain(f"{SYMBOL[verdict]} "), STYLE[verdict])
    title.append(ink.plain(name), "bold")
    title.truncate(size[0], overflow="ellipsis", pad=True)
    return [title, *draw(_between(points), (), ("", ""), axis, size, ink, upright)]


def _draws(first: float, last: float) -> Axis:
    """Draws from the first round's to the last, on a logarithmic axis."""
    low, high = math.log10(first), math.log10(max(last, first * 1.01))
    ticks = [10.0**k for k in range(math.ceil(low), math.floor(high) + 1)]
    ticks = ticks if len(ticks) > 1 else [first, last]
    return Axis(
        lambda n: (math.log10(max(n, 1e-300)) - low) / (high - low),
        lambda share: float(10 ** (low + share * (high - low))),
        [(n, words.quantity(int(n))) for n in ticks],
        "n",
    )


def _upright(points: Points, level: float) -> Upright:
    heights = [y for _, y in points]
    low, high = min(0.0, *heights), max(level * 1.1, *heights)
    texts = tuple(f"{y:.3g}" for y in (high, (low + high) / 2, low))
    return Upright(
        "ln W",
        lambda y: (y - low) / (high - low),
        (texts[0], texts[1], texts[2]),
        lambda _: level,
    )


def _between(points: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """A straight line between points, over the logarithm of draws."""
    places = [n for n, _ in points]

    def at(n: float) -> float:
        right = min(max(bisect.bisect_left(places, n), 1), len(places) - 1)
        (n0, y0), (n1, y1) = points[right - 1 : right + 1]
        share = (math.log(n) - math.log(n0)) / (math.log(n1) - math.log(n0))
        return y0 + min(max(share, 0.0), 1.0) * (y1 - y0)

    return at
