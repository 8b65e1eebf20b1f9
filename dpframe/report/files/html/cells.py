"""One cell: as a row of the table, and with everything that is known of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.record.model.values import strict
from dpframe.report import words
from dpframe.report.group import short
from dpframe.report.outcome import Kind, outcome
from dpframe.report.place import attack_of, called, repeated
from dpframe.report.verdicts import SYMBOL, UNEXPECTED, WORDS
from dpframe.report.weight import told_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.record.model import CellRecord

LIMITED = {
    "every event": "any event of its decisions",
    "every cut": "any cut of its scores",
    "chosen thresholds": "the chosen thresholds",
}
"""What an upper limit is of, in the words of this page."""

LONGEST = 400
"""Characters of a value, such as counts or thresholds; the record has all of it."""


class Columns(NamedTuple):
    """What the table of all cells tells cells apart by."""

    parts: list[str]
    """`attack` and `estimator`, where there are several."""
    keys: list[str]
    """Swept keys."""
    several: bool
    """Whether there are repeats."""

    def heads(self) -> list[str]:
        """The titles: parts that differ, swept keys, numbers."""
        keys = [short(key, self.keys) for key in self.keys]
        repeat = ["repeat"] if self.several else []
        numbers = ["claimed ε", "empirical ε", "certified ε ≥", "attack shows ≤", "adjusted p"]
        return ["verdict", "mechanism", *self.parts, *keys, *repeat, *numbers]


def columns(cells: list[CellRecord]) -> Columns:
    """The columns that the cells need."""
    return Columns(
        [p for p in ("attack", "estimator") if len({label_of(c, p) for c in cells}) > 1],
        list(dict.fromkeys(key for cell in cells for key in cell.swept)),
        repeated(cells),
    )


def label_of(cell: CellRecord, part: str) -> str:
    """The label of a cell's attack or estimator."""
    return attack_of(cell) if part == "attack" else cell.estimator.label


def row(cell: CellRecord, by: Columns, link: str | None) -> dict[str, Any]:
    """One row of the table.

    Args:
        cell: the cell.
        by: the columns.
        link: where on the page its details are.
    """
    estimate, claim, verdict = cell.estimate, cell.claim, state(cell)
    named = [label_of(cell, part) for part in by.parts]
    swept = [words.setting(cell.swept[key]) if key in cell.swept else "–" for key in by.keys]
    repeat = [str(cell.repeat)] if by.several else []
    return {
        "link": link,
        "class": verdict or "silent",
        "verdict": f"{unexpected(cell)}{SYMBOL[verdict]} {WORDS[verdict]}",
        "texts": [cell.mechanism.label, *named, *swept, *repeat],
        "numbers": [
            words.brief(claim.epsilon) if claim else "–",
            words.point(estimate.epsilon) if estimate else "–",
            _bound(cell),
            words.upper(estimate.epsilon_upper) if estimate else "–",
            "–" if cell.p_adjusted is None else f"{cell.p_adjusted:.2g}",
        ],
    }


def unexpected(cell: CellRecord) -> str:
    """A sign where the cell makes a job fail; nothing where it does not."""
    return f"{UNEXPECTED} " if outcome(cell).kind is Kind.FAILED else ""


def state(cell: CellRecord) -> str | None:
    """The verdict, or that the cell failed."""
    return "failed" if cell.status == "failed" else cell.verdict


def detail(cell: CellRecord, index: int, *, several: bool) -> dict[str, Any]:
    """Everything of a cell, as names and values."""
    verdict = state(cell)
    return {
        "id": f"cell-{index}",
        "class": verdict or "silent",
        "verdict": f"{unexpected(cell)}{SYMBOL[verdict]} {WORDS[verdict]}",
        "name": called(cell, repeated=several),
        "facts": [(name, value) for name, value in _facts(cell) if value],
    }


def _facts(cell: CellRecord) -> Iterator[tuple[str, str]]:
    estimate, claim = cell.estimate, cell.claim
    yield "Outcome", outcome(cell).message
    if claim:
        yield "Claimed", f"ε = {words.brief(claim.epsilon)} at δ = {_delta(claim)} ({claim.kind})"
        yield "Claim's parameters", _value(claim.parameters)
    if cell.truth:
        yield "Exact loss, where it is known", f"ε = {words.point(cell.truth.epsilon)}"
    if estimate:
        at = words.setting(estimate.delta)
        yield "Empirical", f"ε = {words.point(estimate.epsilon)} at δ = {at}; no bound"
        if estimate.epsilon_lower is not None:
            level = words.percent(estimate.confidence)
            yield "Certified", f"ε ≥ {_bound(cell)} with {level} confidence"
        if estimate.epsilon_upper is not None:
            most = words.upper(estimate.epsilon_upper)
            of = f", by {LIMITED[estimate.epsilon_upper_of]}" if estimate.epsilon_upper_of else ""
            yield "This attack shows at most", f"{most}{of}"
        if estimate.interval:
            low, high = map(words.point, estimate.interval)
            yield "Interval, approximate or assuming more; no bound", f"{low} – {high}"
        yield "Assumes", estimate.assumption
    if cell.p_value is not None and cell.p_adjusted is not None:
        yield "p-value", f"{cell.p_value:.3g}; adjusted for all tests {cell.p_adjusted:.3g}"
    for part in ("mechanism", "pair", "attack", "estimator"):
        choice = getattr(cell, part)
        given = _value(choice.params) if choice.params else ""
        yield part.capitalize(), f"{choice.use} {given}".strip()
    yield "Statistic, thresholds or edges", _value(cell.statistic) if cell.statistic else ""
    yield "Counts on D", _counts(cell, 0)
    yield "Counts on D′", _counts(cell, 1)
    yield "Draws", f"{cell.trials[0]:,} from D, {cell.trials[1]:,} from D′, seed {cell.seed}"
    if cell.looks is not None and len(cell.looks) > 1:
        yield "Looks at these draws", str(len(cell.looks))
    yield "Notes", "; ".join(estimate.notes)[: 3 * LONGEST] if estimate else ""
    yield "Id", cell.id


def _bound(cell: CellRecord) -> str:
    """The bound in as many digits as it takes to see on which side of the claim it is."""
    lower = cell.estimate.epsilon_lower if cell.estimate else None
    if lower is None:
        return "–"
    return told_apart(lower, cell.claim.epsilon)[0] if cell.claim else words.lower(lower)


def _delta(claim: Any) -> str:
    return words.setting(claim.delta)


def _counts(cell: CellRecord, dataset: int) -> str:
    counts = cell.counts
    if not (isinstance(counts, list) and len(counts) == 2):
        return ""
    row = counts[dataset]
    if cell.statistic.get("name") == "DecisionCounts" and isinstance(row, list) and len(row) == 2:
        return f"the attack said D {row[0]} times, and D′ {row[1]} times"
    return _value(row)


def _value(value: Any) -> str:
    text = json.dumps(strict(value), ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … (the record has all)"
