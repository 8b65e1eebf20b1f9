"""Lines and tables that every report lays out in its own way, and the tables of a record."""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from dpframe.report import number_format
from dpframe.report.group import attack_of, repeated, short
from dpframe.report.number_format import brief, percent, point, setting, upper
from dpframe.report.verdict_text import (
    BLIND,
    SYMBOL,
    WORDS,
    by_distance,
    measure,
    outcome,
    slack,
    state,
    told_apart,
    verdict as verdict_of,
)
from dpframe.report.witness import computed_excess
from dpframe.results.model import CellRecord, Record
from dpframe.results.rows import share as share_of
from dpframe.results.strict_json import strict
from dpframe.results.verdict import SAW_NOTHING, exceeds, saw_nothing


class Line(NamedTuple):
    """A sentence of a report."""

    text: str
    style: str | None = None
    """The verdict whose colour it has, "bold", "dim", or "note", which is dim and folded."""


class Row(NamedTuple):
    """A row of a table."""

    cells: Sequence[str | Line]
    style: str | None = None  # as that of a line; the name of a row is bold, unless it is dim


class ReportTable(NamedTuple):
    """A table and what stands above it."""

    heads: Sequence[str]
    rows: list[Row]
    right: Collection[str] = ()  # titles of columns that are flush right
    title: str = ""
    explanation: str = ""
    is_named: bool = True  # the first column names the rows


Part = Line | ReportTable


class Assumptions(dict[str, int]):
    """Assumptions, explained once below a table, with their numbers."""

    def mark(self, assumption: str) -> str:
        """Return the reference to an assumption."""
        return f"[{self.setdefault(assumption, len(self) + 1)}]"

    def lines(self) -> Iterator[Line]:
        """Explain all references."""
        for text, number in self.items():
            yield Line(f"[{number}] assumes {text}", "dim")


# The cells of a record, and every fact about one.

LONGEST_VALUE = 400  # characters of a value, such as counts or thresholds; the record has all of it
NUMBERS = (
    *("claimed ε", "empirical ε", "certified ε ≥", "certified ÷ claimed", "attack shows ≤"),
    "adjusted p",
)
"""Titles of `numbers`."""
LIMITED = {
    "every event": "any event of its decisions",
    "every cut": "any cut of its scores",
    "chosen thresholds": "the chosen thresholds",
}
"""Upper limits, by `epsilon_upper_of`."""


def cell_table(cells: Sequence[CellRecord], most: int) -> ReportTable:
    """Return a table of the first `most` cells: the verdict first, `NUMBERS` last.

    Attack, estimator and repeat are columns if they differ; the title names those that all share.
    """
    keys = list(dict.fromkeys(key for cell in cells for key in cell.swept))
    labels = {
        "attack": list(map(attack_of, cells)),
        "estimator": [cell.estimator.label for cell in cells],
    }
    different = {part: names for part, names in labels.items() if len(set(names)) > 1}
    common = [f"{part} {labels[part][0]}" for part in labels if cells and part not in different]
    several = repeated(cells)
    rows = []
    for index, cell in enumerate(cells[:most]):
        texts = [verdict_of(cell), cell.mechanism.label]
        texts += [names[index] for names in different.values()]
        texts += [setting(cell.swept[key]) if key in cell.swept else "–" for key in keys]
        rows.append(Row([*texts, *[str(cell.repeat)] * several, *numbers(cell)], state(cell)))
    heads = ["verdict", "mechanism", *different, *(short(key, keys) for key in keys)]
    return ReportTable([*heads, *["repeat"] * several, *NUMBERS], rows, NUMBERS, ", ".join(common))


def bound(cell: CellRecord) -> str:
    """Write the bound with enough digits to distinguish it from the claim."""
    lower = cell.estimate.epsilon_lower if cell.estimate else None
    if lower is None:
        return "–"
    return told_apart(lower, cell.claim.epsilon)[0] if cell.claim else number_format.lower(lower)


def numbers(cell: CellRecord) -> list[str]:
    """Write the numbers of a cell, in the order of `NUMBERS`."""
    estimate, claim = cell.estimate, cell.claim
    limit = upper(estimate.epsilon_upper) if estimate else "–"
    shown = (bound(cell), number_format.lower(share_of(cell)), limit)
    return [
        brief(claim.epsilon) if claim else "–",
        point(estimate.epsilon) if estimate else "–",
        *((BLIND, "–", "–") if saw_nothing(cell) else shown),
        "–" if cell.p_adjusted is None else f"{cell.p_adjusted:.2g}",
    ]


def facts(cell: CellRecord) -> list[tuple[str, str]]:
    """Return every fact about a cell that is known, as names and values."""
    return [(name, value) for name, value in _facts(cell) if value]


def _facts(cell: CellRecord) -> Iterator[tuple[str, str]]:
    estimate, claim = cell.estimate, cell.claim
    yield "Outcome", outcome(cell).message
    if claim:
        at = setting(claim.delta)
        epsilon = f"{brief(claim.epsilon)}{by_distance(claim)}"
        yield "Claimed", f"ε = {epsilon} at δ = {at} ({claim.kind})"
        yield "Claim's parameters", _value(claim.parameters)
    if cell.truth:
        yield "Exact loss, if known", f"ε = {point(cell.truth.epsilon)}"
    if estimate:
        at = setting(estimate.delta)
        yield "Empirical", f"ε = {point(estimate.epsilon)} at δ = {at}; not a bound"
        if saw_nothing(cell):
            yield "Certified", SAW_NOTHING
        elif estimate.epsilon_lower is not None:
            level = percent(estimate.confidence)
            yield "Certified", f"ε ≥ {bound(cell)} with {level} confidence"
        if estimate.epsilon_upper is not None and not saw_nothing(cell):
            of = estimate.epsilon_upper_of
            by = f", by {LIMITED[of]}" if of else ""
            yield "This attack shows at most", f"{upper(estimate.epsilon_upper)}{by}"
        if estimate.interval:
            low, high = map(point, estimate.interval)
            yield "Interval, approximate or assuming more; not a bound", f"{low} – {high}"
        yield "Assumes", estimate.assumption
    if cell.verdict != "violated":
        yield "Slack: claimed − certified", ", ".join(map(str, slack(cell)))
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
    yield "Notes", "; ".join(estimate.notes)[: 3 * LONGEST_VALUE] if estimate else ""
    yield "Id", cell.id


def _counts(cell: CellRecord, dataset: int) -> str:
    counts = cell.counts
    if not (isinstance(counts, list) and len(counts) == 2):
        return ""
    row = counts[dataset]
    if cell.statistic.get("name") == "DecisionCounts" and isinstance(row, list) and len(row) == 2:
        return f"the attack guessed D {row[0]:,} times, and D′ {row[1]:,} times"
    return _value(row)


def _value(value: Any) -> str:
    text = json.dumps(strict(value), ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]} … (the record has all)"


# The results of each mechanism by environment.

THIS_PYTHON = "this Python"  # name of the environment of dpframe itself
GRAVITY = ("violated", "failed", "inconclusive", None, "consistent")
"""Verdicts from the gravest; a row shows the gravest of its cells."""


def version_table(record: Record) -> ReportTable | None:
    """Return the result of each mechanism in each of its environments.

    Mechanisms that ran in a single environment are left out; None if all did. A mechanism is known
    by its label, or by its parameters if it has another label in each environment.
    """
    environments: dict[str, set[str]] = {}
    for cell in record.cells:
        environments.setdefault(cell.mechanism.label, set()).add(_environment(cell))
    members: dict[str, dict[tuple[str, str], list[CellRecord]]] = {}
    for cell in record.cells:
        label, where = cell.mechanism.label, _environment(cell)
        rest = {k: v for k, v in cell.mechanism.params.items() if k != "environment"}
        content = json.dumps([cell.mechanism.use, rest], sort_keys=True)
        key = label if len(environments[label]) > 1 else content
        members.setdefault(key, {}).setdefault((label, where), []).append(cell)
    rows = [
        Row([label, where, _gravest(several)])
        for places in members.values()
        if len({where for _, where in places}) > 1
        for (label, where), several in places.items()
    ]
    return ReportTable(["mechanism", "environment", "result"], rows) if rows else None


def _environment(cell: CellRecord) -> str:
    name = cell.mechanism.params.get("environment")
    return name if isinstance(name, str) else THIS_PYTHON


def _gravest(cells: Sequence[CellRecord]) -> Line:
    """Return the gravest result of some cells."""
    verdicts = ["violated" if exceeds(cell) else state(cell) for cell in cells]
    verdict = min(verdicts, key=GRAVITY.index)
    cell = cells[verdicts.index(verdict)]
    if exceeds(cell):
        return Line(f"{SYMBOL[verdict]} {computed_excess(cell)}", verdict)
    share = f" in {verdicts.count(verdict)} of {len(cells)} cells" if len(cells) > 1 else ""
    why = ""
    if verdict == "failed":
        why = cell.reason or ""
    elif verdict == "violated":
        why = cell.search.event if cell.search is not None else measure(cell)
    text = f"{SYMBOL[verdict]} {WORDS[verdict]}{share}"
    return Line(f"{text}: {why}" if why else text, verdict)
