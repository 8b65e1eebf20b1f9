"""How far the numbers of an answer lie apart, and how large they are together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from dpframe import HostArray
    from dpframe.builtin.attacks.views.view import Columns


class Spread:
    """How far the numbers of an answer lie apart, and how large they are together."""

    columns: ClassVar[Columns] = "numbers"
    sums: ClassVar[bool] = False
    beside: ClassVar[int] = 0

    NAMES = (
        "the standard deviation of the outputs",
        "the largest less the smallest output",
        "the sum of the absolute outputs",
        "the Euclidean norm of the outputs",
        "the largest absolute output",
        "the mean of the outputs",
        "the largest output",
        "the smallest output",
    )

    def see(self, answers: Any) -> HostArray:
        """One column for each name; NaN where there is no finite number."""
        numbers = np.asarray(answers.numbers, np.float64)
        if not numbers.shape[1]:
            numbers = np.full((len(numbers), 1), np.nan)
        there = np.isfinite(numbers)
        count = there.sum(axis=1)
        plain = np.where(there, numbers, 0.0)
        size = np.abs(plain)
        largest = np.where(there, numbers, -np.inf).max(axis=1)
        smallest = np.where(there, numbers, np.inf).min(axis=1)
        with np.errstate(all="ignore"):
            mean = plain.sum(axis=1) / count
            from_mean = np.where(there, numbers - mean[:, None], 0.0)
            found = [
                np.sqrt(np.square(from_mean).sum(axis=1) / count),
                largest - smallest,
                size.sum(axis=1),
                np.sqrt(np.square(plain).sum(axis=1)),
                size.max(axis=1),
                mean,
                largest,
                smallest,
            ]
        return np.where(count[:, None] > 0, np.stack(found, axis=1), np.nan)

    def name(self, column: int, number: int) -> str:
        """What a column holds."""
        return "a weighted sum of spreads" if column < 0 else self.NAMES[column]
