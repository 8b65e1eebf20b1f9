"""Check that a record agrees with its digest and judges its own numbers.

P-values and bounds are not derived from the counts. This would need the estimator's code, which
reading a record must never run, and its layout, which the record does not contain. The digest finds
accidents; `dpframe certify` and `dpframe verify` are the checks of somebody else's record.
"""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dpframe import __version__
from dpframe.common.text import shown
from dpframe.results.model import CellRecord, EstimateRecord, Record
from dpframe.results.strict_json import digest_of, profile_problem
from dpframe.results.verdict import judged, totals

ROUNDING = 1e-9  # relative difference between two ways to compute the same


def disagreement(record: Record, contents: dict[str, Any]) -> str | None:
    """Return the first contradiction in a record and its JSON values; None if there is none."""
    if record.digest is None:
        return "its digest is gone"
    if (found := next(_disagreements(record), None)) is not None:
        return found
    same = record.digest == digest_of(contents)
    return None if same else "its contents do not match its digest"


def _disagreements(record: Record) -> Iterator[str]:
    for name, number in Counter(cell.id for cell in record.cells).items():
        if number > 1:
            yield f"cell {shown(name)} occurs more than once"
    for cell in record.cells:
        for problem in _cell(cell):
            yield f"cell {shown(cell.id)}: {problem}"
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
    for name, value in totals(record.cells).items():
        if getattr(record.summary, name) != value:
            given = getattr(record.summary, name)
            yield f"summary.{name} is {given}, but its cells add up to {value}"
    least = sum(map(_is_tested, record.cells))
    if not least <= record.summary.m <= least + record.summary.failed:
        yield f"summary.m is {record.summary.m}, but its cells give {least}"


def _is_tested(cell: CellRecord) -> bool:
    """True if the cell has a claim and a certified bound, so that it has a verdict."""
    return cell.claim is not None and cell.estimate is not None and cell.estimate.certified


def _cell(cell: CellRecord) -> Iterator[str]:
    """Find parts of a cell that exclude each other; judges and reports rely on their absence."""
    estimate, tested = cell.estimate, _is_tested(cell)
    if (cell.status == "ok") != (estimate is not None):
        yield f"its status is {cell.status}, but it has {'an' if estimate else 'no'} estimate"
    if cell.status == "failed" and cell.reason is None:
        yield "it failed without a reason"
    for name in ("verdict", "p_adjusted", "basis"):
        if tested != (getattr(cell, name) is not None):
            yield f"it has {'no' if tested else 'a'} {name}"
    if estimate is not None:
        yield from _estimate(cell, estimate)
    counted = sum(cell.trials)
    if cell.draws != (counted if cell.draw_group else 0):
        yield f"its trials add up to {counted} draws, not to {cell.draws}"
    if (cell.counts is None) != (cell.draw_group is None):
        yield "it has counts without draws, or draws without counts"
    if not _adds_up(cell):
        yield f"its counts do not add up to its trials {cell.trials}"
    if (found := cell.exact) is not None:
        most = found.exceeding
        if bool(most) != bool(found.witnesses) or most > found.pairs:
            yield f"its query exceeds its sensitivity on {most} of {found.pairs} pairs"


def _estimate(cell: CellRecord, estimate: EstimateRecord) -> Iterator[str]:
    lower, upper = estimate.epsilon_lower, estimate.epsilon_upper
    if not all(cell.trials):
        yield "it has an estimate, but no draws"
    if estimate.certified != (lower is not None):
        yield f"it is {'' if estimate.certified else 'not '}certified, but its bound is {lower}"
    if cell.p_value is None and _is_tested(cell):
        yield "it has no p-value, although its claim is tested"
    if cell.p_value is not None and not estimate.certified:
        yield "it has a p-value, although its bound is not certified"
    if lower is not None and upper is not None and not lower <= upper * (1 + 1e-6):
        yield f"its bound {lower} is above its limit {upper}"
    if (problem := profile_problem(estimate.profile_lower)) is not None:
        yield f"its profile_lower {problem}"
    if estimate.anytime != (cell.looks is None):
        yield "an anytime estimator has no looks; others do"
    if cell.looks is not None and cell.trials not in [look.trials for look in cell.looks]:
        yield f"its trials {cell.trials} are not among its looks"


def _adds_up(cell: CellRecord) -> bool:
    """True if the counts of decisions add up to the trials; other counts need not."""
    rows = cell.counts
    if rows is None or cell.statistic.get("name") != "DecisionCounts":
        return True
    if not isinstance(rows, list) or not all(isinstance(r, list) and len(r) == 2 for r in rows):
        return False
    whole = all(type(count) is int and count >= 0 for row in rows for count in row)
    return whole and [sum(row) for row in rows] == cell.trials


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=ROUNDING)
