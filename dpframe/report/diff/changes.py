"""What is different between two records: verdicts, claims, bounds, and which cells there are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.record.verdict import exceeds, surprising
from dpframe.report.diff.match import Match, Matches, match
from dpframe.report.diff.noise import apart, comparable, differ
from dpframe.report.verdicts import WORDS

if TYPE_CHECKING:
    from dpframe.record.model import CellRecord, ClaimRecord, Record

SAME = 1e-9
"""Relative difference up to which two claims are the same number."""
_DECIDED = ("violated", "consistent")


class VerdictChange(NamedTuple):
    """Another verdict than before."""

    match: Match
    worse: str | None
    """Why it is worse; None if it is not."""


class Changes(NamedTuple):
    """Everything that is different."""

    verdicts: list[VerdictChange]
    claims: list[Match]
    bounds: list[Match]
    """Cells that differ beyond noise."""
    matches: Matches
    tested: int
    """Cells whose runs counted the same events."""
    settings: dict[str, tuple[Any, Any]]
    """What was asked differently, old and new."""

    @property
    def worse(self) -> int:
        """Verdicts that got worse, and those that are no longer given because a cell is gone."""
        return sum(change.worse is not None for change in self.verdicts) + len(self.lost)

    @property
    def lost(self) -> list[CellRecord]:
        """Cells that had a verdict and are no longer there."""
        return [cell for cell in self.matches.gone if cell.verdict is not None]


def changes(old: Record, new: Record) -> Changes:
    """Compares two records.

    Args:
        old: the earlier one.
        new: the later one.
    """
    found = match(old.cells, new.cells)
    same_events = [pair for pair in found.both if comparable(pair)]
    beyond = {pair.new.id for pair in same_events if differ(pair, len(same_events))}
    compared = {pair.new.id for pair in same_events}
    beyond |= {p.new.id for p in found.both if p.new.id not in compared and apart(p)}
    return Changes(
        verdicts=[
            VerdictChange(pair, worse(pair))
            for pair in found.both
            if state(pair.old) != state(pair.new) or worse(pair)
        ],
        claims=[pair for pair in found.both if not _same_claim(pair.old.claim, pair.new.claim)],
        bounds=[pair for pair in found.both if pair.new.id in beyond],
        matches=found,
        tested=len(same_events),
        settings=_settings(old, new),
    )


def state(cell: CellRecord) -> str | None:
    """The verdict, or that the cell failed."""
    return "failed" if cell.status == "failed" else cell.verdict


def worse(pair: Match) -> str | None:
    """Why a verdict is worse than it was; None if it is not.

    Worse is: a violation that the new spec does not expect; a cell that can no longer be run; a
    decision that is no longer made; an expectation that was met and is not.
    """
    before, after = state(pair.old), state(pair.new)
    if before != "failed" and after == "failed":
        return "can no longer be run"
    if before in _DECIDED and after not in _DECIDED:
        return f"no longer decided: {WORDS[after]}"
    if before != "violated" and after == "violated" and pair.new.expected != "violated":
        return "violated now"
    if exceeds(pair.new) and not exceeds(pair.old) and pair.new.expected != "violated":
        return "exceeds its sensitivity now"
    if pair.old.expected is not None and not surprising(pair.old) and surprising(pair.new):
        return "no longer as expected"
    return None


def _same_claim(old: ClaimRecord | None, new: ClaimRecord | None) -> bool:
    if old is None or new is None:
        return old is new
    close = math.isclose(old.epsilon, new.epsilon, rel_tol=SAME) or old.epsilon == new.epsilon
    return (
        old.kind == new.kind
        and (close or old.delta != new.delta)  # another δ is no other claim
        and _same_values(old.parameters, new.parameters, but="delta")
    )


def _same_values(old: dict[str, Any], new: dict[str, Any], but: str) -> bool:
    keys = (old.keys() | new.keys()) - {but}
    return all(_same(old.get(key), new.get(key)) for key in keys)


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, int | float) and isinstance(new, int | float):
        return math.isclose(old, new, rel_tol=SAME)
    return bool(old == new)


def _settings(old: Record, new: Record) -> dict[str, tuple[Any, Any]]:
    """What both audits were asked, as far as it bears on their numbers."""

    def asked(record: Record) -> dict[str, Any]:
        return {
            "spec": record.spec.sha256[:12],
            "confidence": record.audit.confidence,
            "multiplicity": record.audit.multiplicity,
            "tests": record.summary.m,
            "trials": sorted({max(cell.trials) for cell in record.cells} - {0}),
            "seed": record.seed,
            "dpframe": record.environment.dpframe,
        }

    before, after = asked(old), asked(new)
    return {key: (before[key], after[key]) for key in before if before[key] != after[key]}
