"""What is said of scores made elsewhere in the same way, of two sides and of one run."""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, Any

from dpframe.report.terminal.ink import STYLE, SYMBOL, Ink
from dpframe.report.terminal.panel import draw, log_axis, true_positives

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from dpframe.report.terminal.panel import Point

ROOM = 50
"""Columns that a plot needs."""
SIZE = (78, 14)
"""Columns and rows of a plot at most."""
DECADES = (2, 12)
"""Least and most decades of a logarithmic axis."""


def answered(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows with an estimate."""
    return [row for row in found["rows"] if row["status"] == "ok"]


def noted(rows: list[dict[str, Any]], all_of_them: bool, ink: Ink) -> Iterator[Text]:
    """What estimators remarked, or how many remarks there are."""
    notes: dict[str, list[str]] = {}
    for row in rows:
        for note in row["estimate"]["notes"]:
            notes.setdefault(note, []).append(row["estimator"]["label"])
    if notes and not all_of_them:
        many = "1 note of an estimator" if len(notes) == 1 else f"{len(notes)} notes of estimators"
        yield ink.text(f"{many}, shown with --notes", "dim")
        return
    for note, labels in notes.items():
        yield ink.text(f"{', '.join(labels)}: {note}", "dim")


def untested(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    """That nobody tested the claim, which must not look as if it had held."""
    if found["claim"] is not None and found["refuted"] is None:
        yield ink.text(
            "! The claim was not tested: no estimator that was asked can test it on these scores.",
            STYLE["failed"],
        )


def missing(found: dict[str, Any], ink: Ink) -> Iterator[Text]:
    """Estimators that failed, and those that were left out."""
    for row in found["rows"]:
        if row["status"] == "failed":
            label = row["estimator"]["label"]
            yield ink.text(f"{SYMBOL['failed']} {label} failed: {row['reason']}", STYLE["failed"])
    for skip in found["skipped"]:
        yield ink.text(f"– {skip['estimator']}: left out: {skip['reason']}")


def decades(rates: list[float]) -> int:
    """How far a logarithmic axis reaches down to show all rates but 0."""
    least = min((rate for rate in rates if rate > 0), default=1.0)
    return min(max(math.ceil(-math.log10(least)), DECADES[0]), DECADES[1])


def roc(found: dict[str, Any], certified: list[Point], ink: Ink, width: int) -> Iterator[Text]:
    """The ROC of the scores on logarithmic axes, and the rates (FPR, FNR) that are certified."""
    counted = [(x, y) for x, y in found["scores"]["roc"] if x > 0]
    if width < ROOM or not counted:
        return
    places = [x for x, _ in counted]

    def line(x: float) -> float:
        at = bisect.bisect_right(places, x)
        return counted[at - 1][1] if at else math.nan

    said = "● certified, as above. " if certified else ""
    yield ink.text("")
    yield ink.text(
        f"The same on logarithmic axes. {said}Line: what thresholds on these very scores give, no "
        "bound. Dotted: guessing."
        if certified
        else "ROC on logarithmic axes: what thresholds on these very scores give, and no bound. "
        "Dotted: guessing.",
        "dim",
    )
    reach = decades([*places, *(x for x, _ in certified)])
    yield from draw(
        line,
        [(x, 1 - y) for x, y in certified],
        (ink.plain("●"), STYLE["violated"] if found["refuted"] else "bold"),
        log_axis(reach),
        (min(SIZE[0], width), SIZE[1]),
        ink,
        true_positives(reach),
    )
