"""Sentences below figures: what a bound promises, what was left out, what is not said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.report import words

if TYPE_CHECKING:
    from dpframe.record.model import Record

NO_PROOF = "Where no violation was found none is excluded: another attack may show more."


def promise(record: Record) -> str:
    """With which confidence the certified bounds of a record hold."""
    if not any(cell.estimate and cell.estimate.certified for cell in record.cells):
        return "Estimates only: nothing here is certified."
    confidence = record.audit.confidence
    if record.audit.multiplicity == "none":
        return f"Each certified bound holds alone with {words.percent(confidence)} confidence."
    error = (1 - confidence) * (1.5 if record.audit.looks > 1 else 1)
    return f"All certified bounds hold together with {words.percent(1 - error)} confidence."


def left_out(record: Record) -> list[str]:
    """What of a record no figure shows."""
    failed = sum(cell.status == "failed" for cell in record.cells)
    skipped = len(record.skipped)
    return [
        *([f"{_cells(failed)} failed and {_are(failed)} not shown."] if failed else []),
        *([f"{_combinations(skipped)} skipped."] if skipped else []),
    ]


def repeats(record: Record) -> list[str]:
    """What becomes of replicates."""
    count = 1 + max((cell.repeat for cell in record.cells), default=0)
    return [f"Means of {count} repeats; bars from the least to the largest."] if count > 1 else []


def more(count: int, what: str) -> list[str]:
    """What there was no room for."""
    if count <= 0:
        return []
    return [f"1 more {what} is left out." if count == 1 else f"{count} more {what}s are left out."]


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _combinations(count: int) -> str:
    return "1 combination was" if count == 1 else f"{count} combinations were"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
