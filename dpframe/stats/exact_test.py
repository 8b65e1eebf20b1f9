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


@functools.lru_cache(maxsize=8)  # the most extreme counts are the same in many cells
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
    grid = _Grid(n, m, least, either_way=either_way)

    def staircase(error: float) -> Floats:
        last = grid.last(error)
        last = np.maximum.accumulate(last[::-1])[::-1]
        # A step ends where the next one is lower.
        kept = np.flatnonzero(last > np.append(last[1:], 0))
        return np.stack([grid.rates[kept + 1], grid.rates[last[kept]]], axis=-1)[None]

    return staircase


class _Path(NamedTuple):
    """The part of a grid in which a staircase lies, for each row some neighbouring places."""

    low: Ints  # the first of them, shape [rows]
    width: Ints
    start: Ints  # in `values`
    values: Floats  # G there
    end: int  # of the grid

    def last(self, error: float) -> Ints | None:
        """Return the first place of each row at which G ≤ error; None if one may lie elsewhere.

        G falls within a row.
        """
        above = np.add.reduceat(self.values > error, self.start, dtype=np.int64)
        begins = (above > 0) | (self.low == 0)
        ends = (above < self.width) | (self.low + self.width == self.end)
        return self.low + above if (begins & ends).all() else None


class _Grid:
    """The probabilities G of a grid of rates, computed in blocks where a staircase passes.

    Args:
        n: trials on the dataset of the false count.
        m: trials on the other.
        least: least true count that shows the loss, for each false count, shape [n + 1].
        either_way: add the largest probability of the reverse.
    """

    def __init__(self, n: int, m: int, least: Ints, *, either_way: bool) -> None:
        self._places = places = math.ceil(math.pi * math.sqrt(max(n, m)) / SPACING) + 2
        self.rates, self._mass, self._parts = _mass(n, places)
        self._below, self._missed = _below(m, places), m + 1 - least
        self._extra = np.zeros(places)
        if either_way:  # in the cell of the diagonal that belongs to a row
            for rows, part in self._parts:
                others = slice(places - 1 - rows.stop, places - 1 - rows.start)
                mass = self._mass[rows, part][::-1]
                self._extra[others] = np.einsum("ij,ij->i", mass, self._shows(others, part))
        self._blocks: dict[tuple[int, int], Floats] = {}
        self._path: _Path | None = None

    def last(self, error: float) -> Ints:
        """Return the first place of each row at which G ≤ error, shape [places − 1]."""
        # Errors that are asked for in turn often have similar staircases.
        path = self._path
        found = None if path is None else path.last(error)
        if found is None:
            self._path = path = self._path_at(error)
            found = path.last(error)
            assert found is not None
        return np.minimum(found, self._places - 1)

    def _path_at(self, error: float) -> _Path:
        """Compute blocks until the staircase lies in them; it changes little from row to row."""
        bands, low, near = [], [], 0
        for band in range(len(self._parts)):
            first, blocks = near, [self._block(band, near)]
            while first and not (blocks[0][:, 0] > error).all():
                first -= WIDE
                blocks.insert(0, self._block(band, first))
            end = near + WIDE
            while end < len(self._below) and (blocks[-1][:, -1] > error).any():
                blocks.append(self._block(band, end))
                end += WIDE
            joined = np.concatenate(blocks, axis=1)
            bands.append(joined)
            low += [first] * len(joined)
            near = (first + int(np.count_nonzero(joined[-1] > error))) // WIDE * WIDE
            near = min(near, len(self._below) - WIDE)
        width = np.concatenate([np.full(len(band), band.shape[1]) for band in bands])
        values = np.concatenate([band.ravel() for band in bands])
        return _Path(np.array(low), width, width.cumsum() - width, values, len(self._below))

    def _block(self, band: int, first: int) -> Floats:
        """Return G in a band of rows, from a column on."""
        if (block := self._blocks.get((band, first))) is not None:
            return block
        rows, part = self._parts[band]
        # The products are too small for BLAS to use threads, which are slow on a busy machine.
        block = self._mass[rows, part] @ self._shows(slice(first, first + WIDE), part).T
        row = np.arange(rows.start, rows.stop)[:, None]
        block = (block + self._extra[row]) * (1 + SUM_ROUNDING) + MISSED
        block[row + first + np.arange(WIDE) >= self._places] = 0  # FPR + FNR > 1
        self._blocks[band, first] = block
        return np.asarray(block)

    def _shows(self, places: slice, part: slice) -> Floats:
        """Return the probability that the true count shows the loss, for some false counts."""
        return np.take(self._below[places], self._missed[part], axis=1)


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
def _mass(trials: int, places: int) -> tuple[Floats, Floats, list[tuple[slice, slice]]]:
    """Return rates, Pr[Bin = k] at each, and bands of rows with the counts that matter to them.

    The rates lie between 0 and 1 at equal distances in standard errors.
    """
    rates = np.sin(np.linspace(0, math.pi / 2, places)) ** 2
    k = np.arange(trials + 1)
    ways = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    x = rates[:, None]
    mass = np.exp(ways + xlogy(k, x) + xlog1py(trials - k, -x))
    parts = []
    for first in range(0, places - 1, ROWS):
        rows = slice(first, min(first + ROWS, places - 1))
        counted = np.flatnonzero(mass[rows].max(axis=0) > NEGLIGIBLE)
        parts.append((rows, slice(int(counted[0]), int(counted[-1]) + 1)))
    return rates, mass, parts


@functools.lru_cache(maxsize=4)
def _below(trials: int, places: int) -> Floats:
    """Return Pr[Bin < k] at the same rates for k = 0 to trials + 1, and whole blocks of rows."""
    below = np.cumsum(_mass(trials, places)[1], axis=1)
    return np.pad(below, ((0, -places % WIDE), (1, 0)))
