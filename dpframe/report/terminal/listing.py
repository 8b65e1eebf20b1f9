"""The table of one swept key or none: a row each, with an interval bar."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

from dpframe.report import words
from dpframe.report.group import found_by, same, short, telling
from dpframe.report.terminal.bar import interval_bar
from dpframe.report.terminal.cell import LIMIT, certified, empirical, interval, limit, tally
from dpframe.report.terminal.ink import STYLE, SYMBOL, UNEXPECTED, WORDS, Ink, padded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import JustifyMethod
    from rich.table import Table
    from rich.text import Text

    from dpframe.report.group import Group, Spot

ATTACK = "attack"
"""Title of the column of attacks, where searches chose them."""
NAME = "mechanism"
"""Title of the first column where nothing is swept."""
BOUNDS = ("certified", "certified (interval)", "(interval)")
"""Titles of the column of bounds: without intervals, with both, with intervals only."""
WIDEST_BAR = 41
NARROWEST_BAR = 11
GAP = 2


class Row(NamedTuple):
    """A line of a table, before it is laid out."""

    name: tuple[str, ...]
    """Parts of its name, the mechanism first; what does not fit stands above the line."""
    spot: Spot
    texts: tuple[str, ...]


def list_tables(found: list[Group], ink: Ink, width: int) -> list[list[Table | Text]]:
    """Lays out groups that sweep one key, each by itself, or all that sweep none together.

    All tables have the same columns, so that bars stand under bars. Names are never cut: those
    that are too long for a column get lines of their own, and where columns themselves are too
    wide every number does.

    Args:
        found: the groups; rows are called by the swept value, or else by the groups' names.
        ink: of the console.
        width: columns of the console.
    """
    by_group = [_ordered(group) for group in found]
    spots = [spot for ordered in by_group for spot in ordered]
    columns = {"claimed": words.align([ink.plain(words.point(spot.claim)) for spot in spots])}
    columns["empirical"] = _empirical(spots, ink)
    columns[_bounds_title(spots)] = _bounds(spots, ink)
    if all(spot.claim is None for spot in spots):
        del columns["claimed"]
    if not any(text.strip() for text in columns[_bounds_title(spots)]):
        del columns[_bounds_title(spots)]
    if any(attacks := [found_by(spot) for spot in spots]):
        columns[ATTACK] = [ink.plain(attack) or "–" for attack in attacks]
    names = _names(found, by_group, ink)
    texts = list(zip(*columns.values(), strict=True))
    rows = list(map(Row, names, spots, texts))
    heads = [short(g.keys[0], g.swept) if g.keys else NAME for g in found]
    sizes = [len(ordered) for ordered in by_group] if found[0].keys else [len(rows)]
    layout = _layout(rows, heads, columns, ink, width)
    left = iter(rows)
    return [
        list(layout.drawn(ink.plain(head), list(itertools.islice(left, size))))
        for head, size in zip(heads, sizes, strict=False)
    ]


class _Layout(NamedTuple):
    """How all tables of a report are cut to the width."""

    ink: Ink
    width: int
    widths: dict[str, int]
    """Of the columns between name and verdict."""
    above: int
    """How many parts of a name stand above its lines."""
    name: int
    """Width of the column with the rest."""
    bar: int
    words: bool = True
    """Whether the verdict is told in words, not by its sign alone."""

    def drawn(self, head: str, rows: list[Row]) -> Iterator[Table | Text]:
        if self.name < 0:
            yield from self._stacked(rows)
            return
        first = True
        for above, lines in itertools.groupby(rows, lambda row: row.name[: self.above]):
            if above:
                yield from self.ink.folded(" · ".join(above), "bold", self.width)
            yield self._table(head if first or not above else "", list(lines))
            first = False

    def _table(self, head: str, rows: list[Row]) -> Table:
        table = self.ink.table(GAP)
        table.show_header = bool(head)
        table.add_column("" if self.above else head, no_wrap=True, min_width=self.name)
        for title, width in self.widths.items():
            side: JustifyMethod = "left" if title in (*BOUNDS, ATTACK) else "right"
            table.add_column(self.ink.text(title), justify=side, no_wrap=True, min_width=width)
        if self.bar:
            axis = "0 " + "claim".center(self.bar - 4) + self.ink.plain("2×")
            table.add_column(axis, no_wrap=True)
        table.add_column("verdict" if self.words else "", no_wrap=True)
        for row in rows:
            style = STYLE[row.spot.verdict]
            cells = [self.ink.text(text, style) for text in row.texts]
            bar = [interval_bar(row.spot, self.bar, self.ink)] if self.bar else []
            name = self.ink.text(" · ".join(row.name[self.above :]), "bold")
            table.add_row(name, *cells, *bar, _verdict(row.spot, self.ink, self.words))
        return table

    def _stacked(self, rows: list[Row]) -> Iterator[Text]:
        """Every number on a line of its own, for the narrowest terminals."""
        widest = len("empirical")
        for row in rows:
            yield from self.ink.folded(" · ".join(row.name), "bold", self.width)
            for title, text in zip(self.widths, row.texts, strict=True):
                if text.strip():
                    what = "interval" if text.startswith("(") else title.partition(" (")[0]
                    line = f"  {padded(what, widest)}  {' '.join(text.split())}"
                    yield from self.ink.folded(line, STYLE[row.spot.verdict], self.width)
            verdict = self.ink.text("  ").append_text(_verdict(row.spot, self.ink, True))
            yield from self.ink.wrapped(verdict, self.width)


def _layout(
    rows: list[Row], heads: list[str], columns: dict[str, list[str]], ink: Ink, width: int
) -> _Layout:
    widths = {
        title: max(map(cell_len, (ink.plain(title), *texts))) for title, texts in columns.items()
    }
    room = width - sum(size + GAP for size in widths.values())
    parts = max((len(row.name) for row in rows), default=1)
    title = max(cell_len(ink.plain(head)) for head in heads)
    # A sign is better than a name on another line, which is better than no table.
    for above, worded in itertools.product(range(parts + 1), (True, False)):
        verdicts = [_verdict(row.spot, ink, worded).cell_len for row in rows]
        verdict = max([*verdicts, len("verdict") * worded])
        rest = [cell_len(ink.plain(" · ".join(row.name[above:]))) for row in rows]
        name = max([*rest, 0 if above else title])
        if name + GAP * (name > 0) + verdict <= room:
            break
    else:
        return _Layout(ink, width, widths, 0, -1, 0)
    left = min(room - name - verdict - 2 * GAP, WIDEST_BAR)
    bar = left - (left + 1) % 2
    wanted = bar >= NARROWEST_BAR and any(row.spot.claim and row.spot.done for row in rows)
    return _Layout(ink, width, widths, above, name, bar if wanted else 0, worded)


def _ordered(group: Group) -> list[Spot]:
    if not group.keys:
        return list(group.spots)
    at: dict[tuple[str, ...], list[Spot]] = {}
    for spot in group.spots:
        at.setdefault(tuple(same(spot.values[key]) for key in group.keys), []).append(spot)
    places = itertools.product(*(group.axis(key) for key in group.keys))
    return [spot for place in places for spot in at.get(tuple(map(same, place)), [])]


def _names(found: list[Group], by_group: list[list[Spot]], ink: Ink) -> list[tuple[str, ...]]:
    """What rows are called, over all tables."""
    naming = telling(found)
    return [
        (" ".join(_place(group, spot)),) if group.keys else tuple(group.names[n] for n in naming)
        for group, spots in zip(found, by_group, strict=True)
        for spot in spots
    ]


def _place(group: Group, spot: Spot) -> list[str]:
    """The swept value; of several keys each with its name."""
    if len(group.keys) == 1:
        return [words.setting(spot.values[group.keys[0]])]
    return [f"{short(key, group.swept)} {words.setting(spot.values[key])}" for key in group.keys]


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


def _verdict(spot: Spot, ink: Ink, worded: bool) -> Text:
    """The sign of the verdict, what it means, and of repeats how many are violated."""
    text = tally(spot)
    told = [f"violated {text}" if text else WORDS[spot.verdict]] if worded else [text or ""]
    mark = [UNEXPECTED] if spot.unexpected else []
    style = STYLE["failed"] if spot.unexpected else STYLE[spot.verdict]
    return ink.text(" ".join(filter(None, [*mark, SYMBOL[spot.verdict], *told])), style)
