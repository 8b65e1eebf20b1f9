"""By how much a query changes, without any rounding: floats are rational numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


Number = int | float | Fraction

ROUNDING = Fraction(1, 1_000_000)
"""Part of a sensitivity by which a change may exceed it and is called rounding.

The loss of noise that is scaled to a sensitivity grows in proportion to the change. A millionth of
it is what no number of draws resolves here, and about what sums of a few floats are off by.
"""


class Change(NamedTuple):
    """The size of a change."""

    power: Fraction
    """The change itself; its square in the Euclidean norm."""
    norm: float

    @property
    def size(self) -> float:
        """The change, rounded."""
        return _root(self.power) if self.norm == 2 else _float(self.power)

    def factor(self, sensitivity: float) -> float:
        """The change over a sensitivity, rounded; inf where that is 0.

        Args:
            sensitivity: finite, at least 0.
        """
        if not self.power:
            return 0.0
        if not sensitivity:
            return math.inf
        if self.norm == 2:
            return _root(self.power / Fraction(sensitivity) ** 2)
        return _float(self.power / Fraction(sensitivity))

    def exceeds(self, sensitivity: float, slack: Fraction = ROUNDING) -> bool:
        """Whether the change is larger than a sensitivity, decided without rounding.

        Args:
            sensitivity: finite, at least 0.
            slack: part of the sensitivity that is allowed beyond it.
        """
        allowed = Fraction(sensitivity) * (1 + slack)
        return self.power > (allowed**2 if self.norm == 2 else allowed)


def change(before: Sequence[Number], after: Sequence[Number], norm: float) -> Change:
    """The norm of the difference of two vectors of finite numbers.

    Args:
        before: on D.
        after: on D′, as many.
        norm: 1, 2 or inf.
    """
    ratios = [
        (*x.as_integer_ratio(), *y.as_integer_ratio())
        for x, y in zip(before, after, strict=True)
        if x != y
    ]
    # Over one denominator they are whole numbers, which is many times faster than fractions.
    below = math.lcm(*{r[1] for r in ratios}, *{r[3] for r in ratios})
    found = [abs(a * (below // b) - c * (below // d)) for a, b, c, d in ratios]
    if norm == 1:
        power = Fraction(sum(found), below)
    elif norm == 2:
        power = Fraction(sum(n * n for n in found), below * below)
    elif norm == math.inf:
        power = Fraction(max(found, default=0), below)
    else:
        raise ValueError(f"norm is {norm!r}; 1, 2 and inf are known")
    return Change(power, norm)


def unlike(before: Sequence[Number], after: Sequence[Number]) -> int | None:
    """The first place at which one vector has a number and the other NaN or an infinity.

    The same infinity on both sides, or NaN on both, is no difference.
    """
    for place, (x, y) in enumerate(zip(before, after, strict=True)):
        if not (_finite(x) and _finite(y)) and _word(x) != _word(y):
            return place
    return None


def finite_parts(
    before: Sequence[Number], after: Sequence[Number]
) -> tuple[list[Number], list[Number]]:
    """The places at which both are finite."""
    both = [(x, y) for x, y in zip(before, after, strict=True) if _finite(x) and _finite(y)]
    return [x for x, _ in both], [y for _, y in both]


def _finite(number: Number) -> bool:
    return not isinstance(number, float) or math.isfinite(number)


def _word(number: Number) -> str:
    return "number" if _finite(number) else repr(number)


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _root(number: Fraction) -> float:
    """The square root, also of what no float holds."""
    if not number:
        return 0.0
    half = (number.numerator.bit_length() - number.denominator.bit_length()) // 2
    scaled = number / Fraction(4) ** half
    try:
        return math.ldexp(math.sqrt(scaled), half)
    except OverflowError:
        return math.inf
