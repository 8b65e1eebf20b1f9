"""The last bits of numbers: of which power of two they are multiples, and how many bits they use.

Noise that is made of floats has more bits near 0 than elsewhere; added to a large number it loses
them. So numbers that cannot come from one of two datasets can be told by their last bits
[Mironov2012].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpframe.builtin.attacks.views.view import first, listed, output, width_of

if TYPE_CHECKING:
    from dpframe import HostArray
    from dpframe.builtin.attacks.views.view import Columns

MOST = 8
"""Numbers of an answer that are looked at."""

LOWEST, HIGHEST = -198, 55
"""Exponents of the last bit that is not 0; those beyond are taken for these."""

ZERO, NO_NUMBER = 254, 255
"""Codes of what has no such bit."""

MINUS = 64
"""Added to how many bits are used where the number is negative."""


class Bits:
    """Two columns for each number: exponent of the last bit, and how many bits it uses."""

    columns: ClassVar[Columns] = "codes"

    def see(self, answers: Any) -> HostArray:
        """Codes of both, shape [n, 2 × numbers]."""
        numbers = first(answers, MOST).astype(np.float64)
        good = np.isfinite(numbers)
        fraction, exponent = np.frexp(np.where(good, numbers, 0.0))
        whole = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
        last = whole & -whole
        zeros = np.frexp(last.astype(np.float64))[1] - 1
        lowest = np.clip(exponent - 53 + zeros, LOWEST, HIGHEST) - LOWEST
        used = np.where(whole > 0, 53 - zeros, 0) + MINUS * (numbers < 0)
        lowest = np.where(whole > 0, lowest, ZERO)
        found = np.concatenate([lowest, used], axis=1)
        return np.where(np.tile(good, 2), found, NO_NUMBER).astype(np.uint8)

    def told(self, column: int, number: int, codes: list[int], rest: list[int]) -> str:
        """As multiples of powers of two where they are all above or below some power."""
        width = width_of(number, lambda w: 2 * w, MOST)
        name = output(column % width, width)
        if column >= width:
            used = [f"{c % MINUS}{' (negative)' * (c >= MINUS)}" for c in codes if c != NO_NUMBER]
            none = ["no finite"] * (NO_NUMBER in codes)
            return f"{name} uses {listed(used + none)} bits"
        powers = sorted(code + LOWEST for code in codes if code < ZERO)
        others = [code + LOWEST for code in rest if code < ZERO]
        parts = [f"{name} is 0"] * (ZERO in codes)
        parts += [f"{name} is no finite number"] * (NO_NUMBER in codes)
        if powers and all(other > powers[-1] for other in others):
            parts.insert(0, f"{name} is no multiple of 2^{powers[-1] + 1}")
        elif powers and all(other < powers[0] for other in others):
            parts.insert(0, f"{name} is a multiple of 2^{powers[0]}")
        elif powers:
            parts.insert(0, f"the last bit of {name} is {listed([f'2^{p}' for p in powers])}")
        return " or ".join(parts)
