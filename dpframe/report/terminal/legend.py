"""The legend of a report, and one cell as short lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from dpframe.report import sentences, words
from dpframe.report.group import counted
from dpframe.report.terminal.ink import BAR_KEY, STYLE, SYMBOL, UNEXPECTED, WORDS, Ink, padded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpframe.report.group import Group, Spot
    from dpframe.report.terminal.ink import Settings


# What the report says about one combination of swept values, as short lines with a sign each.


BOUND, AVERAGE, LIMIT = "≥", "⌀", "≤"
"""Signs of a certified bound, of the mean of several, and of what an attack can show."""


class Line(NamedTuple):
    """A sign and what it is the sign of."""

    sign: str
    text: str
    style: str
    is_number: bool = True
    """Whether it lines up with the numbers above and below."""


def empirical(spot: Spot) -> tuple[str, str | None]:
    """The point value, and its standard deviation where there are replicates."""
    mean, deviation = spot.mean("epsilon"), spot.deviation("epsilon")
    if mean is None or deviation is None:
        return words.point(mean), None
    return words.spread(mean, deviation)


def certified(spot: Spot) -> tuple[str, str]:
    """The certified bound and the sign of one; of replicates the mean, which is no bound."""
    sign = AVERAGE if len(spot.estimates("epsilon_lower")) > 1 else BOUND
    return sign, words.lower(spot.mean("epsilon_lower"))


def limit(spot: Spot) -> str:
    """The most that the attack can show; "" where several replicates each have a limit."""
    limits = spot.estimates("epsilon_upper")
    return words.upper(limits[0]) if len(limits) == 1 else ""


def interval(spot: Spot) -> str:
    """The approximate limits of one that certifies nothing, "" if there are none to show."""
    found = [estimate.interval for estimate in spot.found]
    if len(found) != 1 or found[0] is None or spot.estimates("epsilon_lower"):
        return ""
    low, high = map(words.point, found[0])
    return f"({low} – {high})"


def tally(spot: Spot) -> str | None:
    """How many replicates are violated, where there is more than one."""
    if len(spot.cells) == 1 or spot.verdict not in ("violated", "consistent", "inconclusive"):
        return None
    return f"{spot.violated}/{len(spot.done)}"


def lines(spot: Spot, *, claim: bool) -> list[Line]:
    """The lines of a cell of the grid, the empirical ε with the verdict's symbol first.

    Args:
        spot: what to describe.
        claim: whether the claimed ε belongs into the cell, because the row does not give it.
    """
    verdict = spot.verdict
    style = STYLE[verdict]
    if verdict == "failed":
        return [Line(SYMBOL[verdict], "failed", style, is_number=False)]
    mean, deviation = empirical(spot)
    # Bold belongs to the first line, so that the eye finds where a row begins.
    plain = style.replace("bold ", "")
    shown = [Line(SYMBOL[verdict], mean, f"bold {plain}")]
    if deviation is not None:
        shown.append(Line("±", deviation, plain))
    if claim and spot.claim is not None:
        shown.append(Line("=", words.point(spot.claim), ""))
    if spot.estimates("epsilon_lower"):
        shown.append(Line(*certified(spot), plain))
    if approximate := interval(spot):
        shown.append(Line("", approximate, "dim", is_number=False))
    if verdict in ("consistent", "inconclusive") and (most := limit(spot)):
        shown.append(Line(LIMIT, most, "dim"))
    if text := tally(spot):
        shown.append(Line("", text, plain, is_number=False))
    return shown


# The head of the report: how to read it, said once.


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


def verdicts_key(found: list[Group], ink: Ink, width: int) -> Text:
    """The signs of verdicts, of those that were given."""
    spots = [spot for group in found for spot in group.spots]
    verdicts = counted(spots)
    phrases = [ink.text(f"{SYMBOL[v]} {WORDS[v]}", STYLE[v]) for v in SYMBOL if v in verdicts]
    if any(spot.unexpected for spot in spots):
        phrases.append(ink.text(f"{UNEXPECTED} not as expected", STYLE["failed"]))
    return ink.joined(phrases, width)


def numbers_key(found: list[Group], seen: set[str], ink: Ink, width: int) -> Iterator[Text]:
    """Explains the signs that tables use, and no others.

    Args:
        found: what is in the tables.
        seen: all texts in the tables.
        ink: of the console.
        width: columns of the console.
    """
    spots = [spot for group in found for spot in group.spots]
    rows = list(_rows(spots, seen))
    samples = [ink.plain(sample) for sample, _ in rows]
    lead = max(map(cell_len, samples), default=0)
    if lead > width // 3:
        for sample, (_, meaning) in zip(samples, rows, strict=True):
            yield from ink.folded(f"{sample}  {meaning}", "dim", width)
        return
    for sample, (_, meaning) in zip(samples, rows, strict=True):
        start = padded(sample, lead, right=True) + "  "
        for line in ink.folded(meaning, "dim", width - cell_len(start)):
            yield Text(start, "dim", overflow="fold").append_text(line)
            start = " " * cell_len(start)


def _rows(spots: list[Spot], texts: set[str]) -> Iterator[tuple[str, str]]:
    """A sample of what stands in a table, and what it means."""
    seen = set().union(*texts)
    verdicts = [v for v in SYMBOL if any(spot.verdict == v for spot in spots)]
    if any(spot.done for spot in spots):
        yield f"{_signs(verdicts)} 0.12", "empirical ε, the point value of the estimator"
    if any(spot.deviation("epsilon") is not None for spot in spots):
        yield "± 0.01", "its standard deviation over the repeats; the others are means"
    if any(tally(spot) for spot in spots):
        yield "2/3", "violated of all repeats"
    if "=" in texts:
        yield "= 0.10", "claimed ε"
    if BOUND in seen:
        yield f"{BOUND} 0.11", "certified: the loss is at least this, at the confidence below"
    if AVERAGE in seen:
        yield f"{AVERAGE} 0.11", "the mean of the repeats' certified bounds; itself no bound"
    if any(interval(spot) for spot in spots):
        yield "(0.11 – 0.13)", "approximate or Bayesian limits: nothing is certified"
    if LIMIT in seen:
        yield from ((f"{LIMIT} 0.13", meaning) for meaning in _limits(spots))
    if "∞" in seen:
        yield "∞", "no finite value"
    for mark, meaning in BAR_KEY.items():
        if mark in seen:
            yield mark, meaning


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
    text.append(ink.plain("".join(f" · {name}" for name in rest)), "not bold")
    return ink.joined([text, *tallies(group.spots, ink)], width)


def tallies(spots: Sequence[Spot], ink: Ink) -> list[Text]:
    """How often each verdict was given."""
    verdicts = counted(spots)
    return [
        ink.text(f"{SYMBOL[verdict]} {count} {WORDS[verdict]}", STYLE[verdict])
        for verdict in SYMBOL
        if (count := verdicts[verdict])
    ]


def _signs(verdicts: list[str | None]) -> str:
    return " ".join(SYMBOL[verdict] for verdict in verdicts if verdict != "failed")
