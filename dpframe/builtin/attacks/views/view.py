"""What a view is: it turns answers into columns, and events of a column into words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe import HostArray

    Event = Callable[[Any], bool]

Columns = Literal["codes", "hashes", "numbers"]
"""Small whole numbers below 256, each a category; 32 bits of a hash, each a category; numbers, of
which intervals are categories."""


class View(Protocol):
    """One way to look at answers."""

    columns: Columns
    """What it sees."""

    def see(self, answers: Any) -> HostArray:
        """The columns of some answers, shape [n, k]; k depends on the width of an answer alone."""


class Coded(View, Protocol):
    """A view whose columns are categories."""

    def told(self, column: int, number: int, codes: list[int], rest: list[int]) -> str | None:
        """That a column has one of some codes; None where there are no words for that.

        Args:
            column: which.
            number: how many columns there are.
            codes: of the event.
            rest: codes that were seen too, and are not of the event.
        """


class Numeric(View, Protocol):
    """A view whose columns are numbers."""

    sums: bool
    """Whether a weighted sum of its columns means something."""
    beside: int
    """How many of its columns, the last ones, say what the others are about."""

    def name(self, column: int, number: int) -> str:
        """What a column holds, of so many; column −1 is a weighted sum of all."""


def output(place: int, number: int) -> str:
    """The name of a number in an answer, counted from 1; there may be only one."""
    return "the output" if number == 1 else f"output {place + 1}"


def width_of(columns: int, of_width: Callable[[int], int], most: int) -> int:
    """How many numbers an answer has that is seen as so many columns, up to `most`."""
    for width in range(1, most + 1):
        if of_width(width) == columns:
            return width
    return most


def first(answers: Any, most: int) -> HostArray:
    """The first numbers of answers, NaN where there are none; one column at least."""
    numbers: HostArray = np.asarray(answers.numbers)[:, :most]
    if not numbers.shape[1]:
        return np.full((len(numbers), 1), np.nan)
    return numbers


def listed(texts: list[str], most: int = 3) -> str:
    """A few texts, and how many more there are."""
    shown, more = texts[:most], len(texts) - most
    if more > 0:
        return f"{', '.join(shown)} or one of {more} more"
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 2 else shown)
