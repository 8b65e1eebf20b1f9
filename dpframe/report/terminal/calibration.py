"""A calibration in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.report import calibration as prose
from dpframe.report import words
from dpframe.report.terminal.ink import STYLE, SYMBOL, Ink

if TYPE_CHECKING:
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
        console.print(_table(rows, ink))
    console.print()
    for line in prose.failures(found):
        console.print(ink.text(f"– {line}"))
    grave = found["summary"]["broken"] or found["summary"]["failed"]
    console.print(ink.text(prose.conclusion(found), STYLE["violated"] if grave else "bold"))


def _table(rows: list[dict[str, Any]], ink: Ink) -> Table:
    table = ink.table(2)
    for head in prose.HEADS:
        fixed = head in ("n", "typical", "promise")
        table.add_column(
            ink.text(head),
            justify="right" if head == "n" else "left",
            no_wrap=fixed,
            overflow="fold",
        )
    for row in rows:
        sign, style = _LOOKS["failed" if row["status"] == "failed" else row["promise"]]
        *texts, promise = prose.cells(row)
        table.add_row(
            *(ink.text(text, style) for text in texts), ink.text(f"{sign} {promise}", style)
        )
    return table
