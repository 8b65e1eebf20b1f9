"""Where something that changes once along a line does so: all root finding of dpframe.

`bisection` and `bisection_each` ask a question that is answered no up to a place and yes beyond it;
`newton_each` does so in fewer steps where there is a derivative, `crossing` where there is none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]
    Point = tuple[float, float]

STEPS = 300


def bisection(
    beyond: Callable[[float], bool], low: float, high: float, *, tolerance: float = 0.0
) -> tuple[float, float]:
    """Narrows a bracket around the place from which on something holds.

    Args:
        beyond: whether a place is beyond it.
        low: not beyond it; not asked.
        high: beyond it; not asked.
        tolerance: width of the last bracket, relative to max{1, |high|}; 0 for neighbouring floats.

    Returns:
        The last bracket: a place that is not beyond, and one that is.
    """
    while high - low > tolerance * max(1.0, abs(high)):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if beyond(middle):
            high = middle
        else:
            low = middle
    return low, high


def bisection_each(
    beyond: Callable[[Floats], Bools], low: Floats, high: Floats, *, steps: int
) -> tuple[Floats, Floats]:
    """The same for many places at a time.

    Args:
        beyond: for each place whether it is beyond, shape [k].
        low: not beyond, shape [k].
        high: beyond, shape [k].
        steps: how often brackets are halved.
    """
    for _ in range(steps):
        middle = (low + high) / 2
        is_beyond = beyond(middle)
        low, high = np.where(is_beyond, low, middle), np.where(is_beyond, middle, high)
    return low, high


class Judged(NamedTuple):
    """What is known at some places, for `newton_each`; each of shape [k]."""

    beyond: Bools
    """Whether the root has been passed."""
    exact: Bools
    """Whether the place will do."""
    newton: Floats
    """Where Newton's method goes next; anything where it does not know."""


def newton_each(
    judge: Callable[[Floats], Judged],
    start: Floats,
    low: Floats,
    high: Floats,
    *,
    tolerance: float,
    least: float,
    steps: int,
) -> Floats:
    """Roots by Newton's method, kept inside brackets: a step that leaves one halves it instead.

    Args:
        judge: what is known at places, shape [k].
        start: where to begin, shape [k].
        low: at or below the roots, shape [k].
        high: at or above them, inf where nothing is known, shape [k].
        tolerance: of a root, relative to max{`least`, |root|}.
        least: see `tolerance`.
        steps: how many at most.
    """
    place = start
    for _ in range(steps):
        beyond, exact, newton = judge(place)
        low, high = np.where(beyond, low, place), np.where(beyond, place, high)
        bounded = np.isfinite(high)
        halved = np.where(bounded, (low + np.where(bounded, high, low)) / 2, 2 * place)
        moved = np.where((newton > low) & (newton < high), newton, halved)
        moved = np.where(exact, place, moved)
        settled = np.abs(moved - place) <= tolerance * np.maximum(np.abs(place), least)
        place = moved
        if settled.all():
            break
    return place


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
    [Chandrupatla1997]: inverse quadratic interpolation where the last three points allow it,
    bisection elsewhere. Of the last bracket the lower end is returned, where the function is not
    positive.

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
            return _narrowed(function, there, here, tolerance)[0]
        here, spread = there, 2 * spread


def crossing_between(
    function: Callable[[float], float], low: Point, high: Point, *, tolerance: float
) -> tuple[float, float]:
    """Narrows a bracket around the place where an increasing function becomes positive.

    By Chandrupatla's method, as in `crossing`.

    Args:
        function: increasing; may jump.
        low: a place of at least 0 where it is not positive, and its value there.
        high: a place where it is, and its value there.
        tolerance: width of the last bracket, relative to 1 + its lower end.

    Returns:
        The last bracket: a place where it is not positive, and one where it is.
    """
    return _narrowed(function, high, low, tolerance)


def _narrowed(
    function: Callable[[float], float], last: Point, across: Point, tolerance: float
) -> tuple[float, float]:
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
    return min(last[0], across[0]), max(last[0], across[0])


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
