"""The difference between two records."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.report import sentences, words
from dpframe.report.group import called_place, names
from dpframe.report.words import WORDS
from dpframe.results.verdict import exceeds, surprising
from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpframe.results.model import CellRecord, ChoiceRecord, ClaimRecord, PairRecord, Record


# Which cell of one record is which of another.


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


# Whether two runs of a cell differ by more than chance.


if TYPE_CHECKING:
    import numpy.typing as npt

    from dpframe.results.model import CellRecord

    Floats = npt.NDArray[np.float64]

LEVEL = 0.01
"""How likely it is at most that any cell is said to differ although none does."""

_AT_MOST_ONE = {"DecisionCounts", "BinCounts", "PilotBins", "PilotGrid", "ThresholdCounts"}
"""Statistics to each of whose counts a draw adds one or nothing."""


def comparable(match: Match) -> bool:
    """Whether both runs counted the same events, so that their counts can be compared."""
    old, new = match
    return (
        old.statistic == new.statistic
        and old.statistic.get("name") in _AT_MOST_ONE
        and (counts := _counts(old)) is not None
        and (others := _counts(new)) is not None
        and counts.shape == others.shape
    )


def differ(match: Match, tests: int) -> bool:
    """Whether the probability of some event is another one in the new run, beyond chance.

    Each count is binomial. Of two with the same probability, one confidence interval
    [Clopper1934] lies beside the other with probability at most four times the error of an
    interval's side: one of four limits must have failed. That is paid for by the number of
    events, of datasets and of cells; the runs may share draws.

    Args:
        match: comparable runs of a cell.
        tests: number of cells that are compared.
    """
    old, new = _counts(match.old), _counts(match.new)
    if old is None or new is None or (old / _trials(match.old) == new / _trials(match.new)).all():
        return False
    error = LEVEL / (4 * old.size * tests)
    low, high = _limits(old, match.old, error)
    other_low, other_high = _limits(new, match.new, error)
    return bool(((low > other_high) | (other_low > high)).any())


def apart(match: Match) -> bool:
    """Whether what the attack shows lies beside what it showed: no value is within both limits.

    For runs that counted different events. Limits of chosen thresholds are none of the attack.
    """
    limits = []
    for cell in match:
        estimate = cell.estimate
        if estimate is None or estimate.epsilon_upper_of not in ("every event", "every cut"):
            return False
        if estimate.epsilon_lower is None or estimate.epsilon_upper is None:
            return False
        limits.append((estimate.epsilon_lower, estimate.epsilon_upper, estimate.delta))
    (low, high, delta), (other_low, other_high, other_delta) = limits
    return delta == other_delta and (low > other_high or other_low > high)


def _counts(cell: CellRecord) -> Floats | None:
    """Counts, shape [2, k], if that is what they are."""
    try:
        counts = np.asarray(cell.counts, np.float64)
    except (TypeError, ValueError):
        return None
    if counts.ndim < 2 or len(counts) != 2 or not all(cell.trials):
        return None
    counts = counts.reshape(2, -1)
    if counts.shape[1] == 2 and (counts.sum(axis=1, keepdims=True) == _trials(cell)).all():
        counts = counts[:, :1]  # the other decision is the rest, and no event of its own
    whole = (counts == np.floor(counts)) & (counts >= 0) & (counts <= _trials(cell))
    return counts if whole.all() else None


def _trials(cell: CellRecord) -> Floats:
    return np.asarray(cell.trials, np.float64)[:, None]


def _limits(counts: Floats, cell: CellRecord, error: float) -> tuple[Floats, Floats]:
    trials = np.broadcast_to(_trials(cell), counts.shape)
    return (
        clopper_pearson_lower(counts, trials, error),
        clopper_pearson_upper(counts, trials, error),
    )


# What is different between two records: verdicts, claims, bounds, and which cells there are.


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


# The difference between two records, as lines of text and as JSON.


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
    yield from _listed(
        "New cells", [f"{called_place(c)}: {WORDS[state(c)]}" for c in found.matches.new]
    )
    renamed = [
        f"{called_place(p.old)} → {called_place(p.new)}" for p in found.matches.both if p.renamed
    ]
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
    return [f"{called_place(cell)}: {WORDS[state(cell)]}" for cell in cells]


def _turn(pair: Match) -> str:
    before, after = WORDS[state(pair.old)], WORDS[state(pair.new)]
    turn = f"{before} → {after}" if before != after else f"still {after}"
    return f"{called_place(pair.new)}: {turn}; {_bound(pair.old)} → {_bound(pair.new)}"


def _bounds(pair: Match) -> str:
    return f"{called_place(pair.new)}: {_bound(pair.old)} → {_bound(pair.new)}"


def _bound(cell: CellRecord) -> str:
    if cell.estimate is None:
        return "nothing counted"
    if cell.estimate.epsilon_lower is None:
        return f"estimated {words.point(cell.estimate.epsilon)}"
    return f"certified {words.lower(cell.estimate.epsilon_lower)}"


def _claims(pair: Match) -> str:
    return f"{called_place(pair.new)}: {_claim(pair.old.claim)} → {_claim(pair.new.claim)}"


def _claim(claim: ClaimRecord | None) -> str:
    if claim is None:
        return "nothing claimed"
    at = f" at δ = {words.setting(claim.delta)}" if claim.delta else ""
    return f"{claim.kind} ε = {words.brief(claim.epsilon)}{at}"


def _ids(pair: Match) -> dict[str, Any]:
    return {"id": pair.new.id, "old_id": pair.old.id, "cell": called_place(pair.new)}


def _epsilon(claim: ClaimRecord | None) -> float | None:
    return None if claim is None else claim.epsilon


def _lower(cell: CellRecord) -> float | None:
    return None if cell.estimate is None else cell.estimate.epsilon_lower
