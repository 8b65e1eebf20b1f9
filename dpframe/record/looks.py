"""Looks at the same draws, and what each of them costs."""

from __future__ import annotations

from typing import NamedTuple


def look_price(number: int) -> int:
    """What a p-value is multiplied by, and the error of a bound divided by, at a look.

    Look k ≥ 2 costs k(k + 1) and the first nothing. All looks together then err with at most 1.5
    times the error of the first, since 1/(2·3) + 1/(3·4) + … = 1/2.

    Args:
        number: which look it is, from 1.
    """
    return 1 if number == 1 else number * (number + 1)


class Looks(NamedTuple):
    """The looks at one cell, this one included."""

    earlier: tuple[tuple[int, int], ...] = ()
    """Trials per dataset of the looks that are known from before."""
    number: int = 1
    """Which look this is; a repetition of an earlier look keeps its number."""

    @property
    def price(self) -> int:
        """See `look_price`."""
        return look_price(self.number)

    def listed(self, trials: tuple[int, int]) -> list[list[int]]:
        """Trials of all looks, once this one has come to `trials`."""
        shown = list(self.earlier)
        if self.number > len(shown):
            shown.append(trials)
        return [list(pair) for pair in shown]


FIRST_LOOK = Looks()
