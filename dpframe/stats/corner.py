"""The probability of a set of counts at the corner of ε-DP, exact for any number of draws.

The trade-off curve of ε-DP has a corner, FPR = FNR = 1/(1 + e^ε), and a mechanism with two outputs
attains it. The counts of its outputs are two binomial numbers, so every probability is a finite
sum.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import special

REACH = 6.0  # standard deviations around the mean within which counts are enumerated
ROUNDING = 1e-5  # relative error of a probability that counts as rounding


def probability_of(
    hit: Callable[[int, int], bool], trials: int, rate: float, promised: float
) -> float:
    """Return the probability of the counts that hit, without those beyond `REACH`.

    Fewer errors give a higher bound, so the counts that hit lie below an edge. If their probability
    exceeds the promise, it is verified count by count, likely counts first.

    Args:
        hit: tells if a number of false positives and one of false negatives count.
        trials: draws per dataset.
        rate: probability of an error on either of them.
        promised: the largest allowed probability.
    """
    n = trials
    deviation = math.sqrt(n * rate * (1 - rate))
    low = max(0, math.floor(n * rate - REACH * deviation))
    high = min(n, math.ceil(n * rate + REACH * deviation))
    edge = _edge(hit, low, high)
    below = special.bdtr(np.arange(high + 1), n, rate)
    mass = np.diff(below, prepend=0.0)
    found = math.fsum(mass[k] * below[u] for k, u in edge.items())
    if found <= promised:
        return found
    points = [(mass[k] * mass[u], k, u) for k, top in edge.items() for u in range(low, top + 1)]
    seen = 0.0
    for probability, k, u in sorted(points, reverse=True):
        seen += float(probability) if hit(k, u) else 0.0
        if seen > promised * (1 + 2 * ROUNDING):
            return found
    return seen


def _edge(hit: Callable[[int, int], bool], low: int, high: int) -> dict[int, int]:
    """Return, for each k, the largest u whose counts hit; `hit` is true below a falling edge."""
    k, u = low, high
    edge: dict[int, int] = {}
    while k <= high and u >= low:
        if hit(k, u):
            edge[k] = u
            k += 1
        else:
            u -= 1
    return edge
