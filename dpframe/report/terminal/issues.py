"""What needs attention: unmet expectations, failed, inconclusive and skipped cells, in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.report import words
from dpframe.report.terminal.grid import short
from dpframe.report.terminal.group import is_unexpected
from dpframe.report.terminal.ink import STYLE, SYMBOL, UNEXPECTED, WORDS, Ink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.text import Text

    from dpframe.record.model import CellRecord, Record
    from dpframe.report.terminal.group import Group, Spot

MOST_PLACES = 12
MOST_LINES = 12
"""Longer lists end in a count of the rest: the record has them all."""
NO_REASON = "no reason given"

Found = dict[str, list[str]]
"""What happened, and the places where it did."""


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
        return f"violated, although its bound {which} is not above the claim: {cell.reason}"

    yield from _lines(_collect(found, what), SYMBOL["violated"], STYLE["violated"], ink)


def skipped(record: Record, ink: Ink) -> Iterator[Text]:
    """Combinations that were left out, by reason; first those of which a verdict is expected."""
    unmet: Found = {}
    others: Found = {}
    for skip in record.skipped:
        name = " · ".join((skip.mechanism, skip.attack, skip.estimator))
        if skip.expected is None:
            reason, found = f"{name}: skipped: {skip.reason or NO_REASON}", others
        else:
            expected = WORDS[skip.expected]
            reason, found = f"{name}: expected {expected}, but skipped: {skip.reason}", unmet
        found.setdefault(reason, []).append(_where(skip.swept))
    yield from _lines(unmet, UNEXPECTED, STYLE["failed"], ink)
    yield from _lines(others, "–", "", ink)


def _collect(found: list[Group], what: Callable[[CellRecord], str | None]) -> Found:
    collected: Found = {}
    for group in found:
        for spot in group.spots:
            for cell in spot.cells:
                if (text := what(cell)) is not None:
                    line = f"{' · '.join(group.names)}: {text}"
                    collected.setdefault(line, []).append(_place(spot, cell))
    return collected


def _place(spot: Spot, cell: CellRecord) -> str:
    place = _where(spot.values)
    repeat = f"repeat {cell.repeat}" if len(spot.cells) > 1 else ""
    return " ".join(part for part in (place, repeat) if part)


def _where(values: dict[str, Any]) -> str:
    return " ".join(f"{short(key)} {words.setting(value)}" for key, value in values.items())


def _lines(found: Found, sign: str, style: str, ink: Ink) -> Iterator[Text]:
    for text, places in list(found.items())[:MOST_LINES]:
        line = ink.text("")
        count = f" ({len(places)} cells)" if len(places) > 1 else ""
        line.append(ink.plain(f"{sign} {text}{count}"), style)
        named = [place for place in dict.fromkeys(places) if place]
        if named:
            more = f" … and {len(named) - MOST_PLACES} more" if len(named) > MOST_PLACES else ""
            line.append(ink.plain(f"\n    at {'; '.join(named[:MOST_PLACES])}{more}"))
        yield line
    if (rest := sum(map(len, list(found.values())[MOST_LINES:]))) > 0:
        yield ink.text(f"{sign} … and {rest} more such cells, see the record", style)
