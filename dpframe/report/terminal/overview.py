"""Results by mechanism, what needs attention, and the closing lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from rich.table import Table
from rich.text import Text

from dpframe.report import words
from dpframe.report.content import mechanisms
from dpframe.report.group import Group, is_unexpected, settings
from dpframe.report.sentences import NO_REASON, caveats, expectations, verdict
from dpframe.report.sentences import worst as worst_of
from dpframe.report.terminal.ink import GAP, STYLE, Ink, padded
from dpframe.report.versions import Versions, blocks, versions
from dpframe.report.words import SYMBOL, UNEXPECTED, WORDS
from dpframe.results.model import CellRecord, Record
from dpframe.results.verdict import SAW_NOTHING, TOGETHER, is_refuted_together, saw_nothing

WIDEST_NAME = 0.3
"""Share of the width that names may take before they get lines of their own."""
MOST_PLACES = 12
MOST_LINES = 12
"""Longer lists end in a count of the rest: the record has them all."""
NARROW = 16
"""Least columns of a mechanism in the version matrix; below, each place gets lines."""


# Results by mechanism, and the worst cell of each in words.


def overview(record: Record, ink: Ink, width: int) -> Iterator[Text]:
    """Summarise each mechanism in a few lines, because tables may have scrolled away."""
    results = list(mechanisms(record))
    if len(record.cells) == len(results) and all(one.tested for one in results):
        return  # the table says all of it
    names = [ink.line(one.label) for one in results]
    lead = max((Text(name).cell_len for name in names), default=0) + GAP
    beside = lead - GAP <= width * WIDEST_NAME
    indent = lead if beside else min(GAP, width // 8)
    for name, one in zip(names, results, strict=True):
        if not beside:
            yield from ink.folded(name, "bold", width)
        start = name if beside else ""
        tallies = [ink.text(text, STYLE[state]) for state, text in one.tallies]
        texts = [ink.joined(tallies, width - indent)]
        which = "worst: " if one.several else ""
        texts.append(ink.text(f"{which}{one.worst}", "" if one.tested else STYLE["failed"]))
        if not one.decided:
            texts.append(ink.text("nothing was decided", STYLE["inconclusive"]))
        for line in (line for text in texts for line in ink.wrapped(text, width - indent)):
            yield Text.assemble((padded(start, indent), "bold"), line)
            start = ""


# Unmet expectations, failed, inconclusive and skipped cells, in groups.


Place = tuple[str, ...]
"""Swept keys, each with its value."""
Names = tuple[str, str, str]
"""Labels of a mechanism, an attack and an estimator."""
Issues = dict[str, dict[Names, list[Place]]]
"""The places of each issue, by its text and by names."""


def issues(record: Record, found: list[Group], ink: Ink) -> Iterator[Text]:
    """List what needs attention, the gravest first."""
    kinds: list[tuple[Callable[[CellRecord], str | None], str, str | None]] = [
        (_unmet, UNEXPECTED, "failed"),
        (_failed, SYMBOL["failed"], "failed"),
        (_inconclusive, SYMBOL["inconclusive"], "inconclusive"),
        (_stepped, SYMBOL["violated"], "violated"),
        (_blind, "–", None),
    ]
    for issue, sign, style in kinds:
        collected: Issues = {}
        for group in found:
            for spot in group.spots:
                for cell in spot.cells:
                    if (text := issue(cell)) is not None:
                        repeat = [f"repeat {cell.repeat}"] if len(spot.cells) > 1 else []
                        place = (*settings(spot.values), *repeat)
                        collected.setdefault(text, {}).setdefault(group.names, []).append(place)
        yield from _lines(collected, sign, STYLE[style], ink)
    yield from _skipped(record, ink)


def _unmet(cell: CellRecord) -> str | None:
    if not is_unexpected(cell):
        return None
    return f"expected {WORDS[cell.expected]}, found: {WORDS[cell.verdict]}"


def _failed(cell: CellRecord) -> str | None:
    return None if cell.status == "ok" else f"failed: {cell.reason or NO_REASON}"


def _inconclusive(cell: CellRecord) -> str | None:
    if cell.verdict != "inconclusive":
        return None
    return f"inconclusive: {cell.reason or NO_REASON}"


def _blind(cell: CellRecord) -> str | None:
    return SAW_NOTHING if saw_nothing(cell) else None


def _stepped(cell: CellRecord) -> str | None:
    """Explain a violation that the cell's own bound does not show."""
    claim = cell.claim
    bound = cell.estimate.epsilon_lower if cell.estimate else None
    if cell.verdict != "violated" or not claim or bound is None or bound > claim.epsilon:
        return None
    if is_refuted_together(cell):
        return f"{TOGETHER}; best single pair ≥ {words.lower(bound)}"
    which = f"at δ = {words.setting(claim.delta)}" if claim.tradeoff else "alone"
    # The rest of the reason are numbers, which differ from cell to cell.
    why = (cell.reason or NO_REASON).partition(";")[0]
    if why.startswith("loss certified above"):
        why = "at another δ more loss is certified than claimed"
    return f"violated, although its bound {which} is not above the claim: {why}"


def _skipped(record: Record, ink: Ink) -> Iterator[Text]:
    """List combinations that were left out, by reason; those with an expectation come first."""
    unmet: Issues = {}
    others: Issues = {}
    for skip in record.skipped:
        names = (skip.mechanism, skip.attack, skip.estimator)
        if skip.expected is None:
            reason, found = f"skipped: {skip.reason or NO_REASON}", others
        else:
            expected = WORDS[skip.expected]
            reason, found = f"expected {expected}, but skipped: {skip.reason}", unmet
        found.setdefault(reason, {}).setdefault(names, []).append(tuple(settings(skip.swept)))
    yield from _lines(unmet, UNEXPECTED, STYLE["failed"], ink)
    yield from _lines(others, "–", "", ink)


def _lines(found: Issues, sign: str, style: str, ink: Ink) -> Iterator[Text]:
    """Write a line for each issue, one for all names that it concerns at equal places."""
    lines: list[tuple[str, str, int]] = []
    for text, members in found.items():
        at: dict[str, list[Names]] = {}
        for names, places in members.items():
            at.setdefault(_listed([place for place in places if place]), []).append(names)
        for where, several in at.items():
            count = sum(len(members[names]) for names in several)
            cells = f" ({count} cells)" if count > 1 else ""
            lines.append((f"{_together(several)}: {text}{cells}", where, count))
    for text, where, _ in lines[:MOST_LINES]:
        line = ink.text("")
        line.append(ink.plain(f"{sign} {text}"), style)
        if where:
            line.append(ink.plain(f"\n    at {where}"))
        yield line
    if (rest := sum(count for _, _, count in lines[MOST_LINES:])) > 0:
        yield ink.text(f"{sign} … and {rest} more such cells, see the record", style)


def _listed(places: list[Place]) -> str:
    """List places; by key, if every value of one goes with every value of the others."""
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


# The verdict is the first and the last that a report says.


def headline(record: Record, ink: Ink) -> Iterator[Text]:
    """Write the verdict without its confidence, and the worst cell."""
    yield _verdict(record, ".", ink)
    if text := worst_of(record):
        yield ink.text(f"Worst: {text}")


def _verdict(record: Record, rest: str, ink: Ink) -> Text:
    found = verdict(record)
    sentence = ink.text("")
    sentence.append(ink.plain(found.finding), STYLE["violated"] if found.grave else "bold")
    return sentence.append(ink.plain(found.others + rest), "bold")


def summary_lines(record: Record, ink: Ink) -> Iterator[Text]:
    """Write the limits of the verdict, then the expectations, then the verdict."""
    yield from map(ink.text, caveats(record))
    if expected := expectations(record):
        yield ink.text(expected.sentence, "" if expected.met else STYLE["failed"])
        if expected.surprises:
            yield ink.text(expected.surprises)
    yield _verdict(record, verdict(record).rest, ink)


def matrix(record: Record, ink: Ink, width: int) -> Iterator[Text | Table]:
    """Draw the version matrix: a row for each environment, a column for each mechanism."""
    found = versions(record)
    if found is None:
        return
    tables = blocks(found)
    if any(width // (1 + len(table.mechanisms)) < NARROW for table in tables):
        yield from _matrix_lines(found, ink, width)
        return
    for number, part in enumerate(tables):
        yield from [ink.text("")] * (number > 0)
        table = ink.table()
        for head in ("environment", *part.mechanisms):
            table.add_column(ink.text(head), overflow="fold", vertical="top")
        for name, places in part.rows:
            cells = [
                ink.text("–") if place is None else ink.text(place.text, STYLE[place.verdict])
                for place in places
            ]
            table.add_row(ink.text(name), *cells)
        yield table


def _matrix_lines(found: Versions, ink: Ink, width: int) -> Iterator[Text]:
    for name, places in found.rows:
        yield from ink.folded(name, "bold", width)
        for mechanism, place in zip(found.mechanisms, places, strict=True):
            if place is not None:
                text = ink.text(f"  {mechanism}: {place.text}", STYLE[place.verdict])
                yield from ink.wrapped(text, width)
