"""Which labels are among the outputs, how often, and in which order: of rankings, lists, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpframe.builtin.attacks.views.view import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    beside: ClassVar[int] = GROUPS

    def see(self, answers: Any) -> HostArray:
        """Counts, then first places, counted from 1 and one beyond the last where there is none.

        Beside them, of each group the label that comes first, NaN where none does.
        """
        numbers = np.asarray(answers.numbers, np.float64)[:, :MOST]
        n, width = numbers.shape
        if width < 2:
            return np.zeros((n, 1 + GROUPS))
        with np.errstate(invalid="ignore"):
            whole = (np.abs(numbers) < LARGEST) & (numbers == np.floor(numbers))
        groups: Ints = np.where(whole, numbers, 0.0).astype(np.int64) % GROUPS
        rows = np.broadcast_to(np.arange(n)[:, None], numbers.shape)
        places = np.broadcast_to(np.arange(width), numbers.shape)
        at = (rows * GROUPS + groups)[whole]
        counts = np.bincount(at, minlength=n * GROUPS).reshape(n, GROUPS)
        found = np.full(n * GROUPS, width)
        np.minimum.at(found, at, places[whole])
        first = found.reshape(n, GROUPS)
        padded = np.column_stack([numbers, np.full(n, np.nan)])
        labels = np.take_along_axis(padded, first, axis=1)
        return np.concatenate([counts, first + 1.0, labels], axis=1)

    def name(self, column: int, number: int) -> str:
        """What a column holds, as long as nothing is known of its labels."""
        return self.name_of(column, ["a label of a group"])

    def name_of(self, column: int, labels: list[str]) -> str:
        """What a column holds.

        Args:
            column: which.
            labels: those of its group, in words.
        """
        if column < 0:
            return "a weighted sum of how often labels come, and where,"
        if column < GROUPS:
            return f"the number of times that {listed(labels)} comes"
        return f"the first place of {listed(labels)}"


def in_words(label: float, words: Mapping[int, str]) -> str:
    """A whole number, or the text that it marks.

    Args:
        label: as it stands among the numbers of an answer.
        words: texts of codes; half of the code of a text marks it.
    """
    known = {code >> 32: text for code, text in words.items()}
    return known.get(int(label), f"{label:.0f}")
