"""How likely it is that neighbours among independent draws are so much alike, or so unlike.

Draws are only said to be high or low, by a threshold that does not depend on their order. Given how
many are high, every order is then equally likely, whatever the distribution: the tests are exact.
They see dependence that repeats no value: noise that goes on from row to row, or that comes with
both signs, or that two datasets share.

Every function returns the logarithm of a probability that is not too small, for both directions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

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
