"""Estimators and attacks side by side: bounds first, the best on top; estimates stand apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpframe.report import words
from dpframe.report.calibration import Row, left_out, place_of, row_name, tables, truth_of
from dpframe.report.group import settings
from dpframe.report.terminal.ink import STYLE, Ink, print_fitted
from dpframe.report.terminal.legend import AVERAGE, BOUND
from dpframe.report.words import SYMBOL

NO_BOUND = "estimates, not bounds:"
FOLDED = ("estimate",)  # columns that may take more than one line, beside the names


class Ranked(NamedTuple):
    """One line of the table."""

    name: str
    certified: bool
    assumption: str
    bound: float | None = None
    point: float | None = None
    interval: tuple[float | None, float | None] | None = None  # limits that promise nothing
    share: float | None = None  # bound over true ε
    p_value: float | None = None
    refutes: bool = False  # true if this line alone refutes the claim
    draws: float | None = None
    seconds: float | None = None
    repeats: int = 1  # more than one: the numbers are means, and a mean of bounds is none


def _cells(entry: Ranked) -> dict[str, str]:
    """Write all columns of a line."""
    point = words.point(entry.point)
    if entry.interval is not None:
        low, high = map(words.point, entry.interval)
        point = f"{point} ({low} to {high})"
    sign = f"{SYMBOL['violated']} " if entry.refutes else ""
    bound = f"{AVERAGE if entry.repeats > 1 else BOUND} {words.lower(entry.bound)}"
    share = "–"
    if entry.share is not None and math.isfinite(entry.share):
        share = f"{math.floor(100 * entry.share)} %"  # rounded down
    return {
        "bound": bound if entry.certified else "no bound",
        "of true ε": share,
        "estimate": point,
        "p-value": "–" if entry.p_value is None else f"{sign}{words.point(entry.p_value)}",
        "draws": "–" if entry.draws is None else words.quantity(entry.draws),
        "time": "–" if entry.seconds is None else words.duration(entry.seconds),
    }


class Notes:
    """Assumptions, explained once below the tables and referred to by number."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def mark(self, text: str) -> str:
        """Return the reference to a text."""
        if text not in self._texts:
            self._texts.append(text)
        return f"[{self._texts.index(text) + 1}]"

    def lines(self, ink: Ink) -> Iterator[Text]:
        """Return the texts."""
        for text in self._texts:
            yield ink.text(f"{self.mark(text)} assumes {text}", "dim")


def ranking(
    entries: Sequence[Ranked], title: str, columns: Sequence[str], notes: Notes, ink: Ink
) -> Table:
    """Draw a table: entries that certify first, the best on top, the others in their order.

    `title` is that of the names and `columns` are keys of `_cells`. The last column refers to
    the assumptions, which `notes` collects.
    """
    table = ink.table(2)
    table.add_column(ink.text(title), overflow="fold")
    for head in columns:
        table.add_column(ink.text(head), overflow="fold", no_wrap=head not in FOLDED)
    table.add_column(ink.text("assumes"), no_wrap=True)
    certified = sorted((e for e in entries if e.certified), key=lambda e: -(e.bound or 0.0))
    rest = [entry for entry in entries if not entry.certified]
    for entry in (*certified, *rest):
        if rest and entry is rest[0]:
            table.add_row(ink.text(NO_BOUND, "dim"))
        style = STYLE["violated"] if entry.refutes else "" if entry.certified else "dim"
        texts = _cells(entry)
        cells = [ink.text(texts[head], style) for head in columns]
        name = ink.text(entry.name, "bold" if entry.certified else "dim")
        table.add_row(name, *cells, ink.text(notes.mark(entry.assumption), style))
    return table


def render_comparison(found: dict[str, Any], console: Console) -> None:
    """Print the result of `dpframe.compare`, a table for each mechanism and setting."""
    ink, notes = Ink.of(console), Notes()
    audit = found["audit"]
    head = ink.text(audit["name"], "bold")
    alone = f"each bound alone at {words.percent(audit['confidence'])} (multiplicity none)"
    console.print(head.append(ink.plain(f" · {alone} · ε in nats")))
    for rows in tables(found["rows"]):
        entries = [_entry(row) for row in rows if row["status"] == "ok"]
        if entries:
            console.print()
            console.print(_title(rows[0], ink))
            columns = ["bound", *(["of true ε"] if rows[0]["truth"] else [])]
            columns += ["estimate", "draws", "time"]
            table = ranking(entries, "attack · estimator", columns, notes, ink)
            print_fitted(table, ink, console)
    console.print()
    for line in (*notes.lines(ink), *_remarks(found, ink)):
        console.print(line)


def limits(pair: Any) -> tuple[float | None, float | None] | None:
    """Read an interval; None if there is none."""
    low, high = pair or (None, None)
    return None if low is None else (words.number(low), words.number(high))


def _entry(row: Row) -> Ranked:
    return Ranked(
        name=row_name(row),
        certified=row["certified"],
        assumption=row["assumption"],
        bound=row["epsilon_lower"],
        point=words.number(row["epsilon"]),
        interval=limits(row["interval"]),
        share=row["share"],
        draws=row["draws"]["total"],
        seconds=row["seconds"],
        repeats=row["repeats"],
    )


def _title(row: Row, ink: Ink) -> Text:
    truth = truth_of(row) or f"true ε not known at δ = {words.setting(row['delta'])}"
    text = ink.text(row["mechanism"]["label"], "bold")
    parts = (*settings(place_of(row)), truth)
    return text.append(ink.plain("".join(f" · {part}" for part in parts)))


def _remarks(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    rows: list[Row] = found["rows"]
    if any(row["repeats"] > 1 for row in rows):
        yield ink.text(
            "Numbers are means over the repeats of each cell; a mean of bounds (⌀) is no bound."
        )
    yield ink.text(
        "Draws are outputs of the mechanism, on both datasets: to learn from, to choose thresholds "
        "from, and to count; lines of a table share them. Time is a line's share of drawing and "
        "counting, and its own estimate.",
        "dim",
    )
    if any(row["certified"] for row in rows):
        yield ink.text(
            "Bounds are lower limits of the loss, one attack each. To report the best of several "
            "takes an audit that pays for them: dpframe run."
        )
    for row in rows:
        if row["reason"] is not None:
            name = " · ".join(row[part]["label"] for part in ("mechanism", "attack", "estimator"))
            yield ink.text(f"{SYMBOL['failed']} {name}: failed: {row['reason']}", STYLE["failed"])
    for reason in left_out(found["skipped"]):
        yield ink.text(f"– {reason}")
