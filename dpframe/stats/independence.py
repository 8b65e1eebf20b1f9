"""Tests for dependence among draws."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtrc, gammaln

# How likely it is that neighbours among independent draws are so much alike, or so unlike.
#
# Draws are only said to be high or low, by a threshold that does not depend on their order. Given
# how
# many are high, every order is then equally likely, whatever the distribution: the tests are
# exact.
# They see dependence that repeats no value: noise that goes on from row to row, or that comes
# with
# both signs, or that two datasets share.
#
# Every function returns the logarithm of a probability that is not too small, for both
# directions.


if TYPE_CHECKING:
    import numpy.typing as npt

    Bools = npt.NDArray[np.bool_]
    Floats = npt.NDArray[np.float64]

CERTAIN = 0.0
"""The logarithm of 1."""


def halves(values: Floats) -> Bools:
    """Which values are high: above the median, or at it, whichever is nearer to one half of them.

    Args:
        values: of any shape; NaN is low.
    """
    known = values[~np.isnan(values)]
    if not known.size:
        return np.zeros(values.shape, bool)
    median = np.sort(known, axis=None)[known.size // 2]
    above, at_least = values > median, values >= median
    nearer: Bools = min(above, at_least, key=lambda high: abs(2 * int(high.sum()) - high.size))
    return nearer


def log_chance_of_neighbours(high: Bools, lag: int) -> float:
    """That so many neighbours are both high or both low, or so few.

    Places are put into pairs, each in one. Among m pairs with H high places, d pairs with one of
    each come in 2^d m!/(a! d! c!) of all choose(2m, H) orders, a pairs being high and c low.

    Args:
        high: shape [chunks, n]; pairs lie within chunks.
        lag: how far the two of a pair are apart.
    """
    chunks, n = high.shape
    blocks = n // (2 * lag)
    used = high[:, : blocks * 2 * lag].reshape(chunks * blocks, 2, lag)
    number, highs = used[:, 0].size, int(used.sum())
    if number < 2:
        return CERTAIN
    found = int(np.sum(used[:, 0] != used[:, 1]))
    different = np.arange(highs % 2, min(highs, 2 * number - highs) + 1, 2)
    both = (highs - different) // 2
    logs = different * math.log(2) + gammaln(number + 1) - gammaln(different + 1)
    logs -= gammaln(both + 1) + gammaln(number - both - different + 1)
    return _two_sided(logs - _log_choose(2 * number, highs), different, found)


def log_chance_of_step(x: Bools, y: Bools) -> float:
    """That so many draws are high where those of another sample are, or so few; Fisher's test.

    Args:
        x: of the first sample, shape [n].
        y: of the second, drawn from whatever distribution, shape [n].
    """
    n, first, second = len(x), int(x.sum()), int(y.sum())
    both = np.arange(max(0, first + second - n), min(first, second) + 1)
    logs = _log_choose(first, both) + _log_choose(n - first, second - both)
    return _two_sided(logs - _log_choose(n, second), both, int(np.sum(x & y)))


def _two_sided(logs: Floats, values: npt.NDArray[np.int64], found: int) -> float:
    """Twice the smaller of the probabilities of at most, and of at least, what was found."""
    tails = [logs[values <= found], logs[values >= found]]
    least = min(float(np.logaddexp.reduce(tail)) for tail in tails)
    return min(CERTAIN, least + math.log(2))


def _log_choose(n: int, k: npt.NDArray[np.int64] | int) -> Floats:
    k = np.asarray(k)
    found: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return found


# How likely repeated rows are among independent draws, whatever their distribution.
#
# Independent draws of one distribution are exchangeable: given which values came how often, every
# order is equally likely. So the chance of a pattern in the order can be stated without knowing
# the
# distribution, and holds for continuous outputs as for a mechanism that nearly always answers 0.
# Rows are given by numbers that are equal where the rows are.
#
# Every function returns the logarithm of a chance that is not too small: the pattern, or one as
# extreme, comes up in exchangeable draws with at most this probability.


if TYPE_CHECKING:
    import numpy.typing as npt

    ExchangeableFloats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

EXCHANGEABLE_CERTAIN = 0.0
"""The logarithm of 1."""


def log_chance_of_copies(rows: Ints, copies: int) -> float:
    """That so many chunks drawn independently are all equal to this one.

    Of the orders of all their rows, those count in which every chunk holds the same sequence.

    Args:
        rows: of one chunk, shape [n].
        copies: how many chunks are equal, this one included.
    """
    times = np.unique(rows, return_counts=True)[1]
    return _log_orders(times) - _log_orders(copies * times)


def log_chance_of_constants(rows: Ints) -> float:
    """That within each of several chunks all rows are equal, given how often each value came.

    Args:
        rows: shape [chunks, n]; every chunk is constant.
    """
    times = np.unique(rows[:, 0], return_counts=True)[1]
    return _log_orders(times) - _log_orders(rows.shape[1] * times)


def log_chance_of_company(rows: Ints, seed: int = 0) -> float:
    """That so many of the equal rows stand in the same chunk.

    Equal rows are put into pairs at random, those of rare values first, at most a quarter of as
    many as there are rows. Whatever became of earlier pairs, the two places of the next one are
    equally likely to be any two that are left, at least half of all; so they lie in one chunk with
    at most a probability that does not depend on the values, and the number of pairs that do is
    stochastically below a binomial one.

    Args:
        rows: shape [chunks, n].
        seed: for the pairs.
    """
    chunks, n = rows.shape
    first, second = _pairs(rows.reshape(-1), seed, most=rows.size // 4)
    number = len(first)
    together = int(np.sum(first // n == second // n))
    if chunks < 2 or together == 0:
        return EXCHANGEABLE_CERTAIN
    return _log_at_least(together, number, (n - 1) / (rows.size - 2 * number + 1))


def log_chance_of_sharing(x: Ints, y: Ints, seed: int = 0) -> float:
    """That so many rows of one sample come again in another, of any two distributions.

    If the sizes of the samples were Poisson, a row of a given value would belong to the first one
    with a probability θ of its own, independently of all others, and a pair of equal rows would lie
    in both samples with probability 2θ(1 − θ) ≤ 1/2. Sizes are fixed, which multiplies every chance
    by at most the inverse of the probability that a Poisson number equals its mean.

    Args:
        x: rows of the first sample.
        y: rows of the second.
        seed: for the pairs.
    """
    pooled = np.concatenate([x, y])
    times = np.unique(pooled, return_inverse=True, return_counts=True)
    rare = times[2][times[1]] <= 3
    fixed = sum(0.5 * math.log(2 * math.pi * len(s)) + 1 / (12 * len(s)) for s in (x, y))
    found = []
    for chosen in (np.arange(len(pooled)), np.flatnonzero(rare)):
        first, second = _pairs(pooled[chosen], seed)
        apart = int(np.sum((chosen[first] < len(x)) != (chosen[second] < len(x))))
        found.append(_log_at_least(apart, len(first), 0.5))
    return min(EXCHANGEABLE_CERTAIN, min(found) + math.log(2) + fixed)


def log_chance_of_matches(x: Ints, y: Ints) -> float:
    """That so many rows equal their counterparts in another sample, of any two distributions.

    One half of the rows is compared place by place, the other half with rows that are one further;
    both numbers of matches are binomial with the same probability, so given their sum the first is
    hypergeometric (Fisher's exact test).

    Args:
        x: rows of the first sample, shape [n].
        y: rows of the second, shape [n].
    """
    half = len(x) // 2
    matches = int(np.sum(x[:half] == y[:half]))
    by_chance = int(np.sum(x[half : 2 * half] == np.roll(y[half : 2 * half], 1)))
    total = matches + by_chance
    k = np.arange(matches, min(half, total) + 1)
    logs = (
        _exchangeable_log_choose(half, k)
        + _exchangeable_log_choose(half, total - k)
        - _exchangeable_log_choose(2 * half, total)
    )
    return min(EXCHANGEABLE_CERTAIN, float(np.logaddexp.reduce(logs)))


def _pairs(rows: Ints, seed: int, most: int | None = None) -> tuple[Ints, Ints]:
    """Places of equal rows, each place in one pair at most; rare values first."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))
    order = order[np.argsort(rows[order], kind="stable")]
    _, begin, times = np.unique(rows[order], return_index=True, return_counts=True)
    place = np.arange(len(rows)) - np.repeat(begin, times)
    leads = np.flatnonzero((place % 2 == 0) & (place + 1 < np.repeat(times, times)))
    leads = leads[rng.permutation(len(leads))]
    leads = leads[np.argsort(np.repeat(times, times)[leads], kind="stable")][:most]
    return order[leads], order[leads + 1]


def _log_at_least(successes: int, trials: int, chance: float) -> float:
    """Log of the probability of so many successes or more."""
    if successes == 0 or chance >= 1:
        return EXCHANGEABLE_CERTAIN
    tail = float(bdtrc(successes - 1, trials, chance))
    return math.log(tail) if tail > 0 else -math.inf


def _log_orders(times: Ints) -> float:
    """Log of how many sequences there are in which values come so often."""
    return float(gammaln(times.sum() + 1) - gammaln(times + 1).sum())


def _exchangeable_log_choose(n: int, k: Ints | int) -> ExchangeableFloats:
    k = np.asarray(k)
    found: ExchangeableFloats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return found
