"""What the report says about one combination of swept values, as short lines with a sign each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dpframe.report import words
from dpframe.report.terminal.ink import STYLE, SYMBOL

if TYPE_CHECKING:
    from dpframe.report.group import Spot


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
