"""Numbers of one answer that are equal: to each other, or to a sum, mean or extreme of the rest."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpframe.builtin.attacks.views.view import first, output, width_of

if TYPE_CHECKING:
    from dpframe import HostArray
    from dpframe.builtin.attacks.views.view import Columns

MOST = 12
"""Numbers of an answer that are compared with each other."""

MOST_COUNTED = 1024
"""And of which it is counted how many different ones there are."""

OTHERS = ("sum", "mean", "largest", "smallest")
"""What a number is compared with, of those beside it."""

ABSENT = 2
"""Code where one of the two is no number."""


def _names(width: int) -> list[str]:
    """What is said to be equal, per column but the last."""
    two = itertools.combinations(range(width), 2)
    found = [f"{output(i, width)} equals {output(j, width)}" for i, j in two]
    if width > 2:
        found += [
            f"{output(i, width)} equals the {of} of the other outputs"
            for of in OTHERS
            for i in range(width)
        ]
    return found


class Equalities:
    """A column for each two that may be equal, and one for how many different numbers there are."""

    columns: ClassVar[Columns] = "codes"

    def see(self, answers: Any) -> HostArray:
        """1 where two are equal, and in the last column how many numbers are different."""
        numbers = first(answers, MOST)
        width = numbers.shape[1]
        left, right = np.triu_indices(width, 1)
        columns = [_equal(numbers[:, left], numbers[:, right])]
        if width > 2:
            with np.errstate(invalid="ignore", over="ignore"):
                columns += [_equal(numbers, rest) for rest in _of_the_others(numbers)]
        columns.append(_different(np.asarray(answers.numbers)[:, :MOST_COUNTED])[:, None])
        return np.concatenate(columns, axis=1).astype(np.uint8)

    def told(self, column: int, number: int, codes: list[int], rest: list[int]) -> str | None:
        """For example "output 3 equals output 7"."""
        if column == number - 1:
            counts = f"{min(codes)}" if len(codes) == 1 else f"{min(codes)} to {max(codes)}"
            one = counts == "1"
            return f"there {'is' if one else 'are'} {counts} different number{'' if one else 's'}"
        width = width_of(number, lambda w: len(_names(w)) + 1, MOST)
        name = _names(width)[column]
        if 1 in codes and 0 not in codes:
            return name + (", or one of them is no number" if ABSENT in codes else "")
        if codes == [ABSENT]:
            return f"one of two is no number: {name}"
        return f"it does not hold that {name}"


def _equal(one: HostArray, other: HostArray) -> HostArray:
    found: HostArray = np.where(np.isnan(one) | np.isnan(other), ABSENT, one == other)
    return found


def _of_the_others(numbers: HostArray) -> list[HostArray]:
    """Of each number the sum, mean, largest and smallest of those beside it that are there."""
    none = np.isnan(numbers)
    found = []
    for place in range(numbers.shape[1]):
        part, gap = (np.delete(of, place, axis=1) for of in (numbers, none))
        total = np.where(gap, 0.0, part).sum(axis=1)
        mean = total / np.maximum((~gap).sum(axis=1), 1)
        largest = np.where(gap, -np.inf, part).max(axis=1)
        smallest = np.where(gap, np.inf, part).min(axis=1)
        found.append([total, mean, largest, smallest])
    return [np.stack(of, axis=1) for of in zip(*found, strict=True)]


def _different(numbers: HostArray) -> HostArray:
    """How many different numbers an answer has, up to 255."""
    if numbers.shape[1] < 2:
        return np.ones(len(numbers), np.uint8)
    rows = np.sort(numbers, axis=1)  # NaN, and so what is absent, comes last
    new = (rows[:, 1:] != rows[:, :-1]) & ~np.isnan(rows[:, 1:])
    found: HostArray = np.minimum(new.sum(axis=1) + ~np.isnan(rows[:, 0]), 255).astype(np.uint8)
    return found
