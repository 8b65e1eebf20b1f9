"""How evidence grew: what the terminal and the figures show of it, read from the record alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from dpframe.record.looks import look_price
from dpframe.report import words
from dpframe.report.group import short

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpframe.record.model import CellRecord, Record
    from dpframe.report.group import Group


class Growth(NamedTuple):
    """What bets against the claim of one cell earned."""

    cell: CellRecord
    name: str
    points: list[tuple[float, float]]
    """Draws on each dataset, and the logarithm of the wealth; two or more."""
    level: float
    """Logarithm of the wealth that refutes the claim alone, at the cell's share of the error."""


def needed(record: Record, look: int = 1) -> float:
    """Logarithm of the wealth that refutes a claim alone, at its share of the error.

    Args:
        record: with so many claims and such a confidence.
        look: which look at its draws a cell is.
    """
    divide = max(1, record.summary.m) if record.audit.multiplicity != "none" else 1
    return math.log(divide * look_price(look) / (1 - record.audit.confidence))


def growths(found: list[Group], record: Record) -> list[Growth]:
    """Of all cells that bet."""
    shown = []
    for group in found:
        for spot in group.spots:
            for cell in spot.cells:
                wealth = cell.estimate.wealth if cell.estimate is not None else []
                points = [(float(n), float(y)) for n, y in wealth if float(n) > 0]
                if len(points) > 1:
                    swept = (f"{short(k)} {words.setting(v)}" for k, v in spot.values.items())
                    repeat = [f"repeat {cell.repeat}"] if len(spot.cells) > 1 else []
                    name = " · ".join([*group.names, *swept, *repeat])
                    look = cell.basis.look if cell.basis is not None else 1
                    shown.append(Growth(cell, name, points, needed(record, look)))
    return shown


def levels(found: Iterable[Growth]) -> str:
    """Where the claims are refuted, in words: a further look needs more."""
    return " or ".join(dict.fromkeys(f"{growth.level:.3g}" for growth in found))
