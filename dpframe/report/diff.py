"""Compare two records: verdicts, claims, bounds, and the cells themselves."""

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dpframe.common.types import Floats
from dpframe.report import number_format
from dpframe.report.group import cell_name, names
from dpframe.report.number_format import brief, percent, plural, point, setting
from dpframe.report.verdict_text import WORDS, by_distance, headline, state
from dpframe.results.model import CellRecord, ChoiceRecord, ClaimRecord, PairRecord, Record
from dpframe.results.verdict import exceeds, surprising
from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper

LEVEL = 0.01  # limit on the probability that any cell is reported as different although none is
CLAIM_ROUNDING = 1e-9  # claims are equal up to this relative difference
MOST_ENTRIES = 20  # cells in each list of lines; JSON has them all

_DECIDED = ("violated", "consistent")
_AT_MOST_ONE = {"DecisionCounts", "BinCounts", "PilotBins", "PilotGrid", "ThresholdCounts"}
"""Statistics in which a draw adds at most 1 to each count."""


class Match(NamedTuple):
    """One cell in two records."""

    old: CellRecord
    new: CellRecord

    @property
    def renamed(self) -> bool:
        """True if one of its labels has changed."""
        return names(self.old) != names(self.new)


class Matches(NamedTuple):
    """All cells of two records."""

    both: list[Match]
    gone: list[CellRecord]
    new: list[CellRecord]


class Changes(NamedTuple):
    """All differences between two records."""

    verdicts: list[tuple[Match, str | None]]  # with the reason why a verdict is worse, or None
    claims: list[Match]
    bounds: list[Match]  # cells that differ beyond noise
    matches: Matches
    tested: int  # cells whose runs counted the same events
    settings: dict[str, tuple[Any, Any]]  # old and new

    @property
    def worse(self) -> int:
        """Verdicts that got worse, and those that are missing because a cell is gone."""
        return sum(why is not None for _, why in self.verdicts) + len(self.lost)

    @property
    def lost(self) -> list[CellRecord]:
        """Cells that had a verdict and are gone."""
        return [cell for cell in self.matches.gone if cell.verdict is not None]


def changes(old: Record, new: Record) -> Changes:
    """Compare an earlier record with a later one."""
    matches = match(old.cells, new.cells)
    comparable = {pair.new.id for pair in matches.both if _comparable(pair)}
    before, after = _settings(old), _settings(new)
    return Changes(
        verdicts=[
            (pair, why)
            for pair, why in ((pair, worse(pair)) for pair in matches.both)
            if why or state(pair.old) != state(pair.new)
        ],
        claims=[pair for pair in matches.both if not _same_claim(pair.old.claim, pair.new.claim)],
        bounds=[
            pair
            for pair in matches.both
            if (differ(pair, len(comparable)) if pair.new.id in comparable else _apart(pair))
        ],
        matches=matches,
        tested=len(comparable),
        settings={key: (before[key], after[key]) for key in before if before[key] != after[key]},
    )


def _settings(record: Record) -> dict[str, Any]:
    """Return the settings of an audit that affect its numbers."""
    return {
        "spec": record.spec.sha256[:12],
        "confidence": record.audit.confidence,
        "multiplicity": record.audit.multiplicity,
        "tests": record.summary.m,
        "trials": sorted({max(cell.trials) for cell in record.cells} - {0}),
        "seed": record.seed,
        "dpframe": record.environment.dpframe,
    }


def worse(pair: Match) -> str | None:
    """Return the reason why a verdict is worse than before; None if it is not.

    These are worse: a violation that the new spec does not expect, a cell that can no longer be
    run, a decision that is no longer made, and an expectation that is no longer met.
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


def match(old: list[CellRecord], new: list[CellRecord]) -> Matches:
    """Match the cells of two records by id, then cells that differ only in their labels.

    An id contains labels. Two cells with different ids and otherwise equal definitions match if
    each record has only one such cell.
    """
    by_id = {cell.id: cell for cell in old}
    partner = {cell.id: by_id[cell.id] for cell in new if cell.id in by_id}
    unmatched = _by_content(cell for cell in old if cell.id not in partner)
    for content, cells in _by_content(cell for cell in new if cell.id not in partner).items():
        others = unmatched.get(content, [])
        if len(cells) == len(others) == 1:
            partner[cells[0].id] = others[0]
    used = {cell.id for cell in partner.values()}
    return Matches(
        both=[Match(partner[cell.id], cell) for cell in new if cell.id in partner],
        gone=[cell for cell in old if cell.id not in used],
        new=[cell for cell in new if cell.id not in partner],
    )


def _by_content(cells: Iterable[CellRecord]) -> dict[str, list[CellRecord]]:
    by_content: dict[str, list[CellRecord]] = {}
    for cell in cells:
        choices: list[ChoiceRecord | PairRecord] = [cell.pair, cell.attack]
        if cell.is_searched:  # a search chooses pair and attack by its draws
            choices = [cell.search.neighbourhood] if cell.search is not None else []
        parts = [[part.use, part.params] for part in (cell.mechanism, *choices, cell.estimator)]
        content = json.dumps([parts, cell.swept, cell.repeat], sort_keys=True, default=str)
        by_content.setdefault(content, []).append(cell)
    return by_content


# Differences beyond chance.


def _comparable(match: Match) -> bool:
    """True if both runs counted the same events, so that their counts can be compared."""
    old, new = match
    counts, others = _counts(old), _counts(new)
    return (
        old.statistic == new.statistic
        and str(old.statistic.get("name")) in _AT_MOST_ONE
        and counts is not None
        and others is not None
        and counts.shape == others.shape
    )


def differ(match: Match, tests: int) -> bool:
    """True if the probability of some event has changed beyond chance.

    Each count is binomial. If two counts have the same probability and their confidence intervals
    [Clopper1934] are disjoint, one of the four limits has failed. So the error of each limit is
    `LEVEL` divided by four, the number of events on both datasets, and the number of comparable
    cells (`tests`). The runs may share draws.
    """
    old, new = _counts(match.old), _counts(match.new)
    if old is None or new is None or (old / _trials(match.old) == new / _trials(match.new)).all():
        return False
    error = LEVEL / (4 * old.size * tests)
    low, high = _limits(old, match.old, error)
    other_low, other_high = _limits(new, match.new, error)
    return bool(((low > other_high) | (other_low > high)).any())


def _apart(match: Match) -> bool:
    """True if the intervals from certified bound to the attack's limit are disjoint.

    This serves runs that counted different events. Limits of chosen thresholds are not limits of
    the attack, so they are not compared.
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
    """Return the counts as float64 [2, k]; None if the cell has no counts of this shape."""
    try:
        counts = np.asarray(cell.counts, np.float64)
    except (TypeError, ValueError):
        return None
    if counts.ndim < 2 or len(counts) != 2 or not all(cell.trials):
        return None
    counts = counts.reshape(2, -1)
    if counts.shape[1] == 2 and (counts.sum(axis=1, keepdims=True) == _trials(cell)).all():
        counts = counts[:, :1]  # the other decision is the complement, not another event
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


def _same_claim(old: ClaimRecord | None, new: ClaimRecord | None) -> bool:
    if old is None or new is None:
        return old is new
    keys = (old.parameters.keys() | new.parameters.keys()) - {"delta"}
    return (
        old.kind == new.kind
        # The δ of the cell is not part of the claim.
        and (_same(old.epsilon, new.epsilon) or old.delta != new.delta)
        and all(_same(old.parameters.get(key), new.parameters.get(key)) for key in keys)
    )


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, int | float) and isinstance(new, int | float):
        with contextlib.suppress(OverflowError):  # larger than any float
            return math.isclose(old, new, rel_tol=CLAIM_ROUNDING)
    return bool(old == new)


def lines(old: Record, new: Record, changes: Changes) -> Iterator[str]:
    """Describe the differences in words, verdicts that got worse first."""
    yield f"old: {old.audit.name}: {headline(old)}"
    yield f"new: {new.audit.name}: {headline(new)}"
    if changes.settings:
        turns = ((key, *map(setting, both)) for key, both in changes.settings.items())
        yield "asked differently: " + "; ".join(f"{key} {a} → {b}" for key, a, b in turns)
    yield ""
    both, lost, added = changes.matches
    silent = [cell for cell in lost if cell.verdict is None]
    lists = {
        "Verdicts that got worse": [f"{_turn(p)} ({why})" for p, why in changes.verdicts if why],
        "Verdicts of cells that no longer exist": map(_with_verdict, changes.lost),
        "Verdicts that changed otherwise": [_turn(p) for p, why in changes.verdicts if not why],
        "Claims that changed": [
            f"{cell_name(new)}: {_claim(old.claim)} → {_claim(new.claim)}"
            for old, new in changes.claims
        ],
        "Bounds that changed beyond noise": [
            f"{cell_name(new)}: {_bound(old)} → {_bound(new)}" for old, new in changes.bounds
        ],
        "Cells without a verdict that no longer exist": map(_with_verdict, silent),
        "New cells": map(_with_verdict, added),
        "Cells with other labels": [
            f"{cell_name(p.old)} → {cell_name(p.new)}" for p in both if p.renamed
        ],
    }
    for title, described in lists.items():
        if entries := list(described):
            yield f"{title} ({len(entries)}):"
            yield from (f"  {entry}" for entry in entries[:MOST_ENTRIES])
            if len(entries) > MOST_ENTRIES:
                yield f"  … and {len(entries) - MOST_ENTRIES} more; --json has them all"
            yield ""
    matched = plural(len(both), "cell")
    if changes.worse:
        yield f"{plural(changes.worse, 'verdict')} got worse, of {matched} in both."
    elif any((changes.verdicts, changes.claims, changes.bounds, lost, added)):
        yield f"No verdict got worse, of {matched} in both."
    else:
        yield f"No verdict, claim or bound changed beyond noise, of {matched} in both."
    if changes.tested:
        yield (
            f"Noise: counts of {plural(changes.tested, 'cell')} were tested against each "
            f"other; with {percent(1 - LEVEL)} confidence, none of those listed differs "
            "by chance."
        )
    if rest := len(both) - changes.tested:
        yield (
            f"{plural(rest, 'cell')} counted different events from before, or none; they are "
            "listed only if their limits do not overlap."
        )


def as_json(old: Record, new: Record, changes: Changes) -> dict[str, Any]:
    """Return the differences as plain values; floats need not be finite."""

    def ids(pair: Match) -> dict[str, Any]:
        return {"id": pair.new.id, "old_id": pair.old.id, "cell": cell_name(pair.new)}

    def turn(pair: Match, value: Callable[[CellRecord], object]) -> dict[str, Any]:
        return {**ids(pair), "old": value(pair.old), "new": value(pair.new)}

    return {
        "schema": 1,
        "kind": "diff",
        "old": {"name": old.audit.name, "digest": old.digest},
        "new": {"name": new.audit.name, "digest": new.digest},
        "settings": {key: {"old": a, "new": b} for key, (a, b) in changes.settings.items()},
        "worse": changes.worse,
        "verdicts": [
            {**turn(pair, state), "worse": why, "reason": pair.new.reason}
            for pair, why in changes.verdicts
        ],
        "claims": [turn(pair, lambda c: c.claim and c.claim.epsilon) for pair in changes.claims],
        "bounds": [
            turn(pair, lambda c: c.estimate and c.estimate.epsilon_lower) for pair in changes.bounds
        ],
        "gone": [{"id": cell.id, "old": state(cell)} for cell in changes.matches.gone],
        "added": [{"id": cell.id, "new": state(cell)} for cell in changes.matches.new],
        "renamed": [ids(pair) for pair in changes.matches.both if pair.renamed],
        "level": LEVEL,
        "matched": len(changes.matches.both),
        "tested": changes.tested,
    }


def _with_verdict(cell: CellRecord) -> str:
    return f"{cell_name(cell)}: {WORDS[state(cell)]}"


def _turn(pair: Match) -> str:
    before, after = WORDS[state(pair.old)], WORDS[state(pair.new)]
    turn = f"{before} → {after}" if before != after else f"still {after}"
    return f"{cell_name(pair.new)}: {turn}; {_bound(pair.old)} → {_bound(pair.new)}"


def _bound(cell: CellRecord) -> str:
    if cell.estimate is None:
        return "nothing counted"
    if cell.estimate.epsilon_lower is None:
        return f"estimated {point(cell.estimate.epsilon)}"
    return f"certified {number_format.lower(cell.estimate.epsilon_lower)}"


def _claim(claim: ClaimRecord | None) -> str:
    if claim is None:
        return "nothing claimed"
    at = f" at δ = {setting(claim.delta)}" if claim.delta else ""
    return f"{claim.kind} ε = {brief(claim.epsilon)}{by_distance(claim)}{at}"
