"""Which cell of one record is which of another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from dpframe.report.group import names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpframe.record.model import CellRecord, ChoiceRecord, PairRecord


class Match(NamedTuple):
    """One cell in two records."""

    old: CellRecord
    new: CellRecord

    @property
    def renamed(self) -> bool:
        """Whether a label of it is another one now."""
        return names(self.old) != names(self.new)


class Matches(NamedTuple):
    """All cells of two records."""

    both: list[Match]
    gone: list[CellRecord]
    new: list[CellRecord]


def match(old: list[CellRecord], new: list[CellRecord]) -> Matches:
    """Finds the cells of one record in another, by id; then those with other labels only.

    The ids of cells hold labels. What has another id and is the same in everything else is the
    same cell under another name, if there is only one such cell on either side.
    """
    at = {cell.id: cell for cell in old}
    partner = {cell.id: at[cell.id] for cell in new if cell.id in at}
    left = _by_content(cell for cell in old if cell.id not in partner)
    for content, cells in _by_content(cell for cell in new if cell.id not in partner).items():
        alike = left.get(content, [])
        if len(cells) == len(alike) == 1:
            partner[cells[0].id] = alike[0]
    used = {cell.id for cell in partner.values()}
    return Matches(
        both=[Match(partner[cell.id], cell) for cell in new if cell.id in partner],
        gone=[cell for cell in old if cell.id not in used],
        new=[cell for cell in new if cell.id not in partner],
    )


def _by_content(cells: Iterable[CellRecord]) -> dict[str, list[CellRecord]]:
    found: dict[str, list[CellRecord]] = {}
    for cell in cells:
        where: list[ChoiceRecord | PairRecord] = [cell.pair, cell.attack]
        if cell.is_searched:  # these are what was found
            where = [cell.search.neighbourhood] if cell.search is not None else []
        parts = (cell.mechanism, *where, cell.estimator)
        what = [[part.use, part.params] for part in parts]
        content = json.dumps([what, cell.swept, cell.repeat], sort_keys=True, default=str)
        found.setdefault(content, []).append(cell)
    return found
