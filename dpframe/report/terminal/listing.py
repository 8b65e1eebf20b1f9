"""The table of one swept key or none: a row each, with an interval bar."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from dpframe.report import words
from dpframe.report.terminal.bar import interval_bar
from dpframe.report.terminal.cell import LIMIT, certified, empirical, interval, limit, tally
from dpframe.report.terminal.grid import short
from dpframe.report.terminal.group import same
from dpframe.report.terminal.ink import STYLE, SYMBOL, UNEXPECTED, WORDS, Ink

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.table import Table
    from rich.text import Text

    from dpframe.report.terminal.group import Group, Spot

NAME = "mechanism"
"""Title of the first column where nothing is swept."""
BOUNDS = ("certified", "certified (interval)", "(interval)")
"""Titles of the column of bounds: without intervals, with both, with intervals only."""
WIDEST_BAR = 41
NARROWEST_BAR = 11
GAP = 2
WIDEST_NAME = 0.3
"""Share of the width that names may take before they are folded."""


def list_tables(found: list[Group], ink: Ink, width: int) -> list[Table]:
    """Lays out groups that sweep one key, each in its table, or all that sweep none in one.

    All tables have the same columns, so that bars stand under bars.

    Args:
        found: the groups; rows are called by the swept value, or else by the groups' names.
        ink: of the console.
        width: columns of the console.
    """
    by_group = [_ordered(group) for group in found]
    spots = [spot for ordered in by_group for spot in ordered]
    heads, rows = _names(found, by_group, int(width * WIDEST_NAME))
    columns = {
        NAME: rows,
        "claimed": words.align([ink.plain(words.point(spot.claim)) for spot in spots]),
        "empirical": _empirical(spots, ink),
        _bounds_title(spots): _bounds(spots, ink),
    }
    if all(spot.claim is None for spot in spots):
        del columns["claimed"]
    if not any(text.strip() for text in columns[_bounds_title(spots)]):
        del columns[_bounds_title(spots)]
    titles = {NAME: heads, **{title: [title] for title in columns if title != NAME}}
    widths = [_width([ink.plain(text) for text in (*titles[t], *c)]) for t, c in columns.items()]
    verdicts = [_verdict(spot, ink) for spot in spots]
    room = width - sum(w + GAP for w in widths) - max(map(len, verdicts), default=0) - GAP
    bar = min(room, WIDEST_BAR) - (min(room, WIDEST_BAR) + 1) % 2
    has_bar = bar >= NARROWEST_BAR and any(spot.claim and spot.done for spot in spots)
    lines = iter(zip(spots, verdicts, *columns.values(), strict=True))
    sizes = [len(ordered) for ordered in by_group] if found[0].keys else [len(spots)]
    tables = []
    for head, size in zip(heads, sizes, strict=True):
        sizes_of = dict(zip(columns, widths, strict=True))
        table = _empty(head, sizes_of, bar if has_bar else 0, ink)
        for spot, verdict, name, *texts in itertools.islice(lines, size):
            cells = [ink.text(text, STYLE[spot.verdict]) for text in texts]
            drawn = [interval_bar(spot, bar, ink)] if has_bar else []
            table.add_row(ink.text(name, "bold"), *cells, *drawn, verdict)
        tables.append(table)
    return tables


def _empty(head: str, widths: dict[str, int], bar: int, ink: Ink) -> Table:
    table = ink.table(GAP)
    for title, width in widths.items():
        if title == NAME:  # names alone may be folded
            table.add_column(ink.text(head), overflow="fold", min_width=min(len(head), width))
            continue
        side: JustifyMethod = "left" if title in BOUNDS else "right"
        table.add_column(ink.text(title), justify=side, no_wrap=True, min_width=width)
    if bar:
        table.add_column(ink.text("0 " + "claim".center(bar - 4) + "2×"), no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    return table


def _ordered(group: Group) -> list[Spot]:
    if not group.keys:
        return list(group.spots)
    key = group.keys[0]
    at: dict[str, list[Spot]] = {}
    for spot in group.spots:
        at.setdefault(same(spot.values[key]), []).append(spot)
    return [spot for value in group.axis(key) for spot in at[same(value)]]


def _names(
    found: list[Group], by_group: list[list[Spot]], widest: int
) -> tuple[list[str], list[str]]:
    """The title of each table's first column, and what stands in it, over all tables."""
    if found[0].keys:
        pairs = list(zip(found, by_group, strict=True))
        rows = [words.setting(spot.values[g.keys[0]]) for g, spots in pairs for spot in spots]
        return [short(group.keys[0], group.swept) for group in found], rows
    # Only the parts that differ are worth their width; the mechanism always is.
    parts = [
        part for part in range(3) if part == 0 or len({group.names[part] for group in found}) > 1
    ]
    rows = [" · ".join(group.names[part] for part in parts) for group in found for _ in group.spots]
    if max(map(len, rows), default=0) > widest:
        rows = [row.replace(" · ", "\n") for row in rows]
    return [NAME], rows


def _empirical(spots: list[Spot], ink: Ink) -> list[str]:
    pairs = [empirical(spot) if spot.done else ("–", None) for spot in spots]
    means = words.align([ink.plain(mean) for mean, _ in pairs])
    return [
        f"{mean} ± {deviation}" if deviation else mean
        for mean, (_, deviation) in zip(means, pairs, strict=True)
    ]


def _bounds(spots: list[Spot], ink: Ink) -> list[str]:
    """The certified bound, and unless violated the limit of what the attack can show.

    Where nothing is certified, the approximate interval, in parentheses.
    """
    signs, texts = zip(*map(certified, spots), strict=True)
    given = [bool(spot.estimates("epsilon_lower")) for spot in spots]
    lowers = words.align(
        [ink.plain(text) if here else "" for text, here in zip(texts, given, strict=True)]
    )
    uppers = words.align([ink.plain(limit(s)) if _limited(s) else "" for s in spots])
    bounds = [
        (f"{sign} {low}" if low.strip() else f"  {low}")
        + (f"  {LIMIT} {up}" if up.strip() else f"    {up}")
        for sign, low, up in zip(signs, lowers, uppers, strict=True)
    ]
    return [
        text if text.strip() else ink.plain(interval(spot))
        for text, spot in zip(bounds, spots, strict=True)
    ]


def _bounds_title(spots: list[Spot]) -> str:
    if not any(interval(spot) for spot in spots):
        return BOUNDS[0]
    return BOUNDS[1] if any(spot.estimates("epsilon_lower") for spot in spots) else BOUNDS[2]


def _limited(spot: Spot) -> bool:
    return spot.verdict in ("consistent", "inconclusive") and bool(limit(spot))


def _verdict(spot: Spot, ink: Ink) -> Text:
    words = WORDS[spot.verdict]
    if text := tally(spot):
        words = f"violated {text}"
    mark = f"{UNEXPECTED} " if spot.unexpected else ""
    style = STYLE["failed"] if spot.unexpected else STYLE[spot.verdict]
    return ink.text(f"{mark}{SYMBOL[spot.verdict]} {words}", style)


def _width(texts: list[str]) -> int:
    return max((len(line) for text in texts for line in text.split("\n")), default=0)
