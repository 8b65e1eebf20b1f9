"""Which cell is meant, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.report import words
from dpframe.report.group import names, short

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dpframe.record.model import CellRecord, SkipRecord


def place(values: Mapping[str, Any]) -> str:
    """Swept values: ε 0.1, dim 2."""
    return ", ".join(f"{short(key, values)} {words.setting(v)}" for key, v in values.items())


def called(cell: CellRecord, *, repeated: bool = False) -> str:
    """A cell by the labels of its parts and its swept values.

    Args:
        cell: the cell.
        repeated: whether its audit has repeats, so that their number belongs into the name.
    """
    labels = names(cell)
    repeat = f"repeat {cell.repeat}" if repeated else ""
    return " · ".join(part for part in (*labels, place(cell.swept), repeat) if part)


def attack_of(cell: CellRecord) -> str:
    """The attack that a cell's numbers are of; of a search that failed there is none."""
    return "–" if cell.is_searched and cell.estimate is None else cell.attack.label


def called_skipped(skip: SkipRecord) -> str:
    """A combination that was left out, in the same way."""
    labels = (skip.mechanism, skip.attack, skip.estimator)
    return " · ".join(part for part in (*labels, place(skip.swept)) if part)


def repeated(cells: list[CellRecord]) -> bool:
    """Whether an audit has repeats."""
    return any(cell.repeat for cell in cells)
