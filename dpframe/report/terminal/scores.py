"""Reports on scores that were made elsewhere: of two sides, or of the canaries of one run."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpframe.report import scores, words
from dpframe.report.scores import ONE_RUN
from dpframe.report.terminal import plots
from dpframe.report.terminal.comparison import Notes, Ranked, limits, ranking
from dpframe.report.terminal.ink import STYLE, Ink, print_fitted
from dpframe.report.terminal.legend import BOUND
from dpframe.report.words import SYMBOL, WORDS, plural

Row = dict[str, Any]

ROOM = 50  # least columns of a plot
SIZE = (78, 14)  # most columns and rows of a plot


def render_scores(
    found: dict[str, Any],
    console: Console,
    *,
    remarks: bool = False,
    estimates: bool = False,
    every: bool = False,
) -> None:
    """Print the answer of `dpframe.score` or `score_one_run`, then a line for each bound.

    `remarks` prints the notes of estimators, not only their number. `estimates` prints lines of
    estimators that certify nothing; without any bound they are printed anyway. `every` prints
    these lines, the estimators that were left out, and the curves.
    """
    ink, notes = Ink.of(console), Notes()
    rows = [row for row in found["rows"] if row["status"] == "ok"]
    certified = scores.certified_rows(found)
    shown = rows if estimates or every or not certified else certified
    styles = {
        scores.conclusion(found): STYLE["violated"] if found["refuted"] else "",
        scores.best(found): "bold",
    }
    for text in scores.headline(found):
        console.print(ink.text(text, styles.get(text, "")))
    for warning in scores.warnings(found):
        console.print(ink.text(warning, STYLE["failed"]))
    for text in scores.sources(found):
        console.print(ink.text(text))
    console.print(ink.text(scores.terms(found), "dim"))
    if shown:
        draw = _canaries_table if found["kind"] == ONE_RUN else _table
        console.print()
        print_fitted(draw(found, shown, notes, ink), ink, console)
        console.print()
    for line in (*notes.lines(ink), *_remarks(found, certified, shown, remarks, every, ink)):
        console.print(line)
    if every:
        for line in _curves(found, certified, ink, console.width):
            console.print(line)


def _table(found: dict[str, Any], rows: list[Row], notes: Notes, ink: Ink) -> Table:
    judged = ["p-value"] if found["claim"] is not None else []
    columns = ["bound", "estimate", *judged, "time"]
    return ranking([_entry(row, found) for row in rows], "estimator", columns, notes, ink)


def _entry(row: Row, found: dict[str, Any]) -> Ranked:
    estimate = row["estimate"]
    p_value = words.number(row["p_value"])
    return Ranked(
        name=row["estimator"]["label"],
        certified=estimate["certified"],
        assumption=estimate["assumption"],
        bound=words.number(estimate["epsilon_lower"]),
        point=words.number(estimate["epsilon"]),
        interval=limits(estimate["interval"]),
        p_value=p_value,
        refutes=p_value is not None and p_value <= 1 - found["audit"]["confidence"],
        seconds=row["seconds"],
    )


def _canaries_table(found: dict[str, Any], rows: list[Row], notes: Notes, ink: Ink) -> Table:
    """Draw bounds at each δ, beside the most that so many canaries could show."""
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
        for place, each in enumerate(row["bounds"]):
            cells = [words.setting(each["delta"]), "no bound", "–"]
            if certified:
                cells[1] = f"{BOUND} {words.lower(words.number(each['epsilon_lower']))}"
                if each["ceiling"] is not None:
                    cells[2] = f"≤ {words.point(words.number(each['ceiling']))}"
            cells.append(words.point(words.number(each["epsilon"])))
            shown = [ink.text(cell, style) for cell in cells]
            if judged:
                # Claim and assumption belong to the estimator, so to the first of its lines.
                p_value, verdict = words.number(row["p_value"]), row["verdict"]
                p_text = "–" if p_value is None or place else words.point(p_value)
                word = "none" if verdict is None else f"{SYMBOL[verdict]} {WORDS[verdict]}"
                shown.append(ink.text(p_text, style))
                shown.append(ink.text("" if place else word, STYLE[verdict] or style))
            title = ink.text(
                "" if place else row["estimator"]["label"], "bold" if certified else "dim"
            )
            mark = "" if place else notes.mark(row["estimate"]["assumption"])
            table.add_row(title, *shown, ink.text(mark, style))
    return table


def _remarks(
    found: dict[str, Any],
    certified: list[Row],
    shown: list[Row],
    remarks: bool,
    every: bool,
    ink: Ink,
) -> Iterator[Text]:
    rows = [row for row in found["rows"] if row["status"] == "ok"]
    for row in shown if found["kind"] == ONE_RUN else ():
        if row["reason"]:
            yield ink.text(f"{row['estimator']['label']}: {row['reason']}", STYLE[row["verdict"]])
    yield from _notes(shown, remarks, ink)
    if found["kind"] != ONE_RUN:
        yield from _alone(found, certified, ink)
    if certified:
        yield ink.text(scores.meaning(found))
    for row in found["rows"]:
        if row["status"] == "failed":
            label = row["estimator"]["label"]
            yield ink.text(f"{SYMBOL['failed']} {label} failed: {row['reason']}", STYLE["failed"])
    if every:
        for skip in found["skipped"]:
            yield ink.text(f"– {skip['estimator']}: left out: {skip['reason']}")
        return
    hidden = [f"{plural(len(rows) - len(shown), 'estimate')} without a bound"] * (rows != shown)
    if left := len(found["skipped"]):
        hidden.append(f"{plural(left, 'estimator')} left out")
    yield ink.text(f"Shown with --all: {', '.join([*hidden, 'the curves'])}", "dim")


def _notes(rows: list[Row], every: bool, ink: Ink) -> Iterator[Text]:
    """Write the notes of estimators, or their number."""
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in row["estimate"]["notes"]:
            notes.setdefault(note, []).append(row["estimator"]["label"])
    if notes and not every:
        many = "1 note of an estimator" if len(notes) == 1 else f"{len(notes)} notes of estimators"
        yield ink.text(f"{many}, shown with --notes", "dim")
        return
    for note, labels in notes.items():
        yield ink.text(f"{', '.join(labels)}: {note}", "dim")


def _alone(found: dict[str, Any], certified: list[Row], ink: Ink) -> Iterator[Text]:
    """Warn that bounds hold alone, and explain the sign of lines that refute the claim."""
    if warning := scores.unadjusted(found):
        yield ink.text(warning, STYLE["failed"])
    if any(_entry(row, found).refutes for row in certified):
        yield ink.text(
            f"{SYMBOL['violated']} a line that refutes the claim, taken alone", STYLE["violated"]
        )


def _curves(found: dict[str, Any], certified: list[Row], ink: Ink, width: int) -> Iterator[Text]:
    """Plot the rates that the largest bound certifies, beside the claim and beside the ROC."""
    if width < ROOM:
        return
    size = (min(SIZE[0], width), SIZE[1])
    sign = ink.plain("●"), STYLE["violated"] if found["refuted"] else "bold"
    points: list[plots.Point] = []
    if certified and found["kind"] != ONE_RUN:
        best = max(certified, key=lambda row: words.number(row["estimate"]["epsilon_lower"]) or 0.0)
        points = plots.useful(best["estimate"]["tradeoff"])
    if points:
        claim = found["claim"]
        claimed = plots.Curve(tuple(sorted(map(tuple, claim["tradeoff"])))) if claim else None
        yield ink.text("")
        yield ink.text(
            f"● certified by {best['estimator']['label']} alone: the trade-off of false positives "
            "and false negatives runs below or through here. Line: "
            f"{'the claim' if claimed else 'guessing'}.",
            "dim",
        )
        axis = plots.log_axis(plots.decades([x for x, _ in points]))
        certified_at = [(x, y, sign) for x, y in points]
        curve = claimed.at if claimed else lambda x: 1 - x
        yield from plots.draw(curve, certified_at, axis, size, ink)
    counted = [(x, y) for x, y in found["scores"]["roc"] if x > 0]
    if not counted:
        return
    places = [x for x, _ in counted]

    def line(x: float) -> float:
        at = bisect.bisect_right(places, x)
        return counted[at - 1][1] if at else math.nan

    yield ink.text("")
    yield ink.text(
        "The same on logarithmic axes. ● certified, as above. Line: what thresholds on these very "
        "scores give, no bound. Dotted: guessing."
        if points
        else "ROC on logarithmic axes: what thresholds on these very scores give, and no bound. "
        "Dotted: guessing.",
        "dim",
    )
    decades = plots.decades([*places, *(x for x, _ in points)])
    raised = [(x, 1 - y, sign) for x, y in points]
    axis, upright = plots.log_axis(decades), plots.true_positives(decades)
    yield from plots.draw(line, raised, axis, size, ink, upright)
