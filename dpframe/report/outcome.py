"""What a cell means for a job that waits for it: passed, failed, broken, or nothing decided.

The same for every report that a machine reads, and as `exit_code` has it: a job whose run gives 0
has no cell that failed or broke. Nor does one pass that decided nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from dpframe.record.verdict import exceeds, surprising
from dpframe.report.exact import noise_too_small
from dpframe.report.verdicts import WORDS

if TYPE_CHECKING:
    from dpframe.record.model import CellRecord, SkipRecord

NO_REASON = "no reason given"


class Kind(Enum):
    """What became of a cell, or of one that was skipped."""

    PASSED = "passed"
    """No violation found, or the verdict that was expected."""
    FAILED = "failed"
    """Not the verdict that was expected, or violated."""
    BROKEN = "broken"
    """It could not be run."""
    UNDECIDED = "undecided"
    """Nothing was tested, or nothing could be decided, and nothing was expected."""


class Outcome(NamedTuple):
    """What became of a cell, and the sentence that says so."""

    kind: Kind
    message: str


def outcome(cell: CellRecord) -> Outcome:
    """What became of a cell that was planned."""
    if cell.status == "failed":
        return Outcome(Kind.BROKEN, f"could not be run: {cell.reason or NO_REASON}")
    found = _found(cell)
    if surprising(cell):
        wanted = f"expected {WORDS[cell.expected]}, found: " if cell.expected else ""
        return Outcome(Kind.FAILED, f"{wanted}{found}")
    if cell.expected is not None:
        return Outcome(Kind.PASSED, f"as expected: {found}")
    decided = cell.verdict == "consistent"
    return Outcome(Kind.PASSED if decided else Kind.UNDECIDED, found)


def skipped(skip: SkipRecord) -> Outcome:
    """What became of a combination that was left out."""
    text = f"skipped: {skip.reason or NO_REASON}"
    if skip.expected is None:
        return Outcome(Kind.UNDECIDED, text)
    return Outcome(Kind.FAILED, f"expected {WORDS[skip.expected]}, but {text}")


def _found(cell: CellRecord) -> str:
    """The verdict and why, each word of it once."""
    if exceeds(cell):
        return f"{noise_too_small(cell)}; by its draws: {_by_draws(cell)}"
    return _by_draws(cell)


def _by_draws(cell: CellRecord) -> str:
    word, reason = WORDS[cell.verdict], cell.reason or ""
    if cell.verdict is None:
        bound = cell.estimate is not None and cell.estimate.certified
        why = "nothing is claimed" if bound else "an estimate, not a bound"
        return f"{word}: {why}"
    if reason.startswith(word):
        return reason
    return f"{word}: {reason}" if reason else word
