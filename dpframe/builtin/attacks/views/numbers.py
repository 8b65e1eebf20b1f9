"""The numbers of an answer, each as it is, and what is derived of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpframe.builtin.attacks.views.view import first, output, width_of

if TYPE_CHECKING:
    from dpframe import HostArray
    from dpframe.builtin.attacks.views.view import Columns

MOST = 8192
"""As many numbers as an answer has at most."""

FRACTIONS = 8
"""Numbers whose part after the point is looked at too."""


def _columns(width: int) -> int:
    return width + min(width, FRACTIONS) + (width > 1)


class Numbers:
    """The numbers, the fractions of the first few, and their sum."""

    columns: ClassVar[Columns] = "numbers"
    sums: ClassVar[bool] = True
    beside: ClassVar[int] = 0

    def see(self, answers: Any) -> HostArray:
        """Numbers, shape [n, columns]."""
        numbers = first(answers, MOST).astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            columns = [numbers, numbers[:, :FRACTIONS] - np.floor(numbers[:, :FRACTIONS])]
            if numbers.shape[1] > 1:
                columns.append(np.nansum(numbers, axis=1)[:, None])
        return np.concatenate(columns, axis=1)

    def name(self, column: int, number: int) -> str:
        """What a column holds."""
        width = number if number <= 1 else width_of(number, _columns, MOST)
        if column < 0:
            return "a weighted sum of the outputs"
        if column < width:
            return output(column, width)
        if column < width + min(width, FRACTIONS):
            return f"{output(column - width, width)} modulo 1"
        return "the sum of the outputs"
