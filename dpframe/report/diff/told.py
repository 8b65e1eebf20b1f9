"""The difference between two records, as lines of text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.report import sentences, words
from dpframe.report.diff.changes import state
from dpframe.report.diff.noise import LEVEL
from dpframe.report.place import called
from dpframe.report.verdicts import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.record.model import CellRecord, ClaimRecord, Record
    from dpframe.report.diff.changes import Changes
    from dpframe.report.diff.match import Match

MOST = 20
"""Cells that a list of lines names; JSON has them all."""


def lines(old: Record, new: Record, found: Changes) -> Iterator[str]:
    """The difference in words: what got worse first."""
    yield f"old: {old.audit.name}: {sentences.verdict(old)}"
    yield f"new: {new.audit.name}: {sentences.verdict(new)}"
    if found.settings:
        asked = "; ".join(
            f"{key} {words.setting(before)} → {words.setting(after)}"
            for key, (before, after) in found.settings.items()
        )
        yield f"asked differently: {asked}"
    yield ""
    worse = [(change.match, change.worse) for change in found.verdicts if change.worse]
    other = [change.match for change in found.verdicts if not change.worse]
    yield from _listed("Verdicts that got worse", [f"{_turn(m)} ({why})" for m, why in worse])
    yield from _listed("Verdicts that are no longer given: cells that are gone", _names(found.lost))
    yield from _listed("Verdicts that changed otherwise", list(map(_turn, other)))
    yield from _listed("Claims that changed", [_claims(pair) for pair in found.claims])
    yield from _listed("Bounds that changed beyond noise", [_bounds(pair) for pair in found.bounds])
    gone = [cell for cell in found.matches.gone if cell.verdict is None]
    yield from _listed("Cells without a verdict that are gone", _names(gone))
    yield from _listed("New cells", [f"{called(c)}: {WORDS[state(c)]}" for c in found.matches.new])
    renamed = [f"{called(p.old)} → {called(p.new)}" for p in found.matches.both if p.renamed]
    yield from _listed("Cells with other labels", renamed)
    yield _conclusion(found)
    yield from _means(found)


def as_json(old: Record, new: Record, found: Changes) -> dict[str, Any]:
    """The same as plain values; floats need not be finite."""
    return {
        "schema": 1,
        "kind": "diff",
        "old": {"name": old.audit.name, "digest": old.digest},
        "new": {"name": new.audit.name, "digest": new.digest},
        "settings": {key: {"old": a, "new": b} for key, (a, b) in found.settings.items()},
        "worse": found.worse,
        "verdicts": [
            {
                **_ids(change.match),
                "old": state(change.match.old),
                "new": state(change.match.new),
                "worse": change.worse,
                "reason": change.match.new.reason,
            }
            for change in found.verdicts
        ],
        "claims": [
            {**_ids(p), "old": _epsilon(p.old.claim), "new": _epsilon(p.new.claim)}
            for p in found.claims
        ],
        "bounds": [{**_ids(p), "old": _lower(p.old), "new": _lower(p.new)} for p in found.bounds],
        "gone": [{"id": cell.id, "old": state(cell)} for cell in found.matches.gone],
        "added": [{"id": cell.id, "new": state(cell)} for cell in found.matches.new],
        "renamed": [_ids(pair) for pair in found.matches.both if pair.renamed],
        "level": LEVEL,
        "matched": len(found.matches.both),
        "tested": found.tested,
    }


def _conclusion(found: Changes) -> str:
    matched = sentences.plural(len(found.matches.both), "cell")
    if found.worse:
        return f"{sentences.plural(found.worse, 'verdict')} got worse, of {matched} in both."
    changed = (found.verdicts, found.claims, found.bounds, found.matches.gone, found.matches.new)
    if any(changed):
        return f"No verdict got worse, of {matched} in both."
    return f"No verdict, claim or bound changed beyond noise, of {matched} in both."


def _means(found: Changes) -> Iterator[str]:
    """How noise was told from change."""
    if found.tested:
        yield (
            f"Noise: counts of {sentences.plural(found.tested, 'cell')} were tested against each "
            f"other; with {words.percent(1 - LEVEL)} confidence none of those named differs by "
            "chance."
        )
    if rest := len(found.matches.both) - found.tested:
        yield (
            f"{sentences.plural(rest, 'cell')} counted other events than before, or nothing; of "
            "those only one is named whose limits lie apart."
        )


def _listed(title: str, entries: list[str]) -> Iterator[str]:
    if not entries:
        return
    yield f"{title} ({len(entries)}):"
    yield from (f"  {entry}" for entry in entries[:MOST])
    if len(entries) > MOST:
        yield f"  … and {len(entries) - MOST} more; --json has them all"
    yield ""


def _names(cells: list[CellRecord]) -> list[str]:
    return [f"{called(cell)}: {WORDS[state(cell)]}" for cell in cells]


def _turn(pair: Match) -> str:
    before, after = WORDS[state(pair.old)], WORDS[state(pair.new)]
    turn = f"{before} → {after}" if before != after else f"still {after}"
    return f"{called(pair.new)}: {turn}; {_bound(pair.old)} → {_bound(pair.new)}"


def _bounds(pair: Match) -> str:
    return f"{called(pair.new)}: {_bound(pair.old)} → {_bound(pair.new)}"


def _bound(cell: CellRecord) -> str:
    if cell.estimate is None:
        return "nothing counted"
    if cell.estimate.epsilon_lower is None:
        return f"estimated {words.point(cell.estimate.epsilon)}"
    return f"certified {words.lower(cell.estimate.epsilon_lower)}"


def _claims(pair: Match) -> str:
    return f"{called(pair.new)}: {_claim(pair.old.claim)} → {_claim(pair.new.claim)}"


def _claim(claim: ClaimRecord | None) -> str:
    if claim is None:
        return "nothing claimed"
    at = f" at δ = {words.setting(claim.delta)}" if claim.delta else ""
    return f"{claim.kind} ε = {words.brief(claim.epsilon)}{at}"


def _ids(pair: Match) -> dict[str, Any]:
    return {"id": pair.new.id, "old_id": pair.old.id, "cell": called(pair.new)}


def _epsilon(claim: ClaimRecord | None) -> float | None:
    return None if claim is None else claim.epsilon


def _lower(cell: CellRecord) -> float | None:
    return None if cell.estimate is None else cell.estimate.epsilon_lower
