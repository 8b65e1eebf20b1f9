"""Text and tables for any terminal; rich folds them, and strangers' text has no effect."""

from collections.abc import Collection, Iterable

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

from dpframe.common.text import escape
from dpframe.report import tables
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
    "bold": "bold",
    "dim": "dim",
    "note": "dim",
}
"""Styles of rich by verdict, and for parts of a report."""

GAP = 2  # columns between those of a table
WORD = 24  # columns: words up to this length stay whole
MOST_LINES = 3  # of the first cell of a row; a table with longer ones is written in lines
_GLUE = "⍽"  # a blank at which rich must not break: it breaks at every kind of blank


class _Fitted:
    """A renderable at the width and in the characters of a console."""

    def __init__(self, shown: RenderableType) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = self._shown
        if isinstance(shown, Table):
            shown = _fitted(shown, options.max_width)
        for segment in console.render(shown, options):
            text = segment.text.replace(_GLUE, " ")
            yield segment._replace(text=_encodable(text, console.encoding))


def _fitted(shown: Table, width: int) -> Table | Group:
    """Set the widths of a table so that no word is broken, or else write a paragraph a row."""
    if (room := width - least_width(shown)) < 0:
        return _in_lines(shown)
    lacking = [(_most(column) - _least(column), column) for column in shown.columns]
    for wanted, column in sorted(lacking, key=lambda each: each[0]):  # prose is folded first
        column.width = _least(column) + min(wanted, room)
        room -= min(wanted, room)
    names = shown.columns[0]  # such as whole queries of SQL
    is_thin = any(cell_len(text) > MOST_LINES * (names.width or 1) for text in _texts(names))
    return _in_lines(shown) if is_thin else shown


def least_width(shown: Table) -> int:
    """Return the width below which a word, or a line that must be whole, would be broken."""
    return sum(map(_least, shown.columns)) + GAP * (len(shown.columns) - 1)


def _least(column: Column) -> int:
    """Return the width at which no word is broken, or no line if the column must be whole."""
    if column.no_wrap:
        return _most(column)
    return min(
        max((cell_len(word) for text in _texts(column) for word in text.split()), default=1), WORD
    )


def _most(column: Column) -> int:
    return max((cell_len(line) for text in _texts(column) for line in text.split("\n")), default=1)


def _texts(column: Column) -> list[str]:
    return [cell.plain for cell in (column.header, *column.cells) if isinstance(cell, Text)]


def _in_lines(shown: Table) -> Group:
    """Return a table that is too wide as paragraphs: a row each, its cells with their titles."""
    lines = []
    for cells in zip(*(column.cells for column in shown.columns), strict=True):
        line = Text(overflow="fold")
        for column, cell in zip(shown.columns, cells, strict=True):
            if isinstance(cell, Text) and cell.plain.strip("–"):
                head = "" if column is shown.columns[0] else f"{column.header} "
                whole = cell.copy()
                if cell.plain[1:2] == " ":  # a sign, such as that of a verdict
                    whole.plain = cell.plain.replace(" ", _GLUE, 1)
                line.append(" · " if line else "").append(head, "dim").append_text(whole)
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
        console.print(_Fitted(part), crop=False)  # ASCII may be longer


def show_parts(console: Console, shown: Iterable[tables.Part]) -> None:
    """Print lines and tables, with a blank line above and below each table."""
    after_first = after_table = False
    for part in shown:
        is_table = isinstance(part, tables.ReportTable)
        if after_table or (is_table and after_first):
            show(console, Text())
        after_first, after_table = True, is_table
        if isinstance(part, tables.Line):
            show(console, literal(part.text, STYLE[part.style]))
            continue
        if part.title:
            show(console, literal(part.title, "bold"))
        if part.explanation:
            show(console, literal(part.explanation, "dim"))
        show(console, laid_out(part))


def laid_out(part: tables.ReportTable) -> Table:
    """Return a table of rich."""
    rows = []
    for cells, style in part.rows:
        row = [
            literal(cell.text, STYLE[cell.style])
            if isinstance(cell, tables.Line)
            else literal(cell, STYLE[style])
            for cell in cells
        ]
        if part.is_named and style != "dim":
            row[0].style = "bold"
        rows.append(row)
    return table(part.heads, rows, right=part.right, whole=("verdict", "at most"))


def literal(text: str, style: str | None = "") -> Text:
    """Return text on one line that is neither markup nor a control sequence; nothing is cut."""
    glued = together(escape(text.replace("\n", " ")), _GLUE)
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
        *(
            Column(
                literal(head),
                justify="right" if head in right else "left",
                overflow="fold",
                no_wrap=head in whole,
            )
            for head in heads
        ),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_header=any(heads),
    )
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else literal(str(cell)) for cell in row))
    return made


def joined(parts: Iterable[Text]) -> Text:
    """Join phrases on one line, two blanks apart."""
    return Text("  ").join(parts)
