"""Tables of one or two swept keys."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from dpframe.report import phrases, words
from dpframe.report.group import Group, Spot, found_by, same, settings, short, square, telling
from dpframe.report.terminal import legend
from dpframe.report.terminal.elements import GAP, STYLE, Ink, cuts, interval_bar, padded, wrapped
from dpframe.report.terminal.legend import AVERAGE, BOUND, LIMIT, LegendLine
from dpframe.report.words import SYMBOL, UNEXPECTED, WORDS
from dpframe.results.verdict import TOGETHER, is_refuted_together

# The table of one swept key or none: a row each, with an interval bar.


ATTACK = "attack"  # title of the column of attacks, if searches chose them
NAME = "mechanism"  # title of the first column if nothing is swept
BOUNDS = ("certified", "certified (interval)", "(interval)")
"""Titles of the column of bounds: without intervals, with both, with intervals only."""
WIDEST_BAR = 41
NARROWEST_BAR = 11
LIST_GAP = 2


class TableRow(NamedTuple):
    """A line of a table, before it is laid out."""

    name: tuple[str, ...]
    """Parts of its name, the mechanism first; parts that do not fit are printed above the line."""
    spot: Spot
    texts: tuple[str, ...]


def list_tables(found: list[Group], ink: Ink, width: int) -> list[list[Table | Text]]:
    """Lay out groups that sweep one key in a table each, or groups that sweep none in one table.

    All tables have the same columns. Rows are named by the swept value, or else by the group's
    name. Names are never cut: a name that is too long for its column gets a line of its own, and if
    the columns are too wide, so does every number.
    """
    by_group = [_ordered(group) for group in found]
    spots = [spot for ordered in by_group for spot in ordered]
    columns = {"empirical": _empirical(spots, ink)}
    if any(spot.claim is not None for spot in spots):
        claims = words.align([ink.plain(words.point(spot.claim)) for spot in spots])
        columns = {"claimed": claims} | columns
    bounds = _bounds(spots, ink)
    if any(text.strip() for text in bounds):
        columns[_bounds_title(spots)] = bounds
    if any(attacks := [found_by(spot) for spot in spots]):
        columns[ATTACK] = [ink.plain(attack) or "–" for attack in attacks]
    texts = list(zip(*columns.values(), strict=True))
    rows = list(map(TableRow, _names(found, by_group), spots, texts))
    heads = [short(g.keys[0], g.swept) if g.keys else NAME for g in found]
    sizes = [len(ordered) for ordered in by_group] if found[0].keys else [len(rows)]
    layout = _layout(rows, heads, columns, ink, width)
    left = iter(rows)
    return [
        list(layout.drawn(ink.plain(head), list(itertools.islice(left, size))))
        for head, size in zip(heads, sizes, strict=False)
    ]


class _Layout(NamedTuple):
    """The columns that all tables of a report share."""

    ink: Ink
    width: int
    widths: dict[str, int]  # of the columns between name and verdict
    above: int  # parts of a name that are printed above its lines
    name: int  # width of the column with the rest; negative if every number needs a line
    bar: int
    words: bool = True  # False if verdicts are shown by their sign alone

    def drawn(self, head: str, rows: list[TableRow]) -> Iterator[Table | Text]:
        if self.name < 0:
            yield from self._stacked(rows)
            return
        first = True
        for above, group in itertools.groupby(rows, lambda row: row.name[: self.above]):
            if above:
                yield from self.ink.folded(" · ".join(above), "bold", self.width)
            yield self._table(head if first or not above else "", list(group))
            first = False

    def _table(self, head: str, rows: list[TableRow]) -> Table:
        table = self.ink.table(LIST_GAP)
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

    def _stacked(self, rows: list[TableRow]) -> Iterator[Text]:
        widest = len("empirical")
        for row in rows:
            yield from self.ink.folded(" · ".join(row.name), "bold", self.width)
            for title, text in zip(self.widths, row.texts, strict=True):
                if text.strip():
                    what = "interval" if text.startswith("(") else title.partition(" (")[0]
                    line = f"  {padded(what, widest)}  {' '.join(text.split())}"
                    yield from self.ink.folded(line, STYLE[row.spot.verdict], self.width)
            verdict = self.ink.text("  ").append_text(_verdict(row.spot, self.ink, True))
            yield from wrapped(verdict, self.width)


def _layout(
    rows: list[TableRow], heads: list[str], columns: dict[str, list[str]], ink: Ink, width: int
) -> _Layout:
    widths = {
        title: max(map(cell_len, (ink.plain(title), *texts))) for title, texts in columns.items()
    }
    room = width - sum(size + LIST_GAP for size in widths.values())
    parts = max((len(row.name) for row in rows), default=1)
    title = max(cell_len(ink.plain(head)) for head in heads)
    # A sign is better than a name on another line, which is better than no table.
    for above, worded in itertools.product(range(parts + 1), (True, False)):
        verdicts = [_verdict(row.spot, ink, worded).cell_len for row in rows]
        verdict = max([*verdicts, len("verdict") * worded])
        rest = [cell_len(ink.plain(" · ".join(row.name[above:]))) for row in rows]
        name = max([*rest, 0 if above else title])
        if name + LIST_GAP * (name > 0) + verdict <= room:
            break
    else:
        return _Layout(ink, width, widths, 0, -1, 0)
    left = min(room - name - verdict - 2 * LIST_GAP, WIDEST_BAR)
    bar = left - (left + 1) % 2
    wanted = bar >= NARROWEST_BAR and any(row.spot.claim and row.spot.done for row in rows)
    return _Layout(ink, width, widths, above, name, bar if wanted else 0, worded)


def _ordered(group: Group) -> list[Spot]:
    places = {key: list(map(same, group.axis(key))) for key in group.keys}

    def place(spot: Spot) -> list[int]:
        return [places[key].index(same(spot.values[key])) for key in group.keys]

    return sorted(group.spots, key=place)


def _names(found: list[Group], by_group: list[list[Spot]]) -> Iterator[tuple[str, ...]]:
    """Name the rows of all tables by their swept values, or else by their groups."""
    naming = telling(found)
    for group, spots in zip(found, by_group, strict=True):
        for spot in spots:
            if not group.keys:
                yield tuple(group.names[n] for n in naming)
            elif len(group.keys) == 1:
                yield (words.setting(spot.values[group.keys[0]]),)
            else:
                values = {key: spot.values[key] for key in group.keys}
                yield (" ".join(settings(values, group.swept)),)


def _empirical(spots: list[Spot], ink: Ink) -> list[str]:
    pairs = [legend.empirical(spot) if spot.done else ("–", None) for spot in spots]
    means = words.align([ink.plain(mean) for mean, _ in pairs])
    return [
        f"{mean} ± {deviation}" if deviation else mean
        for mean, (_, deviation) in zip(means, pairs, strict=True)
    ]


def _bounds(spots: list[Spot], ink: Ink) -> list[str]:
    """Write the certified bound and the limit of the attack, which a violated cell does not have.

    If nothing is certified, write the approximate interval in parentheses.
    """
    signs, texts = zip(*map(legend.certified, spots), strict=True)
    given = [bool(spot.estimates("epsilon_lower")) for spot in spots]
    lowers = words.align(
        [ink.plain(text) if here else "" for text, here in zip(texts, given, strict=True)]
    )
    uppers = words.align([ink.plain(legend.limit(spot)) for spot in spots])
    bounds = []
    for spot, sign, low, up in zip(spots, signs, lowers, uppers, strict=True):
        text = f"{sign if low.strip() else ' '} {low}  {LIMIT if up.strip() else ' '} {up}"
        if legend.blind(spot):
            text = ink.plain(phrases.BLIND)
        bounds.append(text if text.strip() else ink.plain(legend.interval(spot)))
    return bounds


def _bounds_title(spots: list[Spot]) -> str:
    if not any(legend.interval(spot) for spot in spots):
        return BOUNDS[0]
    return BOUNDS[1] if any(spot.estimates("epsilon_lower") for spot in spots) else BOUNDS[2]


def _verdict(spot: Spot, ink: Ink, worded: bool) -> Text:
    """Return the sign of the verdict and its meaning, or the share of violated repeats."""
    tally = legend.tally(spot)
    text = tally or ""
    if worded:
        text = f"violated {tally}" if tally else WORDS[spot.verdict]
        if not tally and spot.done and is_refuted_together(spot.done[0]):
            text = TOGETHER
    mark = UNEXPECTED if spot.unexpected else ""
    style = STYLE["failed"] if spot.unexpected else STYLE[spot.verdict]
    return ink.text(" ".join(filter(None, [mark, SYMBOL[spot.verdict], text])), style)


# The table of two swept keys: one down, one across, claimed, empirical and certified ε.


CERTIFIED = (BOUND, AVERAGE, LIMIT)  # signs of the lines on the right of a wide cell


class TableGrid(NamedTuple):
    """A group laid out as a grid, not yet cut to a width."""

    leads: list[list[str]]  # the columns that name the rows, each with its title first
    heads: list[str]  # titles of the columns
    short_heads: list[str]  # the same in two lines, for narrow columns
    wide: list[list[Text]]  # cells of each column, certified numbers beside measured ones
    stacked: list[list[Text]]  # the same, one number a line


def grid_of(group: Group, ink: Ink) -> TableGrid:
    """Lay out a group that has exactly two swept keys."""
    down, across, rows, columns, spots = square(group)
    leads, claim_in_cell = _leads(short(down, group.swept), rows, spots)
    values = [words.setting(value) for value in columns]
    title = short(across, group.swept)
    wide = _columns(spots, ink, claim_in_cell, wide=True)
    stacked = _columns(spots, ink, claim_in_cell, wide=False)
    spans = _equal_rows(wide)
    return TableGrid(
        leads=[[ink.plain(lead[0]), *(_span(lead[1:], at, ink) for at in spans)] for lead in leads],
        heads=[ink.plain(f"{title} {value}") for value in values],
        short_heads=[ink.plain(f"{title}\n{value}") for value in values],
        wide=[[cells[first] for first, _ in spans] for cells in wide],
        stacked=[[cells[first] for first, _ in spans] for cells in stacked],
    )


def fits_wide(grid: TableGrid, width: int) -> bool:
    """True if the grid fits without stacking; a report stacks either all of its tables or none."""
    return _total(grid.wide, grid.heads, GAP) <= _room(grid, width, GAP)


def fits(grid: TableGrid, width: int) -> bool:
    """True if every column of the grid fits beside the names of the rows."""
    columns = zip(grid.stacked, grid.short_heads, strict=True)
    return all(_total([cells], [head], 1) <= _room(grid, width, 1) for cells, head in columns)


def grid_tables(grid: TableGrid, ink: Ink, width: int, *, wide: bool) -> Iterator[Table]:
    """Draw the grid, in as many tables as the width requires.

    If `wide`, certified numbers stand beside the empirical numbers, else below them.
    """
    body = grid.wide if wide else grid.stacked
    # Tighter columns and shorter titles are better than a second table.
    layouts = itertools.product((grid.heads, grid.short_heads), (GAP, GAP - 1, 1))
    heads, gap = next(
        (at for at in layouts if _total(body, *at) <= _room(grid, width, at[1])), (grid.heads, GAP)
    )
    for start, stop in cuts(_sizes(body, heads), _room(grid, width, gap), gap):
        yield _table(grid.leads, heads[start:stop], body[start:stop], gap, ink)


def _room(grid: TableGrid, width: int, gap: int) -> int:
    return width - sum(_width(lead) + gap for lead in grid.leads)


def _leads(
    name: str, rows: list[Any], spots: list[list[Spot | None]]
) -> tuple[list[list[str]], bool]:
    """Return the columns before the grid, titles first; True if cells must show claims."""
    claims = [{spot.claim for spot in row if spot is not None} - {None} for row in spots]
    labels = words.align([words.setting(row) for row in rows])
    if any(len(found) > 1 for found in claims):
        return [[name, *labels]], True
    row_claims = [next(iter(found), None) for found in claims]
    given = [words.number(row) for row in rows]
    if all(a is None or a == b for a, b in zip(row_claims, given, strict=True)):
        claimed = any(claim is not None for claim in row_claims)
        return [[f"claimed {name}" if claimed else name, *labels]], False
    texts = words.align([words.point(claim) for claim in row_claims])
    return [[name, *labels], ["claimed ε", *texts]], False


def _columns(
    spots: list[list[Spot | None]], ink: Ink, claim: bool, *, wide: bool
) -> list[list[Text]]:
    """Return the cells of each column: one width, numbers aligned on the decimal point."""
    columns = []
    mark = any(spot.unexpected for row in spots for spot in row if spot is not None)
    for column in zip(*spots, strict=True):
        blocks = [
            _block(legend.lines(spot, claim=claim), wide) if spot is not None else []
            for spot in column
        ]
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


def _block(found: list[LegendLine], wide: bool) -> list[list[LegendLine]]:
    """Return the lines of a cell: stacked, each has one entry; wide, it has two."""
    if not wide or not all(line.is_number for line in found):
        return [[line] for line in found]
    left = [line for line in found if line.sign not in CERTIFIED]
    right = [line for line in found if line.sign in CERTIFIED]
    blank = LegendLine(" ", "", "")
    return [
        [a or blank, b] if b else [a or blank]
        for a, b in itertools.zip_longest(left, right, fillvalue=None)
    ]


def _line(line: list[LegendLine], aligned: dict[str, str], sign: int, ink: Ink) -> Text:
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
        # Titles begin above the numbers, behind the column of signs, if there is room.
        indent = "  " if _width([head]) + 2 <= _text_width(cells) else ""
        table.add_column(ink.text(indent + head.replace("\n", "\n" + indent)), no_wrap=True)
    for index, row in enumerate(zip(*body, strict=True), start=1):
        table.add_row(*(ink.text(lead[index], "bold") for lead in aligned), *row)
    return table


def _equal_rows(body: list[list[Text]]) -> list[tuple[int, int]]:
    """Return first and last of each run of rows with equal cells in every column."""
    spans: list[tuple[int, int]] = []
    rows = list(zip(*body, strict=True))
    for index, row in enumerate(rows):
        if spans and any(cell.plain for cell in row) and row == rows[spans[-1][0]]:
            spans[-1] = (spans[-1][0], index)
        else:
            spans.append((index, index))
    return spans


def _span(labels: list[str], span: tuple[int, int], ink: Ink) -> str:
    """Name the rows of a run: 0.1 … 10."""
    first, last = (ink.plain(labels[index]) for index in span)
    return first if first == last else f"{first.strip()}{ink.plain(' … ')}{last.strip()}"


def _total(body: list[list[Text]], heads: list[str], gap: int) -> int:
    return sum(_sizes(body, heads)) + gap * (len(body) - 1)


def _sizes(body: list[list[Text]], heads: list[str]) -> list[int]:
    pairs = zip(body, heads, strict=True)
    return [max(_text_width(cells), _width([head])) for cells, head in pairs]


def _text_width(cells: list[Text]) -> int:
    return _width([cell.plain for cell in cells])


def _width(texts: list[str]) -> int:
    return max((cell_len(line) for text in texts for line in text.split("\n")), default=0)
