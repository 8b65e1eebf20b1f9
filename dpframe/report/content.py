"""The parts that written reports share, as plain values: mechanisms, cells and estimators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dpframe.report import group, words
from dpframe.report.sentences import Kind, outcome
from dpframe.report.words import SYMBOL, UNEXPECTED, WORDS
from dpframe.results.model import CellRecord, Record

LIMITED = {
    "every event": "any event of its decisions",
    "every cut": "any cut of its scores",
    "chosen thresholds": "the chosen thresholds",
}
"""Upper limits, by `epsilon_upper_of`."""
NUMBERS = ("claimed ε", "empirical ε", "certified ε ≥", "attack shows ≤", "adjusted p")
"""Titles of `numbers`."""
MOST_NAMED = 5
"""Levels and δ that are listed of an estimator."""


class Mechanism(NamedTuple):
    """The results of one mechanism."""

    label: str
    tallies: list[tuple[str, str]]  # state, and its count in words
    worst: str
    where: str | None


def mechanisms(record: Record) -> Iterator[Mechanism]:
    """Summarise each mechanism: its verdicts, and its worst cell in words."""
    several = group.repeated(record.cells)
    for label, cells in group.by_mechanism(record).items():
        tallies = [(verdict or "silent", text) for verdict, text in group.tallies(cells)]
        cell = group.worst(cells)
        yield Mechanism(
            label,
            tallies or [("failed", "skipped")],
            "nothing was tested" if cell is None else group.measure(cell),
            None if cell is None else group.worst_place(cell, repeated=several),
        )


class Estimator(NamedTuple):
    """The promise of an estimator in one audit, its assumption and its source."""

    label: str
    use: str
    certifies: bool
    promise: str
    assumption: str
    source: str
    levels: str
    deltas: str
    limits: str


def estimators(record: Record) -> Iterator[Estimator]:
    """Describe every estimator of a record."""
    sources = group.sources(record)
    members: dict[str, list[CellRecord]] = {}
    for cell in record.cells:
        members.setdefault(cell.estimator.label, []).append(cell)
    for label, cells in members.items():
        found = [cell.estimate for cell in cells if cell.estimate is not None]
        certified = sum(estimate.certified for estimate in found)
        where = "" if certified == len(found) else f" in {certified} of {len(found)} cells"
        promise = f"certifies a lower bound, valid at this number of draws{where}"
        levels = sorted({words.percent(e.confidence) for e in found if e.certified})
        deltas = sorted({words.setting(e.delta) for e in found})
        limits = dict.fromkeys(LIMITED[e.epsilon_upper_of] for e in found if e.epsilon_upper_of)
        yield Estimator(
            label,
            cells[0].estimator.use,
            certified > 0,
            promise if certified else "gives an estimate and certifies nothing",
            "; ".join(dict.fromkeys(e.assumption for e in found)),
            sources.get(cells[0].estimator.use, ""),
            ", ".join(levels[:MOST_NAMED]),
            ", ".join(deltas[:MOST_NAMED]),
            ", ".join(limits),
        )


# One cell.


def verdict(cell: CellRecord) -> str:
    """Write the verdict of a cell with its sign, and another sign if it makes a job fail."""
    state = group.state(cell)
    return f"{unexpected(cell)}{SYMBOL[state]} {WORDS[state]}"


def unexpected(cell: CellRecord) -> str:
    """Return the sign of a cell that makes a job fail; "" for others."""
    return f"{UNEXPECTED} " if outcome(cell).kind is Kind.FAILED else ""


def numbers(cell: CellRecord) -> list[str]:
    """Write the numbers of a cell, in the order of `NUMBERS`."""
    estimate, claim = cell.estimate, cell.claim
    return [
        words.brief(claim.epsilon) if claim else "–",
        words.point(estimate.epsilon) if estimate else "–",
        bound(cell),
        words.upper(estimate.epsilon_upper) if estimate else "–",
        "–" if cell.p_adjusted is None else f"{cell.p_adjusted:.2g}",
    ]


def bound(cell: CellRecord) -> str:
    """Write the bound in as many digits as show on which side of the claim it is."""
    lower = cell.estimate.epsilon_lower if cell.estimate else None
    if lower is None:
        return "–"
    return group.told_apart(lower, cell.claim.epsilon)[0] if cell.claim else words.lower(lower)
