"""A calibration as text, for the terminal and the documentation."""

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dpframe.report import number_format
from dpframe.report.group import same, settings
from dpframe.report.number_format import lower, percent, plural, point, quantity, setting

Row = dict[str, Any]

OWN_KEYS = ("attack.", "estimator.")
"""Prefixes of swept keys that distinguish the lines of a table, as audit.trials does."""
MANY = 10_000  # repeats from which hundredths of a percent are shown
WIDTH = 110  # of a page
HEADS = ("n", "attack · estimator", "above the truth", "typical", "of true ε", "promise")
CORNER_HEADS = ("estimator", "reads", "above", "promised", "one event", "share", "promise")
WHOLE_HEADS = ("audits", "error", "observed", "expected", "promised", "promise")
PROMISES = {"kept": "kept", "broken": "BROKEN", "failed": "failed", None: "nothing"}


class Section(NamedTuple):
    """A table and its explanation."""

    title: str
    explanation: str  # "" if the beginning explains the table
    heads: tuple[str, ...]
    rows: list[tuple[str | None, tuple[str, ...]]]
    """State of the promise ("kept", "broken", "failed" or None) and texts of each line."""


def calibration_page(found: dict[str, Any], command: str, day: str) -> str:
    """Return the page in docs/ on a result of `dpframe.calibrate`, its command and its day."""
    return "\n".join(_lines(found, command, day)) + "\n"


def _lines(found: dict[str, Any], command: str, day: str) -> Iterator[str]:
    bounds = any(row["certified"] for row in found["rows"])
    yield f"# How often {'bounds exceed' if bounds else 'estimates are above'} the truth"
    yield ""
    yield from _wrapped(f"{conclusion(found)} This page is the output of the command below.")
    yield from ("", "<!-- no-run: takes minutes -->", "```sh", command, "```")
    for paragraph in explanation(found):
        yield ""
        yield from _wrapped(paragraph)
    for section in sections(found):
        title = section.title.capitalize() if section.explanation else section.title
        yield from ("", f"## {title}", "")
        if section.explanation:
            yield from (*_wrapped(section.explanation), "")
        yield _line(section.heads)
        yield _line(["---"] * len(section.heads))
        yield from (_line(texts) for _, texts in section.rows)
    yield from ("", "## Result", "", *_wrapped(conclusion(found)))
    if left := list(failures(found)):
        yield from ("", *(f"* {line}" for line in left))
    yield ""
    environment = found["environment"]
    versions = ", ".join(f"{name} {environment[name]}" for name in ("dpframe", "jax", "scipy"))
    yield f"Seed {found['seed']}; {versions}; {day}."


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def explanation(found: dict[str, Any]) -> Iterator[str]:
    """Explain how to read the tables."""
    repeats = quantity(found["repeats"])
    before = max((max(row["fit"], row["pilot"]) for row in found["rows"]), default=0)
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
        f"interval; all intervals hold together with {percent(found['interval_confidence'])} "
        "confidence. *Typical* is the mean bound (⌀), or the median estimate (~) of an estimator "
        "that does not certify."
    )
    levels = sorted({row["confidence"] for row in found["rows"]})
    alarms = {row["alarm"] for row in found["rows"] if row["alarm"] is not None}
    if alarms:
        most = max(alarms)
        text = " or ".join(f"{100 * (1 - level):.3g} %" for level in levels)
        yield (
            f"A bound may exceed the truth in at most {text} of audits (each bound alone, "
            f"multiplicity none). Its promise counts as broken from {quantity(most)} of "
            f"{repeats} audits on ({100 * most / found['repeats']:.3g} %). If all promises are "
            f"kept, the probability of any such line is below "
            f"{100 * (1 - found['interval_confidence']) / 2:.2g} %."
        )
    if any(row["status"] == "ok" and not row["certified"] for row in found["rows"]):
        yield (
            "An estimator with the promise *nothing* gives no bound. If it gives an interval, the "
            "table shows how often its lower end exceeded the truth."
        )


def sections(found: dict[str, Any]) -> Iterator[Section]:
    """Return the tables: one for each known truth, the computed corner, and whole audits."""
    for rows in tables(found["rows"], (*OWN_KEYS, "audit.trials")):
        # By trials, estimators that certify first, the best on top.
        rows.sort(
            key=lambda row: (row["trials"], not row["certified"], -(row["mean_lower"] or 0.0))
        )
        place = place_of(rows[0], (*OWN_KEYS, "audit.trials"))
        title = " · ".join([rows[0]["mechanism"]["label"], *settings(place)])
        if truth := truth_of(rows[0]):
            title += f" · {truth}"
        yield Section(title, "", HEADS, list(map(_cells, rows)))
    if corners := found["corners"]:
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
        yield Section(
            "at the corner of a curve", text, CORNER_HEADS, list(map(_corner_cells, corners))
        )
    if whole := found["together"]:
        text = (
            "An audit corrects for the number of its bounds and claims, for repeated looks, and "
            "for the resolution of float32 samplers. This table tests these corrections separately "
            "from estimators, on cells with exact p-values. The error rate is then known, and both "
            "a larger and a smaller one would be a mistake. Counts are simulated; everything else "
            "is as in a run. A correct engine fails with probability below one in a million."
        )
        yield Section("audits as a whole", text, WHOLE_HEADS, list(map(_whole_cells, whole)))


def _cells(row: Row) -> tuple[str | None, tuple[str, ...]]:
    kind = "failed" if row["status"] == "failed" else row["promise"]
    above, typical, share = (
        "–",
        f"~ {point(number_format.number(row['median_epsilon']))}",
        "–",
    )
    if row["rate"] is not None:
        decimals = 1 if row["repeats"] < MANY else 2
        scale = 10**decimals
        low = math.floor(100 * row["rate_low"] * scale) / scale
        high = math.ceil(100 * row["rate_high"] * scale) / scale
        rate = f"{100 * row['rate']:.{decimals}f} %"
        above = f"{rate} ({low:.{decimals}f} to {high:.{decimals}f})"
    if row["certified"]:
        typical = f"⌀ {lower(row['mean_lower'])}"
        if row["share"] is not None:
            share = f"{math.floor(100 * row['share'])} %"
    return kind, (
        quantity(row["trials"]),
        _name(row),
        above,
        typical,
        share,
        PROMISES[kind],
    )


def _corner_cells(row: Row) -> tuple[str | None, tuple[str, ...]]:
    start = (row["estimator"]["label"], row["reads"])
    if row["reason"] is not None:
        return row["promise"], (*start, "–", "–", "–", "–", "–")
    share = row["share"] * row["promised"]
    numbers = (row["exceedance"], row["promised"], row["of_share"], share)
    shown = (f"{100 * number:.2f} %" for number in numbers)
    return row["promise"], (*start, *shown, PROMISES[row["promise"]])


def _whole_cells(row: Row) -> tuple[str | None, tuple[str, ...]]:
    low, high = math.floor(1000 * row["rate_low"]) / 10, math.ceil(1000 * row["rate_high"]) / 10
    return row["promise"], (
        quantity(row["audits"]),
        row["what"],
        f"{100 * row['rate']:.1f} % ({low:.1f} to {high:.1f})",
        f"{100 * row['expected']:.2f} %",
        f"{100 * row['promised']:.2f} %",
        PROMISES[row["promise"]],
    )


def _name(row: Row) -> str:
    return row_name(row) + (" · raw scores" if row["reads"] == "scores" else "")


def row_name(row: Row) -> str:
    """Name a line of a table by attack, estimator and their own swept values."""
    own = {key: value for key, value in row["swept"].items() if key.startswith(OWN_KEYS)}
    return " · ".join([row["attack"]["label"], row["estimator"]["label"], *settings(own)])


def tables(rows: list[Row], own: tuple[str, ...] = OWN_KEYS) -> list[list[Row]]:
    """Sort rows into tables by mechanism and by the swept values that a table shares."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(same([row["mechanism"]["label"], place_of(row, own)]), []).append(row)
    return list(found.values())


def place_of(row: Row, own: tuple[str, ...] = OWN_KEYS) -> dict[str, Any]:
    """Return the swept values whose keys do not begin with one of `own`."""
    return {key: value for key, value in row["swept"].items() if not key.startswith(own)}


def truth_of(row: Row) -> str:
    """Write the true ε of a row, if it is known."""
    if not row["truth"]:
        return ""
    epsilon = point(number_format.number(row["truth"]["epsilon"]))
    return f"true ε {epsilon} at δ = {setting(row['delta'])}"


def conclusion(found: dict[str, Any]) -> str:
    """State the result and its limits."""
    summary = found["summary"]
    parts = [f"Promises kept: {summary['kept']}", f"broken: {summary['broken']}"]
    if summary["promises_nothing"]:
        parts.append(f"lines that promise nothing: {summary['promises_nothing']}")
    if summary["failed"]:
        parts.append(f"could not be run: {summary['failed']}")
    return (
        ", ".join(parts) + ". Kept means that no excess was seen with these mechanisms, attacks "
        "and numbers of draws; the description of each estimator gives its guarantee."
    )


def failures(found: dict[str, Any]) -> Iterator[str]:
    """List the lines that could not be run, and the reasons for skipped combinations."""
    for row in found["rows"]:
        if row["status"] == "failed":
            yield f"{row['mechanism']['label']} · {_name(row)}: failed: {row['reason']}"
    for row in found["corners"]:
        label = f"{row['estimator']['label']} of a {row['reads']}, at the corner"
        yield from (f"{label}: {mistake}" for mistake in row["mistakes"])
        if row["reason"] is not None:
            yield f"{label}: not computed: {row['reason']}"
    yield from left_out(found["skipped"])


def left_out(skipped: list[dict[str, Any]]) -> Iterator[str]:
    """Return each reason once, with the number of cells."""
    for reason, count in Counter(skip["reason"] for skip in skipped).items():
        yield f"left out, {plural(count, 'cell')}: {reason}"
