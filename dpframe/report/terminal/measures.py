"""The results of `compare`, `score` and `calibrate` in the terminal.

Certified bounds come first, the largest on top; estimates follow separately.
"""

import math
from collections.abc import Iterator
from typing import Any

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

FAILED = SYMBOL["failed"]


class Assumptions(dict[str, int]):
    """Assumptions, explained once below a table, with their numbers."""

    def mark(self, assumption: str) -> str:
        """Return the reference to an assumption."""
        return f"[{self.setdefault(assumption, len(self) + 1)}]"

    def lines(self) -> Iterator[Text]:
        """Explain all references."""
        for text, number in self.items():
            yield literal(f"[{number}] assumes {text}", "dim")


def _line(texts: list[str], style: str | None, *, certified: bool) -> list[Text]:
    """Return a line of a table, with the name of a bound in bold."""
    name, *rest = texts
    named = literal(name, "bold" if certified else "dim")
    return [named, *(literal(text, style) for text in rest)]


def render_comparison(found: dict[str, Any], console: Console) -> None:
    """Print the result of `dpframe.compare`: a table for each mechanism and setting.

    If each has a single line, because there is one attack and one estimator, they share a table.
    """
    assumptions, audit = Assumptions(), found["audit"]
    alone = f" · each bound alone at {percent(audit['confidence'])} (multiplicity none)"
    head = literal(audit["name"], "bold")
    show(console, head.append_text(literal(f"{alone} · ε in nats", "not bold")), Text())
    parts = tables([row for row in found["rows"] if row["status"] == "ok"])
    if len(parts) > 1 and all(len(part) == 1 for part in parts):
        named = [(f"{_title(row)} · {row_name(row)}", row) for (row,) in parts]
        show(console, _comparison_table("mechanism", named, assumptions), Text())
    else:
        for part in parts:
            named = [(row_name(row), row) for row in part]
            made = _comparison_table("attack · estimator", named, assumptions)
            show(console, literal(_title(part[0]), "bold"), made, Text())
    show(console, *assumptions.lines(), *_remarks(found))


def _title(row: Row) -> str:
    truth = truth_of(row) or f"true ε not known at δ = {setting(row['delta'])}"
    return " · ".join([row["mechanism"]["label"], *settings(place_of(row)), truth])


def _comparison_table(title: str, named: list[tuple[str, Row]], assumptions: Assumptions) -> Table:
    """Return a table of certified bounds, the largest on top, and then of estimates."""
    named.sort(key=lambda one: (not one[1]["certified"], -(one[1]["epsilon_lower"] or 0.0)))
    known = any(row["truth"] for _, row in named)
    heads = [title, "bound", *["of true ε"] * known, "estimate", "draws", "time", "assumes"]
    lines = []
    for name, row in named:
        certified, share = row["certified"], row["share"]
        bound = f"{'⌀' if row['repeats'] > 1 else '≥'} {lower(row['epsilon_lower'])}"
        of_truth = "–" if share is None or math.isinf(share) else f"{math.floor(100 * share)} %"
        texts = [name, bound if certified else "no bound", *[of_truth] * known]
        texts.append(scores.estimate_text(number_format.number(row["epsilon"]), row["interval"]))
        texts.append(quantity(row["draws"]["total"]))
        texts.append("–" if row["seconds"] is None else duration(row["seconds"]))
        texts.append(assumptions.mark(row["assumption"]))
        lines.append(_line(texts, "" if certified else "dim", certified=certified))
    return table(heads, lines, right=("of true ε", "draws", "time"))


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
            yield literal(f"{FAILED} {name}: failed: {row['reason']}", STYLE["failed"])
    yield from (literal(f"– {reason}") for reason in left_out(found["skipped"]))


# Scores that were made elsewhere: of two sides, or of the canaries of one run.


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
    assumptions, one_run = Assumptions(), found["kind"] == ONE_RUN
    rows, certified = scores.answered(found), scores.certified_rows(found)
    shown = rows if estimates or every or not certified else certified
    styles = {
        scores.conclusion(found): STYLE["violated"] if found["refuted"] else "",
        scores.best(found): "bold",
    }
    show(console, *(literal(text, styles.get(text, "")) for text in scores.headline(found)))
    show(console, *(literal(text, STYLE["failed"]) for text in scores.warnings(found)))
    show(console, *map(literal, scores.sources(found)), literal(scores.terms(found), "dim"))
    if shown:
        heads, lines = scores.table(found, shown)
        made: list[list[Text]] = []
        for line in lines:
            again = bool(made) and made[-1][0].plain == line.texts[0]
            mark = "" if again else assumptions.mark(line.texts[-1])
            style = STYLE[line.verdict] or ("" if line.certified else "dim")
            made.append(_line([*line.texts[:-1], mark], style, certified=line.certified))
        show(console, Text(), table(heads, made, right=("time",)), Text())
    show(console, *assumptions.lines())
    for row in shown if one_run else ():
        if row["reason"]:
            text = f"{row['estimator']['label']}: {row['reason']}"
            show(console, literal(text, STYLE[row["verdict"]]))
    show(console, *_notes(shown, remarks))
    if warning := scores.unadjusted(found):
        show(console, literal(warning, STYLE["failed"]))
    if not one_run and any(line.verdict for line in scores.table(found, certified)[1]):
        text = f"{SYMBOL['violated']} a line that refutes the claim, taken alone"
        show(console, literal(text, STYLE["violated"]))
    if certified:
        show(console, literal(scores.meaning(found)))
    show(console, *(literal(text, STYLE["failed"]) for text in scores.failures(found)))
    if every or estimates:
        show(console, *(literal(f"– {text}") for text in scores.left_out(found)))
    hidden = [f"{plural(len(rows) - len(shown), 'estimate')} without a bound"] * (rows != shown)
    if (left := len(found["skipped"])) and not estimates:
        hidden.append(f"{plural(left, 'estimator')} left out")
    if hidden and not every:
        show(console, literal(f"Shown with --all: {', '.join(hidden)}", "dim"))


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


_KEPT = {"kept": "consistent", "broken": "violated", "failed": "failed", None: None}
"""States of promises as verdicts, which have a sign and a colour."""


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
            verdict = _KEPT[kind]
            texts.append(f"{SYMBOL[verdict]} {promise}")
            lines.append([literal(text, STYLE[verdict] or "dim") for text in texts])
        show(console, table(section.heads, lines, right=("n", "audits")))
    show(console, Text(), *(literal(f"– {line}") for line in calibration.failures(found)))
    grave = found["summary"]["broken"] or found["summary"]["failed"]
    show(console, literal(calibration.conclusion(found), STYLE["violated"] if grave else "bold"))
