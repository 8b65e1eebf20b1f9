"""Reports on scores that were made elsewhere: of two sides, or of the canaries of one run."""

from __future__ import annotations

import bisect
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
from dpframe.report.words import SYMBOL, WORDS

Row = dict[str, Any]

ROOM = 50
"""Least columns of a plot."""
SIZE = (78, 14)
"""Most columns and rows of a plot."""


def render_scores(found: dict[str, Any], console: Console, *, remarks: bool = False) -> None:
    """Print the result of `dpframe score`.

    Args:
        found: the result of `dpframe.score`.
        console: where to print.
        remarks: print the notes of estimators, not only their number.
    """
    ink, notes = Ink.of(console), Notes()
    entries = [_entry(row, found) for row in _answered(found)]
    judged = ["p-value"] if found["claim"] is not None else []
    for line in _scores_head(found, ink):
        console.print(line)
    if entries:
        console.print()
        columns = ["bound", "estimate", *judged, "time"]
        print_fitted(ranking(entries, "estimator", columns, notes, ink), ink, console)
        console.print()
    curve = _curves(found, ink, console.width)
    for line in (*notes.lines(ink), *_scores_remarks(found, remarks, ink), *curve):
        console.print(line)


def render_canaries(found: dict[str, Any], console: Console, *, remarks: bool = False) -> None:
    """Print the result of `dpframe score --one-run`: at each δ, beside the most they could show.

    Args:
        found: the result of `dpframe.score_one_run`.
        console: where to print.
        remarks: print the notes of estimators, not only their number.
    """
    ink, notes = Ink.of(console), Notes()
    for line in _canaries_head(found, ink):
        console.print(line)
    if _answered(found):
        console.print()
        print_fitted(_canaries_table(found, notes, ink), ink, console)
        console.print()
    curve = _roc(found, [], ink, console.width)
    for line in (*notes.lines(ink), *_canaries_remarks(found, remarks, ink), *curve):
        console.print(line)


# Lines that both reports have.


def _answered(found: dict[str, Any]) -> list[Row]:
    """Return the rows with an estimate."""
    return [row for row in found["rows"] if row["status"] == "ok"]


def _notes(rows: list[Row], every: bool, ink: Ink) -> Iterator[Text]:
    """Print the notes of estimators, or their number."""
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


def _untested(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    """Warn that the claim was not tested, which must not look as if it had held."""
    if found["claim"] is not None and found["refuted"] is None:
        yield ink.text(
            "! The claim was not tested: no estimator that was asked can test it on these scores.",
            STYLE["failed"],
        )


def _missing(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    """List estimators that failed, and those that were left out."""
    for row in found["rows"]:
        if row["status"] == "failed":
            label = row["estimator"]["label"]
            yield ink.text(f"{SYMBOL['failed']} {label} failed: {row['reason']}", STYLE["failed"])
    for skip in found["skipped"]:
        yield ink.text(f"– {skip['estimator']}: left out: {skip['reason']}")


def _roc(
    found: dict[str, Any], certified: list[plots.Point], ink: Ink, width: int
) -> Iterator[Text]:
    """Plot the ROC of the scores on logarithmic axes, and the certified rates (FPR, FNR)."""
    counted = [(x, y) for x, y in found["scores"]["roc"] if x > 0]
    if width < ROOM or not counted:
        return
    places = [x for x, _ in counted]

    def line(x: float) -> float:
        at = bisect.bisect_right(places, x)
        return counted[at - 1][1] if at else math.nan

    yield ink.text("")
    yield ink.text(
        "The same on logarithmic axes. ● certified, as above. Line: what thresholds on these very "
        "scores give, no bound. Dotted: guessing."
        if certified
        else "ROC on logarithmic axes: what thresholds on these very scores give, and no bound. "
        "Dotted: guessing.",
        "dim",
    )
    decades = plots.decades([*places, *(x for x, _ in certified)])
    yield from plots.draw(
        line,
        [(x, 1 - y) for x, y in certified],
        _sign(found, ink),
        plots.log_axis(decades),
        (min(SIZE[0], width), SIZE[1]),
        ink,
        plots.true_positives(decades),
    )


def _sign(found: dict[str, Any], ink: Ink) -> tuple[str, str]:
    return ink.plain("●"), STYLE["violated"] if found["refuted"] else "bold"


def _missing_scores(number: int, text: str) -> str:
    return f", {words.quantity(number)} {text}" if number else ""


# The canaries of one run.


def _canaries_head(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    scores, audit, claim = found["scores"], found["audit"], found["claim"]
    yield ink.text(scores["name"], "bold").append(
        ink.plain(
            f": {words.quantity(scores['canaries'])} canaries of one run, "
            f"{words.quantity(scores['members'])} of them members"
            f"{_missing_scores(scores['nan'], 'scores NaN')}"
        )
    )
    claimed = ""
    if claim is not None:
        epsilon = words.point(words.number(claim["epsilon"]))
        claimed = f" · claimed ε {epsilon} at δ = {words.setting(claim['delta'])}"
    yield ink.text(
        f"ε in nats{claimed} · all bounds together at {words.percent(audit['confidence'])}"
    )


def _canaries_table(found: dict[str, Any], notes: Notes, ink: Ink) -> Table:
    table = ink.table(2)
    judged = found["claim"] is not None
    heads = ["estimator", "δ", "bound", "can show", "estimate"]
    heads += ["p-value", "verdict"] if judged else []
    for head in heads:
        table.add_column(ink.text(head), overflow="fold", no_wrap=head != "estimator")
    table.add_column(ink.text("assumes"), no_wrap=True)
    for row in sorted(_answered(found), key=lambda row: not row["estimate"]["certified"]):
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


def _canaries_remarks(found: dict[str, Any], every: bool, ink: Ink) -> Iterator[Text]:
    rows = _answered(found)
    for row in rows:
        if row["reason"]:
            label = row["estimator"]["label"]
            yield ink.text(f"{label}: {row['reason']}", STYLE[row["verdict"]])
    yield from _notes(rows, every, ink)
    if any(row["estimate"]["certified"] for row in rows):
        yield ink.text(
            "A bound limits the loss of the whole run from below, if each canary was in by a fair "
            "coin of its own. What so many canaries can show is limited by their number, however "
            "large the loss is. No number here says that a mechanism is private."
        )
    yield from _untested(found, ink)
    yield from _missing(found, ink)


# Scores of two sides.


def _scores_head(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    inside, outside = found["scores"]["in"], found["scores"]["out"]
    for side, name in ((inside, "D′, the record in"), (outside, "D, the record out")):
        lacking = _missing_scores(side["nan"], "of them NaN")
        kind = "decisions" if side["type"] == "bool" else "scores"
        amount = f"{words.quantity(side['scores'])} {kind}{lacking}"
        yield ink.text(side["name"], "bold").append(ink.plain(f": {amount} ({name})"))
    audit, claim = found["audit"], found["claim"]
    claimed = ""
    if claim is not None:
        claimed = f" · claimed ε {words.point(words.number(claim['epsilon']))}"
    yield ink.text(
        f"ε in nats at δ = {words.setting(audit['delta'])}{claimed} · each bound alone at "
        f"{words.percent(audit['confidence'])} (multiplicity none)"
    )


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


def _scores_remarks(found: dict[str, Any], every: bool, ink: Ink) -> Iterator[Text]:
    """Write the limits of the numbers, and what is missing from the table."""
    rows = _answered(found)
    yield from _notes(rows, every, ink)
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
    if found["refuted"] is None:
        yield from _untested(found, ink)
    else:
        yield _conclusion(found, ink)
    if certified:
        yield ink.text(
            "A bound limits the loss from below: these scores show at least so much. No number "
            "here says that a mechanism is private; other scores may show more."
        )
    yield from _missing(found, ink)


def _conclusion(found: dict[str, Any], ink: Ink) -> Text:
    tests = sum(row["p_value"] is not None or row["status"] == "failed" for row in found["rows"])
    paid = f", which pays for {tests} estimators (Bonferroni)" if tests > 1 else ""
    how = f"refuted at {words.percent(found['audit']['confidence'])} confidence{paid}."
    if found["refuted"]:
        return ink.text(f"{SYMBOL['violated']} The claim is {how}", STYLE["violated"])
    return ink.text(f"{SYMBOL['consistent']} The claim is not {how}")


def _curves(found: dict[str, Any], ink: Ink, width: int) -> Iterator[Text]:
    """Plot the rates that the largest bound certifies, beside the claim and beside the ROC."""
    rows = [row for row in _answered(found) if row["estimate"]["certified"]]
    best = max(
        rows, key=lambda row: words.number(row["estimate"]["epsilon_lower"]) or 0.0, default=None
    )
    points = plots.useful(best["estimate"]["tradeoff"]) if best else []
    if best and points and width >= ROOM:
        claim = found["claim"]
        claimed = plots.Curve(tuple(sorted(map(tuple, claim["tradeoff"])))) if claim else None
        yield ink.text("")
        yield ink.text(
            f"● certified by {best['estimator']['label']} alone: the trade-off of false positives "
            "and false negatives runs below or through here. Line: "
            f"{'the claim' if claimed else 'guessing'}.",
            "dim",
        )
        yield from plots.draw(
            claimed.at if claimed else lambda x: 1 - x,
            points,
            _sign(found, ink),
            plots.log_axis(plots.decades([x for x, _ in points])),
            (min(SIZE[0], width), SIZE[1]),
            ink,
        )
    yield from _roc(found, points, ink, width)
