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

MARGIN = 5
"""Columns for the numbers of the vertical axis and the axis itself."""
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


def draw(
    curve: Callable[[float], float],
    points: Sequence[Point],
    sign: tuple[str, str],
    axis: Axis,
    size: tuple[int, int],
    ink: Ink,
) -> list[Text]:
    """Draws a falling curve from 1 to 0, and points.

    Args:
        curve: of the value on the horizontal axis.
        points: those outside of the axis are left out.
        sign: character and style of a point.
        axis: the horizontal one; the vertical one goes from 0 to 1.
        size: columns and rows, axes included.
        ink: of the console.

    Returns:
        One line for each row, all as wide as `size` says.
    """
    width, height = size[0] - MARGIN, size[1] - 2
    cells: Cells = [[(" ", "")] * width for _ in range(height)]
    _guessing(cells, axis, ink)
    _line(cells, curve, axis, ink)
    for x, y in points:
        if 0 <= (share := axis.place(x)) <= 1:
            cells[_row(y, height)][min(int(share * width), width - 1)] = sign
    return _framed(cells, axis, ink)


def _row(y: float, rows: int) -> int:
    return min(max(int((1 - y) * rows), 0), rows - 1)


def _guessing(cells: Cells, axis: Axis, ink: Ink) -> None:
    """Where a guess without looking at the output would be."""
    width, dot = len(cells[0]), "·" if _has_braille(ink) else ":"
    for column in range(width):
        x = axis.value((column + 0.5) / width)
        cells[_row(1 - x, len(cells))][column] = (dot, "dim")


def _line(cells: Cells, curve: Callable[[float], float], axis: Axis, ink: Ink) -> None:
    """The curve, without gaps: dots of braille, or signs at three heights."""
    fine = _has_braille(ink)
    across, down = (2, 4) if fine else (1, 3)
    width, height = len(cells[0]), len(cells)
    dots: dict[tuple[int, int], set[tuple[int, int]]] = {}
    last = None
    for step in range(width * across):
        row = _row(curve(axis.value((step + 0.5) / (width * across))), height * down)
        for at in range(min(row, row if last is None else last + 1), row + 1):
            place = (at // down, step // across)
            dots.setdefault(place, set()).add((at % down, step % across))
        last = row
    for (row, column), found in dots.items():
        if fine:
            character = chr(BRAILLE + sum(DOTS[a][b] for a, b in found))
        else:
            character = "\\" if len(found) > 1 else LEVELS[next(iter(found))[0]]
        cells[row][column] = (character, "")


def _has_braille(ink: Ink) -> bool:
    return not ink.ascii_only and ink.plain(chr(BRAILLE + 1)) == chr(BRAILLE + 1)


def _framed(cells: Cells, axis: Axis, ink: Ink) -> list[Text]:
    upright, corner, floor, tick = "│└─┴" if _has_braille(ink) else "|+-+"
    numbers = {0: "1", 1: "FNR", len(cells) // 2: "0.5", len(cells) - 1: "0"}
    lines = []
    for row, characters in enumerate(cells):
        line = Text(no_wrap=True)
        line.append(f"{numbers.get(row, ''):>{MARGIN - 2}} {upright}", "dim")
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
    for name, below in (("", corner + "".join(ruler)), ("FPR", " " + "".join(labels))):
        lines.append(Text(f"{name:>{MARGIN - 2}} {below}", "dim", no_wrap=True))
    return lines
