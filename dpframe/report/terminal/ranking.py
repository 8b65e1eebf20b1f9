"""Estimators side by side: bounds first, the best on top; what is no bound stands apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from dpframe.report import words
from dpframe.report.terminal.cell import AVERAGE, BOUND
from dpframe.report.terminal.ink import STYLE, SYMBOL, Ink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.table import Table
    from rich.text import Text

NO_BOUND = "estimates, not bounds:"

FOLDED = ("estimate",)
"""Columns that may take more than one line, beside the names."""


class Ranked(NamedTuple):
    """One line of the table."""

    name: str
    certified: bool
    assumption: str
    bound: float | None = None
    """Certified; None where nothing is."""
    point: float | None = None
    interval: tuple[float | None, float | None] | None = None
    """Limits that promise nothing."""
    share: float | None = None
    """Bound over true ε."""
    p_value: float | None = None
    refutes: bool = False
    """Whether this line alone refutes the claim."""
    draws: float | None = None
    seconds: float | None = None
    repeats: int = 1
    """More than one: the numbers are means, and a mean of bounds is none."""


Column = tuple[str, "Callable[[Ranked], str]"]


def bound(entry: Ranked) -> str:
    """The certified bound, or that there is none."""
    if not entry.certified:
        return "no bound"
    return f"{AVERAGE if entry.repeats > 1 else BOUND} {words.lower(entry.bound)}"


def estimate(entry: Ranked) -> str:
    """The point value; beside it the limits of an estimator that certifies nothing."""
    text = words.point(entry.point)
    if entry.interval is None:
        return text
    low, high = entry.interval
    return f"{text} ({words.point(low)} to {words.point(high)})"


def share(entry: Ranked) -> str:
    """What part of the true ε the bound certifies, rounded down."""
    if entry.share is None or not math.isfinite(entry.share):
        return "–"
    return f"{math.floor(100 * entry.share)} %"


def p_value(entry: Ranked) -> str:
    """The p-value of the claim, with the sign of a violation if it refutes it alone."""
    if entry.p_value is None:
        return "–"
    return f"{SYMBOL['violated'] + ' ' if entry.refutes else ''}{words.point(entry.p_value)}"


def draws(entry: Ranked) -> str:
    """How many outputs were drawn for it."""
    return "–" if entry.draws is None else words.quantity(entry.draws)


def seconds(entry: Ranked) -> str:
    """How long it took."""
    return "–" if entry.seconds is None else words.duration(entry.seconds)


def ranking(
    entries: Sequence[Ranked], title: str, columns: Sequence[Column], notes: Notes, ink: Ink
) -> Table:
    """Draws the table.

    Args:
        entries: in any order; among those that certify nothing the order is kept.
        title: of the column of names.
        columns: title and text of the others.
        notes: collects the assumptions; the last column refers to them.
        ink: of the console.
    """
    table = ink.table(2)
    table.add_column(ink.text(title), overflow="fold")
    for head, _ in columns:
        table.add_column(ink.text(head), overflow="fold", no_wrap=head not in FOLDED)
    table.add_column(ink.text("assumes"), no_wrap=True)
    certified = sorted((e for e in entries if e.certified), key=lambda e: -(e.bound or 0.0))
    rest = [entry for entry in entries if not entry.certified]
    for entry in (*certified, *rest):
        if rest and entry is rest[0]:
            table.add_row(ink.text(NO_BOUND, "dim"))
        style = STYLE["violated"] if entry.refutes else "" if entry.certified else "dim"
        cells = [ink.text(text(entry), style) for _, text in columns]
        name = ink.text(entry.name, "bold" if entry.certified else "dim")
        table.add_row(name, *cells, ink.text(notes.mark(entry.assumption), style))
    return table


class Notes:
    """Assumptions, said once below the tables and referred to by number."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def mark(self, text: str) -> str:
        """The reference to a text."""
        if text not in self._texts:
            self._texts.append(text)
        return f"[{self._texts.index(text) + 1}]"

    def lines(self, ink: Ink) -> Iterator[Text]:
        """The texts."""
        for text in self._texts:
            yield ink.text(f"{self.mark(text)} assumes {text}", "dim")
