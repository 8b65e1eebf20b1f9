"""Where an increasing function becomes positive."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Point = tuple[float, float]

STEPS = 300


def crossing(
    function: Callable[[float], float],
    *,
    guess: float = 1.0,
    spread: float = 1.0,
    most: float = 700.0,
    tolerance: float = 1e-12,
) -> float:
    """The place x in [0, most] where an increasing function becomes positive.

    A bracket is grown from a guess in doubling steps, then narrowed by Chandrupatla's method
    (1997): inverse quadratic interpolation where the last three points allow it, bisection
    elsewhere. Of the last bracket the lower end is returned, where the function is not positive.

    Args:
        function: increasing; may jump, and may be infinite.
        guess: where to look first; at least 0.
        spread: how far off the guess may be; above 0.
        most: no place beyond it is looked at.
        tolerance: width of the last bracket, relative to 1 + x.

    Returns:
        0 if the function is positive at 0, `most` if it is not positive there.
    """
    x = min(guess, most)
    here = (x, function(x))
    up = here[1] <= 0
    while True:
        x = min(x + spread, most) if up else max(x - spread, 0.0)
        if x == here[0]:  # the end of what is looked at
            return x
        there = (x, function(x))
        if (there[1] > 0) == up:
            return _narrowed(function, there, here, tolerance)
        here, spread = there, 2 * spread


def _narrowed(
    function: Callable[[float], float], last: Point, across: Point, tolerance: float
) -> float:
    """Narrows the bracket between the last point and the one across the root."""
    share = 0.5
    for _ in range(STEPS):
        x = last[0] + share * (across[0] - last[0])
        new = (x, function(x))
        if (new[1] > 0) == (last[1] > 0):
            before = last
        else:
            before, across = across, last
        last = new
        width, least = abs(across[0] - last[0]), tolerance * (1 + min(across[0], last[0]))
        if width <= least:
            break
        margin = 0.5 * least / width
        share = min(max(_share(last, across, before), margin), 1 - margin)
    return min(last[0], across[0])


def _share(last: Point, across: Point, before: Point) -> float:
    """Where to look next, from the last point (0) to the one across the root (1)."""
    (x, f), (x_across, f_across), (x_before, f_before) = last, across, before
    if not all(map(math.isfinite, (f, f_across, f_before))) or f_before == f_across:
        return 0.5
    along = (x - x_across) / (x_before - x_across)
    drop = (f - f_across) / (f_before - f_across)
    if not (drop * drop < along and (1 - drop) ** 2 < 1 - along):
        return 0.5
    return f / (f_across - f) * f_before / (f_across - f_before) + (x_before - x) / (
        x_across - x
    ) * f / (f_before - f) * f_across / (f_before - f_across)
