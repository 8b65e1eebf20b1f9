"""A calibration in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.report import calibration as prose
from dpframe.report import words
from dpframe.report.terminal.ink import STYLE, SYMBOL, Ink
from dpframe.report.terminal.narrow import fitted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.table import Table

_LOOKS = {
    "kept": (SYMBOL["consistent"], STYLE["consistent"]),
    "broken": (SYMBOL["violated"], STYLE["violated"]),
    "failed": (SYMBOL["failed"], STYLE["failed"]),
    None: (SYMBOL[None], "dim"),
}


def render_calibration(found: dict[str, Any], console: Console) -> None:
    """Prints the answer of `dpframe calibrate`.

    Args:
        found: what `dpframe.calibrate` returns.
        console: where to print.
    """
    ink = Ink.of(console)
    head = ink.text(found["audit"]["name"], "bold")
    console.print(head.append(ink.plain(f" · {words.quantity(found['repeats'])} repeats")))
    for paragraph in prose.explanation(found):
        console.print(ink.text(paragraph, "dim"))
    for rows in prose.tables(found["rows"]):
        console.print()
        console.print(ink.text(prose.title(rows[0]), "bold"))
        lines = [("failed" if row["status"] == "failed" else row["promise"]) for row in rows]
        told = zip(lines, map(prose.cells, rows), strict=True)
        _print(_table(prose.HEADS, told, ink), ink, console)
    if corners := found["corners"]:
        console.print()
        console.print(ink.text("at the corner of a curve", "bold"))
        console.print(ink.text(prose.corner_explanation(found), "dim"))
        own = [(row["promise"], prose.corner_cells(row)) for row in corners]
        _print(_table(prose.CORNER_HEADS, own, ink), ink, console)
    if whole := found["together"]:
        console.print()
        console.print(ink.text("audits as a whole", "bold"))
        console.print(ink.text(prose.whole_explanation(), "dim"))
        own = [(row["promise"], prose.whole_cells(row)) for row in whole]
        _print(_table(prose.WHOLE_HEADS, own, ink), ink, console)
    console.print()
    for line in prose.failures(found):
        console.print(ink.text(f"– {line}"))
    grave = found["summary"]["broken"] or found["summary"]["failed"]
    console.print(ink.text(prose.conclusion(found), STYLE["violated"] if grave else "bold"))


def _print(table: Table, ink: Ink, console: Console) -> None:
    for part in fitted(table, ink, console.width):
        console.print(part)


def _table(
    heads: tuple[str, ...], lines: Iterable[tuple[str | None, tuple[str, ...]]], ink: Ink
) -> Table:
    """A table whose last column says what became of the promise."""
    table = ink.table(2)
    for head in heads:
        table.add_column(
            ink.text(head),
            justify="right" if head in ("n", "audits") else "left",
            no_wrap=head in ("n", "audits", "typical", "expected", "promise"),
            overflow="fold",
        )
    for kind, (*texts, promise) in lines:
        sign, style = _LOOKS[kind]
        table.add_row(
            *(ink.text(text, style) for text in texts), ink.text(f"{sign} {promise}", style)
        )
    return table
