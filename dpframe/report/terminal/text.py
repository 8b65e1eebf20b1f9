"""Text and tables for any terminal; rich folds them, and strangers' text has no effect."""

from collections.abc import Collection, Iterable

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from dpframe.common.text import escape
from dpframe.report.number_format import together

ASCII = {
    **{"✗": "x", "○": "o", "▶": ">", "≥": ">=", "≤": "<=", "⌀": "mean", "±": "+-", "ε": "eps"},
    **{"δ": "delta", "α": "alpha", "∞": "inf", "×": "x", "÷": "/", "·": "-", "–": "-", "−": "-"},
    **{"…": "...", "′": "'", "→": "->", "░": ".", "▒": ":", "▓": "+", "█": "#", "─": "-"},
    "\u00a0": " ",
}
"""Replacements of the report's own symbols if the encoding of a console cannot show them."""

# The user's theme adapts the 16 named colours to its background. "No violation found" is a fixed
# blue grey, because green would be read as "fine" and some themes make blue unreadable on black.
STYLE: dict[str | None, str] = {
    "violated": "bold red",
    "consistent": "color(67)",
    "inconclusive": "magenta",
    "failed": "bold magenta",
    None: "",
}


MOST_WIDTH = 10_000
WORD = 24  # columns: words up to this length stay whole
_GLUE = "⍽"  # a blank at which rich must not break: it breaks at every kind of blank


class _Encodable:
    """A renderable in the characters that the encoding of the console has."""

    def __init__(self, shown: RenderableType) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._shown
        if isinstance(shown, Table) and least_width(console, shown) > options.max_width:
            shown = _in_lines(shown)
        for segment in console.render(shown, options):
            text = segment.text.replace(_GLUE, " ")
            yield segment._replace(text=_encodable(text, console.encoding))


def least_width(console: Console, shown: RenderableType) -> int:
    """Return the width below which a word, or a line that must be whole, would be broken."""
    wide = console.options.update(max_width=MOST_WIDTH)
    return console.measure(shown, options=wide).minimum


def _in_lines(shown: Table) -> Group:
    """Return a table that is too wide as paragraphs: a row each, its cells with their titles."""
    lines = []
    for cells in zip(*(column.cells for column in shown.columns), strict=True):
        line = Text(overflow="fold")
        for column, cell in zip(shown.columns, cells, strict=True):
            if isinstance(cell, Text) and cell.plain.strip("–"):
                head = "" if column is shown.columns[0] else f"{column.header} "
                line.append(" · " if line else "").append(head, "dim").append_text(cell)
        lines.append(line)
    return Group(*lines)


def _encodable(text: str, encoding: str) -> str:
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        known = "".join(ASCII.get(char, char) for char in text)
        return known.encode(encoding, "replace").decode(encoding)


def show(console: Console, *parts: RenderableType) -> None:
    """Print texts and tables; rich folds them to the width of the console."""
    for part in parts:
        console.print(_Encodable(part), crop=False)  # ASCII may be longer


def literal(text: str, style: str | None = "") -> Text:
    """Return text that is neither markup nor a control sequence; nothing of it is cut."""
    glued = together(escape(text, "\n"), _GLUE)
    return Text(glued, style or "", overflow="fold")


def table(
    heads: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    right: Collection[str] = (),
    whole: Collection[str] = (),
) -> Table:
    """Return a table with a line under its head, or without a head if all titles are empty.

    Columns in `right` are flush right; those in `whole` are never folded.
    """
    heads = list(heads)
    made = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_header=any(heads),
    )
    lines = [[c if isinstance(c, Text) else literal(str(c)) for c in row] for row in rows]
    for place, head in enumerate(heads):
        words = (word for row in lines for word in row[place].plain.split())
        least = max((*map(cell_len, (*head.split(), *words)), 1))
        made.add_column(
            literal(head),
            justify="right" if head in right else "left",
            overflow="fold",
            no_wrap=head in whole,
            min_width=min(least, WORD),
        )
    for row in lines:
        made.add_row(*row)
    return made


def joined(parts: Iterable[Text]) -> Text:
    """Join phrases on one line, three blanks apart."""
    return Text("   ").join(parts)
