"""Results by mechanism, what needs attention, and the closing lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.text import Text

from dpframe.report import words
from dpframe.report.group import Group, is_unexpected, measure, short, telling, weight, worst
from dpframe.report.sentences import caveats, expectations, verdict
from dpframe.report.terminal.ink import GAP, STYLE, SYMBOL, UNEXPECTED, WORDS, Ink, padded
from dpframe.report.terminal.legend import tallies
from dpframe.report.versions import blocks, versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from dpframe.report.group import Spot
    from dpframe.report.terminal.ink import Settings
    from dpframe.report.versions import Versions
    from dpframe.results.model import CellRecord, Record


# What became of each mechanism, and its worst cell in words.


WIDEST_NAME = 0.3
"""Share of the width that names may take before they get lines of their own."""


def overview(record: Record, found: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    """A few lines for each mechanism, because tables may have scrolled away.

    Those that were only skipped are named too: nothing is known of them.
    """
    members: dict[str, list[Group]] = {}
    for group in found:
        members.setdefault(group.names[0], []).append(group)
    left_out = [skip.mechanism for skip in record.skipped if skip.mechanism not in members]
    if len(record.cells) <= len(members) and not left_out:
        return  # the table says all of it
    names = {name: ink.plain(name).replace("\n", " ") for name in [*members, *left_out]}
    lead = max((Text(name).cell_len for name in names.values()), default=0) + GAP
    beside = lead - GAP <= width * WIDEST_NAME
    indent = lead if beside else min(GAP, width // 8)
    for label, name in names.items():
        if not beside:
            yield from ink.folded(name, "bold", width)
        start = name if beside else ""
        for text in _told(members.get(label, []), ink, width - indent):
            for line in ink.wrapped(text, width - indent):
                yield Text.assemble((padded(start, indent), "bold"), line)
                start = ""


def _told(groups: list[Group], ink: Ink, width: int) -> Iterator[Text]:
    if not groups:
        yield ink.text("– skipped: nothing was tested", STYLE["failed"])
        return
    spots = [spot for group in groups for spot in group.spots]
    yield ink.joined(tallies(spots, ink), width)
    ran = [cell for spot in spots for cell in spot.done]
    cell = worst(ran)
    if cell is None:
        yield ink.text("nothing was tested", STYLE["failed"])
        return
    verdicts = {cell.verdict for cell in ran}
    found = weight(cell)
    if len(ran) > 1 and found is not None and found.lower <= 0:
        yield ink.text("nothing certified in any cell")
        return
    which = "worst: " if len(ran) > 1 else ""
    of = ", inconclusive" if cell.verdict == "inconclusive" and len(verdicts) > 1 else ""
    yield ink.text(f"{which}{measure(cell)}{of}{_place(cell, groups)}")
    if verdicts == {"inconclusive"}:
        yield ink.text("nothing was decided", STYLE["inconclusive"])


def _place(cell: CellRecord, groups: list[Group]) -> str:
    """Which attack and estimator, where they differ, and the swept values."""
    parts = [part for part in telling(groups) if part]
    if cell.is_searched:
        parts = [1, *(part for part in parts if part != 1)]
    labels = (cell.mechanism.label, cell.attack.label, cell.estimator.label)
    by = " · ".join(labels[part] for part in parts)
    keys = dict.fromkeys(key for group in groups for key in group.keys if key in cell.swept)
    place = [f"{short(key, keys)} {words.setting(cell.swept[key])}" for key in keys]
    if any(len(spot.cells) > 1 for group in groups for spot in group.spots):
        place.append(f"repeat {cell.repeat}")
    return (f", by {by}" if by else "") + (f", at {' '.join(place)}" if place else "")


# What needs attention: unmet expectations, failed, inconclusive and skipped cells, in groups.


MOST_PLACES = 12
MOST_LINES = 12
"""Longer lists end in a count of the rest: the record has them all."""
NO_REASON = "no reason given"

Place = tuple[str, ...]
"""Swept keys, each with its value."""
Names = tuple[str, str, str]
"""Labels of a mechanism, an attack and an estimator."""
Found = dict[str, dict[Names, list[Place]]]
"""What happened, to whom, and the places where it did."""


def unmet(found: list[Group], ink: Ink) -> Iterator[Text]:
    """Cells that ran and are not what the spec expects."""

    def what(cell: CellRecord) -> str | None:
        if not is_unexpected(cell):
            return None
        return f"expected {WORDS[cell.expected]}, found: {WORDS[cell.verdict]}"

    yield from _lines(_collect(found, what), UNEXPECTED, STYLE["failed"], ink)


def failed(found: list[Group], ink: Ink) -> Iterator[Text]:
    """Cells that could not be run."""

    def what(cell: CellRecord) -> str | None:
        return None if cell.status == "ok" else f"failed: {cell.reason or NO_REASON}"

    yield from _lines(_collect(found, what), SYMBOL["failed"], STYLE["failed"], ink)


def inconclusive(found: list[Group], ink: Ink) -> Iterator[Text]:
    """Cells whose counts could not have decided either way."""

    def what(cell: CellRecord) -> str | None:
        if cell.verdict != "inconclusive":
            return None
        return f"inconclusive: {cell.reason or NO_REASON}"

    yield from _lines(_collect(found, what), SYMBOL["inconclusive"], STYLE["inconclusive"], ink)


def stepped(found: list[Group], ink: Ink) -> Iterator[Text]:
    """Violated cells whose own bound does not say so: another δ does, or the joint test."""

    def what(cell: CellRecord) -> str | None:
        claim = cell.claim
        bound = cell.estimate.epsilon_lower if cell.estimate else None
        if cell.verdict != "violated" or not claim or bound is None or bound > claim.epsilon:
            return None
        which = f"at δ = {words.setting(claim.delta)}" if claim.tradeoff else "alone"
        # What follows in the reason are numbers, which differ from cell to cell.
        why = (cell.reason or NO_REASON).partition(";")[0]
        if why.startswith("loss certified above"):
            why = "at another δ more loss is certified than claimed"
        return f"violated, although its bound {which} is not above the claim: {why}"

    yield from _lines(_collect(found, what), SYMBOL["violated"], STYLE["violated"], ink)


def skipped(record: Record, ink: Ink) -> Iterator[Text]:
    """Combinations that were left out, by reason; first those of which a verdict is expected."""
    unmet: Found = {}
    others: Found = {}
    for skip in record.skipped:
        who = (skip.mechanism, skip.attack, skip.estimator)
        if skip.expected is None:
            reason, found = f"skipped: {skip.reason or NO_REASON}", others
        else:
            expected = WORDS[skip.expected]
            reason, found = f"expected {expected}, but skipped: {skip.reason}", unmet
        found.setdefault(reason, {}).setdefault(who, []).append(_where(skip.swept))
    yield from _lines(unmet, UNEXPECTED, STYLE["failed"], ink)
    yield from _lines(others, "–", "", ink)


def _collect(found: list[Group], what: Callable[[CellRecord], str | None]) -> Found:
    collected: Found = {}
    for group in found:
        for spot in group.spots:
            for cell in spot.cells:
                if (text := what(cell)) is not None:
                    who = collected.setdefault(text, {})
                    who.setdefault(group.names, []).append(_issues_place(spot, cell))
    return collected


def _issues_place(spot: Spot, cell: CellRecord) -> Place:
    repeat = (f"repeat {cell.repeat}",) if len(spot.cells) > 1 else ()
    return _where(spot.values) + repeat


def _where(values: dict[str, Any]) -> Place:
    return tuple(f"{short(key)} {words.setting(value)}" for key, value in values.items())


def _named(places: list[Place]) -> str:
    """Places in few words; by key, if every value of one goes with every value of the others."""
    places = list(dict.fromkeys(places))
    axes = [list(dict.fromkeys(parts)) for parts in zip(*places, strict=False)]
    if len(places) > 1 == len({len(place) for place in places}) and math.prod(
        map(len, axes)
    ) == len(places):
        return "; ".join(map(_values, axes))
    more = f" … and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
    return "; ".join(" ".join(place) for place in places[:MOST_PLACES]) + more


def _values(parts: list[str]) -> str:
    """Dim 1, 2, 8."""
    first, *others = parts[:MOST_PLACES]
    more = f" … and {len(parts) - MOST_PLACES} more" if len(parts) > MOST_PLACES else ""
    return ", ".join([first, *(part.partition(" ")[2] for part in others)]) + more


def _lines(found: Found, sign: str, style: str, ink: Ink) -> Iterator[Text]:
    """A line for each thing that happened, for all at once to whom it happened at equal places."""
    lines: list[tuple[str, str, int]] = []
    for text, who in found.items():
        at: dict[str, list[Names]] = {}
        for names, places in who.items():
            at.setdefault(_named([place for place in places if place]), []).append(names)
        for named, several in at.items():
            count = sum(len(who[names]) for names in several)
            cells = f" ({count} cells)" if count > 1 else ""
            lines.append((f"{_everyone(several)}: {text}{cells}", named, count))
    for text, named, _ in lines[:MOST_LINES]:
        line = ink.text("")
        line.append(ink.plain(f"{sign} {text}"), style)
        if named:
            line.append(ink.plain(f"\n    at {named}"))
        yield line
    if (rest := sum(count for _, _, count in lines[MOST_LINES:])) > 0:
        yield ink.text(f"{sign} … and {rest} more such cells, see the record", style)


def _everyone(several: list[Names]) -> str:
    """Names, with what is the same of all said once."""
    if len({names[1:] for names in several}) > 1:
        return "; ".join(" · ".join(names) for names in several)
    return " · ".join((", ".join(names[0] for names in several), *several[0][1:]))


# The last lines of a report: what was found, how sure that is, and what it cost.


def summary_lines(record: Record, _settings: Settings, ink: Ink) -> Iterator[Text]:
    """The sentence, then what it does not say, then the expectations."""
    found = verdict(record)
    sentence = ink.text("")
    sentence.append(ink.plain(found.finding), STYLE["violated"] if found.grave else "bold")
    sentence.append(ink.plain(found.rest), "bold")
    yield sentence
    yield from map(ink.text, caveats(record))
    if expected := expectations(record):
        yield ink.text(expected.sentence, "" if expected.met else STYLE["failed"])
        if expected.surprises:
            yield ink.text(expected.surprises)


# The version matrix in the terminal.


NARROW = 16
"""Columns that a mechanism needs beside others; where there are fewer, each has lines."""


def matrix(record: Record, ink: Ink, width: int) -> Iterator[Text | Table]:
    """A row for each environment, a column for each mechanism."""
    found = versions(record)
    if found is None:
        return
    tables = blocks(found)
    if any(width // (1 + len(table.mechanisms)) < NARROW for table in tables):
        yield from _versions_lines(found, ink, width)
        return
    for number, table in enumerate(tables):
        yield from [ink.text("")] * (number > 0)
        yield _table(table, ink)


def _table(found: Versions, ink: Ink) -> Table:
    table = ink.table()
    for head in ("environment", *found.mechanisms):
        table.add_column(ink.text(head), overflow="fold", vertical="top")
    for name, places in found.rows:
        told = [
            ink.text("–") if p is None else ink.text(p.text, STYLE.get(p.verdict, ""))
            for p in places
        ]
        table.add_row(ink.text(name), *told)
    return table


def _versions_lines(found: Versions, ink: Ink, width: int) -> Iterator[Text]:
    """The same, one below the other."""
    for name, places in found.rows:
        yield from ink.folded(name, "bold", width)
        for mechanism, place in zip(found.mechanisms, places, strict=True):
            if place is not None:
                text = ink.text(f"  {mechanism}: {place.text}", STYLE.get(place.verdict, ""))
                yield from ink.wrapped(text, width)
