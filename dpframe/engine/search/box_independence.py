"""Whether answers of one pair depend on each other, whatever the size of their chunks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from dpframe.answers import ABSENT, BEFORE, SECONDS
from dpframe.engine.checks.independence import Independence
from dpframe.engine.search.box_sizes import LEVELS

if TYPE_CHECKING:
    from dpframe.engine.search.box_parts import Part
    from dpframe.types import HostArray

MOST_PAIRS = 256
"""Pairs of one search: each is learned about and kept."""

COMPARED = 8
"""Numbers of an answer by which it is told whether answers depend on each other."""


class BoxIndependence:
    """Looks at all answers of a pair."""

    def __init__(self) -> None:
        self._known: dict[int, Independence] = {}
        """By the rows of a chunk."""
        self._lock = threading.Lock()

    def see(self, part: Part, rows: HostArray, *, counted: bool) -> None:
        """Takes in answers; raises WorthlessError.

        Args:
            part: which chunks they are.
            rows: answers, as rows of 64-bit words.
            counted: whether anything is counted of them.
        """
        with self._lock:
            if part.rows not in self._known:
                lanes = (LEVELS + 1) * MOST_PAIRS  # which share the probability of a mistake
                self._known[part.rows] = Independence(part.rows, lanes, answers=True)
            known = self._known[part.rows]
        some = np.full((len(rows), BEFORE + COMPARED), ABSENT, np.uint64)
        width = min(rows.shape[1], some.shape[1])
        some[:, :width] = rows[:, :width]
        some[:, SECONDS] = 0  # how long an answer took is no part of what must not come twice
        known.see(0, part.dataset, part.first, some, counted=counted)

    def conclude(self) -> None:
        """A last look at them; raises WorthlessError."""
        for one in self._known.values():
            one.conclude()
