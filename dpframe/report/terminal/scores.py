"""Reports on scores that were made elsewhere: of two sides, or of the canaries of one run."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpframe.report import words
from dpframe.report.terminal import plots
from dpframe.report.terminal.comparison import Notes, Ranked, limits, ranking
from dpframe.report.terminal.ink import STYLE, Ink, print_fitted
from dpframe.report.terminal.legend import BOUND
from dpframe.report.words import SYMBOL, WORDS, plural

Row = dict[str, Any]

ONE_RUN = "score-one-run"
"""The kind of answer about canaries, whose bounds hold together."""
DEFAULT = "order-statistics"
"""The estimator of the headline, named before any scores are seen."""
LOW_RATES = (0.01, 0.001)
"""False-positive rates at which the headline names the true-positive rate."""
ROOM = 50
"""Least columns of a plot."""
SIZE = (78, 14)
"""Most columns and rows of a plot."""


def render_scores(
    found: dict[str, Any],
    console: Console,
    *,
    remarks: bool = False,
    estimates: bool = False,
    every: bool = False,
) -> None:
    """Print the result of `dpframe score`: the answer, then a line for each bound.

    Args:
        found: the result of `dpframe.score` or `dpframe.score_one_run`.
        console: where to print.
        remarks: print the notes of estimators, not only their number.
        estimates: print lines of estimators that certify nothing; without any bound they are
            printed anyway.
        every: print these lines, the estimators that were left out, and the curves.
    """
    ink, notes = Ink.of(console), Notes()
    rows = [row for row in found["rows"] if row["status"] == "ok"]
    certified = [row for row in rows if row["estimate"]["certified"]]
    shown = rows if estimates or every or not certified else certified
    for line in (*_headline(found, certified, ink), *_sources(found, ink)):
        console.print(line)
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


# The answer.


def _headline(found: dict[str, Any], certified: list[Row], ink: Ink) -> Iterator[Text]:
    if found["refuted"] is not None and found["kind"] != ONE_RUN:
        yield _conclusion(found, ink)
    if certified:
        yield ink.text(_best(found, certified), "bold")
    if rates := _rates(found["scores"]["roc"]):
        yield ink.text(rates)


def _best(found: dict[str, Any], certified: list[Row]) -> str:
    """State one bound that holds with the confidence beside it.

    Bounds on canaries hold together, so it is the largest. Of others it is the only one, or that
    of the default estimator, or the largest, which pays for the choice.
    """
    confidence, rows = found["audit"]["confidence"], certified
    if found["kind"] == ONE_RUN:
        best = max(certified, key=lambda row: _number(row["bounds"][0]["epsilon_lower"]))
        lower, delta = (best["bounds"][0][key] for key in ("epsilon_lower", "delta"))
    else:
        rows = [row for row in certified if row["estimator"]["use"] == DEFAULT] or certified
        best = max(rows, key=lambda row: _number(row["estimate"]["epsilon_lower"]))
        lower, delta = best["estimate"]["epsilon_lower"], found["audit"]["delta"]
        confidence = 1 - len(rows) * (1 - confidence)
    if confidence <= 0:
        return "No bound can be named: so many were looked at that none holds for certain."
    return (
        f"ε {BOUND} {words.lower(_number(lower))} at δ = {words.setting(delta)}, "
        f"{words.percent(confidence)} ({best['estimator']['label']})"
    )


def _number(value: Any) -> float:
    return words.number(value) or 0.0


def _rates(roc: list[list[float]]) -> str:
    """Write the area under the ROC and the true-positive rates at low false-positive rates."""
    if not roc:
        return ""
    area = sum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in itertools.pairwise(roc))
    reached = [max(y for x, y in roc if x <= low) for low in LOW_RATES]
    shares = (
        f"{100 * y:.3g} % at FPR {words.setting(100 * low)} %"
        for y, low in zip(reached, LOW_RATES, strict=True)
    )
    return f"AUC {area:.3f} · TPR {', '.join(shares)}"


def _conclusion(found: dict[str, Any], ink: Ink) -> Text:
    tests = sum(row["p_value"] is not None or row["status"] == "failed" for row in found["rows"])
    paid = f", which pays for {tests} estimators (Bonferroni)" if tests > 1 else ""
    how = f"refuted at {words.percent(found['audit']['confidence'])} confidence{paid}."
    if found["refuted"]:
        return ink.text(f"{SYMBOL['violated']} The claim is {how}", STYLE["violated"])
    return ink.text(f"{SYMBOL['consistent']} The claim is not {how}")


def _sources(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    """Name the scores, the claim and the confidence."""
    scores, audit, claim = found["scores"], found["audit"], found["claim"]
    if found["kind"] == ONE_RUN:
        yield ink.text(
            f"{scores['name']}: {words.quantity(scores['canaries'])} canaries of one run, "
            f"{words.quantity(scores['members'])} of them members"
            f"{_lacking(scores['nan'], 'scores NaN')}"
        )
    else:
        for key, name in (("in", "D′, the record in"), ("out", "D, the record out")):
            side = scores[key]
            kind = "decisions" if side["type"] == "bool" else "scores"
            amount = f"{words.quantity(side['scores'])} {kind}"
            lacking = _lacking(side["nan"], "of them NaN")
            yield ink.text(f"{side['name']}: {amount}{lacking} ({name})")
    claimed = ""
    if claim is not None:
        epsilon = words.point(words.number(claim["epsilon"]))
        claimed = f" · claimed ε {epsilon} at δ = {words.setting(claim['delta'])}"
    sure = words.percent(audit["confidence"])
    how = f"all bounds together at {sure}"
    if found["kind"] != ONE_RUN:
        how = f"each bound alone at {sure} (multiplicity none)"
        claimed = claimed or f" at δ = {words.setting(audit['delta'])}"
    yield ink.text(f"ε in nats{claimed} · {how}", "dim")


def _lacking(number: int, text: str) -> str:
    return f", {words.quantity(number)} {text}" if number else ""


# A line for each estimator.


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


# The limits of the numbers, and what is missing.


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
    if found["claim"] is not None and found["refuted"] is None:
        # It must not look as if the claim had held.
        yield ink.text(
            "! The claim was not tested: no estimator that was asked can test it on these scores.",
            STYLE["failed"],
        )
    if certified:
        yield ink.text(_meaning(found))
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
    confidence, count = found["audit"]["confidence"], len(certified)
    if count > 1:
        together = 1 - count * (1 - confidence)
        sure = f"with {words.percent(together)}" if together > 0 else "with no confidence at all"
        yield ink.text(
            f"! Not adjusted for {count} bounds: each holds alone at "
            f"{words.percent(confidence)}. The best of them, picked now, holds {sure}; name one "
            "estimator beforehand instead (--estimator).",
            STYLE["failed"],
        )
    if any(_entry(row, found).refutes for row in certified):
        yield ink.text(
            f"{SYMBOL['violated']} a line that refutes the claim, taken alone", STYLE["violated"]
        )


def _meaning(found: dict[str, Any]) -> str:
    if found["kind"] == ONE_RUN:
        return (
            "A bound limits the loss of the whole run from below, if each canary was in by a fair "
            "coin of its own. What so many canaries can show is limited by their number, however "
            "large the loss is. No number here says that a mechanism is private."
        )
    return (
        "A bound limits the loss from below: these scores show at least so much. No number "
        "here says that a mechanism is private; other scores may show more."
    )


# The curves.


def _curves(found: dict[str, Any], certified: list[Row], ink: Ink, width: int) -> Iterator[Text]:
    """Plot the rates that the largest bound certifies, beside the claim and beside the ROC."""
    if width < ROOM:
        return
    size = (min(SIZE[0], width), SIZE[1])
    sign = ink.plain("●"), STYLE["violated"] if found["refuted"] else "bold"
    points: list[plots.Point] = []
    if certified and found["kind"] != ONE_RUN:
        best = max(certified, key=lambda row: _number(row["estimate"]["epsilon_lower"]))
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
        yield from plots.draw(
            claimed.at if claimed else lambda x: 1 - x, points, sign, axis, size, ink
        )
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
    raised = [(x, 1 - y) for x, y in points]
    axis, upright = plots.log_axis(decades), plots.true_positives(decades)
    yield from plots.draw(line, raised, sign, axis, size, ink, upright)
