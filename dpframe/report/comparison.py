"""The result of `dpframe compare`: certified bounds, the largest on top, and then estimates."""

import math
from collections.abc import Iterator
from typing import Any

from dpframe.report import number_format
from dpframe.report.calibration import ResultRow, left_out, place_of, row_name, tables, truth_of
from dpframe.report.group import settings
from dpframe.report.number_format import duration, lower, percent, quantity, setting
from dpframe.report.parts import Assumptions, Line, Part, Row, Table
from dpframe.report.scores import estimate_text
from dpframe.report.verdict_text import SYMBOL


def parts(found: dict[str, Any]) -> Iterator[Part]:
    """Describe the result: a table for each mechanism and setting.

    If each has a single line, because there is one attack and one estimator, they share a table.
    """
    assumptions, audit = Assumptions(), found["audit"]
    alone = f"each bound alone at {percent(audit['confidence'])} (multiplicity none)"
    yield Line(f"{audit['name']} · {alone} · ε in nats", "bold")
    every = tables([row for row in found["rows"] if row["status"] == "ok"])
    if len(every) > 1 and all(len(rows) == 1 for rows in every):
        named = [(f"{_title(row)} · {row_name(row)}", row) for (row,) in every]
        yield _table("mechanism", named, assumptions)
    else:
        for rows in every:
            named = [(row_name(row), row) for row in rows]
            made = _table("attack · estimator", named, assumptions)
            yield made._replace(title=_title(rows[0]))
    yield from assumptions.lines()
    yield from _remarks(found)


def _title(row: ResultRow) -> str:
    truth = truth_of(row) or f"true ε not known at δ = {setting(row['delta'])}"
    return " · ".join([row["mechanism"]["label"], *settings(place_of(row)), truth])


def _table(title: str, named: list[tuple[str, ResultRow]], assumptions: Assumptions) -> Table:
    named.sort(key=lambda one: (not one[1]["certified"], -(one[1]["epsilon_lower"] or 0.0)))
    known = any(row["truth"] for _, row in named)
    lines = []
    for name, row in named:
        certified, share = row["certified"], row["share"]
        bound = f"{'⌀' if row['repeats'] > 1 else '≥'} {lower(row['epsilon_lower'])}"
        of_truth = "–" if share is None or math.isinf(share) else f"{math.floor(100 * share)} %"
        texts = [name, bound if certified else "no bound", *[of_truth] * known]
        texts.append(estimate_text(number_format.number(row["epsilon"]), row["interval"]))
        texts.append(quantity(row["draws"]["total"]))
        texts.append("–" if row["seconds"] is None else duration(row["seconds"]))
        texts.append(assumptions.mark(row["assumption"]))
        lines.append(Row(texts, None if certified else "dim"))
    heads = [title, "bound", *["of true ε"] * known, "estimate", "draws", "time", "assumes"]
    return Table(heads, lines, right=("of true ε", "draws", "time"))


def _remarks(found: dict[str, Any]) -> Iterator[Line]:
    rows: list[ResultRow] = found["rows"]
    if any(row["repeats"] > 1 for row in rows):
        yield Line(
            "Numbers are means over the repeats of each cell; a mean of bounds (⌀) is not a bound."
        )
    yield Line(
        "Draws are outputs of the mechanism on both datasets: for learning, for choosing "
        "thresholds, and for counting; the lines of a mechanism share them. Time is a line's share "
        "of drawing and counting, and its own estimate.",
        "dim",
    )
    if any(row["certified"] for row in rows):
        yield Line(
            "Each bound is a lower limit on the loss, for one attack. To report the best of "
            "several, use dpframe run, which corrects for the choice."
        )
    for row in rows:
        if row["reason"] is not None:
            name = " · ".join(row[part]["label"] for part in ("mechanism", "attack", "estimator"))
            yield Line(f"{SYMBOL['failed']} {name}: failed: {row['reason']}", "failed")
    yield from (Line(f"– {reason}") for reason in left_out(found["skipped"]))
