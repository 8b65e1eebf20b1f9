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

MOST_TRIALS = 1000  # most trials on each side for which outcomes are enumerated, in about 20 ms
LEVEL = 0.05

SPACING = 0.08  # of the grid of rates, in standard errors
ROWS, WIDE = 32, 32  # places of the grid that are multiplied together

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
        level: error of the limits of each rate; above ½ they cross the rates, so ½ is used.
    """
    false, n, true, m = outcome
    level = min(level, 0.5)
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
    missing = _below(m, places)[:, m + 1 - least]
    extra = np.zeros(places)
    if either_way:  # in the cell of the diagonal that belongs to a row
        extra[:-1] = np.einsum("ij,ij->i", mass[::-1][1:], missing[: places - 1])
    grid = _Grid(mass, missing, extra)

    def staircase(error: float) -> Floats:
        last = grid.last(error)
        last = np.maximum.accumulate(last[::-1])[::-1]
        # A step ends where the next one is lower.
        kept = np.flatnonzero(last > np.append(last[1:], 0))
        return np.stack([rates[kept + 1], rates[last[kept]]], axis=-1)[None]

    return staircase


class _Grid:
    """The probabilities G of a grid of rates, computed in blocks where a staircase passes.

    Args:
        mass: Pr[Bin = k] of the false count, shape [places, n + 1].
        missing: probability that the true count is too small to show the loss, for each false
            count, shape [places, n + 1] and further rows of 0.
        extra: probability that is added to each row, shape [places].
    """

    def __init__(self, mass: Floats, missing: Floats, extra: Floats) -> None:
        self.places, n = mass.shape
        self._stack = missing.reshape(-1, WIDE, n)
        self._mass, self._extra = mass, extra
        self._blocks: dict[tuple[int, int], Floats] = {}

    def last(self, error: float) -> Ints:
        """Return the first place of each row at which G is at most the error, shape [places − 1].

        G falls within a row, and the place changes little from row to row.
        """
        last, wide = np.zeros(self.places - 1, np.int64), 0
        for first in range(0, self.places - 1, ROWS):
            low = high = wide
            above = self._above(first, wide, error)
            while low and not above[:, 0].all():
                low -= 1
                above = np.concatenate([self._above(first, low, error), above], axis=1)
            while high + 1 < len(self._stack) and above[:, -1].any():
                high += 1
                above = np.concatenate([above, self._above(first, high, error)], axis=1)
            found = low * WIDE + np.count_nonzero(above, axis=1)
            last[first : first + ROWS] = np.minimum(found, self.places - 1)
            wide = int(found[-1]) // WIDE
        return last

    def _above(self, first: int, wide: int, error: float) -> Bools:
        """True where G exceeds an error, in one block of rows and columns."""
        if (block := self._blocks.get((first, wide))) is None:
            block = self._blocks[first, wide] = self._block(first, wide)
        return np.asarray(block > error)

    def _block(self, first: int, wide: int) -> Floats:
        mass = self._mass[first : min(first + ROWS, self.places - 1)]
        counted = np.flatnonzero(mass.max(axis=0) > NEGLIGIBLE)
        part = slice(int(counted[0]), int(counted[-1]) + 1)
        # The products are too small for BLAS to use threads, which are slow on a busy machine.
        block = mass[:, part] @ self._stack[wide][:, part].T
        row = first + np.arange(len(mass))[:, None]
        block = (block + self._extra[row]) * (1 + SUM_ROUNDING) + MISSED
        block[row + wide * WIDE + np.arange(WIDE) >= self.places] = 0  # FPR + FNR > 1
        return np.asarray(block)


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
    """Return Pr[Bin < k] at the same rates for k = 0 to trials + 1, and whole blocks of rows."""
    below = np.cumsum(_mass(trials, places)[1], axis=1)
    return np.pad(below, ((0, -places % WIDE), (1, 0)))
