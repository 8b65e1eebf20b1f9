"""Text, tables and bars for any terminal, in colours for both backgrounds and in ASCII."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod, RenderableType
from rich.table import Column, Table
from rich.text import Text

from dpframe.report import words
from dpframe.report.group import Spot

ASCII = {
    "✗": "x",
    "○": "o",
    "▶": ">",
    "≥": ">=",
    "⌀": "mean",
    "≤": "<=",
    "±": "+-",
    "ε": "eps",
    "δ": "delta",
    "α": "alpha",
    "∞": "inf",
    "×": "x",
    "·": "-",
    "–": "-",
    "…": "...",
    "′": "'",
    "━": "=",
    "●": "*",
    "┃": "|",
    "→": ">",
    "↓": "v",
    "░": ".",
    "▒": ":",
    "▓": "+",
    "█": "#",
}
"""Replacements of the report's own symbols if the encoding cannot show them."""

# The user's theme adapts the 16 named colours to its background. "No violation found" is a fixed
# blue grey, because green would be read as "fine" and some themes make blue unreadable on black.
STYLE: dict[str | None, str] = {
    "violated": "bold red",
    "consistent": "color(67)",
    "inconclusive": "magenta",
    "failed": "bold magenta",
    None: "",
}
_PLAIN = Console(color_system=None)  # folding reads only the width of a tab from it
_GLUE = "\ue000"  # rich breaks at every blank, no-break spaces included
GAP = 3  # blanks between columns and between phrases of a line

_RULE = "    \n    \n ── \n    \n    \n    \n    \n    \n"
RULED = Box(_RULE)  # a line under the header and nothing else
RULED_ASCII = Box(_RULE.replace("─", "-"), ascii=True)
FRAME = 1  # blanks that a table puts between columns itself

SPAN = 2.0
"""The interval bar ends at this multiple of the claim, so that all claims stand in one column."""
BAR_KEY = {
    "━": "from the certified bound to what this attack can show; axis: ε divided by claimed ε",
    "●": "empirical ε",
    "┃": "claimed ε",
    "→": "continues beyond twice the claim",
}
"""The marks of the interval bar."""


@dataclasses.dataclass(frozen=True)
class Ink:
    """Makes text for one console; no text is read as markup."""

    encoding: str
    ascii_only: bool
    seen: set[str] = dataclasses.field(default_factory=set, compare=False)
    """All texts made so far, before replacements, because legends explain the signs in them."""

    @classmethod
    def of(cls, console: Console) -> Ink:
        """Return the ink for a console."""
        return cls(console.encoding, console.options.ascii_only)

    def plain(self, text: str) -> str:
        """Return the same text in the characters that the console has."""
        self.seen.add(text)
        printable = "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
        if self.ascii_only:
            printable = "".join(ASCII.get(c, c) for c in printable)
        try:
            return printable.encode(self.encoding, "replace").decode(self.encoding, "replace")
        except LookupError:  # a codec that Python does not know
            return printable.encode("ascii", "replace").decode("ascii")

    def text(self, text: str, style: str = "", *, keep: bool = False) -> Text:
        """Return literal text in a style of rich; `keep` never breaks or cuts it."""
        return Text(
            self.plain(text),
            style=style,
            no_wrap=keep or None,
            overflow="ignore" if keep else "fold",
        )

    def line(self, text: str) -> str:
        """Return `plain(text)` on a single line."""
        return self.plain(text).replace("\n", " ")

    def folded(self, text: str, style: str, width: int) -> list[Text]:
        """Fold text into lines of a width; nothing is cut."""
        return wrapped(self.text(text.replace("\n", " "), style), width)

    def joined(self, parts: list[Text], width: int) -> Text:
        """Join phrases on a line; those that do not fit go on the next line, indented."""
        text, used = Text(), 0
        for part in parts:
            if used and used + GAP + part.cell_len > width:
                text.append("\n" + " " * GAP)
                used = GAP
            elif used:
                text.append(" " * GAP)
                used += GAP
            text.append_text(part)
            used += part.cell_len
        return text

    def table(
        self,
        gap: int = GAP,
        heads: Iterable[str] = (),
        *,
        folded: Collection[str] = (),
        right: Collection[str] = (),
    ) -> Table:
        """Return a table in the style of the report, with `gap` blanks between columns.

        It has a column for each of `heads`; those in `folded` may be folded, and those in `right`
        are flush right.
        """
        box = RULED_ASCII if self.ascii_only else RULED
        table = Table(box=box, show_edge=False, pad_edge=False, padding=(0, gap - FRAME, 0, 0))
        for head in heads:
            side: JustifyMethod = "right" if head in right else "left"
            wraps = head in folded
            table.add_column(self.text(head), overflow="fold", no_wrap=not wraps, justify=side)
        return table


def wrapped(text: Text, width: int) -> list[Text]:
    """Fold a text into lines, but never between a number and its unit or relation."""
    glued = text.copy()
    glued.plain = words.together(text.plain, _GLUE)  # of equal length, so styles stay in place
    lines = glued.wrap(_PLAIN, max(width, 2), overflow="fold")
    for line in lines:
        line.plain = line.plain.replace(_GLUE, " ")
        line.rstrip()
    return list(lines)


def show(console: Console, *lines: RenderableType) -> None:
    """Print texts, folded, and anything else as it is."""
    for line in lines:
        parts: Sequence[RenderableType] = [line]
        if isinstance(line, Text) and not line.no_wrap:
            parts = wrapped(line, console.width) or parts
        for part in parts:
            console.print(part)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Pad text with blanks to a width in columns of the terminal, on the left if `right`."""
    blanks = " " * (width - cell_len(text))
    return blanks + text if right else text + blanks


def beside(blocks: Iterable[Sequence[Text]], size: int) -> Iterator[Text]:
    """Put blocks of lines beside each other, each `size` columns wide."""
    for parts in itertools.zip_longest(*blocks, fillvalue=Text()):
        line = Text(overflow="fold")
        for index, part in enumerate(parts):
            line.append(" " * (index * (size + GAP) - line.cell_len)).append_text(part)
        yield line


def cuts(sizes: list[int], room: int, gap: int) -> Iterator[tuple[int, int]]:
    """Cut columns, `gap` blanks apart, into parts that fit."""
    start = 0
    while start < len(sizes):
        stop = start + 1
        while stop < len(sizes) and sum(sizes[start : stop + 1]) + gap * (stop - start) <= room:
            stop += 1
        yield start, stop
        start = stop


# Tables that are too wide for the terminal are written line by line.


def print_fitted(table: Table, console: Console) -> None:
    """Print a table if it fits without breaking a word, else a line for every cell."""
    for part in fitted(table, console.width):
        console.print(part)


def fitted(table: Table, width: int) -> Iterator[Table | Text]:
    """Return the table if it fits without breaking a word, else a line for every cell.

    The first column names the rows.
    """
    gaps = (len(table.columns) - 1) * (FRAME + table.padding[1])
    if sum(map(_least, table.columns)) + gaps <= width:
        _share(table.columns, width - gaps)
        yield table
        return
    name, *others = table.columns
    heads = [_plain(column.header) for column in others]
    for label, *cells in zip(name.cells, *(column.cells for column in others), strict=True):
        yield from wrapped(_text(label), width)
        for head, cell in zip(heads, cells, strict=True):
            if plain := " ".join(_plain(cell).split()):
                line = Text(f"{head} {plain}".strip(), _text(cell).style, overflow="fold")
                yield from (Text("  ").append_text(part) for part in wrapped(line, width - 2))


def _share(columns: list[Column], room: int) -> None:
    """Fix all widths, because rich may break a word although two columns could be folded."""
    widths = list(map(_least, columns))
    most = [max(map(cell_len, _all(column).split("\n"))) for column in columns]
    # The widest is folded first: names and prose, not numbers.
    widest = most.index(max(most))
    for own in ([k for k in range(len(most)) if k != widest], [widest]):
        while sum(widths) < room and (lacking := {most[k] - widths[k]: k for k in own}):
            if max(lacking) <= 0:
                break
            widths[lacking[max(lacking)]] += 1
    for column, width in zip(columns, widths, strict=True):
        column.width, column.ratio = width, None


def _least(column: Column) -> int:
    """Return the width at which no word is broken, or no line if the column does not wrap."""
    text = _all(column)
    return max(map(cell_len, text.split("\n") if column.no_wrap else text.split()), default=0)


def _all(column: Column) -> str:
    return "\n".join(map(_plain, (column.header, *column.cells)))


def _text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _plain(cell: RenderableType) -> str:
    return _text(cell).plain


def interval_bar(spot: Spot, width: int, ink: Ink) -> Text:
    """Draw the certified bound to the attack's limit, the point value and the claim.

    The axis is the loss divided by the claim, from 0 to 2, so that bars of different claims
    compare: a bar wholly to the right of the claim is a violation. An arrow marks values beyond
    the end. For replicates the bar reaches from the lowest bound to the highest limit. Without
    a claim above 0 it is empty. The width is odd, so that the claim stands in the middle.
    """
    claim = spot.claim
    if not spot.done or claim is None or not 0 < claim < math.inf:
        return Text(" " * width)
    low = min(spot.estimates("epsilon_lower"), default=None)
    high = max(spot.estimates("epsilon_upper"), default=None)
    value = spot.mean("epsilon")
    cells = [(" ", "")] * width

    def column(loss: float) -> int:
        share = max(loss, 0.0) / (SPAN * claim)
        return width - 1 if share >= 1 else min(int(share * width), width - 1)

    style = STYLE[spot.verdict]
    if low is not None and math.isfinite(low):
        end = column(math.inf if high is None else high)
        for place in range(column(low), end + 1):
            cells[place] = ("━", style)
    cells[width // 2] = ("┃", "bold")
    if value is not None and not math.isnan(value):
        cells[column(value)] = ("●", style)
    if max(x for x in (low, high, value, 0.0) if x is not None) > SPAN * claim:
        cells[-1] = ("→", style)
    text = Text(no_wrap=True)
    for character, look in cells:
        text.append(ink.plain(character)[:1], look)
    return text
