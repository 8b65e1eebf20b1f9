"""Records that earlier versions wrote, as this one understands them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.record.totals import totals

if TYPE_CHECKING:
    from dpframe.record.model import Record


def is_old(record: Record) -> bool:
    """Whether it was written before records had a digest and their verdicts a basis."""
    return record.digest is None and all(cell.basis is None for cell in record.cells)


def upgraded(record: Record) -> Record:
    """The same record in the words of today: `draws` were coordinates and are releases."""
    if not is_old(record):
        return record
    cells = [
        cell.model_copy(update={"draws": sum(cell.trials) if cell.draws else 0})
        for cell in record.cells
    ]
    summary = record.summary.model_copy(update={"draws": totals(cells).draws})
    return record.model_copy(update={"cells": cells, "summary": summary})
