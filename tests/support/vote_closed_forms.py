"""Closed forms of the DPText experiment, written independently of dpframe."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
DIMS = (1, 2, 8, 32, 64, 128)


def one_rates(mechanism: str, epsilon: float, dim: int) -> tuple[float, float]:
    """Pr[a coordinate counts as 1] on D (all zeros) and on D′ (all ones)."""
    scale = dim / epsilon
    tail = {
        "laplace": 0.5 * math.exp(-0.5 / scale),
        "laplace-shifted": 0.5 * math.exp(-0.5 / scale),
        "laplace-numpy": 0.5 * math.exp(-0.5 / scale),
        "laplace-half-scale": 0.5 * math.exp(-1.0 / scale),
        "adept": 0.5 * math.exp(-0.5 * epsilon),
    }
    if mechanism in tail:
        return tail[mechanism], 1 - tail[mechanism]
    return {
        "laplace-halved": (0.5 * math.exp(-1.0 / scale), 0.5),
        "dptext-zero": (0.5 * math.exp(-0.5 / scale), 1.0),
        "dptext-resample": (math.exp(-0.5 / scale), 1.0),
        "dptext-keep": (0.5 + 0.5 * math.exp(-0.5 / scale), 1.0),
        "copy-input": (0.0, 1.0),
        "random-output": (0.5, 0.5),
    }[mechanism]


def vote_rates(mechanism: str, epsilon: float, dim: int) -> tuple[float, float]:
    """Pr[the majority vote decides D′] on D and on D′; a tie decides D."""
    d0, d1 = one_rates(mechanism, epsilon, dim)
    return (
        float(stats.binom.sf(dim // 2, dim, d0)),
        float(stats.binom.sf(dim // 2, dim, d1)),
    )


def exact_loss(mechanism: str, epsilon: float, dim: int) -> float:
    """The loss that the vote shows with infinitely many trials; inf if a guess is one-sided."""
    d0, d1 = one_rates(mechanism, epsilon, dim)
    half = dim // 2
    ones = [stats.binom.logsf(half, dim, p) for p in (d0, d1)]
    zeros = [stats.binom.logcdf(half, dim, p) for p in (d0, d1)]
    with np.errstate(invalid="ignore"):
        gaps = [abs(a - b) for a, b in (ones, zeros) if not (np.isinf(a) and np.isinf(b))]
    return float(max(gaps))


def count_p_value(count: int, trials: int, rate: float) -> float:
    """Two-sided p-value of a count under its closed form."""
    below = stats.binom.cdf(count, trials, rate)
    above = stats.binom.sf(count - 1, trials, rate)
    return float(min(1.0, 2 * min(below, above)))
