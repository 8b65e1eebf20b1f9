"""Exact size of the change of a query: floats are rational numbers, so nothing is rounded."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

Number = int | float | Fraction

ROUNDING = Fraction(1, 1_000_000)
"""Largest relative excess over a sensitivity that counts as rounding, about the error of sums of a
few floats. The loss grows in proportion, and no audit resolves a millionth of it."""


class Change(NamedTuple):
    """The size of a change."""

    power: Fraction  # the change; in the Euclidean norm, its square
    norm: float

    @property
    def size(self) -> float:
        """The change, rounded."""
        return _root(self.power) if self.norm == 2 else _float(self.power)

    def factor(self, sensitivity: float) -> float:
        """Return the change over a finite sensitivity, rounded; inf if that is 0."""
        if not self.power:
            return 0.0
        if not sensitivity:
            return math.inf
        if self.norm == 2:
            return _root(self.power / Fraction(sensitivity) ** 2)
        return _float(self.power / Fraction(sensitivity))

    def exceeds(self, sensitivity: float, slack: Fraction = ROUNDING) -> bool:
        """Compare with a finite sensitivity, raised by a part `slack` of it, without rounding."""
        allowed = Fraction(sensitivity) * (1 + slack)
        return self.power > (allowed**2 if self.norm == 2 else allowed)


def change(before: Sequence[Number], after: Sequence[Number], norm: float) -> Change:
    """Return the norm (1, 2 or inf) of the difference of two vectors of finite numbers."""
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
        raise ValueError(f"norm is {norm!r}; it must be 1, 2 or inf")
    return Change(power, norm)


def unlike(before: Sequence[Number], after: Sequence[Number]) -> int | None:
    """Find the first place at which one vector has a number and the other NaN or an infinity.

    Equal infinities, or NaN in both, are no difference.
    """
    for place, (x, y) in enumerate(zip(before, after, strict=True)):
        if not (_finite(x) and _finite(y)) and _word(x) != _word(y):
            return place
    return None


def finite_parts(
    before: Sequence[Number], after: Sequence[Number]
) -> tuple[list[Number], list[Number]]:
    """Keep the places at which both vectors are finite."""
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
    """Return the square root, also of numbers beyond the range of floats."""
    if not number:
        return 0.0
    half = (number.numerator.bit_length() - number.denominator.bit_length()) // 2
    scaled = number / Fraction(4) ** half
    try:
        return math.ldexp(math.sqrt(scaled), half)
    except OverflowError:
        return math.inf
