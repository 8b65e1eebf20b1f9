"""Calibration and conformance in the terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from rich.padding import Padding

from dpframe.report import calibration as prose
from dpframe.report import words
from dpframe.report.terminal.ink import STYLE, SYMBOL, Ink, fitted
from dpframe.report.words import setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.table import Table

    from dpframe.report.terminal.plugins import PluginEntry


# A calibration in the terminal.


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


# What became of the promises of a plugin, a line each.


class Finding(Protocol):
    """One promise."""

    @property
    def promise(self) -> str: ...
    @property
    def result(self) -> str: ...
    @property
    def detail(self) -> str: ...


class Conformance(Protocol):
    """A plugin and its promises."""

    @property
    def entry(self) -> PluginEntry: ...
    @property
    def params(self) -> dict[str, Any]: ...
    @property
    def findings(self) -> Sequence[Finding]: ...


_STYLE = {"kept": STYLE["consistent"], "broken": STYLE["violated"], "left out": "dim"}


def render_conformance(found: Conformance, console: Console) -> None:
    """Prints the promises that are kept, broken and left out, in words.

    Args:
        found: what was tried.
        console: where to print.
    """
    ink, entry = Ink.of(console), found.entry
    heading = ink.text(f"{entry.kind} {entry.name}", "bold")
    given = ", ".join(f"{name} = {setting(value)}" for name, value in found.params.items())
    origin = f" · {entry.distribution} {entry.version}"
    console.print(heading.append(ink.plain(f"{origin}{f' · {given}' if given else ''}")))
    width = max(map(len, _STYLE))
    told: dict[str, str] = {}
    for finding in found.findings:
        line = ink.text(finding.result.ljust(width + 2), _STYLE[finding.result])
        console.print(line.append(ink.plain(finding.promise)))
        if finding.detail:
            # One mistake may break many promises, and only its numbers differ.
            first = told.setdefault(re.sub(r"\d+", "", finding.detail), finding.promise)
            text = finding.detail if first == finding.promise else f"as above: {first}"
            console.print(Padding(ink.text(text), (0, 0, 0, width + 2), expand=False))
    counted = [sum(one.result == word for one in found.findings) for word in _STYLE]
    parts = (f"{count} {word}" for count, word in zip(counted, _STYLE, strict=True))
    console.print(ink.plain(", ".join(parts)))
