"""What events can show at most, at every number of draws at once.

Against "this event shows a loss of at least ε" the evidence is the likelihood of the counts under
Jeffreys' mixture, divided by the largest likelihood that the hypothesis allows [Wasserman2020].
The mixture's ratio to the likelihood of the truth is a martingale of mean 1, and the denominator is
at least the likelihood of the truth if that is in the hypothesis, so the evidence exceeds 1/a at
any time with probability a at most [Ville1939]. Nothing is paid for the number of events: if one of
them reaches ε, saying that none does means to reject that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from dpframe.stats.betting import project

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

LARGEST = 40.0
"""ε beyond which no limit is told."""

STEPS = (6, 5, 5, 5, 5)
"""Bisections; so many at a time are made together."""


def evidence_below(hits: Ints, trials: int, slope: Floats, delta: Floats | float) -> Floats:
    """Logarithm of the evidence that events do not reach a loss.

    Args:
        hits: on the side that is multiplied by e^ε and on the other, shape [events, 2].
        trials: draws on each side.
        slope: e^ε; broadcasts with [events].
        delta: δ; broadcasts too.
    """
    of_q, of_p = hits[..., 0], hits[..., 1]
    q, p = of_q / trials, of_p / trials
    inside = p >= slope * q + delta
    q0, p0 = project(q, p, slope, delta)
    q0, p0 = np.where(inside, q, q0), np.where(inside, p, p0)
    most = _log_likelihood(of_q, trials, q0) + _log_likelihood(of_p, trials, p0)
    found = _log_mixture(of_q, trials) + _log_mixture(of_p, trials) - most
    # A loss beyond what a probability of 1 allows is reached by no event at all.
    return np.asarray(np.where(np.asarray(delta) >= 1, np.inf, found), np.float64)


def reaches(hits: Ints, trials: int, delta: float, error: float) -> float:
    """Upper limit of the largest loss that any of the events shows; inf if there is none.

    Args:
        hits: shape [events, 2], as above.
        trials: draws on each side, at least 1.
        delta: δ of the loss.
        error: that the limit is wrong, at any time.
    """
    wanted = -np.log(error)
    # Few events can have the highest limit: one that refutes what another reaches has not.
    low, high, left = 0.0, LARGEST, hits
    for steps in STEPS:
        # Wherever so many bisections may come to is looked at together; all halves are exact.
        parts = 1 << steps
        width = (high - low) / parts
        inner = low + width * np.arange(1, parts)
        kept = evidence_below(left[:, None], trials, np.exp(inner), delta) < wanted
        first, last, rows = 0, parts, np.full(len(left), True)
        while last - first > 1:
            middle = (first + last) // 2
            still = rows & kept[:, middle - 1]
            first, last, rows = (middle, last, still) if still.any() else (first, middle, rows)
        low, high, left = low + width * first, low + width * last, left[rows]
    return float(high) if high < LARGEST else np.inf


def _log_mixture(hits: Ints, trials: int) -> Floats:
    return np.asarray(betaln(hits + 0.5, trials - hits + 0.5) - betaln(0.5, 0.5), np.float64)


def _log_likelihood(hits: Ints, trials: int, rate: Floats) -> Floats:
    return np.asarray(xlogy(hits, rate) + xlog1py(trials - hits, -rate), np.float64)
