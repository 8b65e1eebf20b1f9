"""Tables of estimators for comparisons, calibrations, and scores made elsewhere.

Certified bounds come first, the largest on top; estimates follow separately.
"""

import bisect
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpframe.report import calibration, scores, words
from dpframe.report.calibration import Row, left_out, place_of, row_name, tables, truth_of
from dpframe.report.group import settings
from dpframe.report.scores import ONE_RUN
from dpframe.report.terminal import legend, plots
from dpframe.report.terminal.elements import STYLE, Ink, print_fitted, show
from dpframe.report.words import SYMBOL, plural

NO_BOUND = "estimates, not bounds:"
FOLDED = ("estimate",)  # columns that may take more than one line, besides the names


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
    repeats: int = 1  # of several the numbers are means, and a mean of bounds is not a bound


def _cells(entry: Ranked) -> dict[str, str]:
    """Write all columns of a line."""
    point = words.point(entry.point)
    if entry.interval is not None:
        low, high = map(words.point, entry.interval)
        point = f"{point} ({low} to {high})"
    sign = f"{SYMBOL['violated']} " if entry.refutes else ""
    bound = f"{legend.AVERAGE if entry.repeats > 1 else legend.BOUND} {words.lower(entry.bound)}"
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


Notes = dict[str, int]  # assumptions, explained once below the tables, with their numbers


def _mark(notes: Notes, assumption: str) -> str:
    """Return the reference to an assumption."""
    return f"[{notes.setdefault(assumption, len(notes) + 1)}]"


def _explained(notes: Notes, ink: Ink) -> Iterator[Text]:
    for text, number in notes.items():
        yield ink.text(f"[{number}] assumes {text}", "dim")


def ranking(
    entries: Sequence[Ranked], title: str, columns: Sequence[str], notes: Notes, ink: Ink
) -> Table:
    """Draw a table of certified bounds, the largest on top, and then of estimates in their order.

    `title` heads the names and `columns` are keys of `_cells`. The last column refers to the
    assumptions, which `notes` collects.
    """
    table = ink.table(2, [title, *columns, "assumes"], folded=(title, *FOLDED))
    certified = sorted((e for e in entries if e.certified), key=lambda e: -(e.bound or 0.0))
    rest = [entry for entry in entries if not entry.certified]
    for entry in (*certified, *rest):
        if rest and entry is rest[0]:
            table.add_row(ink.text(NO_BOUND, "dim"))
        style = STYLE["violated"] if entry.refutes else "" if entry.certified else "dim"
        texts = _cells(entry)
        cells = [ink.text(texts[head], style) for head in columns]
        name = ink.text(entry.name, "bold" if entry.certified else "dim")
        table.add_row(name, *cells, ink.text(_mark(notes, entry.assumption), style))
    return table


def render_comparison(found: dict[str, Any], console: Console) -> None:
    """Print the result of `dpframe.compare`, a table for each mechanism and setting."""
    ink, notes = Ink.of(console), Notes()
    audit = found["audit"]
    head = ink.text(audit["name"], "bold")
    alone = f"each bound alone at {words.percent(audit['confidence'])} (multiplicity none)"
    show(console, head.append(ink.plain(f" · {alone} · ε in nats")))
    for rows in tables(found["rows"]):
        entries = [_entry(row) for row in rows if row["status"] == "ok"]
        if entries:
            console.print()
            show(console, _title(rows[0], ink))
            columns = ["bound", *(["of true ε"] if rows[0]["truth"] else [])]
            columns += ["estimate", "draws", "time"]
            table = ranking(entries, "attack · estimator", columns, notes, ink)
            print_fitted(table, console)
    console.print()
    show(console, *_explained(notes, ink), *_remarks(found, ink))


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
            "Numbers are means over the repeats of each cell; a mean of bounds (⌀) is not a bound."
        )
    yield ink.text(
        "Draws are outputs of the mechanism on both datasets: for learning, for choosing "
        "thresholds, and for counting; the lines of a table share them. Time is a line's share "
        "of drawing and counting, and its own estimate.",
        "dim",
    )
    if any(row["certified"] for row in rows):
        yield ink.text(
            "Each bound is a lower limit on the loss, for one attack. To report the best of "
            "several, use dpframe run, which corrects for the choice."
        )
    for row in rows:
        if row["reason"] is not None:
            name = " · ".join(row[part]["label"] for part in ("mechanism", "attack", "estimator"))
            yield ink.text(f"{SYMBOL['failed']} {name}: failed: {row['reason']}", STYLE["failed"])
    for reason in left_out(found["skipped"]):
        yield ink.text(f"– {reason}")


# Scores that were made elsewhere: of two sides, or of the canaries of one run.


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

    `remarks` prints the notes of estimators instead of their number. `estimates` adds estimators
    that certify nothing, which are also printed if no estimator certifies. `every` adds these, the
    skipped estimators and the curves.
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
        show(console, ink.text(text, styles.get(text, "")))
    show(console, *(ink.text(warning, STYLE["failed"]) for warning in scores.warnings(found)))
    show(console, *map(ink.text, scores.sources(found)), ink.text(scores.terms(found), "dim"))
    if shown:
        console.print()
        if found["kind"] == ONE_RUN:
            table = _canaries_table(found, shown, notes, ink)
        else:
            judged = ["p-value"] if found["claim"] is not None else []
            columns = ["bound", "estimate", *judged, "time"]
            entries = [_score_entry(row, found) for row in shown]
            table = ranking(entries, "estimator", columns, notes, ink)
        print_fitted(table, console)
        console.print()
    said = _score_remarks(found, shown, remarks, every, estimates, ink)
    show(console, *_explained(notes, ink), *said)
    if every:
        show(console, *_curves(found, ink, console.width))


def _score_entry(row: Row, found: dict[str, Any]) -> Ranked:
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
    """Draw the bounds at each δ beside the largest possible bound of these canaries."""
    judged = found["claim"] is not None
    heads = ["estimator", "δ", "bound", "can show", "estimate"]
    heads += ["p-value", "verdict"] if judged else []
    table = ink.table(2, [*heads, "assumes"], folded=("estimator",))
    for row in sorted(rows, key=lambda row: not row["estimate"]["certified"]):
        certified = row["estimate"]["certified"]
        style = "" if certified else "dim"
        for place, each in enumerate(row["bounds"]):
            cells = [words.setting(each["delta"]), "no bound", "–"]
            if certified:
                cells[1] = f"{legend.BOUND} {words.lower(words.number(each['epsilon_lower']))}"
                if each["ceiling"] is not None:
                    cells[2] = f"≤ {words.point(words.number(each['ceiling']))}"
            cells.append(words.point(words.number(each["epsilon"])))
            shown = [ink.text(cell, style) for cell in cells]
            if judged:
                # Claim and assumption belong to the estimator, so to the first of its lines.
                p_text = words.point(None if place else words.number(row["p_value"]))
                word = "" if place else scores.verdict(row["verdict"])
                shown.append(ink.text(p_text, style))
                shown.append(ink.text(word, STYLE[row["verdict"]] or style))
            label = "" if place else row["estimator"]["label"]
            title = ink.text(label, "bold" if certified else "dim")
            mark = "" if place else _mark(notes, row["estimate"]["assumption"])
            table.add_row(title, *shown, ink.text(mark, style))
    return table


def _score_remarks(
    found: dict[str, Any], shown: list[Row], remarks: bool, every: bool, asked: bool, ink: Ink
) -> Iterator[Text]:
    certified = scores.certified_rows(found)
    rows = [row for row in found["rows"] if row["status"] == "ok"]
    for row in shown if found["kind"] == ONE_RUN else ():
        if row["reason"]:
            yield ink.text(f"{row['estimator']['label']}: {row['reason']}", STYLE[row["verdict"]])
    yield from _notes(shown, remarks, ink)
    if warning := scores.unadjusted(found):
        yield ink.text(warning, STYLE["failed"])
    if found["kind"] != ONE_RUN and any(_score_entry(row, found).refutes for row in certified):
        text = f"{SYMBOL['violated']} a line that refutes the claim, taken alone"
        yield ink.text(text, STYLE["violated"])
    if certified:
        yield ink.text(scores.meaning(found))
    for row in found["rows"]:
        if row["status"] == "failed":
            label = row["estimator"]["label"]
            yield ink.text(f"{SYMBOL['failed']} {label} failed: {row['reason']}", STYLE["failed"])
    if every or asked:
        for skip in found["skipped"]:
            yield ink.text(f"– {skip['estimator']}: left out: {skip['reason']}")
    if every:
        return
    hidden = [f"{plural(len(rows) - len(shown), 'estimate')} without a bound"] * (rows != shown)
    if left := len(found["skipped"]) * (not asked):
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


def _curves(found: dict[str, Any], ink: Ink, width: int) -> Iterator[Text]:
    """Plot the rates that the largest bound certifies, beside the claim and beside the ROC."""
    if width < ROOM:
        return
    size = (min(SIZE[0], width), SIZE[1])
    sign = ink.plain("●"), STYLE["violated"] if found["refuted"] else "bold"
    points: list[plots.Point] = []
    certified = scores.certified_rows(found)
    if certified and found["kind"] != ONE_RUN:
        best = max(certified, key=scores.lower)
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

    title = "ROC on logarithmic axes: "
    if points:
        title = "The same on logarithmic axes. ● certified, as above. Line: "
    yield ink.text("")
    text = f"{title}thresholds on these same scores; not a bound. Dotted: guessing."
    yield ink.text(text, "dim")
    decades = plots.decades([*places, *(x for x, _ in points)])
    raised = [(x, 1 - y, sign) for x, y in points]
    axis, upright = plots.log_axis(decades), plots.true_positives(decades)
    yield from plots.draw(line, raised, axis, size, ink, upright)


_KEPT = {
    "kept": (SYMBOL["consistent"], STYLE["consistent"]),
    "broken": (SYMBOL["violated"], STYLE["violated"]),
    "failed": (SYMBOL["failed"], STYLE["failed"]),
    None: (SYMBOL[None], "dim"),
}


def render_calibration(found: dict[str, Any], console: Console) -> None:
    """Print the result of `dpframe.calibrate`."""
    ink = Ink.of(console)
    head = ink.text(found["audit"]["name"], "bold")
    show(console, head.append(ink.plain(f" · {words.quantity(found['repeats'])} repeats")))
    show(console, *(ink.text(paragraph, "dim") for paragraph in calibration.explanation(found)))
    for section in calibration.sections(found):
        console.print()
        show(console, ink.text(section.title, "bold"))
        if section.explanation:
            show(console, ink.text(section.explanation, "dim"))
        table = ink.table(
            2,
            section.heads,
            folded=set(section.heads) - {"n", "audits", "typical", "expected", "promise"},
            right=("n", "audits"),
        )
        for kind, (*texts, promise) in section.rows:
            sign, style = _KEPT[kind]
            cells = (*texts, f"{sign} {promise}")
            table.add_row(*(ink.text(text, style) for text in cells))
        print_fitted(table, console)
    console.print()
    show(console, *(ink.text(f"– {line}") for line in calibration.failures(found)))
    grave = found["summary"]["broken"] or found["summary"]["failed"]
    show(console, ink.text(calibration.conclusion(found), STYLE["violated"] if grave else "bold"))
