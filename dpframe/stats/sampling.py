"""Exact tests of the numbers of records in batches, which a correct training hardly ever fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from dpframe.common.types import Floats

RARE = 1e-6
"""A warning is issued if a correct training run would cause it with at most this probability."""
WIDE = 12.0  # standard deviations within which binomial probabilities are summed


def p_of_evenness(values: npt.ArrayLike, n: int) -> float:
    """Bound the p-value of k independent Bin(n, q) variables, against values that are too even.

    q is unknown, but given the sum B, the distribution of the values does not depend on q. So the
    probability of an event is at most its probability at q = B/(nk), divided by that of B. The
    result is twice the smaller p-value of two such events: a small Σ(v − B/k)², by Chernoff's
    bound, and many equal values, by a union bound over all n + 1 values.

    Args:
        values: k numbers of hits in n trials each, such as sizes of batches.
        n: the number of trials.
    """
    v = np.asarray(values, np.float64)
    k, total = len(v), float(np.sum(v))
    if k < 2 or not 0 < total < n * k:
        return 1.0
    q = total / (n * k)
    mean, variance = n * q, n * q * (1 - q)
    of_total = _log_binomial(np.array(total), n * k, q)
    reach = WIDE * math.sqrt(variance) + 1
    near = np.arange(max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach)) + 1)
    masses = _log_binomial(near, n, q)
    beyond = special.xlogy(1, max(0.0, 1 - float(np.exp(masses).sum())))
    weights = np.geomspace(1e-2, 1e4, 60) / variance
    within = special.logsumexp(masses - weights[:, None] * (near - mean) ** 2, axis=1)
    moments = np.logaddexp(within, beyond)
    even = float(np.min(weights * np.sum((v - mean) ** 2) + k * moments))
    most = float(np.unique(v, return_counts=True)[1].max())
    tail = float(special.betainc(most, k - most + 1, min(1.0, math.exp(masses.max()))))
    same = math.log(n + 1) + float(special.xlogy(1, tail))
    return min(1.0, 2 * math.exp(min(0.0, min(even, same) - float(of_total))))


def p_of_total(total: float, trials: float, low: float, high: float) -> float:
    """Return the two-sided p-value of a binomial total whose probability is within [low, high]."""
    low, high = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
    above = special.betainc(total, trials - total + 1, high) if total > 0 else 1.0
    below = special.betainc(trials - total, total + 1, 1 - low) if total < trials else 1.0
    return min(1.0, 2 * float(min(above, below)))


def _log_binomial(x: npt.NDArray[Any], n: float, q: float) -> Floats:
    """Return logarithms of the probabilities of Bin(n, q)."""
    choices = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
    return np.asarray(choices + special.xlogy(x, q) + special.xlog1py(n - x, -q))
