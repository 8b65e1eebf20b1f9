"""What the cells of a record add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.record.model import CellRecord


class Totals(NamedTuple):
    """The part of the summary that follows from the cells."""

    violated: int
    consistent: int
    inconclusive: int
    failed: int
    draws: int
    """Releases that were counted."""


def totals(cells: Sequence[CellRecord]) -> Totals:
    """Adds up the cells; draws that some of them share are counted once."""
    verdicts = [cell.verdict for cell in cells]
    shared = {(cell.seed, cell.draw_group, cell.repeat, cell.draws) for cell in cells}
    return Totals(
        violated=verdicts.count("violated"),
        consistent=verdicts.count("consistent"),
        inconclusive=verdicts.count("inconclusive"),
        failed=sum(cell.status == "failed" for cell in cells),
        draws=sum(draws for *_, draws in shared),
    )
