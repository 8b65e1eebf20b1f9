"""The findings of a run: one list, made from its record, that every report only lays out."""

import itertools
import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import NamedTuple

from dpframe.common.text import cut
from dpframe.report import group, verdict_text
from dpframe.report.group import Group, cell_name, repeated
from dpframe.report.number_format import brief, lower, percent, plural, quantity, setting
from dpframe.report.tables import LIMITED, Line, ReportTable, Row
from dpframe.report.verdict_text import (
    NO_REASON,
    SYMBOL,
    UNEXPECTED,
    WORDS,
    CellOutcome,
    outcome,
)
from dpframe.report.witness import COMPUTED, event_in_words, needs, with_finding
from dpframe.results.model import CellRecord, Record, SkipRecord
from dpframe.results.verdict import (
    SAW_NOTHING,
    TOGETHER,
    covered,
    exceeds,
    is_refuted_together,
    saw_nothing,
)

MOST_LISTED = 8  # mechanisms, witnesses, names or reasons that a report lists; the record has all
MOST_PLACES = 12  # longer lists end in a count of the rest
LONGEST_DATASET = 120  # characters of a dataset in a sentence
POWER = 0.8  # the probability of detection in the command that a report names


# The findings.


class Kind(Enum):
    """The subject of a finding; a reader needs them in this order."""

    WARNING = ("Warning", "!", "failed")
    REASON = ("Reason", "", None)
    SUBJECT = ("Subject", "", None)
    UNEXPECTED = ("Not as expected", UNEXPECTED, "failed")
    FAILED = ("Could not be run", SYMBOL["failed"], "failed")
    UNDECIDED = ("Undecided", SYMBOL["inconclusive"], "inconclusive")
    TOGETHER = ("Violated as a whole", SYMBOL["violated"], "violated")
    BLIND = ("Blind attacks", "–", None)
    LOST = ("Expected, but skipped", UNEXPECTED, "failed")
    SKIPPED = ("Skipped", "–", None)
    EVIDENCE = ("Evidence", "", None)
    MEANING = ("Meaning of the verdict", "", None)
    UNTRIED = ("Not tried", "", None)

    def __init__(self, title: str, sign: str, state: str | None) -> None:
        self.title = title  # the heading above findings of this kind
        self.sign = sign  # before each finding; "" for sentences
        self.state = state  # the verdict whose colour they have


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


HEAD = (Kind.WARNING, Kind.REASON, Kind.SUBJECT)
"""Kinds that follow the answer at once."""

_warning, _evidence = partial(Finding, Kind.WARNING), partial(Finding, Kind.EVIDENCE)
_meaning, _untried = partial(Finding, Kind.MEANING), partial(Finding, Kind.UNTRIED)


def findings(record: Record) -> list[Finding]:
    """Return all findings of a record, by kind."""
    by_kind: dict[Kind, list[Finding]] = {kind: [] for kind in Kind}
    for about in (_warnings, _reason, _subject, _of_cells, _exact, _events, _meanings, _limits):
        for finding in about(record):
            by_kind[finding.kind].append(finding)
    return [finding for of_kind in by_kind.values() for finding in of_kind]


def of(record: Record, *kinds: Kind) -> list[Finding]:
    """Return the findings of some kinds."""
    return [finding for finding in findings(record) if finding.kind in kinds]


def caveats(record: Record) -> list[str]:
    """Return the evidence and the meaning of the verdict, in sentences."""
    return list(map(str, of(record, Kind.EVIDENCE, Kind.MEANING)))


def _warnings(record: Record) -> Iterator[Finding]:
    m = record.summary.m
    if m > 1 and record.audit.multiplicity == "none":
        yield _warning(verdict_text.unadjusted(m, record.audit.confidence))
    expected = verdict_text.expectations(record)
    if expected is not None and (not expected.met or expected.surprises):
        yield _warning(" ".join(filter(None, [expected.sentence, expected.surprises])))


def _reason(record: Record) -> Iterator[Finding]:
    """Give the reason of the only cell, or name the worst of several cells with its bound."""
    if len(record.cells) == 1:
        (cell,) = record.cells
        reason = (cell.reason or "").removeprefix(f"{WORDS['consistent']}; ")
        if cell.stated is not None and verdict_text.is_computed(cell):
            reason = cell.stated.words  # that of the draws would not explain the verdict
        if reason:
            yield Finding(Kind.REASON, f"Reason: {reason.removesuffix('.')}.", cells=1)
        return
    worst = verdict_text.worst(record.cells)
    weight = None if worst is None else verdict_text.weight(worst)
    if worst is None or (weight is not None and weight.lower <= 0):
        return
    naming = group.telling(group.groups(record.cells))
    name = group.telling_name(worst, naming, repeated=repeated(record.cells))
    yield Finding(Kind.REASON, f"Worst: {name}: {verdict_text.measure(worst)}.", cells=1)


def _subject(record: Record) -> Iterator[Finding]:
    """Name the claims, the pairs with their columns, and the relation of neighbours."""
    if not record.cells:
        return
    epsilons: dict[tuple[str, float], dict[float, str]] = {}
    for claim in (cell.claim for cell in record.cells if cell.claim is not None):
        factors = verdict_text.by_distance(claim)
        epsilons.setdefault((claim.kind, claim.delta), {})[claim.epsilon] = factors
    claims = [
        f"{kind} with ε = {_some(map(brief, sorted(values)))}"
        + (next(iter(values.values())) if len(values) == 1 else "")
        + (f" at δ = {setting(delta)}" if delta else "")
        for (kind, delta), values in epsilons.items()
    ]
    fixed = _some(_pair(cell) for cell in record.cells if not cell.is_searched)
    proposed = _some(c.search.neighbourhood.label for c in record.cells if c.search is not None)
    facts = {
        "Claim": "; ".join(claims) or "none",
        "Pair": fixed,
        "Pairs searched by": proposed,
        "Neighbours": _some(cell.pair.relation for cell in record.cells if cell.pair.relation),
        "Parts of answers examined": _some(
            part for cell in record.cells if cell.asked is not None for part in cell.asked.only
        ),
    }
    known = (f"{name}: {fact}." for name, fact in facts.items() if fact)
    yield Finding(Kind.SUBJECT, " ".join(known))


def _pair(cell: CellRecord) -> str:
    """Name a pair, with its columns or its description if it has them."""
    columns = cell.pair.params.get("columns")
    if isinstance(columns, list) and columns:
        return f"{cell.pair.use} with columns {_some(map(str, columns))}"
    description = cell.pair.params.get("description")
    return (
        f"{cell.pair.use} ({cut(str(description), LONGEST_DATASET)})"
        if description
        else cell.pair.use
    )


# Findings about single cells; cells with the same reason share one.


Place = tuple[str, ...]  # swept keys, each with its value
Names = tuple[str, str, str]  # labels of a mechanism, an attack and an estimator


def _of_cells(record: Record) -> Iterator[Finding]:
    """Describe the cells that need attention."""
    places: dict[tuple[Kind, str], dict[Names, list[Place]]] = {}
    for one in group.groups(record.cells):
        for spot in one.spots:
            for cell in spot.cells:
                place = (*group.settings(spot.values), *spot.repeat(cell))
                for reason in _reasons(cell, alone=len(record.cells) == 1):
                    places.setdefault(reason, {}).setdefault(one.names, []).append(place)
    for skip in record.skipped:
        names = (skip.mechanism, skip.attack, skip.estimator)
        reason = (Kind.SKIPPED if skip.expected is None else Kind.LOST, outcome(skip).message)
        place = tuple(group.settings(skip.swept))
        places.setdefault(reason, {}).setdefault(names, []).append(place)
    for (kind, text), members in places.items():
        at: dict[str, list[Names]] = {}
        for names, listed in members.items():
            at.setdefault(_listed([place for place in listed if place]), []).append(names)
        for where, several in at.items():
            count = sum(len(members[names]) for names in several)
            cells = f" ({count} cells)" if count > 1 else ""
            yield Finding(kind, f"{_together(several)}: {text}{cells}", where, count)


def _reasons(cell: CellRecord, *, alone: bool) -> Iterator[tuple[Kind, str]]:
    """Return the kinds of findings about a cell, each with its reason.

    The reason of an audit's only cell follows the answer and is not repeated.
    """
    why, state = cell.reason or NO_REASON, verdict_text.state(cell)
    if verdict_text.is_unexpected(cell):
        text = f"expected: {WORDS[cell.expected]}; got: {WORDS[state]}"
        yield Kind.UNEXPECTED, text
    if cell.status != "ok" and not alone:
        yield Kind.FAILED, f"failed: {why}"
    if state == "inconclusive" and not alone:
        yield Kind.UNDECIDED, f"inconclusive: {why}"
    if (stepped := _stepped(cell)) is not None:
        yield Kind.TOGETHER, stepped
    if saw_nothing(cell) and "nothing was tested" not in why:  # else the reason says it
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
    full = math.prod(map(len, axes)) == len(places) > 1 == len({len(place) for place in places})
    if not full:
        return _first("; ", [", ".join(place) for place in places])
    # The key is written once: `dim 1, 2, 8`.
    values = ([first, *(part.partition(" ")[2] for part in rest)] for first, *rest in axes)
    return "; ".join(_first(", ", texts) for texts in values)


def _first(separator: str, texts: list[str]) -> str:
    """Join the first texts, and count the rest."""
    rest = len(texts) - MOST_PLACES
    return separator.join(texts[:MOST_PLACES]) + (f" … and {rest} more" if rest > 0 else "")


def _together(several: list[Names]) -> str:
    """Join names; attack and estimator are written once if all have the same."""
    if len({names[1:] for names in several}) > 1:
        return "; ".join(" · ".join(names) for names in several)
    return " · ".join((", ".join(names[0] for names in several), *several[0][1:]))


# Evidence: queries beyond their sensitivity, and the events that refute a claim.


def _exact(record: Record) -> Iterator[Finding]:
    """Describe the exact comparisons in the first cell of each mechanism."""
    yield from _stated(record)
    wrong: dict[str, CellRecord] = {}
    kept: dict[str, int] = {}  # mechanism and the pairs on which its query was compared
    for cell in record.cells:
        if cell.exact is not None and cell.exact.exceeding:
            wrong.setdefault(cell.mechanism.label, cell)
        elif cell.exact is not None:
            kept[cell.mechanism.label] = cell.exact.pairs
    for label, cell in list(wrong.items())[:MOST_LISTED]:
        assert cell.exact is not None
        for witness in cell.exact.witnesses:
            text = f"Exact: {label}: {witness.words} (pair {witness.pair.use})."
            yield _evidence(text, remedy=" ".join(needs(cell, record, witness.pair)))
        pairs = plural(cell.exact.pairs, "pair")
        yield _evidence(f"It does so on {cell.exact.exceeding} of {pairs}.")
    if len(wrong) > MOST_LISTED:
        yield _evidence(f"Further mechanisms that exceed theirs: {len(wrong) - MOST_LISTED}.")
    for label, number in [one for one in kept.items() if one[0] not in wrong][:MOST_LISTED]:
        if number:
            yield _evidence(
                f"The query of {label} stays within its sensitivity on {plural(number, 'pair')}, "
                "exactly; this says nothing about other pairs or about its noise."
            )


def _stated(record: Record) -> Iterator[Finding]:
    """Describe the losses of stated distributions, those beyond their claims first."""
    cells = {c.mechanism.label: c for c in record.cells[::-1] if c.stated is not None}
    cells |= {c.mechanism.label: c for c in record.cells if c.stated and c.stated.exceeding}
    ordered = sorted(cells.items(), key=lambda item: not exceeds(item[1]))
    for label, cell in ordered[:MOST_LISTED]:
        stated = cell.stated
        assert stated is not None
        where = f"{stated.pair.use}, the worst of {stated.pairs} pairs"
        pair = where if stated.pairs > 1 else f"pair {stated.pair.use}"
        yield _evidence(
            f"{label}, {COMPUTED}: {stated.words} ({pair}). {stated.draws:,} draws from each "
            "dataset agree with that distribution."
        )
    if len(ordered) > MOST_LISTED:
        yield _evidence(
            f"Further mechanisms with stated distributions: {len(ordered) - MOST_LISTED}."
        )


def _events(record: Record) -> Iterator[Finding]:
    """Describe the events by which searches refute claims, and that of the worst fixed pair."""
    refuted = [cell for cell in record.cells if cell.verdict == "violated"]
    worst = verdict_text.worst(cell for cell in refuted if cell.event is not None)
    if worst is not None and worst.event is not None:
        place = " at ".join(filter(None, (worst.mechanism.label, group.place(worst))))
        yield from map(_evidence, event_in_words(f"Event against {place}", worst.event))
    searched = [(cell, cell.search) for cell in refuted if cell.search is not None]
    for cell, search in searched[:MOST_LISTED]:
        for number in range(1, 2 + len(search.findings)):
            one = with_finding(cell, number)
            yield from map(_evidence, _witness(one, number if search.findings else 0))
            yield from map(_evidence, needs(one, record))
        if search.ignored:
            yield _evidence(f"Ignored as known: {_some(search.ignored)}.")
    if len(searched) > MOST_LISTED:
        yield _evidence(f"Further witnesses: {len(searched) - MOST_LISTED}.")
    if searched:
        yield _evidence(
            "dpframe show --witness prints this pair and attack as a spec.",
            remedy="dpframe show --next prints a search for other leaks.",
        )


def _witness(cell: CellRecord, number: int) -> Iterator[str]:
    search = cell.search
    assert search is not None
    swept = search.parameters.items() if number <= 1 else ()
    which = f"Witness {number}" if number else "Witness"
    settings = [f"at {key} = {setting(value)}" for key, value in swept]
    yield from event_in_words(f"{which} against {cell.mechanism.label}", search, settings)
    params = cell.pair.params
    if description := params.get("description"):
        yield f"Its datasets: {description}."
    elif {"d0", "d1"} <= params.keys():
        one, two = (cut(str(params[key]), LONGEST_DATASET) for key in ("d0", "d1"))
        yield f"Its datasets: D = {one}; D′ = {two}."


# The meaning of the verdict, and its limits.


def _meanings(record: Record) -> Iterator[Finding]:
    cells, m = record.cells, record.summary.m
    consistent = [c for c in cells if c.verdict == "consistent" and not verdict_text.is_computed(c)]
    if consistent:
        known = any(cell.power for cell in cells)
        yield _meaning(
            "No violation found means that this attack, at this number of draws, certifies no more "
            "loss than claimed; a stronger attack may.",
            remedy="" if known else _power_command(record),
        )
    alone = len(cells) == 1 and bool(consistent)  # then its reason says how it ended
    searched = [] if alone else [(cell.mechanism.label, covered(cell)) for cell in cells]
    for label, extent in [one for one in searched if one[1]][:MOST_LISTED]:
        yield _meaning(f"The search of {label} {extent}.")
    if m > 1 or len(record.cells) > 1 or record.audit.looks > 1:  # else the answer says it
        yield from map(_meaning, validity(record))
    silent = [cell for cell in cells if cell.status == "ok" and cell.verdict is None]
    unclaimed = sum(cell.estimate is not None and cell.estimate.certified for cell in silent)
    reasons = {"an estimate, not a bound": len(silent) - unclaimed, "nothing is claimed": unclaimed}
    for why, count in reasons.items():
        if count:
            yield _meaning(f"{plural(count, 'cell')} without a verdict: {why}.", cells=count)


def validity(record: Record) -> Iterator[str]:
    """State the confidence of the certified bounds; nothing if each holds only on its own."""
    m, sure = record.summary.m, percent(record.audit.confidence)
    estimates = [cell.estimate for cell in record.cells if cell.estimate is not None]
    certified = [estimate for estimate in estimates if estimate.certified]
    if m and certified and (m == 1 or record.audit.multiplicity != "none"):
        levels = sorted({percent(estimate.confidence) for estimate in certified})
        each = f" ({' or '.join(levels)} each)" if len(certified) > 1 else ""
        number = "Both" if len(certified) == 2 else f"All {len(certified)}"
        bounds = f"{number} bounds hold simultaneously" if len(certified) > 1 else "The bound holds"
        yield f"{bounds} with {sure if each or m == 1 else levels[0]} confidence{each}."
    if (looks := record.audit.looks) > 1:
        together = percent(1 - 1.5 * (1 - record.audit.confidence))
        yield (
            f"This is look {looks} at the same draws, with a correspondingly smaller error. The "
            f"results of all looks hold simultaneously with {together} confidence."
        )


def _power_command(record: Record) -> str:
    """Name the command that prints the power of a run; "" if its spec was not a file."""
    # With "=", because pages put a space that does not break before numbers.
    if not record.spec.path:
        return ""
    changes = (word for text in record.spec.overrides for word in ("--set", text))
    command = ["dpframe", "plan", record.spec.path, *changes, f"--power={POWER:g}"]
    return f"Power: {shlex.join(command)}"


def _limits(record: Record) -> Iterator[Finding]:
    """List what an audit did not try, so that "no violation found" is not read as "private"."""
    cells = record.cells
    about = "and the claim covers all of them: another may show more."
    if searched := [cell.search for cell in cells if cell.search is not None]:
        names = _some(search.neighbourhood.label for search in searched)
        most = plural(max(search.pairs for search in searched), "pair")
        yield _untried(
            f"Up to {most} of neighbouring datasets searched for each mechanism ({names}), {about}"
        )
    fixed = [cell.pair for cell in cells if cell.search is None]
    if pairs := {(pair.use, setting(list(pair.params.items()))) for pair in fixed}:
        names = _some(use for use, _ in sorted(pairs))
        tried = "One pair" if len(pairs) == 1 else f"{len(pairs)} pairs"
        yield _untried(f"{tried} of neighbouring datasets tried ({names}), {about}")
    if cells:
        labels = [cell.search.attacks if cell.search else [cell.attack.label] for cell in cells]
        attacks = _some(label for of_cell in labels for label in of_cell)
        yield _untried(f"Attacks: {attacks}. A stronger one may show more.")
    if trials := max((max(cell.trials) for cell in cells), default=0):
        most = f"At most {quantity(trials)} draws from each dataset."
        yield _untried(f"{most} More draws certify more of the loss.")
    estimates = [cell.estimate for cell in cells if cell.estimate is not None]
    if chosen := sum(one.epsilon_upper_of == "chosen thresholds" for one in estimates):
        yield _untried(
            f"{plural(chosen, 'cell')} looked only at thresholds that the spec or a pilot chose. "
            "Others may show more."
        )
    if failed := sum(cell.status == "failed" for cell in cells):
        yield _untried(f"{plural(failed, 'cell')} could not be run, so nothing is known there.")
    if undecided := sum(verdict_text.state(cell) == "inconclusive" for cell in cells):
        number = plural(undecided, "cell")
        yield _untried(f"{number} could not have decided either way: inconclusive.")
    if record.skipped:
        reasons = Counter(skip.reason for skip in record.skipped)
        text = "; ".join(
            f"{reason} ({number})" for reason, number in reasons.most_common(MOST_LISTED)
        )
        rest = len(reasons) - MOST_LISTED
        more = f"; and {plural(rest, 'more reason')}" if rest > 0 else ""
        yield _untried(f"{plural(len(record.skipped), 'combination')} skipped: {text}{more}.")


def _some(names: Iterable[str]) -> str:
    """List different names in their order; if there are many, the first of them."""
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - MOST_LISTED} more" if len(unique) > MOST_LISTED else ""
    return ", ".join(unique[:MOST_LISTED]) + more


# Results by mechanism, by cell and by estimator.


class MechanismResults(NamedTuple):
    """The results of one mechanism."""

    label: str
    tallies: dict[str | None, int]  # states with their counts; empty if it was skipped
    worst: str  # the worst cell, or the reason for none


def mechanisms(record: Record) -> Iterator[MechanismResults]:
    """Summarise the verdicts and the worst cell of each mechanism, skipped ones included."""
    members: dict[str, list[Group]] = {}
    for one in group.groups(record.cells):
        members.setdefault(one.names[0], []).append(one)
    for label, groups in members.items():
        cells = [cell for one in groups for spot in one.spots for cell in spot.cells]
        yield MechanismResults(label, group.tallies(cells), _worst_of(cells, groups))
    for label in dict.fromkeys(skip.mechanism for skip in record.skipped):
        if label not in members:
            yield MechanismResults(label, {}, "nothing was tested")


def mechanism_table(
    record: Record, most: int | None = None, words: Mapping[str | None, str] = WORDS
) -> ReportTable:
    """Return the verdicts and the worst cell of each mechanism as a table.

    `words` follow the counts of verdicts; {} if the report explains the signs elsewhere.
    """
    rows = []
    for label, tallies, worst in itertools.islice(mechanisms(record), most):
        shown = (f"{SYMBOL[v]} {count} {words.get(v, '')}".rstrip() for v, count in tallies.items())
        style = {0: "failed", 1: next(iter(tallies), None)}.get(len(tallies))
        rows.append(Row([label, Line(", ".join(shown) or "– skipped", style), worst]))
    return ReportTable(("mechanism", "verdicts", "worst cell"), rows)


def _worst_of(cells: list[CellRecord], groups: list[Group]) -> str:
    """Describe the worst of the cells that ran; name attack and estimator if they differ."""
    ran = [cell for cell in cells if cell.status == "ok"]
    cell = verdict_text.worst(ran)
    if cell is None:
        return "nothing was tested"
    weight = verdict_text.weight(cell)
    if len(ran) > 1 and weight is not None and weight.lower <= 0:
        return "nothing certified in any cell"
    mixed = verdict_text.state(cell) == "inconclusive" and len({other.verdict for other in ran}) > 1
    telling = {*group.telling(groups), *([1] if cell.is_searched else [])}
    by = [part.label for n, part in ((1, cell.attack), (2, cell.estimator)) if n in telling]
    keys = dict.fromkeys(key for one in groups for key in one.keys if key in cell.swept)
    at = group.settings({key: cell.swept[key] for key in keys}, keys)
    if any(len(spot.cells) > 1 for one in groups for spot in one.spots):
        at.append(f"repeat {cell.repeat}")
    return (
        f"{verdict_text.measure(cell)}{', inconclusive' * mixed}"
        + (f", by {' · '.join(by)}" if by else "")
        + (f", at {', '.join(at)}" if at else "")
    )


def outcomes(record: Record) -> Iterator[tuple[CellRecord | SkipRecord, str, CellOutcome]]:
    """Return every cell and every skipped combination with its name and outcome."""
    several = repeated(record.cells)
    every: list[CellRecord | SkipRecord] = [*record.cells, *record.skipped]
    for cell in every:
        yield cell, cell_name(cell, repeated=several), outcome(cell)


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
        estimates = [cell.estimate for cell in cells if cell.estimate is not None]
        certified = sum(estimate.certified for estimate in estimates)
        where = "" if certified == len(estimates) else f" in {certified} of {len(estimates)} cells"
        promise = f"certifies a lower bound, valid at this number of draws{where}"
        yield EstimatorNote(
            label,
            cells[0].estimator.use,
            promise if certified else "gives an estimate and certifies nothing",
            "; ".join(dict.fromkeys(e.assumption for e in estimates)),
            sources.get(cells[0].estimator.use) or "",
            _some(sorted(percent(e.confidence) for e in estimates if e.certified)),
            _some(sorted(setting(e.delta) for e in estimates)),
            _some(LIMITED[e.epsilon_upper_of] for e in estimates if e.epsilon_upper_of),
        )
