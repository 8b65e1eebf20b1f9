"""What a run means for the program that called it."""

from __future__ import annotations

from typing import Any

from dpframe.report.verdict import VIOLATED

MET, UNMET, NOT_RUN = 0, 1, 3


def exit_code(record: dict[str, Any]) -> int:
    """Exit code of a run.

    Returns:
        3 if a cell could not be run; else 1 if a cell misses its expected verdict, or is violated
        without being expected to; else 0.
    """
    cells = record["cells"]
    if any(cell["status"] == "failed" for cell in cells):
        return NOT_RUN
    return UNMET if any(surprising(cell) for cell in cells) else MET


def surprising(cell: dict[str, Any]) -> bool:
    """Whether a cell's verdict is not what the spec expects of it."""
    if cell["expected"] is not None:
        return bool(cell["verdict"] != cell["expected"])
    return bool(cell["verdict"] == VIOLATED)
