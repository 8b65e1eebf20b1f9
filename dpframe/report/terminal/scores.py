"""What every estimator says about scores that were made elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpframe.report import words
from dpframe.report.terminal import ranking
from dpframe.report.terminal.curve import Curve, Point, useful
from dpframe.report.terminal.elsewhere import (
    ROOM,
    SIZE,
    answered,
    decades,
    missing,
    noted,
    roc,
    untested,
)
from dpframe.report.terminal.ink import STYLE, SYMBOL, Ink
from dpframe.report.terminal.narrow import fitted
from dpframe.report.terminal.panel import draw, log_axis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.text import Text


def render_scores(found: dict[str, Any], console: Console, *, remarks: bool = False) -> None:
    """Prints the answer of `dpframe score`.

    Args:
        found: what `dpframe.score` returns.
        console: where to print.
        remarks: whether to print what estimators remarked, not only how much of it there is.
    """
    ink, marks = Ink.of(console), ranking.Notes()
    entries = [_entry(row, found) for row in answered(found)]
    columns: list[ranking.Column] = [("bound", ranking.bound), ("estimate", ranking.estimate)]
    if found["claim"] is not None:
        columns.append(("p-value", ranking.p_value))
    columns.append(("time", ranking.seconds))
    for line in _head(found, ink):
        console.print(line)
    if entries:
        console.print()
        table = ranking.ranking(entries, "estimator", columns, marks, ink)
        for part in fitted(table, ink, console.width):
            console.print(part)
        console.print()
    curve = _curve(found, ink, console.width)
    for line in (*marks.lines(ink), *_remarks(found, remarks, ink), *curve):
        console.print(line)


def _entry(row: dict[str, Any], found: dict[str, Any]) -> ranking.Ranked:
    estimate = row["estimate"]
    p_value = words.number(row["p_value"])
    low, high = estimate["interval"] or (None, None)
    return ranking.Ranked(
        name=row["estimator"]["label"],
        certified=estimate["certified"],
        assumption=estimate["assumption"],
        bound=words.number(estimate["epsilon_lower"]),
        point=words.number(estimate["epsilon"]),
        interval=None if low is None else (words.number(low), words.number(high)),
        p_value=p_value,
        refutes=p_value is not None and p_value <= 1 - found["audit"]["confidence"],
        seconds=row["seconds"],
    )


def _head(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    inside, outside = found["scores"]["in"], found["scores"]["out"]
    for side, name in ((inside, "D′, the record in"), (outside, "D, the record out")):
        lacking = f", {words.quantity(side['nan'])} of them NaN" if side["nan"] else ""
        kind = "decisions" if side["type"] == "bool" else "scores"
        text = ink.text(f"{side['name']}", "bold")
        text.append(ink.plain(f": {words.quantity(side['scores'])} {kind}{lacking} ({name})"))
        yield text
    audit = found["audit"]
    claim = found["claim"]
    claimed = ""
    if claim is not None:
        claimed = f" · claimed ε {words.point(words.number(claim['epsilon']))}"
    yield ink.text(
        f"ε in nats at δ = {words.setting(audit['delta'])}{claimed} · each bound alone at "
        f"{words.percent(audit['confidence'])} (multiplicity none)"
    )


def _remarks(found: dict[str, Any], all_of_them: bool, ink: Ink) -> Iterator[Text]:
    """What the numbers do not say, and what is missing from the table."""
    rows = answered(found)
    yield from noted(rows, all_of_them, ink)
    confidence = found["audit"]["confidence"]
    certified = sum(row["estimate"]["certified"] for row in rows)
    if certified > 1:
        together = 1 - certified * (1 - confidence)
        sure = f"with {words.percent(together)}" if together > 0 else "with no confidence at all"
        yield ink.text(
            f"! Not adjusted for {certified} bounds: each holds alone at "
            f"{words.percent(confidence)}. The best of them, picked now, holds {sure}; name one "
            "estimator beforehand instead (--estimator).",
            STYLE["failed"],
        )
    if any(_entry(row, found).refutes for row in rows):
        yield ink.text(
            f"{SYMBOL['violated']} a line that refutes the claim, taken alone", STYLE["violated"]
        )
    yield from _conclusion(found, ink)
    if certified:
        yield ink.text(
            "A bound limits the loss from below: these scores show at least so much. No number "
            "here says that a mechanism is private; other scores may show more."
        )
    yield from missing(found, ink)


def _conclusion(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    """What all lines together say of the claim."""
    if found["refuted"] is None:
        yield from untested(found, ink)
        return
    tests = sum(row["p_value"] is not None or row["status"] == "failed" for row in found["rows"])
    sure = words.percent(found["audit"]["confidence"])
    paid = f", which pays for {tests} estimators (Bonferroni)" if tests > 1 else ""
    if found["refuted"]:
        text = f"{SYMBOL['violated']} The claim is refuted at {sure} confidence{paid}."
        yield ink.text(text, STYLE["violated"])
    else:
        sign = SYMBOL["consistent"]
        yield ink.text(f"{sign} The claim is not refuted at {sure} confidence{paid}.")


def _curve(found: dict[str, Any], ink: Ink, width: int) -> Iterator[Text]:
    """The rates that the largest bound certifies, beside the claim and beside what was counted."""
    rows = [row for row in answered(found) if row["estimate"]["certified"]]
    best = max(
        rows, key=lambda row: words.number(row["estimate"]["epsilon_lower"]) or 0.0, default=None
    )
    points = useful(best["estimate"]["tradeoff"]) if best else []
    if best and points and width >= ROOM:
        yield from _tradeoff(found, best["estimator"]["label"], points, ink, width)
    yield from roc(found, points, ink, width)


def _tradeoff(
    found: dict[str, Any], label: str, points: list[Point], ink: Ink, width: int
) -> Iterator[Text]:
    claim = found["claim"]
    claimed = Curve(tuple(sorted(map(tuple, claim["tradeoff"])))) if claim else None
    line = "the claim" if claimed else "guessing"
    yield ink.text("")
    yield ink.text(
        f"● certified by {label} alone: the trade-off of false positives and "
        f"false negatives runs below or through here. Line: {line}.",
        "dim",
    )
    yield from draw(
        claimed.at if claimed else lambda x: 1 - x,
        points,
        (ink.plain("●"), STYLE["violated"] if found["refuted"] else "bold"),
        log_axis(decades([x for x, _ in points])),
        (min(SIZE[0], width), SIZE[1]),
        ink,
    )
