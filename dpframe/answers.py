"""What black boxes answered, whatever it was: kinds, exact values and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpframe.types import Floats, HostArray

SECONDS = 2
"""Column of the time that an answer took."""

BEFORE = 3
"""Columns before the numbers: code of the kind, code of the value, seconds."""

ABSENT = 0x7FF80000_0000AB5E
"""Bits of the NaN that stands where an answer has no number; another NaN is the answer's own."""


class Answers(NamedTuple):
    """Answers of a black box that may answer with anything, an exception among them.

    Two answers have the same value if and only if they are the same to the bit, types included;
    the codes of two different ones are equal with a chance of 2⁻⁶⁴. The kind is what sort of answer
    it is: its type and shape, where it is NaN or infinite, the class of an exception.
    """

    rows: HostArray
    """Shape [n, 3 + width], 64-bit words: code of the kind, code of the value, bits of the seconds
    that it took, and bits of the numbers."""
    words: Mapping[int, str] = {}
    """What codes stand for, of kinds and of short values, as far as it is known."""

    @property
    def kinds(self) -> HostArray:
        """Codes of the kinds, shape [n], 64-bit words."""
        return self.rows[:, 0]

    @property
    def raised(self) -> HostArray:
        """Which answers are exceptions that were raised, shape [n], booleans."""
        found: HostArray = (self.rows[:, 0] & np.uint64(1)) == 1
        return found

    @property
    def values(self) -> HostArray:
        """Codes of the exact values, shape [n], 64-bit words."""
        return self.rows[:, 1]

    @property
    def seconds(self) -> Floats:
        """What each answer took, shape [n], seconds; 0 where nobody asked for it."""
        return np.ascontiguousarray(self.rows[:, SECONDS]).view(np.float64)

    @property
    def numbers(self) -> Floats:
        """The numbers in each answer, shape [n, width]; NaN where there is none.

        Keys of tables are in order of the alphabet, sequences and arrays in their own, data frames
        column by column. Booleans are 0 or 1, bytes their bits, texts a number that marks the text.
        """
        return np.ascontiguousarray(self.rows[:, BEFORE:]).view(np.float64)

    @property
    def absent(self) -> HostArray:
        """Where an answer has no number, shape [n, width], booleans."""
        found: HostArray = self.rows[:, BEFORE:] == np.uint64(ABSENT)
        return found
