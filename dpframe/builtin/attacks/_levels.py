"""Values at which learning attacks cut single numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpframe import Floats

FEWEST = 10
"""Numbers beyond the outermost cuts, about: fewer say nothing about a ratio."""


def cuts(sorted_numbers: Floats, count: int) -> Floats:
    """Distinct numbers, all if they are few, else at levels evenly spaced on the logit scale.

    So they lie close together in both tails, where the rare outputs are that tell most.

    Args:
        sorted_numbers: ascending, without NaN, at least one.
        count: how many at most.

    Returns:
        Ascending, all of them among the numbers.
    """
    distinct, size = np.unique(sorted_numbers), len(sorted_numbers)
    if len(distinct) <= count:
        return distinct
    furthest = max(np.log(size / FEWEST), 1.0)
    levels = 1 / (1 + np.exp(-np.linspace(-furthest, furthest, count)))
    return np.unique(sorted_numbers[np.minimum((levels * size).astype(np.int64), size - 1)])
