"""The table of two swept keys: one down, one across, claimed, empirical and certified ε."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from dpframe.report import words
from dpframe.report.group import Group, Spot, axes, same, short
from dpframe.report.terminal.cell import AVERAGE, BOUND, LIMIT, Line, lines
from dpframe.report.terminal.ink import GAP, STYLE, UNEXPECTED, Ink, padded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

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
    return _total(grid.wide, grid.heads) <= _room(grid, width, GAP)


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
    layouts = [(h, gap) for h in (grid.heads, grid.short_heads) for gap in (GAP, GAP - 1, 1)]
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


def _total(body: list[list[Text]], heads: list[str], gap: int = GAP) -> int:
    widths = [
        max(_text_width(cells), _width([head])) for cells, head in zip(body, heads, strict=False)
    ]
    return sum(widths) + gap * (len(widths) - 1)


def _text_width(cells: list[Text]) -> int:
    return _width([cell.plain for cell in cells])


def _width(texts: list[str]) -> int:
    return max((cell_len(line) for text in texts for line in text.split("\n")), default=0)
