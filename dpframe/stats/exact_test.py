"""An exact unconditional test of two binomial counts, as a confidence region of both error rates.

Limits of two rates at α/2 each, and the joint test of `dpframe.stats.joint`, reject a true claim
far less often than their error allows. This test enumerates all outcomes instead, like those of
[Barnard1945] and [Boschloo1970]. Outcomes are ordered by the loss that they show. The p-value of a
pair of error rates is the probability of outcomes that show at least the observed loss.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from dpframe.common.types import Bools, Floats, Ints
from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper

Region = Callable[[float], Floats]

MOST_TRIALS = 1000  # most trials on each side for which outcomes are enumerated, in about 50 ms
LEVEL = 0.05

SPACING = 0.08  # of the grid of rates, in standard errors
ROWS, WIDE = 8, 64  # places of the grid that are multiplied together

NEGLIGIBLE = 1e-40  # terms of a sum that are left out; `MISSED` bounds their sum
MISSED = 1e-36
SUM_ROUNDING = 1e-9  # relative error of a sum of probabilities, from above


class EventCounts(NamedTuple):
    """Counts of an event; arrays of outcomes broadcast."""

    false: int | Ints  # on the dataset on which the event is a false positive
    trials_false: int
    true: int | Ints  # on the other dataset
    trials_true: int

    @property
    def complement(self) -> EventCounts:
        """The counts of the complement, which is evidence for the other dataset."""
        return EventCounts(
            self.trials_true - self.true,
            self.trials_true,
            self.trials_false - self.false,
            self.trials_false,
        )

    @property
    def reversed(self) -> EventCounts:
        """The counts if the complement is evidence for the same dataset."""
        n, m = self.trials_false, self.trials_true
        return EventCounts(n - self.false, n, m - self.true, m)


def is_enumerable(*trials: int) -> bool:
    """True if there are 1 to `MOST_TRIALS` trials on each side, so a region takes milliseconds."""
    return min(trials) >= 1 and max(trials) <= MOST_TRIALS


def loss_shown(
    outcome: EventCounts, delta: float, *, either_rate: bool, level: float = LEVEL
) -> Floats:
    """Return an approximate lower limit of ln((TPR − δ)/FPR), by which outcomes are ordered.

    The limits of both rates are combined as in [Zou2008], by the root of the sum of squares. It
    never falls with the true count and never rises with the false one. −inf if δ is not exceeded.

    Args:
        outcome: the counts.
        delta: δ.
        either_rate: also look at ln((1 − FPR − δ)/FNR) and return the larger limit.
        level: error of the limits of each rate.
    """
    false, n, true, m = outcome
    lower, upper = _limits(m, level)[0][true], _limits(n, level)[1][false]
    with np.errstate(divide="ignore", invalid="ignore"):  # where δ is not exceeded
        tpr, fpr = np.log(true / m - delta), np.log((false + 0.5) / (n + 1))
        least, most = np.log(lower - delta), np.log(upper)
        # Rounded, because outcomes that show the same loss must tie.
        limit = np.round(tpr - fpr - np.hypot(tpr - least, most - fpr), 9)
    loss = np.where(lower > delta, limit, -np.inf)
    if either_rate:
        other = loss_shown(outcome.complement, delta, either_rate=False, level=level)
        loss = np.maximum(loss, other)
    return loss


def exact_region(
    outcome: EventCounts,
    delta: float,
    *,
    either_rate: bool,
    either_way: bool = False,
    level: float = LEVEL,
) -> Region:
    """Return a function from an error a to a staircase that contains (FPR, FNR).

    Let G(x, y) be the probability, at the rates x and y, of outcomes that show at least the loss of
    this one. At the true rates it is at most a with probability at most a, so {G > a} contains them
    with probability at least 1 − a. G falls with x and with y. On a grid of rates the region is
    therefore inside the boxes that end one cell further, whatever lies between two places. The
    order does not depend on a or on a claim, so the region shrinks as a grows, and the p-value of a
    claim, its maximum over the nuisance parameter, grows with the claimed ε.

    With `either_way` the outcome shows the larger loss of an event and of its reverse, and the
    staircase contains (FPR, FNR) or (1 − FPR, 1 − FNR), the one with the smaller sum. Both are
    points of the same trade-off curve. Then G is the sum of both probabilities, of which the second
    is largest on FPR + FNR = 1.

    Args:
        outcome: the observed counts; `is_enumerable` is true of the trials.
        delta: δ at which loss orders the outcomes.
        either_rate: see `loss_shown`.
        either_way: if the direction of the event was not fixed beforehand.
        level: error of the limits that order the outcomes, fixed before the draws. The test is
            valid with any level, but weak if it is far from the requested error, because outcomes
            at rates near 0 then rank too high or too low.

    Returns:
        A function from the error, in (0, 1], to shape [1, corners, 2]. A region that reaches
        FPR + FNR = 1, where nothing is told apart, is cut there.
    """
    n, m = outcome.trials_false, outcome.trials_true
    shown = functools.partial(loss_shown, delta=delta, either_rate=either_rate, level=level)
    seen = float(shown(outcome))
    if either_way:
        seen = max(seen, float(shown(outcome.reversed)))
    # The least true count that shows this loss, for each false count; m + 1 if none does.
    false = np.arange(n + 1)
    least = _first(lambda true: shown(EventCounts(false, n, true, m)) >= seen, n + 1, m + 1)
    places = math.ceil(math.pi * math.sqrt(max(n, m)) / SPACING) + 2
    rates, mass = _mass(n, places)
    missing = np.pad(_below(m, places), ((0, 0), (1, 0)))[:, m + 1 - least]
    extra = np.zeros((places - 1, 1))
    if either_way:  # in the cell of the diagonal that belongs to a row
        extra = (mass[::-1][1:] * missing[:-1]).sum(axis=1, keepdims=True)
    # The products are too small for BLAS to use threads, which are slow on a busy machine.
    stack = np.pad(missing, ((0, -places % WIDE), (0, 0))).reshape(-1, WIDE, n + 1)
    region = np.zeros((places - 1, places))
    for first in range(0, places - 1, ROWS):
        block = mass[first : min(first + ROWS, places - 1)]
        counted = np.flatnonzero(block.max(axis=0) > NEGLIGIBLE)
        part = slice(int(counted[0]), int(counted[-1]) + 1)
        end = places - first  # beyond it FPR + FNR > 1
        products = stack[: -(-end // WIDE), :, part] @ block[:, part].T
        region[first : first + ROWS, :end] = products.reshape(-1, len(block))[:end].T
    region = (region + extra) * (1 + SUM_ROUNDING) + MISSED
    region[np.add.outer(np.arange(places - 1), np.arange(places)) >= places] = 0

    row = np.arange(places - 1)

    def staircase(error: float) -> Floats:
        last = _first(lambda place: region[row, place] <= error, places - 1, places - 1)
        last = np.maximum.accumulate(last[::-1])[::-1]
        # A step ends where the next one is lower.
        kept = np.flatnonzero(last > np.append(last[1:], 0))
        return np.stack([rates[kept + 1], rates[last[kept]]], axis=-1)[None]

    return staircase


def _first(holds: Callable[[Ints], Bools], number: int, end: int) -> Ints:
    """Return the first place from which `holds` is true in each row, or `end`."""
    low, high = np.zeros(number, np.int64), np.full(number, end)
    for _ in range(end.bit_length()):
        middle = (low + high) // 2
        enough = holds(np.minimum(middle, end - 1))
        low = np.where(enough | (low == high), low, middle + 1)
        high = np.where(enough, middle, high)
    return high


@functools.lru_cache(maxsize=16)
def _limits(trials: int, level: float) -> tuple[Floats, Floats]:
    counts = np.arange(trials + 1)
    return (
        clopper_pearson_lower(counts, trials, level),
        clopper_pearson_upper(counts, trials, level),
    )


@functools.lru_cache(maxsize=4)
def _mass(trials: int, places: int) -> tuple[Floats, Floats]:
    """Return rates from 0 to 1 at equal distances in standard errors, and Pr[Bin = k] at each."""
    rates = np.sin(np.linspace(0, math.pi / 2, places)) ** 2
    k = np.arange(trials + 1)
    ways = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    x = rates[:, None]
    return rates, np.exp(ways + xlogy(k, x) + xlog1py(trials - k, -x))


@functools.lru_cache(maxsize=4)
def _below(trials: int, places: int) -> Floats:
    """Return Pr[Bin ≤ k] at the same rates."""
    return np.asarray(np.cumsum(_mass(trials, places)[1], axis=1), np.float64)
