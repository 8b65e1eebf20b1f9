"""Verdicts that were shown before: extending a run after one is another look at the same draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.record.looks import FIRST_LOOK, Looks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpframe.record.model import CellRecord
    from dpframe.spec.audit import Cell


def looks_at(cell: Cell, group: str, earlier: Mapping[str, CellRecord]) -> Looks:
    """The looks at a cell, given what an earlier run in the same place showed.

    Args:
        cell: as it is about to be run.
        group: its draw group.
        earlier: the cells of the earlier record by id; empty if there is none.
    """
    old = earlier.get(cell.id)
    if old is None or old.verdict is None or (old.draw_group, old.seed) != (group, cell.seed):
        return FIRST_LOOK
    shown = tuple((look.trials[0], look.trials[1]) for look in old.looks)
    wanted = (cell.trials, cell.trials)
    number = shown.index(wanted) + 1 if wanted in shown else len(shown) + 1
    return Looks(shown, number)
