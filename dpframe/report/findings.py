"""The findings of a run: one list, made from its record, that every report only lays out."""

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from dpframe.report import group, verdict_text
from dpframe.report.group import Group, cell_name, repeated
from dpframe.report.number_format import lower, percent, plural, quantity, setting
from dpframe.report.verdict_text import (
    LIMITED,
    NO_REASON,
    SYMBOL,
    UNEXPECTED,
    WORDS,
    CellOutcome,
    outcome,
)
from dpframe.report.witness import event_in_words, needs, with_finding
from dpframe.results.model import CellRecord, Record, SkipRecord
from dpframe.results.verdict import (
    SAW_NOTHING,
    TOGETHER,
    covered,
    exceeds,
    is_refuted_together,
    saw_nothing,
)

MOST = 8  # mechanisms, witnesses, names or reasons that a report lists; the record has all
MOST_PLACES = 12  # longer lists end in a count of the rest
LONGEST = 120  # characters of a dataset in a sentence
POWER = 0.8  # the probability of detection in the command that a report names


# The findings.


class Kind(Enum):
    """The subject of a finding; a reader needs them in this order.

    The value is a title, the sign before each finding, and the verdict whose colour they have.
    """

    WARNING = ("Warning", "!", "failed")
    WORST = ("Worst", "", None)
    UNEXPECTED = ("Not as expected", UNEXPECTED, "failed")
    FAILED = ("Could not be run", SYMBOL["failed"], "failed")
    UNDECIDED = ("Nothing was decided", SYMBOL["inconclusive"], "inconclusive")
    TOGETHER = ("Violated as a whole", SYMBOL["violated"], "violated")
    BLIND = ("Nothing was seen", "–", None)
    LOST = ("Expected, but skipped", UNEXPECTED, "failed")
    SKIPPED = ("Skipped", "–", None)
    EVIDENCE = ("Evidence", "", None)
    MEANING = ("What the verdict means", "", None)
    UNTRIED = ("What was not tried", "", None)

    @property
    def title(self) -> str:
        """The heading above findings of this kind."""
        return str(self.value[0])

    @property
    def sign(self) -> str:
        """The sign before each finding; "" for sentences."""
        return str(self.value[1])

    @property
    def state(self) -> str | None:
        """The verdict whose colour they have."""
        return self.value[2] and str(self.value[2])


ATTENTION = (
    *(Kind.UNEXPECTED, Kind.FAILED, Kind.UNDECIDED, Kind.TOGETHER, Kind.BLIND, Kind.LOST),
    Kind.SKIPPED,
)
"""Kinds about single cells that need a reader's attention."""


class Finding(NamedTuple):
    """One thing that a run found, or that its reader must know."""

    kind: Kind
    what: str
    where: str = ""  # swept values of the cells
    cells: int = 0  # number of cells; 0 if it is about the whole audit
    remedy: str = ""  # what to do about it

    def __str__(self) -> str:
        """Return everything on one line."""
        at = f", at {self.where}" if self.where else ""
        return " ".join(filter(None, [f"{self.what}{at}", self.remedy]))


def findings(record: Record) -> list[Finding]:
    """Return all findings of a record, by kind."""
    found = [
        *_warnings(record),
        *([Finding(Kind.WORST, text, cells=1)] if (text := _worst(record)) else []),
        *_of_cells(record),
        *_exact(record),
        *_events(record),
        *_meaning(record),
        *_untried(record),
    ]
    order = list(Kind)
    return sorted(found, key=lambda finding: order.index(finding.kind))


def of(record: Record, *kinds: Kind) -> list[Finding]:
    """Return the findings of some kinds."""
    return [finding for finding in findings(record) if finding.kind in kinds]


def caveats(record: Record) -> list[str]:
    """Return the evidence and the meaning of the verdict, in sentences."""
    return list(map(str, of(record, Kind.EVIDENCE, Kind.MEANING)))


def _warnings(record: Record) -> Iterator[Finding]:
    m = record.summary.m
    if m > 1 and record.audit.multiplicity == "none":
        yield Finding(Kind.WARNING, verdict_text.unadjusted(m, record.audit.confidence))
    found = verdict_text.expectations(record)
    if found is not None and (not found.met or found.surprises):
        yield Finding(Kind.WARNING, " ".join(filter(None, [found.sentence, found.surprises])))


def _worst(record: Record) -> str | None:
    """Name the worst cell of an audit and say what was certified there; None if nothing was."""
    cell = verdict_text.worst(record.cells)
    found = None if cell is None else verdict_text.weight(cell)
    if cell is None or (found is not None and found.lower <= 0):
        return None
    if len(record.cells) == 1:
        return f"{cell.mechanism.label}: {verdict_text.measure(cell)}"
    naming = group.telling(group.groups(record.cells))
    name = group.telling_name(cell, naming, repeated=repeated(record.cells))
    return f"{name}: {verdict_text.measure(cell)}"


# Findings about single cells; cells with the same reason share one.


Place = tuple[str, ...]  # swept keys, each with its value
Names = tuple[str, str, str]  # labels of a mechanism, an attack and an estimator


def _of_cells(record: Record) -> Iterator[Finding]:
    """Describe the cells that need attention."""
    places: dict[Kind, dict[str, dict[Names, list[Place]]]] = {kind: {} for kind in ATTENTION}

    def collect(kind: Kind, text: str, names: Names, place: Iterable[str]) -> None:
        places[kind].setdefault(text, {}).setdefault(names, []).append(tuple(place))

    for one in group.groups(record.cells):
        for spot in one.spots:
            for cell in spot.cells:
                place = [*group.settings(spot.values), *spot.repeat(cell)]
                for kind, text in _reasons(cell):
                    collect(kind, text, one.names, place)
    for skip in record.skipped:
        names = (skip.mechanism, skip.attack, skip.estimator)
        kind = Kind.SKIPPED if skip.expected is None else Kind.LOST
        collect(kind, outcome(skip).message, names, group.settings(skip.swept))
    for kind, found in places.items():
        for text, members in found.items():
            at: dict[str, list[Names]] = {}
            for names, listed in members.items():
                at.setdefault(_listed([place for place in listed if place]), []).append(names)
            for where, several in at.items():
                count = sum(len(members[names]) for names in several)
                cells = f" ({count} cells)" if count > 1 else ""
                yield Finding(kind, f"{_together(several)}: {text}{cells}", where, count)


def _reasons(cell: CellRecord) -> Iterator[tuple[Kind, str]]:
    """Return the kinds of findings about a cell, each with its reason."""
    why = cell.reason or NO_REASON
    if verdict_text.is_unexpected(cell):
        text = f"expected {WORDS[cell.expected]}, found: {WORDS[cell.verdict]}"
        yield Kind.UNEXPECTED, text
    if cell.status != "ok":
        yield Kind.FAILED, f"failed: {why}"
    if cell.verdict == "inconclusive":
        yield Kind.UNDECIDED, f"inconclusive: {why}"
    if (stepped := _stepped(cell)) is not None:
        yield Kind.TOGETHER, stepped
    if saw_nothing(cell):
        yield Kind.BLIND, SAW_NOTHING


def _stepped(cell: CellRecord) -> str | None:
    """Explain a violation although the cell's own bound does not exceed the claim."""
    claim = cell.claim
    bound = cell.estimate.epsilon_lower if cell.estimate else None
    if cell.verdict != "violated" or not claim or bound is None or bound > claim.epsilon:
        return None
    if is_refuted_together(cell):
        return f"{TOGETHER}; best single pair ≥ {lower(bound)}"
    which = f"at δ = {setting(claim.delta)}" if claim.tradeoff else "alone"
    # The rest of the reason consists of numbers, which differ between cells.
    why = (cell.reason or NO_REASON).partition(";")[0]
    if why.startswith("loss certified above"):
        why = "at another δ, the certified loss exceeds the claimed one"
    return f"violated, although its bound {which} is not above the claim: {why}"


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


# Evidence: queries beyond their sensitivity, and the events that refute a claim.


def _exact(record: Record) -> Iterator[Finding]:
    """Describe the exact comparison of the query in the first cell of each mechanism."""
    wrong: dict[str, CellRecord] = {}
    kept: dict[str, CellRecord] = {}
    for cell in record.cells:
        if exceeds(cell):
            wrong.setdefault(cell.mechanism.label, cell)
        elif cell.exact is not None:
            kept[cell.mechanism.label] = cell
    for label, cell in list(wrong.items())[:MOST]:
        found = cell.exact
        assert found is not None
        for witness in found.witnesses:
            text = f"Exact: {label}: {witness.words} (pair {witness.pair.use})."
            remedy = " ".join(needs(cell, record, witness.pair))
            yield Finding(Kind.EVIDENCE, text, remedy=remedy)
        text = f"It does so on {found.exceeding} of {plural(found.pairs, 'pair')}."
        yield Finding(Kind.EVIDENCE, text)
    if len(wrong) > MOST:
        text = f"{len(wrong) - MOST} more mechanisms exceed their sensitivity."
        yield Finding(Kind.EVIDENCE, text)
    for label, cell in [item for item in kept.items() if item[0] not in wrong][:MOST]:
        if cell.exact and cell.exact.pairs:
            yield Finding(
                Kind.EVIDENCE,
                f"The query of {label} keeps to its sensitivity on "
                f"{plural(cell.exact.pairs, 'pair')}, exactly; this says nothing about other "
                "pairs or about its noise.",
            )


def _events(record: Record) -> Iterator[Finding]:
    """Describe the events by which searches refute claims, and that of the worst fixed pair."""
    refuted = [cell for cell in record.cells if cell.verdict == "violated"]
    worst = verdict_text.worst(cell for cell in refuted if cell.event is not None)
    if worst is not None and worst.event is not None:
        place = " at ".join(filter(None, (worst.mechanism.label, group.place(worst))))
        yield from _evidence(event_in_words(f"Event against {place}", worst.event))
    searched = [cell for cell in refuted if cell.search is not None]
    for cell in searched[:MOST]:
        found = cell.search
        assert found is not None
        for number in range(1, 2 + len(found.findings)):
            one = with_finding(cell, number)
            yield from _evidence(_witness(one, number if found.findings else 0))
            yield from _evidence(needs(one, record))
        if found.ignored:
            yield Finding(Kind.EVIDENCE, f"Ignored as known: {_some(found.ignored)}.")
    if len(searched) > MOST:
        yield Finding(Kind.EVIDENCE, f"There are {len(searched) - MOST} more witnesses.")
    if searched:
        yield Finding(
            Kind.EVIDENCE,
            "dpframe show --witness prints this pair and attack as a spec.",
            remedy="dpframe show --next prints a search for other leaks.",
        )


def _evidence(sentences: Iterable[str]) -> Iterator[Finding]:
    yield from (Finding(Kind.EVIDENCE, sentence) for sentence in sentences)


def _witness(cell: CellRecord, number: int) -> Iterator[str]:
    found = cell.search
    assert found is not None
    at = found.parameters.items() if number <= 1 else ()
    which = f"Witness {number}" if number else "Witness"
    settings = [f"at {key} = {setting(value)}" for key, value in at]
    yield from event_in_words(f"{which} against {cell.mechanism.label}", found, settings)
    given = cell.pair.params
    if told := given.get("description"):
        yield f"Its datasets: {told}."
    elif {"d0", "d1"} <= given.keys():
        yield f"Its datasets: D = {_dataset(given['d0'])}; D′ = {_dataset(given['d1'])}."


def _dataset(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


# The meaning of the verdict, and its limits.


def _meaning(record: Record) -> Iterator[Finding]:
    cells, m, confidence = record.cells, record.summary.m, record.audit.confidence
    if any(cell.verdict == "consistent" for cell in cells):
        known = any(cell.power for cell in cells)
        yield Finding(
            Kind.MEANING,
            "No violation found means that this attack, at this number of draws, certifies no more "
            "loss than claimed; a stronger attack may.",
            remedy="" if known else _power_command(record),
        )
    searched = [(cell, covered(cell)) for cell in cells if cell.verdict == "consistent"]
    for cell, extent in [one for one in searched if one[1]][:MOST]:
        yield Finding(Kind.MEANING, f"The search of {cell.mechanism.label} was {extent}.")
    adjusted = record.audit.multiplicity != "none"
    certified = [cell.estimate for cell in cells if cell.estimate and cell.estimate.certified]
    if m and certified and (adjusted or m == 1):
        levels = sorted({percent(estimate.confidence) for estimate in certified})
        sure = percent(confidence)
        text = f"The certified bound holds with {sure} confidence."
        if len(certified) > 1 or m > 1:
            each = f" ({' or '.join(levels)} each)" if m > 1 else ""
            number = "Both" if len(certified) == 2 else f"All {len(certified)}"
            every = f"{number} bounds hold" if len(certified) > 1 else "The bound holds"
            text = f"{every} simultaneously with {sure} confidence{each}."
        yield Finding(Kind.MEANING, text)
    if (looks := record.audit.looks) > 1:
        yield Finding(
            Kind.MEANING,
            f"This is look {looks} at the same draws, with a correspondingly smaller error. The "
            f"results of all looks hold together with {percent(1 - 1.5 * (1 - confidence))} "
            "confidence.",
        )
    silent = [cell for cell in cells if cell.status == "ok" and cell.verdict is None]
    unclaimed = sum(cell.estimate is not None and cell.estimate.certified for cell in silent)
    if estimates := len(silent) - unclaimed:
        text = f"{plural(estimates, 'cell')} without a verdict: an estimate, not a bound."
        yield Finding(Kind.MEANING, text, cells=estimates)
    if unclaimed:
        text = f"{plural(unclaimed, 'cell')} without a verdict: nothing is claimed."
        yield Finding(Kind.MEANING, text, cells=unclaimed)


def _power_command(record: Record) -> str:
    """Name the command that prints the power of a run; "" if its spec was not a file."""
    # With "=", because pages put a space that does not break before numbers.
    if not record.spec.path:
        return ""
    changes = (word for text in record.spec.overrides for word in ("--set", text))
    command = ["dpframe", "plan", record.spec.path, *changes, f"--power={POWER:g}"]
    return f"Its power: {shlex.join(command)}"


def _untried(record: Record) -> Iterator[Finding]:
    """List what an audit did not try, so that "no violation found" is not read as "private"."""
    yield from (Finding(Kind.UNTRIED, sentence) for sentence in _untried_sentences(record))


def _untried_sentences(record: Record) -> Iterator[str]:
    cells = record.cells
    about = "and the claim covers all of them: another may show more."
    if searched := [cell.search for cell in cells if cell.search is not None]:
        names = _some(search.neighbourhood.label for search in searched)
        most = plural(max(search.pairs for search in searched), "pair")
        yield (
            f"Up to {most} of neighbouring datasets searched for each mechanism ({names}), {about}"
        )
    fixed = [cell.pair for cell in cells if cell.search is None]
    if pairs := {(pair.use, setting(list(pair.params.items()))) for pair in fixed}:
        names = _some(use for use, _ in sorted(pairs))
        tried = "One pair" if len(pairs) == 1 else f"{len(pairs)} pairs"
        yield f"{tried} of neighbouring datasets tried ({names}), {about}"
    if relations := _some(cell.pair.relation for cell in cells if cell.pair.relation):
        yield f"Neighbours: {relations}."
    if cells:
        labels = [cell.search.attacks if cell.search else [cell.attack.label] for cell in cells]
        attacks = _some(label for of_cell in labels for label in of_cell)
        yield f"Attacks: {attacks}. A stronger one may show more."
    if amounts := {max(cell.trials) for cell in cells} - {0}:
        most = quantity(max(amounts))
        yield f"At most {most} draws from each dataset. More draws certify more of the loss."
    chosen = sum(
        cell.estimate is not None and cell.estimate.epsilon_upper_of == "chosen thresholds"
        for cell in cells
    )
    if chosen:
        yield (
            f"{plural(chosen, 'cell')} looked only at thresholds that the spec or a pilot chose. "
            "Others may show more."
        )
    if failed := sum(cell.status == "failed" for cell in cells):
        yield f"{plural(failed, 'cell')} could not be run: nothing is known about them."
    if undecided := sum(cell.verdict == "inconclusive" for cell in cells):
        yield f"{plural(undecided, 'cell')} could not have decided either way: inconclusive."
    if record.skipped:
        reasons = Counter(skip.reason for skip in record.skipped)
        text = "; ".join(f"{reason} ({number})" for reason, number in reasons.most_common(MOST))
        rest = len(reasons) - MOST
        more = f"; and {rest} more reasons" if rest > 0 else ""
        yield f"{plural(len(record.skipped), 'combination')} skipped: {text}{more}."


def _some(names: Iterable[str]) -> str:
    """List different names in their order; if there are many, the first of them."""
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - MOST} more" if len(unique) > MOST else ""
    return ", ".join(unique[:MOST]) + more


# Results by mechanism, by cell and by estimator.


class MechanismResults(NamedTuple):
    """The results of one mechanism."""

    label: str
    tallies: list[tuple[str | None, str]]  # states, each with its count in words
    worst: str  # the worst cell, or the reason for none


def mechanisms(record: Record) -> Iterator[MechanismResults]:
    """Summarise the verdicts and the worst cell of each mechanism, skipped ones included."""
    members: dict[str, list[Group]] = {}
    for one in group.groups(record.cells):
        members.setdefault(one.names[0], []).append(one)
    for label, found in members.items():
        cells = [cell for one in found for spot in one.spots for cell in spot.cells]
        ran = [cell for cell in cells if cell.status == "ok"]
        yield MechanismResults(label, group.tallies(cells), _worst_of(ran, found))
    for label in dict.fromkeys(skip.mechanism for skip in record.skipped):
        if label not in members:
            yield MechanismResults(label, [("failed", "– skipped")], "nothing was tested")


def _worst_of(ran: list[CellRecord], found: list[Group]) -> str:
    """Describe the worst of the cells that ran."""
    cell = verdict_text.worst(ran)
    if cell is None:
        return "nothing was tested"
    weight = verdict_text.weight(cell)
    if len(ran) > 1 and weight is not None and weight.lower <= 0:
        return "nothing certified in any cell"
    mixed = cell.verdict == "inconclusive" and len({other.verdict for other in ran}) > 1
    return f"{verdict_text.measure(cell)}{', inconclusive' * mixed}{_place(cell, found)}"


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


def outcomes(record: Record) -> Iterator[tuple[CellRecord | SkipRecord, str, CellOutcome]]:
    """Return every cell and every skipped combination with its name and outcome."""
    several = repeated(record.cells)
    for cell in record.cells:
        yield cell, cell_name(cell, repeated=several), outcome(cell)
    for skip in record.skipped:
        yield skip, cell_name(skip), outcome(skip)


class EstimatorNote(NamedTuple):
    """An estimator's guarantee, assumption and source in one audit."""

    label: str
    use: str
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
        yield EstimatorNote(
            label,
            cells[0].estimator.use,
            promise if certified else "gives an estimate and certifies nothing",
            "; ".join(dict.fromkeys(e.assumption for e in found)),
            sources.get(cells[0].estimator.use) or "",
            _some(sorted(percent(e.confidence) for e in found if e.certified)),
            _some(sorted(setting(e.delta) for e in found)),
            _some(LIMITED[e.epsilon_upper_of] for e in found if e.epsilon_upper_of),
        )
