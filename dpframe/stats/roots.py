"""Root finding for increasing functions and predicates.

`bisection_each` takes a predicate, `newton_each` a derivative, `crossing` neither.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpframe.common.types import Bools, Floats

Point = tuple[float, float]


EVALUATIONS = 300  # most of a function whose root `crossing` looks for


def bisection_each(
    beyond: Callable[[Floats], Bools], low: Floats, high: Floats, *, steps: int
) -> tuple[Floats, Floats]:
    """Halve many brackets, shape [k], `steps` times, around the places above which it holds."""
    for _ in range(steps):
        middle = (low + high) / 2
        is_beyond = beyond(middle)
        low, high = np.where(is_beyond, low, middle), np.where(is_beyond, middle, high)
    return low, high


class Judged(NamedTuple):
    """Judgements of some places, for `newton_each`; each of shape [k]."""

    beyond: Bools  # True if the place is above the root
    exact: Bools  # True if the place is accurate enough
    newton: Floats  # next place of Newton's method; anything if undefined


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
    """Find roots by Newton's method inside brackets; a step that leaves one halves it instead.

    Args:
        judge: judges places, shape [k].
        start: where to begin, shape [k].
        low: at or below the roots, shape [k].
        high: at or above them, inf if unknown, shape [k].
        tolerance: of a root, relative to max{`least`, |root|}.
        least: see `tolerance`.
        steps: the most that are made.
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
    """Find the place x in [0, most] at which an increasing function becomes positive.

    A bracket grows from a guess in doubling steps, then `crossing_between` narrows it. Its lower
    end, where the function is not positive, is returned.

    Args:
        function: increasing; may jump, and may be infinite.
        guess: where to look first; at least 0.
        spread: expected error of the guess; above 0.
        most: no place beyond it is tried.
        tolerance: width of the last bracket, relative to 1 + x.

    Returns:
        0 if the function is positive at 0, `most` if it is not positive there.
    """
    x = min(guess, most)
    here = (x, function(x))
    up = here[1] <= 0
    while True:
        x = min(x + spread, most) if up else max(x - spread, 0.0)
        if x == here[0]:  # the end of the range
            return x
        there = (x, function(x))
        if (there[1] > 0) == up:
            return crossing_between(function, there, here, tolerance=tolerance)[0]
        here, spread = there, 2 * spread


def crossing_between(
    function: Callable[[float], float], last: Point, across: Point, *, tolerance: float
) -> tuple[float, float]:
    """Narrow a bracket around the place at which an increasing function becomes positive.

    By Chandrupatla's method [Chandrupatla1997]: inverse quadratic interpolation if the last three
    points allow it, else bisection.

    Args:
        function: increasing; may jump, and may be infinite.
        last: a place of at least 0 and its value.
        across: a place on the other side of the root, and its value.
        tolerance: width of the last bracket, relative to 1 + its lower end.

    Returns:
        The last bracket: a place where the function is not positive, and one where it is.
    """
    share = 0.5
    for _ in range(EVALUATIONS):
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
    """Choose the next place, as a share of the way from the last point to the one across."""
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
