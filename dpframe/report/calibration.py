"""A calibration as text, for the terminal and for the documents."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any

from dpframe.report import words
from dpframe.report.group import same, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# What a calibration says, in words that a terminal and a page of the documents share.


Row = dict[str, Any]

HEADS = ("n", "attack · estimator", "above the truth", "typical", "of true ε", "promise")

OWN_KEYS = ("attack.", "estimator.")
"""Swept keys that tell the lines of a table apart, not the tables; so does audit.trials."""

MANY = 10_000
"""From so many repeats on, hundredths of a percent mean something."""

CORNER_HEADS = ("estimator", "of a", "above", "promised", "one event", "paid", "promise")

WHOLE_HEADS = ("audits", "what", "happened", "expected", "promised", "promise")

PROMISES = {"kept": "kept", "broken": "BROKEN", None: "nothing"}


def tables(rows: list[Row]) -> list[list[Row]]:
    """Rows with one truth, in one table: by trials, what promises first, the best on top."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(same([row["mechanism"]["label"], _place(row)]), []).append(row)
    return [sorted(of_one, key=_order) for of_one in found.values()]


def title(row: Row) -> str:
    """Names a table."""
    place = "".join(f" · {short(key)} {words.setting(v)}" for key, v in _place(row).items())
    if not row["truth"]:
        return f"{row['mechanism']['label']}{place}"
    truth = words.point(words.number(row["truth"]["epsilon"]))
    return (
        f"{row['mechanism']['label']}{place} · true ε {truth} at δ = {words.setting(row['delta'])}"
    )


def cells(row: Row) -> tuple[str, ...]:
    """What stands in a line, in the order of `HEADS`."""
    return (
        words.quantity(row["trials"]),
        name(row),
        _rate(row),
        _typical(row),
        _share(row),
        ("failed" if row["status"] == "failed" else PROMISES[row["promise"]]),
    )


def name(row: Row) -> str:
    """The attack, the estimator, what is swept of them, and what the estimator reads."""
    own = [
        f"{short(key)} {words.setting(value)}"
        for key, value in row["swept"].items()
        if key.startswith(OWN_KEYS)
    ]
    raw = ["raw scores"] if row["reads"] == "scores" else []
    return " · ".join([row["attack"]["label"], row["estimator"]["label"], *own, *raw])


def explanation(found: dict[str, Any]) -> Iterator[str]:
    """How to read the tables."""
    repeats = words.quantity(found["repeats"])
    before = max((max(row["fit"], row["pilot"]) for row in found["rows"]), default=0)
    more = "."
    if before:
        more = (
            ", and where thresholds or bins are chosen or something is learned, first up to "
            f"{words.quantity(before)} more for that, but no more than n."
        )
    yield (
        f"Each line is {repeats} audits, every one on draws of its own: n outputs of the mechanism "
        f"on D and n on D′{more} ε in nats."
    )
    yield (
        "Above the truth: the share of audits whose bound exceeded the true ε, with an interval; "
        f"all intervals together hold with {words.percent(found['interval_confidence'])}. "
        "Typical: the mean bound (⌀), or for an estimator that certifies nothing the median of "
        "its estimates (~)."
    )
    levels = sorted({row["confidence"] for row in found["rows"]})
    alarms = {row["alarm"] for row in found["rows"] if row["alarm"] is not None}
    if alarms:
        most = max(alarms)
        text = " or ".join(f"{100 * (1 - level):.3g} %" for level in levels)
        yield (
            f"A bound promises to exceed the truth in at most {text} of audits (each bound alone, "
            f"multiplicity none). The promise counts as broken from {words.quantity(most)} of "
            f"{repeats} on ({100 * most / found['repeats']:.3g} %); for kept promises that happens "
            f"in all lines together with probability below "
            f"{100 * (1 - found['interval_confidence']) / 2:.2g} %."
        )
    if any(row["status"] == "ok" and not row["certified"] for row in found["rows"]):
        yield (
            "Where the promise is nothing, the estimator gives no bound, but perhaps an interval; "
            "how often its lower end exceeded the truth is shown for comparison."
        )


def corner_cells(row: Row) -> tuple[str, ...]:
    """What stands in a line of the computed table, in the order of `CORNER_HEADS`."""
    start = (row["estimator"]["label"], row["reads"])
    if row["reason"] is not None:
        return (*start, "–", "–", "–", "–", "–")
    share = row["share"] * row["promised"]
    numbers = (row["exceedance"], row["promised"], row["of_share"], share)
    return (*start, *(f"{100 * number:.2f} %" for number in numbers), PROMISES[row["promise"]])


def corner_explanation(found: dict[str, Any]) -> str:
    """How to read the computed table."""
    row = found["corners"][0]
    return (
        "Computed, not drawn: a mechanism with two outputs at the corner of the curve of ε-DP, "
        f"{words.quantity(row['trials'])} draws per dataset, where limits fail almost as often as "
        "they may. Every pair of counts is weighed with its probability, so nothing is left to "
        "chance. Above: probability that the bound exceeds ε. An estimator that tries several "
        "events shares its error among them; the one event with the largest share must not exceed "
        "ε more often than was paid for it, however much the others leave unused. Estimators that "
        "do not tell their shares are not listed."
    )


def whole_cells(row: Row) -> tuple[str, ...]:
    """What stands in a line of the table of whole audits, in the order of `WHOLE_HEADS`."""
    low, high = math.floor(1000 * row["rate_low"]) / 10, math.ceil(1000 * row["rate_high"]) / 10
    return (
        words.quantity(row["audits"]),
        row["what"],
        f"{100 * row['rate']:.1f} % ({low:.1f} to {high:.1f})",
        f"{100 * row['expected']:.2f} %",
        f"{100 * row['promised']:.2f} %",
        PROMISES[row["promise"]],
    )


def whole_explanation() -> str:
    """How to read the table of whole audits."""
    return (
        "An audit pays for all its bounds, for all claims that it tests, for looking again, and "
        "for what float32 samplers cannot resolve. That is tried apart from estimators, on cells "
        "whose p-value is exact: how often something goes wrong is then known, and both more and "
        "less of it would be a mistake. Counts are made up, the rest is what a run does. The "
        "intervals are so wide that a right engine is accused with probability below one in a "
        "million."
    )


def conclusion(found: dict[str, Any]) -> str:
    """What came out, and what it does not say."""
    summary = found["summary"]
    parts = [f"Promises kept: {summary['kept']}", f"broken: {summary['broken']}"]
    if summary["promises_nothing"]:
        parts.append(f"lines that promise nothing: {summary['promises_nothing']}")
    if summary["failed"]:
        parts.append(f"could not be run: {summary['failed']}")
    return (
        ", ".join(parts) + ". Kept means that nothing else was seen here, with these mechanisms, "
        "attacks and numbers of draws; what a bound rests on is in the text of its estimator."
    )


def failures(found: dict[str, Any]) -> Iterator[str]:
    """What could not be run, and for what reasons something was left out."""
    for row in found["rows"]:
        if row["status"] == "failed":
            yield f"{row['mechanism']['label']} · {name(row)}: failed: {row['reason']}"
    for row in found["corners"]:
        label = f"{row['estimator']['label']} of a {row['reads']}, at the corner"
        yield from (f"{label}: {mistake}" for mistake in row["mistakes"])
        if row["reason"] is not None:
            yield f"{label}: not computed: {row['reason']}"
    yield from left_out(found["skipped"])


def left_out(skipped: list[dict[str, Any]]) -> Iterator[str]:
    """Each reason once, with the number of cells."""
    for reason, count in Counter(skip["reason"] for skip in skipped).items():
        yield f"left out, {count} cell{'' if count == 1 else 's'}: {reason}"


def _place(row: Row) -> dict[str, Any]:
    return {
        key: value
        for key, value in row["swept"].items()
        if not key.startswith(OWN_KEYS) and key != "audit.trials"
    }


def _order(row: Row) -> tuple[Any, ...]:
    return row["trials"], not row["certified"], -(row["mean_lower"] or 0.0)


def _rate(row: Row) -> str:
    if row["rate"] is None:
        return "–"
    decimals = 1 if row["repeats"] < MANY else 2
    scale = 10**decimals
    low = math.floor(100 * row["rate_low"] * scale) / scale
    high = math.ceil(100 * row["rate_high"] * scale) / scale
    return f"{100 * row['rate']:.{decimals}f} % ({low:.{decimals}f} to {high:.{decimals}f})"


def _typical(row: Row) -> str:
    if row["certified"]:
        return f"⌀ {words.lower(row['mean_lower'])}"
    return f"~ {words.point(words.number(row['median_epsilon']))}"


def _share(row: Row) -> str:
    if not row["certified"] or row["share"] is None:
        return "–"
    return f"{math.floor(100 * row['share'])} %"


# A calibration as a page of the documents.


WIDTH = 110


def calibration_page(found: dict[str, Any], command: str, day: str) -> str:
    """The whole page.

    Args:
        found: what `dpframe.calibrate` returns.
        command: what makes the page again.
        day: on which it was made.
    """
    return "\n".join(_lines(found, command, day)) + "\n"


def _lines(found: dict[str, Any], command: str, day: str) -> Iterator[str]:
    bounds = any(row["certified"] for row in found["rows"])
    yield f"# How often {'bounds exceed' if bounds else 'estimates are above'} the truth"
    yield ""
    yield from _wrapped(
        "What estimators said about mechanisms whose true ε is known, over and over again. This "
        "page is what the command below printed."
    )
    yield ""
    yield "<!-- no-run: takes minutes -->"
    yield "```sh"
    yield command
    yield "```"
    for paragraph in explanation(found):
        yield ""
        yield from _wrapped(paragraph)
    for rows in tables(found["rows"]):
        yield ""
        yield f"## {title(rows[0])}"
        yield ""
        yield from _table(HEADS, map(cells, rows))
    if found["corners"]:
        yield ""
        yield "## At the corner of a curve"
        yield ""
        yield from _wrapped(corner_explanation(found))
        yield ""
        yield from _table(CORNER_HEADS, map(corner_cells, found["corners"]))
    if found["together"]:
        yield ""
        yield "## Audits as a whole"
        yield ""
        yield from _wrapped(whole_explanation())
        yield ""
        yield from _table(WHOLE_HEADS, map(whole_cells, found["together"]))
    yield ""
    yield "## Result"
    yield ""
    yield from _wrapped(conclusion(found))
    if left := list(failures(found)):
        yield ""
        yield from (f"* {line}" for line in left)
    yield ""
    environment = found["environment"]
    versions = ", ".join(f"{name} {environment[name]}" for name in ("dpframe", "jax", "scipy"))
    yield f"Seed {found['seed']}; {versions}; {day}."


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield _line(heads)
    yield _line(["---"] * len(heads))
    yield from map(_line, rows)


def _line(texts: Any) -> str:
    return "| " + " | ".join(str(text).replace("|", "\\|") for text in texts) + " |"
