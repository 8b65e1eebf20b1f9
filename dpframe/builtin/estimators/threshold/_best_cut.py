"""What a pilot chooses for one threshold: the direction, and where it is worth most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe import Floats, Ints, Query

    Promise = Callable[[Floats, Floats], Floats]

CAUTION = 1.5
"""Standard errors by which the pilot's rates are worsened before they are compared.

Without it the pilot would choose the threshold that it was lucky with.
"""


def rises(pilot: Ints) -> bool:
    """Whether large scores mean D′, by the largest difference that a threshold shows.

    Args:
        pilot: counts in bins, shape [2, bins].
    """
    above = _above(pilot) / np.maximum(pilot.sum(axis=1), 1)[:, None]
    gains = above[1] - above[0]
    return bool(gains.max() >= -gains.min())


def best_cut(pilot: Ints, promise: Promise, query: Query, *, rising: bool) -> int:
    """The bin at which to decide: the one that promises most for the draws to come.

    Where nothing is promised, the one that tells the pilot's own scores apart best.

    Args:
        pilot: counts in bins, shape [2, bins].
        promise: what a way of deciding with upper limits (FPR, FNR) is worth, for arrays; at most
            0 for nothing.
        query: what will be asked of the draws to come.
        rising: whether the bins from there on mean D′, or those below.

    Returns:
        At least 1, below the number of bins.
    """
    trials = np.maximum(pilot.sum(axis=1), 1)[:, None]
    above = _above(pilot)[:, 1:]
    positive = above if rising else trials - above
    rates = np.stack([positive[0], trials[1] - positive[1]]) / trials
    cautious = _upper(rates, trials, CAUTION)
    z = -float(special.ndtri((1 - query.confidence) / 2))
    fpr, fnr = _upper(cautious, np.maximum(np.array(query.trials), 1)[:, None], z)
    worth = promise(fpr, fnr)
    return 1 + int(np.argmax(worth if worth.max() > 0 else -rates.sum(axis=0)))


def _above(counts: Ints) -> Ints:
    """How many scores are in each bin or a higher one, shape [2, bins]."""
    found: Ints = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    return found


def _upper(rate: Floats, trials: Ints, z: float) -> Floats:
    """Upper limit of a rate, z standard errors up [Wilson1927]."""
    wide = z * z / trials
    spread = np.sqrt(rate * (1 - rate) * wide + wide * wide / 4)
    return np.asarray(np.minimum((rate + wide / 2 + spread) / (1 + wide), 1.0), np.float64)
