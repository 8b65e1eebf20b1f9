"""Which labels are among the outputs, how often, and in which order: of rankings, lists, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from dpframe import HostArray, Ints
    from dpframe.builtin.attacks.views.view import Columns

GROUPS = 32
"""Labels are counted by the rest that they leave; texts by that of the hash that stands for them.
So a few labels are apart, most often, and many together."""

MOST = 2048
"""Outputs that are looked at."""

LARGEST = 2.0**53
"""Beyond, floats are whole whether they are meant so or not."""


class Labels:
    """How often labels come among the outputs, and where each comes first.

    A label is a text, a boolean or a whole number. An answer of one output has none: its exact
    value says as much.
    """

    columns: ClassVar[Columns] = "numbers"
    sums: ClassVar[bool] = True

    def see(self, answers: Any) -> HostArray:
        """Counts, then first places, counted from 1 and one beyond the last where there is none."""
        numbers = np.asarray(answers.numbers, np.float64)[:, :MOST]
        n, width = numbers.shape
        if width < 2:
            return np.zeros((n, 1))
        with np.errstate(invalid="ignore"):
            whole = (np.abs(numbers) < LARGEST) & (numbers == np.floor(numbers))
        groups: Ints = np.where(whole, numbers, 0.0).astype(np.int64) % GROUPS
        rows = np.broadcast_to(np.arange(n)[:, None], numbers.shape)
        places = np.broadcast_to(np.arange(width), numbers.shape)
        at = (rows * GROUPS + groups)[whole]
        counts = np.bincount(at, minlength=n * GROUPS).reshape(n, GROUPS)
        found = np.full(n * GROUPS, width)
        np.minimum.at(found, at, places[whole])
        return np.concatenate([counts, found.reshape(n, GROUPS) + 1.0], axis=1)

    def name(self, column: int, number: int) -> str:
        """What a column holds."""
        if column < 0:
            return "a weighted sum of how often labels come, and where,"
        label = f"a label of group {column % GROUPS} of {GROUPS}"
        if column < GROUPS:
            return f"the number of times that {label} comes"
        return f"the first place of {label}"
