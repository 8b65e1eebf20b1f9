"""The results of `compare`, `score` and `calibrate` in the terminal.

Certified bounds come first, the largest on top; estimates follow separately.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpframe.report import calibration, number_format, scores
from dpframe.report.calibration import Row, left_out, place_of, row_name, tables, truth_of
from dpframe.report.group import settings
from dpframe.report.number_format import duration, lower, percent, plural, quantity, setting
from dpframe.report.scores import ONE_RUN
from dpframe.report.terminal.text import STYLE, literal, show, table
from dpframe.report.verdict_text import SYMBOL

NO_BOUND = "no bound"


class Assumptions(dict[str, int]):
    """Assumptions, explained once below a table, with their numbers."""

    def mark(self, assumption: str) -> str:
        """Return the reference to an assumption."""
        return f"[{self.setdefault(assumption, len(self) + 1)}]"

    def lines(self) -> Iterator[Text]:
        """Explain all references."""
        for text, number in self.items():
            yield literal(f"[{number}] assumes {text}", "dim")


def render_comparison(found: dict[str, Any], console: Console) -> None:
    """Print the result of `dpframe.compare`: a table for each mechanism and setting.

    If each has a single line, because there is one attack and one estimator, they share a table.
    """
    assumptions, audit = Assumptions(), found["audit"]
    alone = f"each bound alone at {percent(audit['confidence'])} (multiplicity none)"
    head = literal(audit["name"], "bold")
    show(console, head.append_text(literal(f" · {alone} · ε in nats", "not bold")), Text())
    parts = tables([row for row in found["rows"] if row["status"] == "ok"])
    if len(parts) > 1 and all(len(part) == 1 for part in parts):
        lines = [(f"{_title(part[0])} · {row_name(part[0])}", part[0]) for part in parts]
        show(console, _comparison_table("mechanism", lines, assumptions), Text())
    else:
        for part in parts:
            show(console, literal(_title(part[0]), "bold"))
            lines = [(row_name(row), row) for row in part]
            show(console, _comparison_table("attack · estimator", lines, assumptions), Text())
    show(console, *assumptions.lines(), *_remarks(found))


def _title(row: Row) -> str:
    truth = truth_of(row) or f"true ε not known at δ = {setting(row['delta'])}"
    return " · ".join([row["mechanism"]["label"], *settings(place_of(row)), truth])


def _comparison_table(title: str, lines: list[tuple[str, Row]], assumptions: Assumptions) -> Table:
    """Return a table of certified bounds, the largest on top, and then of estimates."""
    lines.sort(key=lambda line: (not line[1]["certified"], -(line[1]["epsilon_lower"] or 0.0)))
    known = any(row["truth"] for _, row in lines)
    heads = [title, "bound", *["of true ε"] * known, "estimate", "draws", "time", "assumes"]
    shown = []
    for name, row in lines:
        bound = f"{'⌀' if row['repeats'] > 1 else '≥'} {lower(row['epsilon_lower'])}"
        share = row["share"]
        texts = [
            bound if row["certified"] else NO_BOUND,
            *["–" if share is None or math.isinf(share) else f"{math.floor(100 * share)} %"]
            * known,
            scores.estimate_text(number_format.number(row["epsilon"]), row["interval"]),
            quantity(row["draws"]["total"]),
            "–" if row["seconds"] is None else duration(row["seconds"]),
            assumptions.mark(row["assumption"]),
        ]
        style = "" if row["certified"] else "dim"
        named = literal(name, "bold" if row["certified"] else "dim")
        shown.append([named, *(literal(text, style) for text in texts)])
    return table(heads, shown, right=("of true ε", "draws", "time"))


def _remarks(found: dict[str, Any]) -> Iterator[Text]:
    rows: list[Row] = found["rows"]
    if any(row["repeats"] > 1 for row in rows):
        yield literal(
            "Numbers are means over the repeats of each cell; a mean of bounds (⌀) is not a bound."
        )
    yield literal(
        "Draws are outputs of the mechanism on both datasets: for learning, for choosing "
        "thresholds, and for counting; the lines of a mechanism share them. Time is a line's share "
        "of drawing and counting, and its own estimate.",
        "dim",
    )
    if any(row["certified"] for row in rows):
        yield literal(
            "Each bound is a lower limit on the loss, for one attack. To report the best of "
            "several, use dpframe run, which corrects for the choice."
        )
    for row in rows:
        if row["reason"] is not None:
            name = " · ".join(row[part]["label"] for part in ("mechanism", "attack", "estimator"))
            yield literal(f"{SYMBOL['failed']} {name}: failed: {row['reason']}", STYLE["failed"])
    for reason in left_out(found["skipped"]):
        yield literal(f"– {reason}")


# Scores that were made elsewhere: of two sides, or of the canaries of one run.


class Shown(NamedTuple):
    """The parts of a report on scores that a caller requests."""

    remarks: bool  # the notes of estimators instead of their number
    estimates: bool  # estimators that certify nothing, too
    every: bool  # these and the skipped estimators


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
    skipped estimators and the notes.
    """
    assumptions = Assumptions()
    rows = [row for row in found["rows"] if row["status"] == "ok"]
    certified = scores.certified_rows(found)
    shown = rows if estimates or every or not certified else certified
    styles = {
        scores.conclusion(found): STYLE["violated"] if found["refuted"] else "",
        scores.best(found): "bold",
    }
    show(console, *(literal(text, styles.get(text, "")) for text in scores.headline(found)))
    show(console, *(literal(text, STYLE["failed"]) for text in scores.warnings(found)))
    show(console, *map(literal, scores.sources(found)), literal(scores.terms(found), "dim"))
    if shown:
        show(console, Text(), _scores_table(found, shown, assumptions), Text())
    asked = Shown(remarks, estimates, every)
    show(console, *assumptions.lines(), *_score_remarks(found, shown, asked))


def _scores_table(found: dict[str, Any], rows: list[Row], assumptions: Assumptions) -> Table:
    heads, lines = scores.table(found, rows)
    shown: list[list[Text]] = []
    for line in lines:
        style = STYLE[line.verdict] or ("" if line.certified else "dim")
        name, *texts, assumption = line.texts
        again = bool(shown) and shown[-1][0].plain == name
        named = literal(name, "bold" if line.certified else "dim")
        mark = literal("" if again else assumptions.mark(assumption), style)
        shown.append([named, *(literal(text, style) for text in texts), mark])
    return table(heads, shown, right=("time",))


def _score_remarks(found: dict[str, Any], shown: list[Row], asked: Shown) -> Iterator[Text]:
    rows = [row for row in found["rows"] if row["status"] == "ok"]
    certified = scores.certified_rows(found)
    for row in shown if found["kind"] == ONE_RUN else ():
        if row["reason"]:
            yield literal(f"{row['estimator']['label']}: {row['reason']}", STYLE[row["verdict"]])
    yield from _notes(shown, asked.remarks)
    if warning := scores.unadjusted(found):
        yield literal(warning, STYLE["failed"])
    if found["kind"] != ONE_RUN and any(line.verdict for line in scores.table(found, certified)[1]):
        text = f"{SYMBOL['violated']} a line that refutes the claim, taken alone"
        yield literal(text, STYLE["violated"])
    if certified:
        yield literal(scores.meaning(found))
    for row in found["rows"]:
        if row["status"] == "failed":
            text = f"{SYMBOL['failed']} {row['estimator']['label']} failed: {row['reason']}"
            yield literal(text, STYLE["failed"])
    if asked.every or asked.estimates:
        for skip in found["skipped"]:
            yield literal(f"– {skip['estimator']}: left out: {skip['reason']}")
    if asked.every:
        return
    hidden = [f"{plural(len(rows) - len(shown), 'estimate')} without a bound"] * (rows != shown)
    if left := len(found["skipped"]) * (not asked.estimates):
        hidden.append(f"{plural(left, 'estimator')} left out")
    if hidden:
        yield literal(f"Shown with --all: {', '.join(hidden)}", "dim")


def _notes(rows: list[Row], every: bool) -> Iterator[Text]:
    """Write the notes of estimators, or their number."""
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in row["estimate"]["notes"]:
            notes.setdefault(note, []).append(row["estimator"]["label"])
    if notes and not every:
        many = "1 note of an estimator" if len(notes) == 1 else f"{len(notes)} notes of estimators"
        yield literal(f"{many}, shown with --notes", "dim")
        return
    for note, labels in notes.items():
        yield literal(f"{', '.join(labels)}: {note}", "dim")


_KEPT = {
    "kept": (SYMBOL["consistent"], STYLE["consistent"]),
    "broken": (SYMBOL["violated"], STYLE["violated"]),
    "failed": (SYMBOL["failed"], STYLE["failed"]),
    None: (SYMBOL[None], "dim"),
}


def render_calibration(found: dict[str, Any], console: Console) -> None:
    """Print the result of `dpframe.calibrate`."""
    head = literal(found["audit"]["name"], "bold")
    repeats = literal(f" · {quantity(found['repeats'])} repeats", "not bold")
    show(console, head.append_text(repeats))
    show(console, *(literal(text, "dim") for text in calibration.explanation(found)))
    for section in calibration.sections(found):
        show(console, Text(), literal(section.title, "bold"))
        if section.explanation:
            show(console, literal(section.explanation, "dim"))
        lines = []
        for kind, (*texts, promise) in section.rows:
            sign, style = _KEPT[kind]
            lines.append([literal(text, style) for text in (*texts, f"{sign} {promise}")])
        show(console, table(section.heads, lines, right=("n", "audits")))
    show(console, Text(), *(literal(f"– {line}") for line in calibration.failures(found)))
    grave = found["summary"]["broken"] or found["summary"]["failed"]
    show(console, literal(calibration.conclusion(found), STYLE["violated"] if grave else "bold"))
