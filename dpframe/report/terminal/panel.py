"""One plot in characters: a curve as a fine line, points as signs, two axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from dpframe.report.words import setting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.report.terminal.ink import Ink

Point = tuple[float, float]
Cells = list[list[tuple[str, str]]]
"""Characters with their styles, rows from the top."""

BRAILLE = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of each dot of a braille character: rows from the top, left and right."""
LEVELS = "'-."
"""Without braille: the upper, middle and lower third of a character."""


class Axis(NamedTuple):
    """The horizontal axis."""

    place: Callable[[float], float]
    """Where a value lies, from 0 to 1."""
    value: Callable[[float], float]
    """The inverse of `place`."""
    ticks: Sequence[tuple[float, str]]
    name: str = "FPR"


def linear_axis() -> Axis:
    """From 0 to 1."""
    return Axis(lambda x: x, lambda share: share, [(k / 5, f"{k / 5:g}") for k in range(6)])


def log_axis(decades: int) -> Axis:
    """From 10^-decades to 1."""
    step = -(-decades // 6)
    return Axis(
        lambda x: 1 + math.log10(max(x, 1e-300)) / decades,
        lambda share: 10 ** ((share - 1) * decades),
        [(10.0**-k, setting(10.0**-k)) for k in range(0, decades + 1, step)],
    )


class Upright(NamedTuple):
    """The vertical axis."""

    name: str
    place: Callable[[float], float]
    """Where a value lies, from 0 below to 1 above."""
    texts: tuple[str, str, str]
    """Above, in the middle, below."""
    guessing: Callable[[float], float]
    """Its value at each of the horizontal axis, for a guess without looking at the output."""

    @property
    def margin(self) -> int:
        """Columns for the numbers."""
        return max(map(len, (*self.texts, self.name)))


FALSE_NEGATIVES = Upright("FNR", lambda y: y, ("1", "0.5", "0"), lambda x: 1 - x)


def true_positives(decades: int) -> Upright:
    """From 10^-decades to 1."""
    texts = ("1", setting(10 ** (-decades / 2)) if decades % 2 == 0 else "", setting(10**-decades))
    return Upright("TPR", log_axis(decades).place, texts, lambda x: x)


def draw(
    curve: Callable[[float], float],
    points: Sequence[Point],
    sign: tuple[str, str],
    axis: Axis,
    size: tuple[int, int],
    ink: Ink,
    upright: Upright = FALSE_NEGATIVES,
) -> list[Text]:
    """Draws a curve without gaps, and points.

    Args:
        curve: of the value on the horizontal axis; what leaves the vertical one is not drawn.
        points: those outside of the horizontal axis are left out.
        sign: character and style of a point.
        axis: the horizontal one.
        size: columns and rows, axes included.
        ink: of the console.
        upright: the vertical one.

    Returns:
        One line for each row, all as wide as `size` says.
    """
    width, height = size[0] - upright.margin - 2, size[1] - 2
    cells: Cells = [[(" ", "")] * width for _ in range(height)]
    _guessing(cells, axis, ink, upright)
    _line(cells, lambda x: upright.place(curve(x)), axis, ink)
    for x, y in points:
        if 0 <= (share := axis.place(x)) <= 1:
            place = _row(upright.place(y), height)
            cells[place][min(int(share * width), width - 1)] = sign
    return _framed(cells, axis, ink, upright)


def _row(y: float, rows: int) -> int:
    return min(max(int((1 - y) * rows), 0), rows - 1)


def _guessing(cells: Cells, axis: Axis, ink: Ink, upright: Upright) -> None:
    """Where a guess without looking at the output would be."""
    width, dot = len(cells[0]), "·" if _has_braille(ink) else ":"
    for column in range(width):
        x = axis.value((column + 0.5) / width)
        row = _row(upright.place(upright.guessing(x)), len(cells))
        cells[row][column] = (dot, "dim")


def _line(cells: Cells, curve: Callable[[float], float], axis: Axis, ink: Ink) -> None:
    """The curve, without gaps: dots of braille, or signs at three heights."""
    fine = _has_braille(ink)
    across, down = (2, 4) if fine else (1, 3)
    width, height = len(cells[0]), len(cells)
    dots: dict[tuple[int, int], set[tuple[int, int]]] = {}
    last = None
    for step in range(width * across):
        share = curve(axis.value((step + 0.5) / (width * across)))
        if not 0 <= share <= 1:
            last = None
            continue
        row = _row(share, height * down)
        for at in _between(last, row):
            place = (at // down, step // across)
            dots.setdefault(place, set()).add((at % down, step % across))
        last = row
    for (row, column), found in dots.items():
        if fine:
            character = chr(BRAILLE + sum(DOTS[a][b] for a, b in found))
        else:
            character = "\\" if len(found) > 1 else LEVELS[next(iter(found))[0]]
        cells[row][column] = (character, "")


def _between(last: int | None, row: int) -> range:
    """The rows that one step of a line takes: all from where it was to where it is."""
    if last is None or last == row:
        return range(row, row + 1)
    return range(last + 1, row + 1) if row > last else range(row, last)


def _has_braille(ink: Ink) -> bool:
    return not ink.ascii_only and ink.plain(chr(BRAILLE + 1)) == chr(BRAILLE + 1)


def _framed(cells: Cells, axis: Axis, ink: Ink, vertical: Upright) -> list[Text]:
    upright, corner, floor, tick = "│└─┴" if _has_braille(ink) else "|+-+"
    above, middle, below = vertical.texts
    numbers = {0: above, 1: vertical.name, len(cells) // 2: middle, len(cells) - 1: below}
    lines = []
    for row, characters in enumerate(cells):
        line = Text(no_wrap=True)
        line.append(f"{numbers.get(row, ''):>{vertical.margin}} {upright}", "dim")
        for character, style in characters:
            line.append(character, style)
        lines.append(line)
    width = len(cells[0])
    ruler, labels = [floor] * width, [" "] * width
    for value, text in axis.ticks:
        column = min(int(axis.place(value) * width), width - 1)
        ruler[column] = tick
        start = min(max(column - len(text) // 2, 0), width - len(text))
        if not "".join(labels[max(start - 1, 0) : start + len(text) + 1]).strip():
            labels[start : start + len(text)] = text
    for name, beside in (("", corner + "".join(ruler)), (axis.name, " " + "".join(labels))):
        lines.append(Text(f"{name:>{vertical.margin}} {beside}", "dim", no_wrap=True))
    return lines
