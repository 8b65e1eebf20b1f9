"""Records that earlier versions wrote, as this one understands them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.record.totals import totals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.record.model import Record


def is_old(record: Record) -> bool:
    """Whether it was written before records had a digest.

    One that lacks the digest alone has lost it: what came with the digest, or after it, must not be
    there either. An old record that was written again names it all, and knows none of it.
    """
    if record.digest is not None:
        return False
    if "digest" in record.model_fields_set:
        return all(value in (None, []) for _, value in _newer(record))
    return not any(named for named, _ in _newer(record))


def _newer(record: Record) -> Iterator[tuple[bool, Any]]:
    """Of everything that old records lack, whether it is named, and its value."""
    parts: list[tuple[Any, tuple[str, ...]]] = [(record.summary, ("calls",))]
    parts += [(plugin, ("reference",)) for plugin in record.plugins]
    for cell in record.cells:
        parts += [(cell, ("basis",)), (cell.pair, ("digest",))]
        if cell.estimate is not None:
            parts.append((cell.estimate, ("epsilon_upper_of", "profile_lower")))
    for part, names in parts:
        for name in names:
            yield name in part.model_fields_set, getattr(part, name)


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
