"""How likely repeated rows are among independent draws, whatever their distribution.

Independent draws of one distribution are exchangeable: given which values came how often, every
order is equally likely. So the chance of a pattern in the order can be stated without knowing the
distribution, and holds for continuous outputs as for a mechanism that nearly always answers 0.
Rows are given by numbers that are equal where the rows are.

Every function returns the logarithm of a chance that is not too small: the pattern, or one as
extreme, comes up in exchangeable draws with at most this probability.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtrc, gammaln

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

CERTAIN = 0.0
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
        return CERTAIN
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
    return min(CERTAIN, min(found) + math.log(2) + fixed)


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
    logs = _log_choose(half, k) + _log_choose(half, total - k) - _log_choose(2 * half, total)
    return min(CERTAIN, float(np.logaddexp.reduce(logs)))


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
        return CERTAIN
    tail = float(bdtrc(successes - 1, trials, chance))
    return math.log(tail) if tail > 0 else -math.inf


def _log_orders(times: Ints) -> float:
    """Log of how many sequences there are in which values come so often."""
    return float(gammaln(times.sum() + 1) - gammaln(times + 1).sum())


def _log_choose(n: int, k: Ints | int) -> Floats:
    k = np.asarray(k)
    found: Floats = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return found
