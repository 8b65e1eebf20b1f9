"""Estimators and attacks side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.report import words
from dpframe.report.calibration import left_out
from dpframe.report.group import same, short
from dpframe.report.terminal.ink import STYLE, SYMBOL, Ink, fitted
from dpframe.report.terminal.legend import AVERAGE, BOUND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


# Estimators side by side: bounds first, the best on top; what is no bound stands apart.


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


# Estimators and attacks beside each other, a table for each mechanism and setting.


COLUMNS: list[Column] = [
    ("bound", bound),
    ("of true ε", share),
    ("estimate", estimate),
    ("draws", draws),
    ("time", seconds),
]

OWN_KEYS = ("attack.", "estimator.")
"""Swept keys that tell the lines of a table apart, not the tables."""

Row = dict[str, Any]


def render_comparison(found: dict[str, Any], console: Console) -> None:
    """Prints the answer of `dpframe compare`.

    Args:
        found: what `dpframe.compare` returns.
        console: where to print.
    """
    ink, notes = Ink.of(console), Notes()
    audit = found["audit"]
    head = ink.text(audit["name"], "bold")
    alone = f"each bound alone at {words.percent(audit['confidence'])} (multiplicity none)"
    console.print(head.append(ink.plain(f" · {alone} · ε in nats")))
    for rows in _tables(found["rows"]):
        entries = [_entry(row) for row in rows if row["status"] == "ok"]
        if entries:
            console.print()
            console.print(_title(rows[0], ink))
            columns = [c for c in COLUMNS if c[0] != "of true ε" or rows[0]["truth"]]
            table = ranking(entries, "attack · estimator", columns, notes, ink)
            for part in fitted(table, ink, console.width):
                console.print(part)
    console.print()
    for line in (*notes.lines(ink), *_remarks(found, ink)):
        console.print(line)


def _tables(rows: list[Row]) -> list[list[Row]]:
    """Rows that may be compared: of one mechanism, at one setting."""
    tables: dict[str, list[Row]] = {}
    for row in rows:
        place = {k: v for k, v in row["swept"].items() if not k.startswith(OWN_KEYS)}
        tables.setdefault(same([row["mechanism"]["label"], place]), []).append(row)
    return list(tables.values())


def _entry(row: Row) -> Ranked:
    own = [
        f"{short(key)} {words.setting(value)}"
        for key, value in row["swept"].items()
        if key.startswith(OWN_KEYS)
    ]
    low, high = row["interval"] or (None, None)
    return Ranked(
        name=" · ".join([row["attack"]["label"], row["estimator"]["label"], *own]),
        certified=row["certified"],
        assumption=row["assumption"],
        bound=row["epsilon_lower"],
        point=words.number(row["epsilon"]),
        interval=None if low is None else (words.number(low), words.number(high)),
        share=row["share"],
        draws=row["draws"]["total"],
        seconds=row["seconds"],
        repeats=row["repeats"],
    )


def _title(row: Row, ink: Ink) -> Text:
    place = [
        f"{short(key)} {words.setting(value)}"
        for key, value in row["swept"].items()
        if not key.startswith(OWN_KEYS)
    ]
    truth = "true ε not known"
    if row["truth"]:
        truth = f"true ε {words.point(words.number(row['truth']['epsilon']))}"
    text = ink.text(row["mechanism"]["label"], "bold")
    at = f"at δ = {words.setting(row['delta'])}"
    return text.append(ink.plain("".join(f" · {part}" for part in (*place, f"{truth} {at}"))))


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
