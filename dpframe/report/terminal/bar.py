"""The interval bar: what was shown, next to what was claimed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

from dpframe.report.terminal.ink import STYLE, Ink

if TYPE_CHECKING:
    from dpframe.report.group import Spot

SPAN = 2.0
"""The bar ends at this multiple of the claim, so that all claims stand in one column."""

BAR_KEY = {
    "━": "from the certified bound to what this attack can show; axis: ε divided by claimed ε",
    "●": "empirical ε",
    "┃": "claimed ε",
    "→": "goes on beyond twice the claim",
}
"""What its marks mean."""


def interval_bar(spot: Spot, width: int, ink: Ink) -> Text:
    """Draws the certified bound to the attack's limit, the point value and the claim.

    The axis is the loss divided by the claim, from 0 to 2, so that bars of different claims
    compare: a bar wholly to the right of the claim is a violation. An arrow says that something
    lies beyond the end. Of replicates it is drawn from the lowest bound to the highest limit.

    Args:
        spot: one with a claim above 0; anything else gives an empty bar.
        width: characters, odd, so that the claim stands in the middle.
        ink: of the console.
    """
    claim = spot.claim
    if not spot.done or claim is None or not 0 < claim < math.inf:
        return Text(" " * width)
    low = min(spot.estimates("epsilon_lower"), default=None)
    high = max(spot.estimates("epsilon_upper"), default=None)
    value = spot.mean("epsilon")
    cells = [(" ", "")] * width

    def column(loss: float) -> int:
        share = max(loss, 0.0) / (SPAN * claim)
        return width - 1 if share >= 1 else min(int(share * width), width - 1)

    style = STYLE[spot.verdict]
    if low is not None and math.isfinite(low):
        end = column(math.inf if high is None else high)
        for place in range(column(low), end + 1):
            cells[place] = ("━", style)
    cells[width // 2] = ("┃", "bold")
    if value is not None and not math.isnan(value):
        cells[column(value)] = ("●", style)
    if max(x for x in (low, high, value, 0.0) if x is not None) > SPAN * claim:
        cells[-1] = ("→", style)
    text = Text(no_wrap=True)
    for character, look in cells:
        text.append(ink.plain(character)[:1], look)
    return text
