"""Tables of one or two swept keys."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from dpframe.report import words
from dpframe.report.group import Group, Spot, axes, found_by, same, short, telling
from dpframe.report.terminal.ink import GAP as INK_GAP
from dpframe.report.terminal.ink import STYLE, SYMBOL, UNEXPECTED, WORDS, Ink, interval_bar, padded
from dpframe.report.terminal.legend import (
    AVERAGE,
    BOUND,
    LIMIT,
    Line,
    certified,
    empirical,
    interval,
    limit,
    lines,
    tally,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import JustifyMethod
    from rich.table import Table


# The table of one swept key or none: a row each, with an interval bar.


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
        for above, group in itertools.groupby(rows, lambda row: row.name[: self.above]):
            if above:
                yield from self.ink.folded(" · ".join(above), "bold", self.width)
            yield self._table(head if first or not above else "", list(group))
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


# The table of two swept keys: one down, one across, claimed, empirical and certified ε.


CERTIFIED = (BOUND, AVERAGE, LIMIT)
"""Signs of what stands on the right of a wide cell."""

Block = list[list[Line]]
"""A cell: lines of entries. Stacked, each line has one entry; wide, it has two."""


class Grid(NamedTuple):
    """A group laid out as a grid, not yet cut to a width."""

    leads: list[list[str]]
    """The columns that name the rows, each with its title first."""
    heads: list[str]
    """Titles of the columns."""
    short_heads: list[str]
    """The same in two lines, for narrow columns."""
    wide: list[list[Text]]
    """Cells of each column, what is certified beside what was measured."""
    stacked: list[list[Text]]
    """The same, one number a line."""


def grid_of(group: Group, ink: Ink) -> Grid:
    """Lays out a group that has exactly two swept keys."""
    down, across = axes(group)
    rows, columns = group.axis(down), group.axis(across)
    at = {(same(s.values[down]), same(s.values[across])): s for s in group.spots}
    spots = [[at.get((same(row), same(column))) for column in columns] for row in rows]
    leads, claim_in_cell = _leads(short(down, group.swept), rows, spots)
    values = [words.setting(value) for value in columns]
    wide = _columns(spots, ink, claim_in_cell, wide=True)
    spans = _equal_rows(wide)
    stacked = _columns(spots, ink, claim_in_cell, wide=False)
    wide, stacked = (
        [[cells[first] for first, _ in spans] for cells in body] for body in (wide, stacked)
    )
    return Grid(
        leads=[[ink.plain(lead[0]), *(_span(lead[1:], at, ink) for at in spans)] for lead in leads],
        heads=[ink.plain(f"{short(across, group.swept)} {value}") for value in values],
        short_heads=[ink.plain(f"{short(across, group.swept)}\n{value}") for value in values],
        wide=wide,
        stacked=stacked,
    )


def fits_wide(grid: Grid, width: int) -> bool:
    """Whether the grid needs no stacking; a report stacks all of its tables or none."""
    return _total(grid.wide, grid.heads) <= _room(grid, width, INK_GAP)


def fits(grid: Grid, width: int) -> bool:
    """Whether at least one column of the grid has room beside the names of the rows."""
    columns = zip(grid.stacked, grid.short_heads, strict=True)
    return all(_total([cells], [head], 1) <= _room(grid, width, 1) for cells, head in columns)


def grid_tables(grid: Grid, ink: Ink, width: int, *, wide: bool) -> Iterator[Table]:
    """Draws the grid, in as many tables as the width requires.

    Args:
        grid: what to draw.
        ink: of the console.
        width: columns of the console.
        wide: put certified numbers beside the empirical ones, not below.
    """
    body = grid.wide if wide else grid.stacked
    # Tighter columns and shorter titles are better than a second table.
    layouts = [
        (h, gap) for h in (grid.heads, grid.short_heads) for gap in (INK_GAP, INK_GAP - 1, 1)
    ]
    heads, gap = next(
        (
            (heads, gap)
            for heads, gap in layouts
            if _total(body, heads, gap) <= _room(grid, width, gap)
        ),
        layouts[0],
    )
    room = _room(grid, width, gap)
    start = 0
    while start < len(heads):
        stop = start + 1
        while stop < len(heads) and _total(body[start : stop + 1], heads[start:], gap) <= room:
            stop += 1
        yield _table(grid.leads, heads[start:stop], body[start:stop], gap, ink)
        start = stop


def _room(grid: Grid, width: int, gap: int) -> int:
    return width - sum(_width(lead) + gap for lead in grid.leads)


def _leads(
    name: str, rows: list[Any], spots: list[list[Spot | None]]
) -> tuple[list[list[str]], bool]:
    """The columns before the grid, each with its title first, and whether cells show claims."""
    claims = [{spot.claim for spot in row if spot is not None} - {None} for row in spots]
    labels = [words.setting(row) for row in rows]
    if any(len(found) > 1 for found in claims):
        return [[name, *words.align(labels)]], True
    given = [words.number(row) for row in rows]
    row_claims = [next(iter(found), None) for found in claims]
    if all(a is None or a == b for a, b in zip(row_claims, given, strict=True)):
        claimed = any(claim is not None for claim in row_claims)
        return [[f"claimed {name}" if claimed else name, *words.align(labels)]], False
    texts = [words.point(claim) for claim in row_claims]
    return [[name, *words.align(labels)], ["claimed ε", *words.align(texts)]], False


def _columns(
    spots: list[list[Spot | None]], ink: Ink, claim: bool, *, wide: bool
) -> list[list[Text]]:
    """The cells of each column, all of one width, numbers aligned on the decimal point."""
    columns = []
    mark = any(spot.unexpected for row in spots for spot in row if spot is not None)
    for column in zip(*spots, strict=True):
        blocks = [_block(lines(spot, claim=claim), wide) if spot else [] for spot in column]
        entries = [entry for block in blocks for line in block for entry in line]
        sign = max((len(ink.plain(entry.sign)) for entry in entries), default=1)
        texts = [entry.text for entry in entries if entry.is_number]
        aligned = dict(zip(texts, words.align([ink.plain(text) for text in texts]), strict=True))
        cells = []
        for spot, block in zip(column, blocks, strict=True):
            cell = ink.text("", keep=True)
            for index, line in enumerate(block):
                cell.append("\n" if index else "")
                if mark:
                    here = spot is not None and spot.unexpected and index == 0
                    cell.append(ink.plain(UNEXPECTED) if here else " ", STYLE["failed"])
                cell.append_text(_line(line, aligned, sign, ink))
            cells.append(cell)
        columns.append(cells)
    return columns


def _block(found: list[Line], wide: bool) -> Block:
    if not wide or not all(line.is_number for line in found):
        return [[line] for line in found]
    # What is measured on the left, what is certified on the right.
    left = [line for line in found if line.sign not in CERTIFIED]
    right = [line for line in found if line.sign in CERTIFIED]
    blank = Line(" ", "", "")
    return [
        [a or blank, b] if b else [a or blank]
        for a, b in itertools.zip_longest(left, right, fillvalue=None)
    ]


def _line(line: list[Line], aligned: dict[str, str], sign: int, ink: Ink) -> Text:
    text = Text()
    blank = " " * max(map(len, aligned.values()), default=0)
    for index, entry in enumerate(line):
        text.append("  " if index else "")
        number = aligned[entry.text] if entry.is_number and entry.text else blank
        shown = number if entry.is_number else ink.plain(entry.text)
        text.append(f"{ink.plain(entry.sign):{sign}} {shown}", entry.style)
    text.rstrip()
    return text


def _table(
    leads: list[list[str]], heads: list[str], body: list[list[Text]], gap: int, ink: Ink
) -> Table:
    table = ink.table(gap)
    # Padded here, because justifying to the right would undo the decimal alignment.
    aligned = [[padded(text, _width(lead), right=True) for text in lead] for lead in leads]
    for lead in aligned:
        table.add_column(ink.text(lead[0]), no_wrap=True)
    for head, cells in zip(heads, body, strict=True):
        # Titles begin above the numbers, behind the column of signs, where there is room.
        indent = "  " if _width([head]) + 2 <= _text_width(cells) else ""
        table.add_column(ink.text(indent + head.replace("\n", "\n" + indent)), no_wrap=True)
    for index, row in enumerate(zip(*body, strict=True), start=1):
        table.add_row(*(ink.text(lead[index], "bold") for lead in aligned), *row)
    return table


def _equal_rows(body: list[list[Text]]) -> list[tuple[int, int]]:
    """First and last of each run of rows that show the very same in every column."""
    spans: list[tuple[int, int]] = []
    rows = list(zip(*body, strict=True))
    for index, row in enumerate(rows):
        if spans and any(cell.plain for cell in row) and row == rows[spans[-1][0]]:
            spans[-1] = (spans[-1][0], index)
        else:
            spans.append((index, index))
    return spans


def _span(labels: list[str], span: tuple[int, int], ink: Ink) -> str:
    """What the rows of a run are called: 0.1 … 10."""
    first, last = (ink.plain(labels[index]) for index in span)
    return first if first == last else f"{first.strip()}{ink.plain(' … ')}{last.strip()}"


def _total(body: list[list[Text]], heads: list[str], gap: int = INK_GAP) -> int:
    widths = [
        max(_text_width(cells), _width([head])) for cells, head in zip(body, heads, strict=False)
    ]
    return sum(widths) + gap * (len(widths) - 1)


def _text_width(cells: list[Text]) -> int:
    return _width([cell.plain for cell in cells])


def _width(texts: list[str]) -> int:
    return max((cell_len(line) for text in texts for line in text.split("\n")), default=0)
