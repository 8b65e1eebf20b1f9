"""Calibrations and comparisons of estimators as text, for the terminal and the documentation."""

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dpframe.report import number_format
from dpframe.report.group import same, settings
from dpframe.report.number_format import duration, lower, percent, plural, point, quantity, setting
from dpframe.report.scores import estimate_text
from dpframe.report.tables import Assumptions, Line, Part, ReportTable, Row
from dpframe.report.verdict_text import SYMBOL

ResultRow = dict[str, Any]

OWN_KEYS = ("attack.", "estimator.")
"""Prefixes of swept keys that distinguish the lines of a table, as audit.trials does."""
MANY_REPEATS = 10_000  # repeats from which hundredths of a percent are shown
PAGE_WIDTH = 110  # of a page
PROMISES = {
    "kept": ("kept", "consistent"),
    "broken": ("BROKEN", "violated"),
    "failed": ("failed", "failed"),
    None: ("nothing", None),
}
"""States of a promise in words, and the verdict whose sign and colour each has."""


def calibration_page(result: dict[str, Any], command: str, day: str) -> str:
    """Return the page in docs/ on a result of `dpframe.calibrate`, its command and its day."""
    bounds = any(row["certified"] for row in result["rows"])
    blocks = [
        f"# How often {'bounds exceed' if bounds else 'estimates are above'} the truth",
        _wrapped(f"{conclusion(result)} This page is the output of the command below."),
        f"<!-- no-run: slow -->\n```sh\n{command}\n```",
        *map(_wrapped, explanation(result)),
    ]
    for one in sections(result):
        blocks.append(f"## {one.title.capitalize() if one.explanation else one.title}")
        blocks += [_wrapped(one.explanation)] if one.explanation else []
        rows = [[*map(str, texts[:-1]), str(texts[-1])[2:]] for texts, _ in one.rows]  # no signs
        blocks.append("\n".join(map(_line, [one.heads, ["---"] * len(one.heads), *rows])))
    blocks += ["## Result", _wrapped(conclusion(result))]
    if failed := list(failures(result)):
        blocks.append("\n".join(f"* {line}" for line in failed))
    environment = result["environment"]
    versions = ", ".join(f"{name} {environment[name]}" for name in ("dpframe", "jax", "scipy"))
    blocks.append(f"Seed {result['seed']}; {versions}; {day}.")
    return "\n\n".join(blocks) + "\n"


def parts(result: dict[str, Any]) -> Iterator[Part]:
    """Describe the result: how to read the tables, the tables, and the conclusion."""
    yield Line(f"{result['audit']['name']} · {quantity(result['repeats'])} repeats", "bold")
    yield from (Line(text, "dim") for text in explanation(result))
    yield from sections(result)
    yield from (Line(f"– {text}") for text in failures(result))
    grave = result["summary"]["broken"] or result["summary"]["failed"]
    yield Line(conclusion(result), "violated" if grave else "bold")


def _wrapped(text: str) -> str:
    lines = textwrap.wrap(text, PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def explanation(result: dict[str, Any]) -> Iterator[str]:
    """Explain how to read the tables."""
    repeats = quantity(result["repeats"])
    before = max((max(row["fit"], row["pilot"]) for row in result["rows"]), default=0)
    more = "."
    if before:
        more = (
            f". Before that, it draws up to {quantity(before)} outputs, but no more than n, "
            "to learn and to choose thresholds or bins."
        )
    yield (
        f"Each line repeats an audit {repeats} times on new draws of a mechanism with known ε: n "
        f"outputs on D and n on D′{more} ε is in nats."
    )
    yield (
        "*Above the truth* is the share of audits whose bound exceeded the true ε, with an "
        "interval; all intervals hold simultaneously with "
        f"{percent(result['interval_confidence'])} confidence. *Typical* is the mean bound (⌀), or "
        "the median estimate (~) of an estimator that does not certify."
    )
    levels = sorted({row["confidence"] for row in result["rows"]})
    alarms = {row["alarm"] for row in result["rows"] if row["alarm"] is not None}
    if alarms:
        most = max(alarms)
        text = " or ".join(f"{100 * (1 - level):.3g} %" for level in levels)
        yield (
            f"A bound may exceed the truth in at most {text} of audits (each bound alone, "
            f"multiplicity none). Its promise counts as broken at {quantity(most)} or more of "
            f"{repeats} audits ({100 * most / result['repeats']:.3g} %). If all promises are "
            f"kept, the probability of any such line is below "
            f"{100 * (1 - result['interval_confidence']) / 2:.2g} %."
        )
    if any(row["status"] == "ok" and not row["certified"] for row in result["rows"]):
        yield (
            "An estimator with the promise *nothing* gives no bound. If it gives an interval, the "
            "table shows how often its lower end exceeded the truth."
        )


def _above(row: ResultRow) -> str:
    return "–" if row["rate"] is None else _rate(row, 1 if row["repeats"] < MANY_REPEATS else 2)


def _rate(row: ResultRow, decimals: int) -> str:
    """Write a rate in percent with its interval, which is rounded outwards."""
    scale = 10**decimals
    low = math.floor(100 * row["rate_low"] * scale) / scale
    high = math.ceil(100 * row["rate_high"] * scale) / scale
    return f"{100 * row['rate']:.{decimals}f} % ({low:.{decimals}f} to {high:.{decimals}f})"


def _share(row: ResultRow, value: float) -> str:
    """Write a number of the corner in percent; "–" if it was not computed."""
    return "–" if row["reason"] is not None else f"{100 * value:.2f} %"


def _name(row: ResultRow) -> str:
    return row_name(row) + (" · raw scores" if row["reads"] == "scores" else "")


def row_name(row: ResultRow) -> str:
    """Name a line of a table by attack, estimator and their own swept values."""
    own = {key: value for key, value in row["swept"].items() if key.startswith(OWN_KEYS)}
    return " · ".join([row["attack"]["label"], row["estimator"]["label"], *settings(own)])


# The tables: each column has a title and writes its cell of a row. The promise comes last.

Columns = Mapping[str, Callable[[ResultRow], str]]

LINES: Columns = {
    "n": lambda row: quantity(row["trials"]),
    "attack · estimator": _name,
    "above the truth": _above,
    "typical": lambda row: (
        f"⌀ {lower(row['mean_lower'])}"
        if row["certified"]
        else f"~ {point(number_format.number(row['median_epsilon']))}"
    ),
    "of true ε": lambda row: (
        f"{math.floor(100 * row['share'])} %"
        if row["certified"] and row["share"] is not None
        else "–"
    ),
}
CORNERS: Columns = {
    "estimator": lambda row: row["estimator"]["label"],
    "reads": lambda row: row["reads"],
    "above": lambda row: _share(row, row["exceedance"]),
    "promised": lambda row: _share(row, row["promised"]),
    "one event": lambda row: _share(row, row["of_share"]),
    "share": lambda row: _share(row, row["reason"] is None and row["share"] * row["promised"]),
}


def _section(title: str, text: str, columns: Columns, rows: list[ResultRow]) -> ReportTable:
    lines = []
    for row in rows:
        kind = "failed" if row.get("status") == "failed" else row["promise"]
        promise, verdict = PROMISES[kind]
        if kind is None and row.get("reason") is not None:  # it was not computed
            promise = "–"
        texts = [*(write(row) for write in columns.values()), f"{SYMBOL[verdict]} {promise}"]
        lines.append(Row(texts, verdict or "dim"))
    return ReportTable((*columns, "promise"), lines, ("n",), title, text, is_named=False)


def sections(result: dict[str, Any]) -> Iterator[ReportTable]:
    """Return the tables: one for each known truth, and the computed corner."""
    for rows in tables(result["rows"], (*OWN_KEYS, "audit.trials")):
        # By trials, estimators that certify first, the best on top.
        rows.sort(
            key=lambda row: (row["trials"], not row["certified"], -(row["mean_lower"] or 0.0))
        )
        place = place_of(rows[0], (*OWN_KEYS, "audit.trials"))
        title = [rows[0]["mechanism"]["label"], *settings(place), truth_of(rows[0])]
        yield _section(" · ".join(filter(None, title)), "", LINES, rows)
    if corners := result["corners"]:
        text = (
            "This table is computed without draws, for a mechanism with two outputs at the "
            f"corner of the curve of ε-DP and {quantity(corners[0]['trials'])} draws per "
            "dataset. There, limits fail almost as often as they are allowed to. Every pair of "
            "counts is weighted by its probability. *Above* is the probability that the bound "
            "exceeds ε. An estimator that tries several events divides its error among them. The "
            "event with the largest share must not exceed ε more often than this share, even if "
            "other events use less than theirs. Estimators that do not report their shares are "
            "not listed."
        )
        yield _section("at the corner of a curve", text, CORNERS, corners)


def tables(rows: list[ResultRow], own: tuple[str, ...] = OWN_KEYS) -> list[list[ResultRow]]:
    """Sort rows into tables by mechanism and by the swept values that a table shares."""
    by_key: dict[str, list[ResultRow]] = {}
    for row in rows:
        by_key.setdefault(same([row["mechanism"]["label"], place_of(row, own)]), []).append(row)
    return list(by_key.values())


def place_of(row: ResultRow, own: tuple[str, ...] = OWN_KEYS) -> dict[str, Any]:
    """Return the swept values whose keys do not begin with one of `own`."""
    return {key: value for key, value in row["swept"].items() if not key.startswith(own)}


def truth_of(row: ResultRow) -> str:
    """Write the true ε of a row, if it is known."""
    if not row["truth"]:
        return ""
    epsilon = point(number_format.number(row["truth"]["epsilon"]))
    return f"true ε {epsilon} at δ = {setting(row['delta'])}"


def conclusion(result: dict[str, Any]) -> str:
    """State the result and its limits."""
    summary = result["summary"]
    parts = [f"Promises kept: {summary['kept']}", f"broken: {summary['broken']}"]
    if summary["promises_nothing"]:
        parts.append(f"lines that promise nothing: {summary['promises_nothing']}")
    if summary["failed"]:
        parts.append(f"could not be run: {summary['failed']}")
    return (
        ", ".join(parts) + ". Kept means that no excess was seen with these mechanisms, attacks "
        "and numbers of draws; the description of each estimator gives its guarantee."
    )


def failures(result: dict[str, Any]) -> Iterator[str]:
    """List the lines that could not be run, and the reasons for skipped combinations."""
    for row in result["rows"]:
        if row["status"] == "failed":
            yield f"{row['mechanism']['label']} · {_name(row)}: failed: {row['reason']}"
    for row in result["corners"]:
        label = f"{row['estimator']['label']} of a {row['reads']}, at the corner"
        yield from (f"{label}: {mistake}" for mistake in row["mistakes"])
        if row["reason"] is not None:
            yield f"{label}: not computed: {row['reason']}"
    yield from left_out(result["skipped"])


def left_out(skipped: list[dict[str, Any]]) -> Iterator[str]:
    """Return each reason once, with the number of cells."""
    for reason, count in Counter(skip["reason"] for skip in skipped).items():
        yield f"left out, {plural(count, 'cell')}: {reason}"


# The result of `dpframe compare`: certified bounds, the largest on top, and then estimates.


def comparison_parts(result: dict[str, Any]) -> Iterator[Part]:
    """Describe the result: a table for each mechanism and setting.

    If each has a single line, because there is one attack and one estimator, they share a table.
    """
    assumptions, audit = Assumptions(), result["audit"]
    alone = f"each bound alone at {percent(audit['confidence'])} (multiplicity none)"
    ranked = tables([row for row in result["rows"] if row["status"] == "ok"])
    one_line = len(ranked) > 1 and all(len(rows) == 1 for rows in ranked)
    shared = {row_name(row) for (row,) in ranked} if one_line else set()
    common = shared if len(shared) == 1 else ()
    yield Line(" · ".join([audit["name"], *common, alone, "ε in nats"]), "bold")
    if one_line:
        named = [
            (" · ".join([*_names(row), *([] if common else [row_name(row)])]), row)
            for (row,) in ranked
        ]
        yield _comparison_table("mechanism", named, assumptions)
    else:
        for rows in ranked:
            named = [(row_name(row), row) for row in rows]
            table = _comparison_table("attack · estimator", named, assumptions)
            yield table._replace(title=_comparison_title(rows[0]))
    yield from assumptions.lines()
    yield from _comparison_remarks(result)


def _comparison_title(row: ResultRow) -> str:
    unknown = [] if row["truth"] else [f"true ε not known at δ = {setting(row['delta'])}"]
    return " · ".join([*_names(row), *unknown])


def _names(row: ResultRow) -> list[str]:
    """Name a mechanism, its swept values, and its true ε if it is known."""
    truth = truth_of(row)
    return [row["mechanism"]["label"], *settings(place_of(row)), *([truth] if truth else [])]


def _comparison_table(
    title: str, named: list[tuple[str, ResultRow]], assumptions: Assumptions
) -> ReportTable:
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
    return ReportTable(heads, lines, right=("of true ε", "draws", "time"))


def _comparison_remarks(result: dict[str, Any]) -> Iterator[Line]:
    rows: list[ResultRow] = result["rows"]
    if any(row["repeats"] > 1 for row in rows):
        yield Line(
            "Numbers are means over the repeats of each cell; a mean of bounds (⌀) is not a bound."
        )
    yield Line(
        "Draws are outputs of the mechanism on both datasets: for learning, for choosing "
        "thresholds, and for counting; the lines of a mechanism share them. Time is a line's share "
        "of drawing and counting, plus its own estimation.",
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
    yield from (Line(f"– {reason}") for reason in left_out(result["skipped"]))
