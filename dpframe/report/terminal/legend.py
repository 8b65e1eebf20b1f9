"""The legend of a report, and one cell as short lines."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from dpframe.report import phrases, words
from dpframe.report.group import Group, Spot, tallies
from dpframe.report.terminal.elements import BAR_KEY, STYLE, Ink, padded
from dpframe.report.words import SYMBOL, UNEXPECTED, WORDS
from dpframe.results.model import Record
from dpframe.results.verdict import saw_nothing

BOUND, AVERAGE, LIMIT = "≥", "⌀", "≤"
"""Signs of a certified bound, of the mean of several, and of what an attack can show."""

LIMITED = {
    "every event": "the most this attack can show: limits the attack, not the mechanism",
    "every cut": "the most that cuts of its scores can show: limits the attack, not the mechanism",
    "chosen thresholds": "the most at the thresholds that were chosen: others may show more",
}
"""The meaning of ≤, by `epsilon_upper_of`."""


# One combination of swept values, as short lines with a sign each.


class LegendLine(NamedTuple):
    """A number of a cell, or a word, and its sign."""

    sign: str
    text: str
    style: str
    is_number: bool = True  # true if it is aligned with the numbers above and below


def empirical(spot: Spot) -> tuple[str, str | None]:
    """Write the point value, and its standard deviation if there are replicates."""
    mean, deviation = spot.mean("epsilon"), spot.deviation
    if mean is None or deviation is None:
        return words.point(mean), None
    return words.spread(mean, deviation)


def certified(spot: Spot) -> tuple[str, str]:
    """Write the certified bound and its sign, or the mean of replicates, which is not a bound."""
    sign = AVERAGE if len(spot.estimates("epsilon_lower")) > 1 else BOUND
    return sign, words.lower(spot.mean("epsilon_lower"))


def limit(spot: Spot) -> str:
    """Write the most that the attack can show; "" for a violation and for several replicates."""
    limits = [] if blind(spot) else spot.estimates("epsilon_upper")
    shown = spot.verdict in ("consistent", "inconclusive") and len(limits) == 1
    return words.upper(limits[0]) if shown else ""


def blind(spot: Spot) -> bool:
    """True if the attack saw nothing in any replicate."""
    return bool(spot.done) and all(map(saw_nothing, spot.done))


def interval(spot: Spot) -> str:
    """Write the approximate limits of an estimator that certifies nothing, or ""."""
    found = [estimate.interval for estimate in spot.found]
    if len(found) != 1 or found[0] is None or spot.estimates("epsilon_lower"):
        return ""
    low, high = map(words.point, found[0])
    return f"({low} – {high})"


def tally(spot: Spot) -> str | None:
    """Write how many replicates are violated, if there is more than one."""
    if len(spot.cells) == 1 or spot.verdict not in ("violated", "consistent", "inconclusive"):
        return None
    return f"{sum(cell.verdict == 'violated' for cell in spot.done)}/{len(spot.done)}"


def lines(spot: Spot, *, claim: bool) -> list[LegendLine]:
    """Return the lines of a cell of the grid, first the verdict's sign and the empirical ε.

    `claim` adds the claimed ε, which a row cannot show if its cells have different claims.
    """
    verdict = spot.verdict
    style = STYLE[verdict]
    if verdict == "failed":
        return [LegendLine(SYMBOL[verdict], "failed", style, is_number=False)]
    mean, deviation = empirical(spot)
    # Bold belongs to the first line, so that the eye finds where a row begins.
    plain = style.replace("bold ", "")
    shown = [LegendLine(SYMBOL[verdict], mean, f"bold {plain}")]
    if deviation is not None:
        shown.append(LegendLine("±", deviation, plain))
    if claim and spot.claim is not None:
        shown.append(LegendLine("=", words.point(spot.claim), ""))
    if blind(spot):
        return [*shown, LegendLine("", phrases.BLIND, "dim", is_number=False)]
    if spot.estimates("epsilon_lower"):
        shown.append(LegendLine(*certified(spot), plain))
    if approximate := interval(spot):
        shown.append(LegendLine("", approximate, "dim", is_number=False))
    if most := limit(spot):
        shown.append(LegendLine(LIMIT, most, "dim"))
    if text := tally(spot):
        shown.append(LegendLine("", text, plain, is_number=False))
    return shown


# The head of the report, and the keys of its signs.


def title(record: Record, found: list[Group], ink: Ink) -> Text:
    """Return the audit's name, the trials and δ."""
    text = ink.text(record.audit.name, "bold")
    trials = {max(cell.trials) for cell in record.cells} - {0}
    if len(trials) == 1:
        amount = words.quantity(trials.pop())
        text.append(ink.plain(f" · {amount} draws from each of D and D′ per cell"))
    deltas = {estimate.delta for group in found for s in group.spots for estimate in s.found}
    at = ""
    if not deltas <= {0.0}:
        each = " at each cell's δ"
        at = f" at δ = {words.setting(deltas.pop())}" if len(deltas) == 1 else each
    text.append(ink.plain(f" · ε in nats{at}"))
    return text


def verdicts_key(found: list[Group], ink: Ink, width: int) -> Text:
    """Explain the signs of the verdicts that occur."""
    spots = [spot for group in found for spot in group.spots]
    given = [verdict for verdict, _ in tallies(cell for spot in spots for cell in spot.cells)]
    phrases = [ink.text(f"{SYMBOL[v]} {WORDS[v]}", STYLE[v]) for v in given]
    if any(spot.unexpected for spot in spots):
        phrases.append(ink.text(f"{UNEXPECTED} not as expected", STYLE["failed"]))
    return ink.joined(phrases, width)


def numbers_key(found: list[Group], seen: set[str], ink: Ink, width: int) -> Iterator[Text]:
    """Explain the signs that occur in the tables of groups; `seen` has all their texts."""
    rows = list(_rows([spot for group in found for spot in group.spots], seen))
    samples = [ink.plain(sample) for sample, _ in rows]
    lead = max(map(cell_len, samples), default=0)
    for sample, (_, meaning) in zip(samples, rows, strict=True):
        if lead > width // 3:
            yield from ink.folded(f"{sample}  {meaning}", "dim", width)
            continue
        start = padded(sample, lead, right=True) + "  "
        for line in ink.folded(meaning, "dim", width - cell_len(start)):
            yield Text(start, "dim", overflow="fold").append_text(line)
            start = " " * cell_len(start)


def _rows(spots: list[Spot], texts: set[str]) -> Iterator[tuple[str, str]]:
    """Return samples of the texts in a table, and their meaning."""
    seen = set().union(*texts)
    verdicts = [v for v in SYMBOL if any(spot.verdict == v for spot in spots)]
    if any(spot.done for spot in spots):
        signs = " ".join(SYMBOL[verdict] for verdict in verdicts if verdict != "failed")
        yield f"{signs} 0.12", "empirical ε, the point value of the estimator"
    if any(spot.deviation is not None for spot in spots):
        yield "± 0.01", "its standard deviation over the repeats; the others are means"
    if any(tally(spot) for spot in spots):
        yield "2/3", "violated of all repeats"
    if "=" in texts:
        yield "= 0.10", "claimed ε"
    if BOUND in seen:
        yield f"{BOUND} 0.11", "certified: the loss is at least this, at the confidence below"
    if AVERAGE in seen:
        yield f"{AVERAGE} 0.11", "the mean of the repeats' certified bounds; not itself a bound"
    if any(interval(spot) for spot in spots):
        yield "(0.11 – 0.13)", "approximate or Bayesian limits: nothing is certified"
    if phrases.BLIND in texts:
        yield phrases.BLIND, "every score of this attack was equal"
    if LIMIT in seen:
        yield from ((f"{LIMIT} 0.13", meaning) for meaning in _limits(spots))
    if "∞" in seen:
        yield "∞", "no finite value"
    yield from ((mark, meaning) for mark, meaning in BAR_KEY.items() if mark in seen)


def _limits(spots: list[Spot]) -> Iterator[str]:
    """Explain ≤; if its meaning differs, for the estimators of each."""
    limited = [spot for spot in spots if limit(spot)]
    of: dict[str, dict[str, None]] = {}
    for cell in (cell for spot in limited for cell in spot.done):
        found = cell.estimate
        if found and found.epsilon_upper is not None and math.isfinite(found.epsilon_upper):
            known = found.epsilon_upper_of or "chosen thresholds"
            of.setdefault(known, {})[cell.estimator.label] = None
    if limited and not of:
        yield LIMITED["every event"]  # all limits are ∞
    for what in (known for known in LIMITED if known in of):
        yield LIMITED[what] + (f" ({', '.join(of[what])})" if len(of) > 1 else "")


def group_title(group: Group, ink: Ink, width: int) -> Text:
    """Name a table and count its verdicts."""
    mechanism, *rest = group.names
    text = ink.text(mechanism, "bold")
    text.append(ink.plain("".join(f" · {name}" for name in rest)), "not bold")
    found = tallies(cell for spot in group.spots for cell in spot.cells)
    return ink.joined([text, *(ink.text(said, STYLE[v]) for v, said in found)], width)
