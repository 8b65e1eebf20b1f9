"""Tables on narrow terminals: what has no room in columns is told line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.table import Column, Table

    from dpframe.report.terminal.ink import Ink

FRAME = 1
"""Blanks that a table puts between columns itself."""


def fitted(table: Table, ink: Ink, width: int) -> Iterator[Table | Text]:
    """The table if no word of it has to be broken, else its rows, a line for every cell.

    Args:
        table: cells are texts; the first column is what rows are called.
        ink: of the console.
        width: columns of the console.
    """
    gaps = (len(table.columns) - 1) * (FRAME + table.padding[1])
    if sum(map(_least, table.columns)) + gaps <= width:
        _share(table.columns, width - gaps)
        yield table
        return
    name, *others = table.columns
    heads = [_plain(column.header) for column in others]
    for called, *cells in zip(name.cells, *(column.cells for column in others), strict=True):
        yield from ink.wrapped(_text(called), width)
        for head, cell in zip(heads, cells, strict=True):
            if plain := " ".join(_plain(cell).split()):
                line = Text(f"{head} {plain}".strip(), _text(cell).style, overflow="fold")
                yield from (Text("  ").append_text(part) for part in ink.wrapped(line, width - 2))


def _share(columns: list[Column], room: int) -> None:
    """Fixes all widths: rich would rather break a word than fold two columns."""
    widths = list(map(_least, columns))
    most = [max(map(cell_len, text.split("\n"))) for column in columns for text in [_all(column)]]
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
    """The width at which no word is broken, or no line where the column does not wrap."""
    text = _all(column)
    return max(map(cell_len, text.split("\n") if column.no_wrap else text.split()), default=0)


def _all(column: Column) -> str:
    """All texts of a column, below each other."""
    return "\n".join(map(_plain, (column.header, *column.cells)))


def _text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text(str(cell))


def _plain(cell: RenderableType) -> str:
    return _text(cell).plain
