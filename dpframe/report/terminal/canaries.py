"""What the canaries of one run show, at each δ, beside what so many could show at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.report import words
from dpframe.report.terminal import ranking
from dpframe.report.terminal.cell import BOUND
from dpframe.report.terminal.elsewhere import answered, missing, noted, roc, untested
from dpframe.report.terminal.ink import STYLE, SYMBOL, WORDS, Ink
from dpframe.report.terminal.narrow import fitted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


def render_canaries(found: dict[str, Any], console: Console, *, remarks: bool = False) -> None:
    """Prints the answer of `dpframe score --one-run`.

    Args:
        found: what `dpframe.score_one_run` returns.
        console: where to print.
        remarks: whether to print what estimators remarked, not only how much of it there is.
    """
    ink, notes = Ink.of(console), ranking.Notes()
    rows = answered(found)
    for line in _head(found, ink):
        console.print(line)
    if rows:
        console.print()
        for part in fitted(_table(rows, found, notes, ink), ink, console.width):
            console.print(part)
        console.print()
    curve = roc(found, [], ink, console.width)
    for line in (*notes.lines(ink), *_remarks(found, rows, remarks, ink), *curve):
        console.print(line)


def _head(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    scores, audit, claim = found["scores"], found["audit"], found["claim"]
    lacking = f", {words.quantity(scores['nan'])} scores NaN" if scores["nan"] else ""
    text = ink.text(scores["name"], "bold")
    yield text.append(
        ink.plain(
            f": {words.quantity(scores['canaries'])} canaries of one run, "
            f"{words.quantity(scores['members'])} of them members{lacking}"
        )
    )
    claimed = ""
    if claim is not None:
        epsilon = words.point(words.number(claim["epsilon"]))
        claimed = f" · claimed ε {epsilon} at δ = {words.setting(claim['delta'])}"
    yield ink.text(
        f"ε in nats{claimed} · all bounds together at {words.percent(audit['confidence'])}"
    )


def _table(rows: list[dict[str, Any]], found: dict[str, Any], notes: Any, ink: Ink) -> Table:
    table = ink.table(2)
    judged = found["claim"] is not None
    heads = ["estimator", "δ", "bound", "can show", "estimate"]
    heads += ["p-value", "verdict"] if judged else []
    for head in heads:
        table.add_column(ink.text(head), overflow="fold", no_wrap=head != "estimator")
    table.add_column(ink.text("assumes"), no_wrap=True)
    for row in sorted(rows, key=lambda row: not row["estimate"]["certified"]):
        certified = row["estimate"]["certified"]
        style = "" if certified else "dim"
        name = row["estimator"]["label"]
        for place, each in enumerate(row["bounds"]):
            cells = [words.setting(each["delta"])]
            if certified:
                cells.append(f"{BOUND} {words.lower(words.number(each['epsilon_lower']))}")
                most = each["ceiling"]
                cells.append("–" if most is None else f"≤ {words.point(words.number(most))}")
            else:
                cells += ["no bound", "–"]
            cells.append(words.point(words.number(each["epsilon"])))
            if judged:
                p_value = words.number(row["p_value"])
                cells.append("–" if p_value is None or place else words.point(p_value))
                cells.append("" if place else _verdict(row))
            drawn = [ink.text(cell, style) for cell in cells]
            if judged and row["verdict"]:
                drawn[-1] = ink.text(cells[-1], STYLE[row["verdict"]])
            title = ink.text("" if place else name, "bold" if certified else "dim")
            mark = "" if place else notes.mark(row["estimate"]["assumption"])
            table.add_row(title, *drawn, ink.text(mark, style))
    return table


def _verdict(row: dict[str, Any]) -> str:
    verdict = row["verdict"]
    return "none" if verdict is None else f"{SYMBOL[verdict]} {WORDS[verdict]}"


def _remarks(
    found: dict[str, Any], rows: list[dict[str, Any]], all_of_them: bool, ink: Ink
) -> Iterator[Text]:
    for row in rows:
        label = row["estimator"]["label"]
        if row["reason"]:
            yield ink.text(f"{label}: {row['reason']}", STYLE.get(row["verdict"], ""))
    yield from noted(rows, all_of_them, ink)
    if any(row["estimate"]["certified"] for row in rows):
        yield ink.text(
            "A bound limits the loss of the whole run from below, if each canary was in by a fair "
            "coin of its own. What so many canaries can show is limited by their number, however "
            "large the loss is. No number here says that a mechanism is private."
        )
    yield from untested(found, ink)
    yield from missing(found, ink)
