"""What needs attention: unmet expectations, failed, inconclusive and skipped cells, in groups."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpframe.report import words
from dpframe.report.group import is_unexpected, short
from dpframe.report.terminal.ink import STYLE, SYMBOL, UNEXPECTED, WORDS, Ink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.text import Text

    from dpframe.record.model import CellRecord, Record
    from dpframe.report.group import Group, Spot

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
                    who.setdefault(group.names, []).append(_place(spot, cell))
    return collected


def _place(spot: Spot, cell: CellRecord) -> Place:
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
