"""The table of one swept key or none: a row each, with an interval bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe.report import terminal_numbers as numbers
from dpframe.report.terminal_bar import interval_bar
from dpframe.report.terminal_cell import certified, empirical, limit, tally
from dpframe.report.terminal_grid import short
from dpframe.report.terminal_ink import STYLE, SYMBOL, UNEXPECTED, WORDS, Ink

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.table import Table
    from rich.text import Text

    from dpframe.report.terminal_group import Group, Spot

WIDEST_BAR = 41
NARROWEST_BAR = 11
GAP = 2
WIDEST_NAME = 0.3
"""Share of the width that names may take before they are folded."""


def list_table(found: list[Group], ink: Ink, width: int) -> Table:
    """Lays out one group with one swept key, or several that sweep nothing.

    Args:
        found: the groups; rows are called by the swept value, or else by the groups' names.
        ink: of the console.
        width: columns of the console.
    """
    spots = [spot for group in found for spot in _ordered(group)]
    head, rows = _names(found, int(width * WIDEST_NAME))
    columns = {
        head: rows,
        "claimed": numbers.align([ink.plain(numbers.point(spot.claim)) for spot in spots]),
        "empirical": _empirical(spots, ink),
        "certified": _bounds(spots, ink),
    }
    if all(spot.claim is None for spot in spots):
        del columns["claimed"]
    verdicts = [_verdict(spot, ink) for spot in spots]
    used = sum(_width([ink.plain(text) for text in (t, *c)]) + GAP for t, c in columns.items())
    room = width - used - max((len(v) for v in verdicts), default=0) - GAP
    bar = min(room, WIDEST_BAR) - (min(room, WIDEST_BAR) + 1) % 2
    has_bar = bar >= NARROWEST_BAR and any(spot.claim and spot.done for spot in spots)
    table = ink.table(GAP)
    table.add_column(ink.text(head), overflow="fold")
    for title in list(columns)[1:]:
        side: JustifyMethod = "left" if title == "certified" else "right"
        table.add_column(ink.text(title), justify=side, no_wrap=True)
    if has_bar:
        table.add_column(ink.text("0 " + "claim".center(bar - 4) + "2×"), no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for spot, verdict, *texts in zip(spots, verdicts, *columns.values(), strict=True):
        style = STYLE[spot.verdict]
        cells = [ink.text(text, "" if i < 1 else style) for i, text in enumerate(texts)]
        table.add_row(*cells, *([interval_bar(spot, bar, ink)] if has_bar else []), verdict)
    return table


def _ordered(group: Group) -> list[Spot]:
    if not group.keys:
        return list(group.spots)
    return [s for value in group.axis(group.keys[0]) for s in _at(group, value)]


def _at(group: Group, value: object) -> tuple[Spot, ...]:
    return group.where({group.keys[0]: value}).spots


def _names(found: list[Group], widest: int) -> tuple[str, list[str]]:
    if found and found[0].keys:
        key = found[0].keys[0]
        spots = [spot for group in found for spot in _ordered(group)]
        return short(key), [numbers.setting(spot.values[key]) for spot in spots]
    # Only the parts that differ are worth their width; the mechanism always is.
    parts = [
        part for part in range(3) if part == 0 or len({group.names[part] for group in found}) > 1
    ]
    rows = [" · ".join(group.names[part] for part in parts) for group in found for _ in group.spots]
    if max(map(len, rows), default=0) > widest:
        rows = [row.replace(" · ", "\n") for row in rows]
    return "mechanism", rows


def _empirical(spots: list[Spot], ink: Ink) -> list[str]:
    pairs = [empirical(spot) if spot.done else ("–", None) for spot in spots]
    means = numbers.align([ink.plain(mean) for mean, _ in pairs])
    return [
        f"{mean} ± {deviation}" if deviation else mean
        for mean, (_, deviation) in zip(means, pairs, strict=True)
    ]


def _bounds(spots: list[Spot], ink: Ink) -> list[str]:
    """The certified bound, and unless violated the limit of what the attack can show."""
    lowers = numbers.align(
        [ink.plain(certified(s)) if s.estimates("epsilon_lower") else "" for s in spots]
    )
    uppers = numbers.align([ink.plain(limit(s)) if _limited(s) else "" for s in spots])
    return [
        (f"≥ {low}" if low.strip() else f"  {low}") + (f"  ≤ {up}" if up.strip() else f"    {up}")
        for low, up in zip(lowers, uppers, strict=True)
    ]


def _limited(spot: Spot) -> bool:
    return spot.verdict in ("consistent", "inconclusive") and bool(spot.estimates("epsilon_upper"))


def _verdict(spot: Spot, ink: Ink) -> Text:
    words = WORDS[spot.verdict]
    if text := tally(spot):
        words = f"violated {text}"
    mark = f"{UNEXPECTED} " if spot.unexpected else ""
    style = STYLE["failed"] if spot.unexpected else STYLE[spot.verdict]
    return ink.text(f"{mark}{SYMBOL[spot.verdict]} {words}", style)


def _width(texts: list[str]) -> int:
    return max((len(line) for text in texts for line in text.split("\n")), default=0)
