"""Texts that all reports share: mechanisms, cells, estimators, slack, and what needs attention."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dpframe.common.text import meanings
from dpframe.report import group, sentences, words
from dpframe.report.group import Group
from dpframe.report.words import SYMBOL, UNEXPECTED, WORDS
from dpframe.results.model import CellRecord, Record, SlackRecord
from dpframe.results.rows import share
from dpframe.results.verdict import SAW_NOTHING, TOGETHER, is_refuted_together, saw_nothing

LIMITED = {
    "every event": "any event of its decisions",
    "every cut": "any cut of its scores",
    "chosen thresholds": "the chosen thresholds",
}
"""Upper limits, by `epsilon_upper_of`."""
NUMBERS = (
    *("claimed ε", "empirical ε", "certified ε ≥", "certified ÷ claimed", "attack shows ≤"),
    "adjusted p",
)
"""Titles of `numbers`."""
NEGLIGIBLE = 1e-9  # parts of the slack that are not shown: rounding
BLIND = "saw nothing"  # stands for the bounds of a cell whose attack saw nothing
MOST_NAMED = 5  # levels and δ of an estimator that are listed


class MechanismResults(NamedTuple):
    """The results of one mechanism."""

    label: str
    tallies: list[tuple[str | None, str]]  # states, each with its count in words
    worst: str  # the worst cell, or the reason for none
    several: bool  # true if it is the worst of several cells
    tested: bool
    decided: bool


def mechanisms(record: Record) -> Iterator[MechanismResults]:
    """Summarise the verdicts and the worst cell of each mechanism, skipped ones included."""
    members: dict[str, list[Group]] = {}
    for one in group.groups(record.cells):
        members.setdefault(one.names[0], []).append(one)
    for label, found in members.items():
        cells = [cell for one in found for spot in one.spots for cell in spot.cells]
        ran = [cell for cell in cells if cell.status == "ok"]
        decided = {cell.verdict for cell in ran} != {"inconclusive"}
        worst, several = _worst(ran, found)
        yield MechanismResults(label, group.tallies(cells), worst, several, bool(ran), decided)
    for label in dict.fromkeys(skip.mechanism for skip in record.skipped):
        if label not in members:
            skipped: list[tuple[str | None, str]] = [("failed", "– skipped")]
            yield MechanismResults(label, skipped, "nothing was tested", False, False, True)


def _worst(ran: list[CellRecord], found: list[Group]) -> tuple[str, bool]:
    """Describe the worst of the cells that ran; True if it is the worst of several."""
    cell = group.worst(ran)
    if cell is None:
        return "nothing was tested", False
    weight = group.weight(cell)
    if len(ran) > 1 and weight is not None and weight.lower <= 0:
        return "nothing certified in any cell", False
    mixed = cell.verdict == "inconclusive" and len({other.verdict for other in ran}) > 1
    of = ", inconclusive" if mixed else ""
    return f"{group.measure(cell)}{of}{_place(cell, found)}", len(ran) > 1


def _place(cell: CellRecord, found: list[Group]) -> str:
    """Name attack and estimator, if they differ, and the swept values."""
    parts = [part for part in group.telling(found) if part]
    if cell.is_searched:
        parts = [1, *(part for part in parts if part != 1)]
    labels = (cell.mechanism.label, cell.attack.label, cell.estimator.label)
    by = " · ".join(labels[part] for part in parts)
    keys = dict.fromkeys(key for one in found for key in one.keys if key in cell.swept)
    place = group.settings({key: cell.swept[key] for key in keys}, keys)
    if any(len(spot.cells) > 1 for one in found for spot in one.spots):
        place.append(f"repeat {cell.repeat}")
    return (f", by {by}" if by else "") + (f", at {' '.join(place)}" if place else "")


class EstimatorNote(NamedTuple):
    """An estimator's guarantee, assumption and source in one audit."""

    label: str
    use: str
    certifies: bool
    promise: str
    assumption: str
    source: str
    levels: str
    deltas: str
    limits: str


def estimators(record: Record) -> Iterator[EstimatorNote]:
    """Describe every estimator of a record."""
    sources = {one.name: one.reference for one in record.plugins if one.kind == "estimator"}
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
        yield EstimatorNote(
            label,
            cells[0].estimator.use,
            certified > 0,
            promise if certified else "gives an estimate and certifies nothing",
            "; ".join(dict.fromkeys(e.assumption for e in found)),
            sources.get(cells[0].estimator.use) or "",  # old records have none
            ", ".join(levels[:MOST_NAMED]),
            ", ".join(deltas[:MOST_NAMED]),
            ", ".join(limits),
        )


def verdict(cell: CellRecord) -> str:
    """Write the verdict of a cell with its sign, and another sign if it makes a job fail."""
    state = group.state(cell)
    return f"{unexpected(cell)}{SYMBOL[state]} {WORDS[state]}"


def unexpected(cell: CellRecord) -> str:
    """Return the sign of a cell that makes a job fail; "" for others."""
    return f"{UNEXPECTED} " if sentences.outcome(cell).kind is sentences.OutcomeKind.FAILED else ""


def numbers(cell: CellRecord) -> list[str]:
    """Write the numbers of a cell, in the order of `NUMBERS`."""
    estimate, claim = cell.estimate, cell.claim
    limit = words.upper(estimate.epsilon_upper) if estimate else "–"
    blind = saw_nothing(cell)
    shown = (BLIND, "–", "–") if blind else (bound(cell), words.lower(share(cell)), limit)
    return [
        words.brief(claim.epsilon) if claim else "–",
        words.point(estimate.epsilon) if estimate else "–",
        *shown,
        "–" if cell.p_adjusted is None else f"{cell.p_adjusted:.2g}",
    ]


class SlackPart(NamedTuple):
    """One part of the difference between claimed and certified ε."""

    name: str
    sign: str  # "≥ " or "≤ " for a part that is only limited
    size: float | None  # None if it is unknown, and then contained in the next part

    def __str__(self) -> str:
        """Return name and size."""
        size = "unknown" if self.size is None else f"{self.sign}{words.point(self.size)}"
        return f"{self.name} {size}"


def slack(cell: CellRecord) -> list[SlackPart]:
    """Return the parts of a cell's slack that are not 0, in their order."""
    if cell.slack is None:
        return []
    signs = {"attack": "≥ ", "sampling": "≤ "} if cell.slack.limit == "learned" else {}
    names = meanings_of_slack()
    parts = [SlackPart(name, signs.get(name, ""), getattr(cell.slack, name)) for name in names]
    return [part for part in parts if part.size is None or abs(part.size) > NEGLIGIBLE]


def meanings_of_slack() -> dict[str, str]:
    """Return the definition of each part of the slack, in their order."""
    return {name: text for name, text in meanings(SlackRecord).items() if name != "limit"}


def bound(cell: CellRecord) -> str:
    """Write the bound with enough digits to distinguish it from the claim."""
    lower = cell.estimate.epsilon_lower if cell.estimate else None
    if lower is None:
        return "–"
    return group.told_apart(lower, cell.claim.epsilon)[0] if cell.claim else words.lower(lower)


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

    def collect(title: str, text: str, names: Names, place: Iterable[str]) -> None:
        places = collected[title].setdefault(text, {}).setdefault(names, [])
        places.append(tuple(place))

    for one in group.groups(record.cells):
        for spot in one.spots:
            for cell in spot.cells:
                place = [*group.settings(spot.values), *spot.repeat(cell)]
                for title, text in _reasons(cell):
                    collect(title, text, one.names, place)
    for skip in record.skipped:
        title, text = "Skipped", f"skipped: {skip.reason or sentences.NO_REASON}"
        if skip.expected is not None:
            title = "Expected, but skipped"
            text = f"expected {WORDS[skip.expected]}, but skipped: {skip.reason}"
        names = (skip.mechanism, skip.attack, skip.estimator)
        collect(title, text, names, group.settings(skip.swept))
    return [
        Issues(title, *KINDS[title], list(_merged(found)))
        for title, found in collected.items()
        if found
    ]


def _reasons(cell: CellRecord) -> Iterator[tuple[str, str]]:
    """Return the kinds of issues that a cell has, each with its reason."""
    why = cell.reason or sentences.NO_REASON
    if group.is_unexpected(cell):
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
    # The rest of the reason consists of numbers, which differ between cells.
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
