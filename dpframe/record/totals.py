"""What the cells of a record add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
    shared: dict[Any, int] = {}
    for cell in cells:  # those that stopped earlier have a part of what the others have
        stopped = cell.estimate is not None and cell.estimate.anytime
        number = ("anytime", cell.swept.get("audit.trials")) if stopped else cell.draws
        key = (cell.seed, cell.draw_group, cell.repeat, number)
        shared[key] = max(shared.get(key, 0), cell.draws)
    return Totals(
        violated=verdicts.count("violated"),
        consistent=verdicts.count("consistent"),
        inconclusive=verdicts.count("inconclusive"),
        failed=sum(cell.status == "failed" for cell in cells),
        draws=sum(shared.values()),
    )
