"""Empirical against claimed ε: a small plot for each mechanism where claims differ."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from dpframe.report.group import Group, Spot, called, telling
from dpframe.report.terminal.ink import GAP, STYLE, SYMBOL, Ink, padded
from dpframe.report.words import brief

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_CLAIMS = 3
"""Different claims that make a curve."""
HEIGHT = 8
SIZES = (24, 40)
"""Narrowest and widest plot, its axis included."""
MARGIN = 7
BELOW = 1e-2
"""Estimates below this share of the smallest claim are drawn at the bottom."""
ORDER = ("violated", "inconclusive", "consistent", None)
"""What is drawn over what."""


class Range(NamedTuple):
    """What an axis spans."""

    low: float
    high: float

    def place(self, value: float, size: int) -> int:
        """Where a value lies on a logarithmic axis of this many characters."""
        if value <= self.low:
            return 0
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return min(int(share * size), size - 1)


def against(found: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    """Draws the plots, as many beside each other as there is room for.

    Args:
        found: groups; those without enough claims are left out.
        ink: of the console.
        width: columns of the console; nothing is drawn below the narrowest plot.
    """
    shown = [(group, spots) for group in found if (spots := _plotted(group))]
    if not shown or width < SIZES[0]:
        return
    naming = telling(found)
    titles = [ink.plain(called(group, naming)) for group, _ in shown]
    least = min(max(SIZES[0], *map(cell_len, titles)), width)
    count = min((width + GAP) // (least + GAP), len(shown))
    size = min((width + GAP) // count - GAP, max(SIZES[1], least))
    verdicts = {spot.verdict for _, spots in shown for spot in spots}
    signs = " ".join(SYMBOL[verdict] for verdict in SYMBOL if verdict in verdicts)
    yield Text()
    yield ink.text("Empirical ε, up, against claimed ε", "bold")
    yield from ink.folded(
        f"{signs} a cell, by its verdict. Dotted: as claimed; above it is more. Both axes are "
        "logarithmic.",
        "dim",
        width,
    )
    for start in range(0, len(shown), count):
        yield Text()
        band = [
            [*ink.folded(title, "bold", size), *_drawn(spots, ink, min(size, SIZES[1]))]
            for title, (_, spots) in list(zip(titles, shown, strict=True))[start : start + count]
        ]
        tallest = max(map(len, band))
        for line in zip(*([Text()] * (tallest - len(plot)) + plot for plot in band), strict=True):
            joined = Text(no_wrap=True)
            for index, part in enumerate(line):
                joined.append(" " * (index * (size + GAP) - joined.cell_len)).append_text(part)
            yield joined


def _plotted(group: Group) -> list[Spot]:
    """Cells with an estimate and a claim above 0, if there are enough claims."""
    spots = [spot for spot in group.spots if spot.found and 0 < (spot.claim or 0) < math.inf]
    spots = [spot for spot in spots if not math.isnan(spot.mean("epsilon") or 0.0)]
    return spots if len({spot.claim for spot in spots}) >= LEAST_CLAIMS else []


def _drawn(spots: list[Spot], ink: Ink, size: int) -> Iterator[Text]:
    claims = [spot.claim or 1.0 for spot in spots]
    values = [spot.mean("epsilon") or 0.0 for spot in spots]
    least = BELOW * min(claims)
    known = [value for value in values if least <= value < math.inf]
    across = Range(min(claims), max(claims))
    up = Range(min([*claims, *known]), max([*claims, *known]))
    # What has no place on the axis has a row of its own: ∞ on top, next to nothing at the bottom.
    above, below = int(math.inf in values), int(min(values) < least)
    columns, rows = size - MARGIN - 1, HEIGHT - above - below

    def row(value: float) -> int:
        if value < least:
            return HEIGHT - 1
        return 0 if value == math.inf else above + rows - 1 - up.place(value, rows)

    cells = [[(" ", "")] * columns for _ in range(HEIGHT)]
    for column in range(columns):
        claim = across.low * (across.high / across.low) ** ((column + 0.5) / columns)
        cells[row(claim)][column] = ("." if ink.ascii_only else "·", "dim")
    for verdict in reversed(ORDER):
        for spot, claim, value in zip(spots, claims, values, strict=True):
            if spot.verdict == verdict:
                sign = ink.plain(SYMBOL[verdict]), STYLE[verdict]
                cells[row(value)][across.place(claim, columns)] = sign
    numbers = {above: brief(up.high, 2), above + rows - 1: brief(up.low, 2)}
    numbers |= ({0: "∞"} if above else {}) | ({HEIGHT - 1: "less"} if below else {})
    upright, corner, floor = "|+-" if ink.ascii_only else "│└─"
    for index, line in enumerate(cells):
        number = padded(ink.plain(numbers.get(index, "")), MARGIN - 1, right=True)
        text = Text(no_wrap=True).append(f"{number} {upright}", "dim")
        for character, style in line:
            text.append(character, style)
        yield text
    yield Text(" " * MARGIN + corner + floor * columns, "dim", no_wrap=True)
    low, high = brief(across.low, 2), brief(across.high, 2)
    yield Text(" " * (MARGIN + 1) + low + padded(high, columns - len(low), right=True), "dim")
