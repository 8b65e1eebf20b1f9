"""Cells of a record that need attention, by reason."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from dpframe.report import sentences, words
from dpframe.report.group import groups, is_unexpected, settings
from dpframe.report.words import SYMBOL, UNEXPECTED, WORDS
from dpframe.results.model import CellRecord, Record
from dpframe.results.verdict import SAW_NOTHING, TOGETHER, is_refuted_together, saw_nothing

MOST_PLACES = 12  # longer lists end in a count of the rest, because the record has all places

Place = tuple[str, ...]  # swept keys, each with its value
Names = tuple[str, str, str]  # labels of a mechanism, an attack and an estimator
Collected = dict[str, dict[Names, list[Place]]]
"""The places of each reason, by its text and by names."""


class Issue(NamedTuple):
    """A reason, and the cells that share it."""

    text: str  # the names, the reason, and the number of cells
    where: str  # their swept values; "" without any
    cells: int


class Issues(NamedTuple):
    """All issues of a kind."""

    title: str
    sign: str
    state: str | None  # the verdict whose colour they have
    found: list[Issue]

    @property
    def cells(self) -> int:
        """Number of cells and combinations with such an issue."""
        return sum(issue.cells for issue in self.found)


KINDS = {
    "Not as expected": (UNEXPECTED, "failed"),
    "Could not be run": (SYMBOL["failed"], "failed"),
    "Nothing was decided": (SYMBOL["inconclusive"], "inconclusive"),
    "Violated as a whole": (SYMBOL["violated"], "violated"),
    "Nothing was seen": ("–", None),
    "Expected, but skipped": (UNEXPECTED, "failed"),
    "Skipped": ("–", None),
}
"""Sign and state of each kind, the gravest first."""


def issues(record: Record) -> list[Issues]:
    """List what needs attention, the gravest first."""
    collected: dict[str, Collected] = {title: {} for title in KINDS}
    for group in groups(record.cells):
        for spot in group.spots:
            for cell in spot.cells:
                repeat = [f"repeat {cell.repeat}"] if len(spot.cells) > 1 else []
                place = (*settings(spot.values), *repeat)
                for title, text in _reasons(cell):
                    named = collected[title].setdefault(text, {})
                    named.setdefault(group.names, []).append(place)
    for skip in record.skipped:
        title, text = "Skipped", f"skipped: {skip.reason or sentences.NO_REASON}"
        if skip.expected is not None:
            title = "Expected, but skipped"
            text = f"expected {WORDS[skip.expected]}, but skipped: {skip.reason}"
        names = (skip.mechanism, skip.attack, skip.estimator)
        named = collected[title].setdefault(text, {})
        named.setdefault(names, []).append(tuple(settings(skip.swept)))
    return [
        Issues(title, *KINDS[title], list(_merged(found)))
        for title, found in collected.items()
        if found
    ]


def _reasons(cell: CellRecord) -> Iterator[tuple[str, str]]:
    """Return the kinds of issues that a cell has, each with its reason."""
    why = cell.reason or sentences.NO_REASON
    if is_unexpected(cell):
        yield "Not as expected", f"expected {WORDS[cell.expected]}, found: {WORDS[cell.verdict]}"
    if cell.status != "ok":
        yield "Could not be run", f"failed: {why}"
    if cell.verdict == "inconclusive":
        yield "Nothing was decided", f"inconclusive: {why}"
    if (stepped := _stepped(cell)) is not None:
        yield "Violated as a whole", stepped
    if saw_nothing(cell):
        yield "Nothing was seen", SAW_NOTHING


def _stepped(cell: CellRecord) -> str | None:
    """Explain a violation although the cell's own bound does not exceed the claim."""
    claim = cell.claim
    bound = cell.estimate.epsilon_lower if cell.estimate else None
    if cell.verdict != "violated" or not claim or bound is None or bound > claim.epsilon:
        return None
    if is_refuted_together(cell):
        return f"{TOGETHER}; best single pair ≥ {words.lower(bound)}"
    which = f"at δ = {words.setting(claim.delta)}" if claim.tradeoff else "alone"
    # The rest of the reason are numbers, which differ from cell to cell.
    why = (cell.reason or sentences.NO_REASON).partition(";")[0]
    if why.startswith("loss certified above"):
        why = "at another δ, the certified loss exceeds the claimed one"
    return f"violated, although its bound {which} is not above the claim: {why}"


def _merged(found: Collected) -> Iterator[Issue]:
    """Merge the names with the same reason and the same places into one issue."""
    for text, members in found.items():
        at: dict[str, list[Names]] = {}
        for names, places in members.items():
            at.setdefault(_listed([place for place in places if place]), []).append(names)
        for where, several in at.items():
            count = sum(len(members[names]) for names in several)
            cells = f" ({count} cells)" if count > 1 else ""
            yield Issue(f"{_together(several)}: {text}{cells}", where, count)


def _listed(places: list[Place]) -> str:
    """List places; a full grid of values is listed key by key."""
    places = list(dict.fromkeys(places))
    axes = [list(dict.fromkeys(parts)) for parts in zip(*places, strict=False)]
    full = math.prod(map(len, axes)) == len(places)
    if len(places) > 1 == len({len(place) for place in places}) and full:
        return "; ".join(map(_values, axes))
    return "; ".join(" ".join(place) for place in places[:MOST_PLACES]) + _more(places)


def _values(parts: list[str]) -> str:
    """Join settings of one key: `dim 1, 2, 8`."""
    first, *others = parts[:MOST_PLACES]
    return ", ".join([first, *(part.partition(" ")[2] for part in others)]) + _more(parts)


def _more(every: list[Place] | list[str]) -> str:
    rest = len(every) - MOST_PLACES
    return f" … and {rest} more" if rest > 0 else ""


def _together(several: list[Names]) -> str:
    """Join names; attack and estimator are written once if all have the same."""
    if len({names[1:] for names in several}) > 1:
        return "; ".join(" · ".join(names) for names in several)
    return " · ".join((", ".join(names[0] for names in several), *several[0][1:]))
