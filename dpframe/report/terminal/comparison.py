"""Estimators and attacks beside each other, a table for each mechanism and setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.report import words
from dpframe.report.calibration import left_out
from dpframe.report.group import same, short
from dpframe.report.terminal import ranking
from dpframe.report.terminal.ink import STYLE, SYMBOL, Ink
from dpframe.report.terminal.narrow import fitted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.text import Text

COLUMNS: list[ranking.Column] = [
    ("bound", ranking.bound),
    ("of true ε", ranking.share),
    ("estimate", ranking.estimate),
    ("draws", ranking.draws),
    ("time", ranking.seconds),
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
    ink, notes = Ink.of(console), ranking.Notes()
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
            table = ranking.ranking(entries, "attack · estimator", columns, notes, ink)
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


def _entry(row: Row) -> ranking.Ranked:
    own = [
        f"{short(key)} {words.setting(value)}"
        for key, value in row["swept"].items()
        if key.startswith(OWN_KEYS)
    ]
    low, high = row["interval"] or (None, None)
    return ranking.Ranked(
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
