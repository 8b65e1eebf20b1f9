"""Tests for dependence among draws, exact for any distribution.

The first group only sees which draws are high, by a threshold that does not depend on their order.
Given their number, every order is equally likely. It finds dependence that repeats no value: noise
that carries over from row to row, occurs with both signs, or is shared by both datasets.

The second group looks for draws that change with time: counts of blocks that vary more than those
of independent draws.

The third group looks for repeated rows, given as numbers that are equal if the rows are.
Independent draws are exchangeable: given how often each value occurred, every order is equally
likely. This holds for continuous outputs and for a mechanism that nearly always answers 0.

Every function returns the logarithm of an upper bound on the probability of a pattern this extreme
among independent draws.
"""

import math

import numpy as np
from scipy.special import bdtrc, betaln, gammaln

from dpframe.common.types import Bools, Floats, Ints

CERTAIN = 0.0  # the logarithm of 1


def halves(values: Floats) -> Bools:
    """Mark values above, or not below, the median: the set nearer to half of them; NaN is low."""
    numbers = values[~np.isnan(values)]
    if not numbers.size:
        return np.zeros(values.shape, bool)
    median = np.sort(numbers, axis=None)[numbers.size // 2]
    above, at_least = values > median, values >= median
    return min(above, at_least, key=lambda high: abs(2 * int(high.sum()) - high.size))


def log_chance_of_neighbours(high: Bools, lag: int) -> float:
    """Bound the log probability of this many, or this few, pairs of two high or two low values.

    Places form disjoint pairs. Among m pairs with H high places, d pairs with one of each come in
    2^d m!/(a! d! c!) of all choose(2m, H) orders, a pairs being high and c low.

    Args:
        high: shape [chunks, n]; pairs lie within chunks.
        lag: distance of the two places of a pair.
    """
    chunks, n = high.shape
    blocks = n // (2 * lag)
    used = high[:, : blocks * 2 * lag].reshape(chunks * blocks, 2, lag)
    number, highs = used[:, 0].size, int(used.sum())
    if number < 2:
        return CERTAIN
    changes = int(np.sum(used[:, 0] != used[:, 1]))
    different = np.arange(highs % 2, min(highs, 2 * number - highs) + 1, 2)
    both = (highs - different) // 2
    logs = different * math.log(2) + gammaln(number + 1) - gammaln(different + 1)
    logs -= gammaln(both + 1) + gammaln(number - both - different + 1)
    return _two_sided(logs - _log_choose(2 * number, highs), different, changes)


def log_chance_of_step(x: Bools, y: Bools) -> float:
    """Bound the chance of this number of draws high in both samples, by Fisher's exact test."""
    n, first, second = len(x), int(x.sum()), int(y.sum())
    both = np.arange(max(0, first + second - n), min(first, second) + 1)
    logs = _log_choose(first, both) + _log_choose(n - first, second - both)
    return _two_sided(logs - _log_choose(n, second), both, int(np.sum(x & y)))


def _two_sided(logs: Floats, values: Ints, observed: int) -> float:
    """Double the smaller of the probabilities of at most and of at least what was found."""
    tails = [logs[values <= observed], logs[values >= observed]]
    least = min(float(np.logaddexp.reduce(tail)) for tail in tails)
    return min(CERTAIN, least + math.log(2))


CONCENTRATIONS = 4.0 ** np.arange(1, 9)  # of the rates of blocks, if rates vary


def log_chance_of_drift(sizes: Ints, hits: Ints) -> float:
    """Bound the chance that the frequency of events varies this much between blocks.

    One unit is split among bets on varying rates. Each bet has an event, a number of blocks that it
    joins (a power of 2), and the concentration of a Beta distribution around the rate so far, from
    which it draws the rate of the next block. Given the H hits among n independent draws, all
    choose(n, H) orders are equally likely. So a bet that pays choose(n, H) times the probability
    that it gave to this order pays one unit on average at most, and 1 / (all pay) bounds the chance
    (Markov's inequality).

    Args:
        sizes: draws in each block, shape [blocks], in order.
        hits: those of them that belong to each event, shape [blocks, events].
    """
    n, h = sizes.astype(np.float64), hits.astype(np.float64)
    orders = _log_choose(n.sum(), h.sum(axis=0))[:, None]
    pay = []
    while len(n) > 1:
        before = np.cumsum(n) - n
        rate = ((np.cumsum(h, axis=0) - h + 0.5) / (before + 1)[:, None])[..., None]
        has_past = np.where(before > 0, 1.0, 0.0)[:, None, None]  # nothing precedes the first block
        a, b = (has_past * CONCENTRATIONS * part + (1 - has_past) / 2 for part in (rate, 1 - rate))
        others = n[:, None, None] - h[..., None]
        likely = (betaln(h[..., None] + a, others + b) - betaln(a, b)).sum(axis=0)
        pay.append((likely + orders).ravel())
        if len(n) % 2:
            n, h = np.pad(n, (0, 1)), np.pad(h, ((0, 1), (0, 0)))
        n, h = n[::2] + n[1::2], h[::2] + h[1::2]
    if not pay or not len(orders):
        return CERTAIN
    all_bets = np.concatenate(pay)
    return min(CERTAIN, math.log(len(all_bets)) - float(np.logaddexp.reduce(all_bets)))


SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of numbers below the thresholds of events
BLOCK, MOST_BLOCKS = 16, 1024


def events_of(values: Floats) -> dict[tuple[float, bool], Bools]:
    """Mark numbers beyond some thresholds; keys are (threshold, True if it is included)."""
    numbers = np.where(np.isnan(values), -np.inf, values) if values.dtype.kind == "f" else values
    places = np.unique((np.array(SHARES) * len(numbers)).astype(np.int64))
    events: dict[tuple[float, bool], Bools] = {}
    for place, threshold in zip(places, np.partition(numbers, places)[places], strict=True):
        candidates = {
            (threshold, True): numbers >= threshold,
            (threshold, False): numbers > threshold,
        }
        far = {key: abs(int(high.sum()) - len(high) + place) for key, high in candidates.items()}
        telling = [key for key, high in candidates.items() if 0 < high.sum() < len(high)]
        events |= {key: candidates[key] for key in sorted(telling, key=far.__getitem__)[:1]}
    return events


def log_chance_of_order(values: Floats) -> float:
    """Bound the chance of the order of numbers, shape [n], if all orders are equally likely.

    It is small if the numbers are sorted or grouped, directly or by something they depend on.
    """
    high = list(events_of(values).values()) if len(values) >= 2 * BLOCK else []
    if not high:
        return CERTAIN
    width = max(BLOCK, -(-len(values) // MOST_BLOCKS))
    starts = np.arange(0, len(values), width)
    hits = np.stack([np.add.reduceat(each, starts, dtype=np.int64) for each in high], axis=1)
    middle = min(high, key=lambda each: abs(2 * int(each.sum()) - each.size))
    chances = (
        log_chance_of_drift(np.diff(starts, append=len(values)), hits),
        log_chance_of_neighbours(middle[None], 1),
    )
    return min(CERTAIN, min(chances) + math.log(2))


def log_chance_of_copies(rows: Ints, copies: int) -> float:
    """Bound the chance that `copies` independently drawn chunks are all equal to this one.

    This is the share of the orders of all rows in which every chunk has the same sequence.
    """
    times = np.unique(rows, return_counts=True)[1]
    return _log_orders(times) - _log_orders(copies * times)


def log_chance_of_constants(rows: Ints) -> float:
    """Bound the chance that all chunks are constant, given the number of each value."""
    return log_chance_of_copies(rows[:, 0], rows.shape[1])


def log_chance_of_company(rows: Ints) -> float:
    """Bound the chance that this many equal rows share a chunk; rows have shape [chunks, n].

    Equal rows are paired at random, rare values first, at most a quarter as many pairs as rows.
    Given the earlier pairs, the places of the next one are equally likely to be any two of those
    left, at least half of all. So they share a chunk with at most a probability that does not
    depend on the values, and the number of pairs that do is stochastically below a binomial one.
    """
    chunks, n = rows.shape
    first, second = _pairs(rows.reshape(-1), most=rows.size // 4)
    number = len(first)
    shared = int(np.sum(first // n == second // n))
    if chunks < 2 or shared == 0:
        return CERTAIN
    return _log_at_least(shared, number, (n - 1) / (rows.size - 2 * number + 1))


def log_chance_of_sharing(x: Ints, y: Ints) -> float:
    """Bound the chance that this many rows of two samples are equal, for any two distributions.

    If the sizes of the samples were Poisson, a row of a given value would belong to the first one
    with a probability θ of its own, independently of all others, and a pair of equal rows would lie
    in both samples with probability 2θ(1 − θ) ≤ 1/2. Sizes are fixed, which multiplies every chance
    by at most the inverse of the probability that a Poisson number equals its mean.
    """
    pooled = np.concatenate([x, y])
    times = np.unique(pooled, return_inverse=True, return_counts=True)
    rare = times[2][times[1]] <= 3
    fixed = sum(0.5 * math.log(2 * math.pi * len(s)) + 1 / (12 * len(s)) for s in (x, y))
    chances = []
    for chosen in (np.arange(len(pooled)), np.flatnonzero(rare)):
        first, second = _pairs(pooled[chosen])
        apart = int(np.sum((chosen[first] < len(x)) != (chosen[second] < len(x))))
        chances.append(_log_at_least(apart, len(first), 0.5))
    return min(CERTAIN, min(chances) + math.log(2) + fixed)


def log_chance_of_matches(x: Ints, y: Ints) -> float:
    """Bound the chance that this many rows equal their counterparts, for any two distributions.

    One half of the rows is compared place by place, the other half with rows one place further on;
    both numbers of matches are binomial with the same probability, so given their sum the first is
    hypergeometric (Fisher's exact test).
    """
    half = len(x) // 2
    matches = int(np.sum(x[:half] == y[:half]))
    by_chance = int(np.sum(x[half : 2 * half] == np.roll(y[half : 2 * half], 1)))
    total = matches + by_chance
    k = np.arange(matches, min(half, total) + 1)
    logs = _log_choose(half, k) + _log_choose(half, total - k) - _log_choose(2 * half, total)
    return min(CERTAIN, float(np.logaddexp.reduce(logs)))


def _pairs(rows: Ints, most: int | None = None) -> tuple[Ints, Ints]:
    """Pair places of equal rows, each place at most once, rare values first, by fixed dice."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(rows))
    order = order[np.argsort(rows[order], kind="stable")]
    _, begin, times = np.unique(rows[order], return_index=True, return_counts=True)
    place = np.arange(len(rows)) - np.repeat(begin, times)
    leads = np.flatnonzero((place % 2 == 0) & (place + 1 < np.repeat(times, times)))
    leads = leads[rng.permutation(len(leads))]
    leads = leads[np.argsort(np.repeat(times, times)[leads], kind="stable")][:most]
    return order[leads], order[leads + 1]


def _log_at_least(successes: int, trials: int, chance: float) -> float:
    if successes == 0 or chance >= 1:
        return CERTAIN
    tail = float(bdtrc(successes - 1, trials, chance))
    return math.log(tail) if tail > 0 else -math.inf


def _log_orders(times: Ints) -> float:
    """Return the log of the number of sequences with these numbers of each value."""
    return float(gammaln(times.sum() + 1) - gammaln(times + 1).sum())


def _log_choose(n: int, k: Ints | int) -> Floats:
    k = np.asarray(k)
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
