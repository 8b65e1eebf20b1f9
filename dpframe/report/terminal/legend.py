"""The head of the report: how to read it, said once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Table

from dpframe.report import sentences, words
from dpframe.report.terminal.cell import AVERAGE, BOUND, LIMIT, interval, limit
from dpframe.report.terminal.ink import STYLE, SYMBOL, UNEXPECTED, WORDS, Ink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from dpframe.report.terminal.group import Group, Spot
    from dpframe.report.terminal.settings import Settings


def title(settings: Settings, found: list[Group], ink: Ink) -> Text:
    """The audit's name and what was counted."""
    text = ink.text(settings.name, "bold")
    trials = {max(cell.trials) for g in found for s in g.spots for cell in s.cells}
    trials -= {0}
    if len(trials) == 1:
        amount = words.quantity(trials.pop())
        text.append(ink.plain(f" · {amount} draws from each of D and D′ per cell"))
    text.append(ink.plain(f" · ε in nats{_deltas(found)}"))
    return text


def _deltas(found: list[Group]) -> str:
    """At which δ; nothing is said of δ = 0."""
    deltas = {estimate.delta for g in found for s in g.spots for estimate in s.found}
    if deltas <= {0.0}:
        return ""
    return f" at δ = {words.setting(deltas.pop())}" if len(deltas) == 1 else " at each cell's δ"


def legend(found: list[Group], ink: Ink, width: int) -> Iterator[Text | Table]:
    """Explains the signs that the tables below use, and no others."""
    spots = [spot for group in found for spot in group.spots]
    verdicts = [v for v in SYMBOL if any(spot.verdict == v for spot in spots)]
    phrases = [ink.text(f"{SYMBOL[v]} {WORDS[v]}", STYLE[v]) for v in verdicts]
    if any(spot.unexpected for spot in spots):
        phrases.append(ink.text(f"{UNEXPECTED} not as expected", STYLE["failed"]))
    if phrases:
        yield ink.joined(phrases, width)
    rows = []
    if any(spot.done for spot in spots):
        rows.append((f"{_signs(verdicts)} 0.12", "empirical ε, the point value of the estimator"))
    if any(spot.deviation("epsilon") is not None for spot in spots):
        rows.append(("± 0.01", "its standard deviation over the repeats; the others are means"))
        rows.append(("2/3", "violated of all repeats"))
    bounds = {len(spot.estimates("epsilon_lower")) for spot in spots}
    if 1 in bounds:
        rows.append(
            (f"{BOUND} 0.11", "certified: the loss is at least this, at the confidence below")
        )
    if max(bounds, default=0) > 1:
        rows.append(
            (f"{AVERAGE} 0.11", "the mean of the repeats' certified bounds; itself no bound")
        )
    if any(interval(spot) for spot in spots):
        rows.append(("(0.11 – 0.13)", "approximate or Bayesian limits: nothing is certified"))
    rows += [(f"{LIMIT} 0.13", meaning) for meaning in _limits(spots)]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for sample, meaning in rows:
        table.add_row(ink.text(sample, "dim"), ink.text(meaning, "dim"))
    if rows:
        yield table


LIMITED = {
    "every event": "the most this attack can show: limits the attack, not the mechanism",
    "every cut": "the most that cuts of its scores can show: limits the attack, not the mechanism",
    "chosen thresholds": "the most at the thresholds that were chosen: others may show more",
}
"""What stands behind ≤, by what the limit is of."""


def _limits(spots: list[Spot]) -> Iterator[str]:
    """What stands behind ≤ here; where that differs, of which estimators."""
    limited = [s for s in spots if s.verdict in ("consistent", "inconclusive") and limit(s)]
    of: dict[str, dict[str, None]] = {}
    for cell in (cell for spot in limited for cell in spot.done):
        found = cell.estimate
        if found and found.epsilon_upper is not None and math.isfinite(found.epsilon_upper):
            known = found.epsilon_upper_of or "chosen thresholds"
            of.setdefault(known, {})[cell.estimator.label] = None
    if limited and not of:
        yield LIMITED["every event"]  # all are ∞: no limit, of whatever it is
    for what in (known for known in LIMITED if known in of):
        yield LIMITED[what] + (f" ({', '.join(of[what])})" if len(of) > 1 else "")


def unadjusted(settings: Settings, m: int, ink: Ink) -> Text:
    """The warning that verdicts do not account for their number."""
    return ink.text(f"! {sentences.unadjusted(m, settings.confidence)}", STYLE["failed"])


def group_title(group: Group, ink: Ink, width: int) -> Text:
    """Names a table and counts its verdicts."""
    mechanism, *rest = group.names
    text = ink.text(mechanism, "bold")
    text.append(ink.plain("".join(f" · {name}" for name in rest)))
    return ink.joined([text, *tallies(group, ink)], width)


def tallies(group: Group, ink: Ink) -> list[Text]:
    """How often each verdict was given."""
    return [
        ink.text(f"{SYMBOL[verdict]} {count} {WORDS[verdict]}", STYLE[verdict])
        for verdict in SYMBOL
        if (count := group.verdicts[verdict])
    ]


def _signs(verdicts: list[str | None]) -> str:
    return " ".join(SYMBOL[verdict] for verdict in verdicts if verdict != "failed")
