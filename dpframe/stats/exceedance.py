"""How often something happened that should not, and whether that can be chance."""

from __future__ import annotations

import bisect
from typing import NamedTuple

from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper


class Exceedance(NamedTuple):
    """A rate of failures, with an interval around it."""

    rate: float
    low: float
    high: float
    alarm: int | None
    """Fewest failures that would have shown a broken promise; None if no number would."""
    broken: bool
    """Whether the interval lies above what was promised."""


def exceedance(failures: int, repeats: int, promised: float, error: float) -> Exceedance:
    """Compares a number of failures with what was promised.

    The interval is that of [Clopper1934], half of the error on each side. So a kept promise is
    called broken with probability at most error / 2.

    Args:
        failures: how often a bound exceeded the truth.
        repeats: of how many.
        promised: highest failure rate that was promised, in (0, 1).
        error: 1 − confidence of the interval.
    """
    low = float(clopper_pearson_lower(failures, repeats, error / 2))
    high = float(clopper_pearson_upper(failures, repeats, error / 2))
    alarm = _alarm(repeats, promised, error / 2)
    return Exceedance(failures / repeats, low, high, alarm, low > promised)


def _alarm(repeats: int, promised: float, error: float) -> int | None:
    """Fewest failures whose lower limit lies above what was promised; the limit rises with them."""

    def shown(failures: int) -> bool:
        return float(clopper_pearson_lower(failures, repeats, error)) > promised

    fewest = bisect.bisect_left(range(repeats + 1), x=True, key=shown)
    return fewest if fewest <= repeats else None
