"""Reports on scores that were made elsewhere."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, Any

from dpframe.report import words
from dpframe.report.terminal import comparison as ranking
from dpframe.report.terminal.ink import STYLE, SYMBOL, WORDS, Ink, fitted
from dpframe.report.terminal.legend import BOUND
from dpframe.report.terminal.plots import Curve, Point, draw, log_axis, true_positives, useful

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


# What is said of scores made elsewhere in the same way, of two sides and of one run.


ROOM = 50
"""Columns that a plot needs."""
SIZE = (78, 14)
"""Columns and rows of a plot at most."""
DECADES = (2, 12)
"""Least and most decades of a logarithmic axis."""


def answered(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows with an estimate."""
    return [row for row in found["rows"] if row["status"] == "ok"]


def noted(rows: list[dict[str, Any]], all_of_them: bool, ink: Ink) -> Iterator[Text]:
    """What estimators remarked, or how many remarks there are."""
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in row["estimate"]["notes"]:
            notes.setdefault(note, []).append(row["estimator"]["label"])
    if notes and not all_of_them:
        many = "1 note of an estimator" if len(notes) == 1 else f"{len(notes)} notes of estimators"
        yield ink.text(f"{many}, shown with --notes", "dim")
        return
    for note, labels in notes.items():
        yield ink.text(f"{', '.join(labels)}: {note}", "dim")


def untested(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    """That nobody tested the claim, which must not look as if it had held."""
    if found["claim"] is not None and found["refuted"] is None:
        yield ink.text(
            "! The claim was not tested: no estimator that was asked can test it on these scores.",
            STYLE["failed"],
        )


def missing(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    """Estimators that failed, and those that were left out."""
    for row in found["rows"]:
        if row["status"] == "failed":
            label = row["estimator"]["label"]
            yield ink.text(f"{SYMBOL['failed']} {label} failed: {row['reason']}", STYLE["failed"])
    for skip in found["skipped"]:
        yield ink.text(f"– {skip['estimator']}: left out: {skip['reason']}")


def decades(rates: list[float]) -> int:
    """How far a logarithmic axis reaches down to show all rates but 0."""
    least = min((rate for rate in rates if rate > 0), default=1.0)
    return min(max(math.ceil(-math.log10(least)), DECADES[0]), DECADES[1])


def roc(found: dict[str, Any], certified: list[Point], ink: Ink, width: int) -> Iterator[Text]:
    """The ROC of the scores on logarithmic axes, and the rates (FPR, FNR) that are certified."""
    counted = [(x, y) for x, y in found["scores"]["roc"] if x > 0]
    if width < ROOM or not counted:
        return
    places = [x for x, _ in counted]

    def line(x: float) -> float:
        at = bisect.bisect_right(places, x)
        return counted[at - 1][1] if at else math.nan

    said = "● certified, as above. " if certified else ""
    yield ink.text("")
    yield ink.text(
        f"The same on logarithmic axes. {said}Line: what thresholds on these very scores give, no "
        "bound. Dotted: guessing."
        if certified
        else "ROC on logarithmic axes: what thresholds on these very scores give, and no bound. "
        "Dotted: guessing.",
        "dim",
    )
    reach = decades([*places, *(x for x, _ in certified)])
    yield from draw(
        line,
        [(x, 1 - y) for x, y in certified],
        (ink.plain("●"), STYLE["violated"] if found["refuted"] else "bold"),
        log_axis(reach),
        (min(SIZE[0], width), SIZE[1]),
        ink,
        true_positives(reach),
    )


# What the canaries of one run show, at each δ, beside what so many could show at most.


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


# What every estimator says about scores that were made elsewhere.


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
    for line in _scores_head(found, ink):
        console.print(line)
    if entries:
        console.print()
        table = ranking.ranking(entries, "estimator", columns, marks, ink)
        for part in fitted(table, ink, console.width):
            console.print(part)
        console.print()
    curve = _curve(found, ink, console.width)
    for line in (*marks.lines(ink), *_scores_remarks(found, remarks, ink), *curve):
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


def _scores_head(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
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


def _scores_remarks(found: dict[str, Any], all_of_them: bool, ink: Ink) -> Iterator[Text]:
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
