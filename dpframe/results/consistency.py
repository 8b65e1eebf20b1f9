"""Check a record for contradictions by deriving what its numbers determine.

P-values and bounds are not derived from the counts. This would need the estimator's code, which
reading a record must never run, and its layout, which the record does not contain. It would also
take as long as the run's estimates. The digest covers this step.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dpframe import __version__
from dpframe.common.text import shown
from dpframe.results.model import CellRecord, EstimateRecord, Record
from dpframe.results.strict_json import digest_of, profile_problem
from dpframe.results.verdict import (
    CONSISTENT,
    VIOLATED,
    adjusted_p_values,
    judged,
    look_price,
    totals,
)

ROUNDING_OF_PROFILES = 1e-5
"""Relative rounding of the numbers of a certified profile: six digits are written."""
ROUNDING = 1e-9  # relative difference between two ways to compute the same


def is_old(record: Record) -> bool:
    """True if a record was written before records had a digest.

    An old record also lacks the fields that were introduced with the digest or later, or all of
    them are null because it was written again. Otherwise a missing digest was removed.
    """
    if record.digest is not None:
        return False
    if "digest" in record.model_fields_set:
        return all(value in (None, []) for _, value in _newer(record))
    return not any(named for named, _ in _newer(record))


def _newer(record: Record) -> Iterator[tuple[bool, Any]]:
    """Yield for each field that old records lack: True if it is present, and its value."""
    parts: list[tuple[Any, tuple[str, ...]]] = [(record.summary, ("calls",))]
    parts += [(plugin, ("reference",)) for plugin in record.plugins]
    for cell in record.cells:
        parts += [(cell, ("basis",)), (cell.pair, ("digest",))]
        if cell.estimate is not None:
            parts.append((cell.estimate, ("epsilon_upper_of", "profile_lower")))
    for part, names in parts:
        for name in names:
            yield name in part.model_fields_set, getattr(part, name)


def disagreement(record: Record, contents: dict[str, Any]) -> str | None:
    """Return the first contradiction in a record and its JSON values; None if there is none."""
    found = next(_disagreements(record), None)
    if found is None and not is_old(record) and record.digest is None:
        return "its digest is gone"
    if found is None and not is_old(record) and record.digest != digest_of(contents):
        return "its contents do not match its digest"
    return found


def _disagreements(record: Record) -> Iterator[str]:
    old = is_old(record)
    for cell in record.cells:
        for problem in _cell(cell, old):
            yield f"cell {shown(cell.id)}: {problem}"
    twice = [name for name, n in Counter(cell.id for cell in record.cells).items() if n > 1]
    if twice:
        yield f"cell {shown(twice[0])} occurs more than once"
    yield from _old_verdicts(record) if old else _verdicts(record)
    yield from _levels(record)
    yield from _summary(record)
    yield from _slack(record)


def _cell(cell: CellRecord, old: bool) -> Iterator[str]:
    estimate, tested = cell.estimate, is_tested(cell)
    if (cell.status == "ok") != (estimate is not None):
        yield f"its status is {cell.status}, but it has {'an' if estimate else 'no'} estimate"
    if cell.status == "failed" and cell.reason is None:
        yield "it failed without a reason"
    for name in ("verdict", "p_adjusted", *(() if old else ("basis",))):
        if tested != (getattr(cell, name) is not None):
            yield f"it has {'no' if tested else 'a'} {name}"
    if estimate is not None:
        yield from _estimate(cell, estimate)
    counted = sum(cell.trials)
    if estimate is not None and not all(cell.trials):
        yield "it has an estimate, but no draws"
    if cell.draws != (counted if cell.draw_group else 0):
        yield f"its trials add up to {counted} draws, not to {cell.draws}"
    if (problem := _counts(cell)) is not None:
        yield problem
    if (found := cell.exact) is not None:
        most = found.exceeding
        if bool(most) != bool(found.witnesses) or most > found.pairs:
            yield f"its query exceeds its sensitivity on {most} of {found.pairs} pairs"


def is_tested(cell: CellRecord) -> bool:
    """True if the cell has a claim and a certified bound, so that it has a verdict."""
    return cell.claim is not None and cell.estimate is not None and cell.estimate.certified


def _estimate(cell: CellRecord, estimate: EstimateRecord) -> Iterator[str]:
    lower, upper = estimate.epsilon_lower, estimate.epsilon_upper
    if estimate.certified != (lower is not None):
        yield f"it is {'' if estimate.certified else 'not '}certified, but its bound is {lower}"
    if cell.p_value is not None and not estimate.certified:
        yield "it has a p-value, although its bound is not certified"
    if cell.p_value is None and is_tested(cell):
        yield "it has no p-value, although its claim is tested"
    if lower is not None and upper is not None and not lower <= upper * (1 + 1e-6):
        yield f"its bound {lower} is above its limit {upper}"
    if cell.claim is not None and cell.claim.delta != estimate.delta:
        yield f"its claim is for δ = {cell.claim.delta}, but its estimate is for {estimate.delta}"
    if estimate.profile_lower and not estimate.certified:
        yield "it has certified δ, although its bound is not certified"
    if (problem := profile_problem(estimate.profile_lower)) is not None:
        yield f"its profile_lower {problem}"
    beyond = [e for e, d in estimate.profile_lower if d > estimate.delta]
    if lower is not None and beyond and beyond[-1] > lower * (1 + ROUNDING_OF_PROFILES) + 1e-9:
        yield f"its profile_lower gives ε ≥ {beyond[-1]} at its δ, but its bound is {lower}"
    if estimate.anytime != (cell.looks is None):
        yield "an anytime estimator has no looks; others do"
    if cell.looks is not None and cell.trials not in [look.trials for look in cell.looks]:
        yield f"its trials {cell.trials} are not among its looks"


def _counts(cell: CellRecord) -> str | None:
    """Return a contradiction in the counts; those of decisions must add up to the trials."""
    counts = cell.counts
    if (counts is None) != (cell.draw_group is None):
        return "it has counts without draws, or draws without counts"
    if counts is None or cell.statistic.get("name") != "DecisionCounts":
        return None
    rows = counts if isinstance(counts, list) else []
    sums = [
        sum(row)
        for row in rows
        if isinstance(row, list)
        and len(row) == 2
        and all(type(count) is int and count >= 0 for count in row)
    ]
    return None if sums == cell.trials else f"its counts do not add up to its trials {cell.trials}"


def _verdicts(record: Record) -> Iterator[str]:
    """Judge all cells again."""
    again = judged(record.cells, record.summary.m, record.audit.multiplicity)
    same_words = record.environment.dpframe == __version__
    for cell, anew in zip(record.cells, again, strict=True):
        name = shown(cell.id)
        if cell.verdict != anew.verdict:
            yield f"cell {name}: its verdict is {cell.verdict}, but its numbers give {anew.verdict}"
        if not _close(cell.p_adjusted, anew.p_adjusted):
            yield f"cell {name}: p_adjusted is {cell.p_adjusted}, not {anew.p_adjusted}"
        if same_words and cell.reason != anew.reason:
            yield f"cell {name}: its reason does not match its numbers: {anew.reason}"


def _old_verdicts(record: Record) -> Iterator[str]:
    """Check the verdicts of a record that does not have their basis, as far as possible."""
    tested = [cell for cell in record.cells if is_tested(cell)]
    priced = []
    for cell in tested:
        listed = [look.trials for look in cell.looks or ()]
        look = listed.index(cell.trials) + 1 if cell.trials in listed else 1
        priced.append((cell.p_value or 1.0) * look_price(look))
    again = adjusted_p_values(priced, record.summary.m, record.audit.multiplicity)
    for cell, p_adjusted in zip(tested, again, strict=True):
        error = 1 - _confidence(cell, record)
        name, rejected = shown(cell.id), p_adjusted <= error
        if not _close(cell.p_adjusted, p_adjusted):
            yield f"cell {name}: p_adjusted is {cell.p_adjusted}, not {p_adjusted}"
        if cell.verdict == (CONSISTENT if rejected else VIOLATED):
            yield f"cell {name}: its verdict is {cell.verdict} at p_adjusted = {p_adjusted}"


def _confidence(cell: CellRecord, record: Record) -> float:
    """Return the confidence of all verdicts together that the cell's spec sets."""
    swept = cell.swept.get("audit.confidence")
    return swept if isinstance(swept, float) else record.audit.confidence


def _levels(record: Record) -> Iterator[str]:
    """Check that the error was divided among all bounds."""
    audit, cells = record.audit, record.cells
    bounds = sum(cell.estimate is not None and cell.estimate.certified for cell in cells)
    most = bounds + record.summary.failed
    for cell in cells:
        if cell.estimate is None or cell.basis is None:
            continue
        basis, own = cell.basis, 1 - cell.estimate.confidence
        parts = (1 - basis.confidence) / look_price(basis.look) / own if own > 0 else math.inf
        fits = bounds - 1e-3 < parts < most + 1e-3
        if not (abs(parts - 1) < 1e-3 if audit.multiplicity == "none" else fits):
            yield f"cell {shown(cell.id)}: the level of its bound is not its share of the error"
        if basis.look > audit.looks:
            yield f"cell {shown(cell.id)}: its look {basis.look} is later than the last"
        if _confidence(cell, record) != basis.confidence:
            yield f"cell {shown(cell.id)}: its confidence is not the audit's"


def _summary(record: Record) -> Iterator[str]:
    summary, cells = record.summary, record.cells
    for name, value in totals(cells).items():
        if getattr(summary, name) != value:
            yield f"summary.{name} is {getattr(summary, name)}, but its cells add up to {value}"
    least = sum(map(is_tested, cells))
    most = least + summary.failed
    if not least <= summary.m <= most:
        yield f"summary.m is {summary.m}, but its cells give {least}"


def _slack(record: Record) -> Iterator[str]:
    for cell in record.cells:
        if cell.slack is None:
            continue
        if cell.claim is None or cell.estimate is None or cell.estimate.epsilon_lower is None:
            yield f"cell {shown(cell.id)}: it has slack, but no bound or no claim"
            continue
        parts = cell.slack.model_dump(exclude={"limit"}, exclude_none=True)
        whole, found = cell.claim.epsilon - cell.estimate.epsilon_lower, math.fsum(parts.values())
        if not math.isclose(whole, found, rel_tol=ROUNDING, abs_tol=ROUNDING):
            yield f"cell {shown(cell.id)}: its slack adds up to {found}, not to {whole}"


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=ROUNDING)
