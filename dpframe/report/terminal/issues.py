"""What needs attention: unmet expectations, failed, inconclusive and skipped cells, in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.report.terminal import numbers
from dpframe.report.terminal.grid import short
from dpframe.report.terminal.group import is_unexpected, names
from dpframe.report.terminal.ink import STYLE, SYMBOL, UNEXPECTED, WORDS, Ink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.text import Text

    from dpframe.report.terminal.group import Cell, Group, Spot

MOST_PLACES = 12
MOST_LINES = 12
"""Longer lists end in a count of the rest: the record has them all."""

Found = dict[str, list[str]]
"""What happened, and the places where it did."""


def unmet(found: list[Group], ink: Ink) -> Iterator[Text]:
    """Cells that ran and are not what the spec expects."""

    def what(cell: Cell) -> str | None:
        if not is_unexpected(cell):
            return None
        got = WORDS.get(cell.get("verdict"), cell.get("verdict"))
        return f"expected {WORDS.get(cell['expected'], cell['expected'])}, found: {got}"

    yield from _lines(_collect(found, what), UNEXPECTED, STYLE["failed"], ink)


def failed(found: list[Group], ink: Ink) -> Iterator[Text]:
    """Cells that could not be run."""

    def what(cell: Cell) -> str | None:
        if cell.get("status") == "ok":
            return None
        return f"failed: {cell.get('reason') or 'no reason given'}"

    yield from _lines(_collect(found, what), SYMBOL["failed"], STYLE["failed"], ink)


def inconclusive(found: list[Group], ink: Ink) -> Iterator[Text]:
    """Cells whose counts could not have decided either way."""

    def what(cell: Cell) -> str | None:
        if cell.get("verdict") != "inconclusive":
            return None
        return f"inconclusive: {cell.get('reason') or 'no reason given'}"

    yield from _lines(_collect(found, what), SYMBOL["inconclusive"], STYLE["inconclusive"], ink)


def stepped(found: list[Group], ink: Ink) -> Iterator[Text]:
    """Violated cells whose own bound does not say so: another δ does, or the joint test."""

    def what(cell: Cell) -> str | None:
        claim = numbers.number((cell.get("claim") or {}).get("epsilon"))
        bound = numbers.number((cell.get("estimate") or {}).get("epsilon_lower"))
        if cell.get("verdict") != "violated" or claim is None or bound is None or bound > claim:
            return None
        delta = numbers.number(cell["claim"].get("delta"))
        curve = cell["claim"].get("tradeoff") and delta is not None
        which = f"at δ = {numbers.setting(delta)}" if curve else "alone"
        return f"violated, although its bound {which} is not above the claim: {cell.get('reason')}"

    yield from _lines(_collect(found, what), SYMBOL["violated"], STYLE["violated"], ink)


def skipped(record: dict[str, Any], ink: Ink) -> Iterator[Text]:
    """Combinations that were left out, by reason."""
    reasons: Found = {}
    for skip in record.get("skipped") or ():
        reason = f"{' · '.join(names(skip))}: skipped: {skip.get('reason') or 'no reason given'}"
        reasons.setdefault(reason, []).append(_where(dict(skip.get("swept") or {})))
    yield from _lines(reasons, "–", "", ink)


def _collect(found: list[Group], what: Callable[[Cell], str | None]) -> Found:
    collected: Found = {}
    for group in found:
        for spot in group.spots:
            for cell in spot.cells:
                if (text := what(cell)) is not None:
                    line = f"{' · '.join(group.names)}: {text}"
                    collected.setdefault(line, []).append(_place(spot, cell))
    return collected


def _place(spot: Spot, cell: Cell) -> str:
    place = _where(spot.values)
    repeat = f"repeat {cell.get('repeat')}" if len(spot.cells) > 1 else ""
    return " ".join(part for part in (place, repeat) if part)


def _where(values: dict[str, Any]) -> str:
    return " ".join(f"{short(key)} {numbers.setting(value)}" for key, value in values.items())


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
