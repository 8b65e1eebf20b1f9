"""The hockey-stick divergence of histograms, and of a Gaussian on a Poisson sample."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Indices = npt.NDArray[np.intp]

LARGEST_EPSILON = 700.0
"""e^700 is finite in float64; a ratio of two nonzero frequencies is far smaller."""


class Events(NamedTuple):
    """The events that tell two histograms apart best, from saying nothing to saying everything."""

    fpr: Floats
    """Q(E), ascending, shape [k + 1]."""
    fnr: Floats
    """1 − P(E), descending, the same shape."""


def hockey_stick(p: npt.ArrayLike, q: npt.ArrayLike, epsilon: npt.ArrayLike) -> Floats:
    """H_{e^ε}(P‖Q) = Σ_j [p_j − e^ε q_j]₊ [Koskela2024, equation 2.1].

    Args:
        p: frequencies, shape [k].
        q: frequencies, the same shape.
        epsilon: any real numbers, any shape; the result has the same.
    """
    first, second = np.asarray(p, np.float64), np.asarray(q, np.float64)
    growth = np.exp(np.minimum(np.asarray(epsilon, np.float64), LARGEST_EPSILON))
    return np.asarray(np.maximum(first - growth[..., None] * second, 0.0).sum(axis=-1))


def privacy_profile(p: npt.ArrayLike, q: npt.ArrayLike, epsilon: npt.ArrayLike) -> Floats:
    """δ(ε): the larger divergence of the two directions, shape of `epsilon`."""
    return np.maximum(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def total_variation(p: npt.ArrayLike, q: npt.ArrayLike) -> float:
    """½ Σ |p_j − q_j|, the divergence at ε = 0 (equation 2.3)."""
    return float(np.abs(np.asarray(p, np.float64) - np.asarray(q, np.float64)).sum() / 2)


def ratio_order(p: npt.ArrayLike, q: npt.ArrayLike) -> Indices:
    """Bins from the largest p_j/q_j to the smallest; bins with neither count as ratio 1."""
    first, second = np.asarray(p, np.float64), np.asarray(q, np.float64)
    both = first + second
    share = np.where(both > 0, first, 0.5) / np.where(both > 0, both, 1.0)
    return np.argsort(-share, kind="stable")


def best_events(p: npt.ArrayLike, q: npt.ArrayLike) -> Events:
    """The k + 1 unions of the first bins by falling ratio p_j/q_j.

    For every real ε one of them maximises P(E) − e^ε Q(E), namely the bins with p_j > e^ε q_j; so
    H_{e^ε}(P‖Q) = max over them. Their complements do the same for H_{e^ε}(Q‖P).

    Args:
        p: frequencies, shape [k].
        q: frequencies, the same shape.
    """
    order = ratio_order(p, q)
    first, second = np.asarray(p, np.float64)[order], np.asarray(q, np.float64)[order]
    # Each is summed from its own small end, where digits matter.
    fnr = np.append(np.cumsum(first[::-1])[::-1], 0.0)
    return Events(fpr=np.concatenate([[0.0], np.cumsum(second)]), fnr=fnr)


def histogram_epsilon(p: npt.ArrayLike, q: npt.ArrayLike, delta: float) -> float:
    """Smallest ε ≥ 0 with δ(ε) ≤ `delta`; inf where one side's empty bins hold more than that.

    Over the best events E, max{ln((P(E) − δ)/Q(E)), ln((Q(Eᶜ) − δ)/P(Eᶜ))}: with two bins this
    is equation 6.2.

    Args:
        p: frequencies, shape [k].
        q: frequencies, the same shape.
        delta: in [0, 1).
    """
    if not (np.any(p) and np.any(q)):
        return 0.0  # nothing was counted
    fpr, fnr = best_events(p, q)
    below = np.concatenate([fpr, fnr])
    above = 1 - delta - np.concatenate([fnr, fpr])
    shown = above > 1e-15  # 1 − FNR of an event that holds nothing is 0 but for rounding
    if bool((shown & (below == 0)).any()):
        return math.inf
    ratios = np.where(shown, above, 0.0) / np.where(below > 0, below, 1.0)
    return math.log(max(1.0, float(ratios.max())))


def subsampled_gaussian_hockey_stick(
    epsilon: npt.ArrayLike, q: float, sigma: float, *, reverse: bool = False
) -> Floats:
    """H_{e^ε}(P‖Q) of P = q N(1, σ²) + (1 − q) N(0, σ²) and Q = N(0, σ²), or of Q and P.

    The density ratio 1 − q + q e^{(2x − 1)/(2σ²)} rises in x, so the best event is a half-line (the
    pair of [Koskela2024, section 3]; q = 1 is their equation 2.2). Reversed it is 0 from
    ε = −ln(1 − q) on.

    Args:
        epsilon: any real numbers up to 700.
        q: sampling probability in (0, 1].
        sigma: positive.
        reverse: whether Q comes first.
    """
    e = np.asarray(epsilon, np.float64)
    ratio = np.exp(-e if reverse else e)  # of the densities, where the event begins
    inside = ratio > 1 - q
    log_ratio = np.log(np.where(inside, ratio - (1 - q), q) / q)
    t = 0.5 + sigma**2 * log_ratio
    # Probabilities of the half-line that says P, or the other one if Q comes first.
    sign = -1.0 if reverse else 1.0
    here = special.ndtr(sign * (1 - t) / sigma)
    there = special.ndtr(sign * -t / sigma)
    mixture = q * here + (1 - q) * there
    if reverse:
        return np.asarray(np.where(inside, np.maximum(there - np.exp(e) * mixture, 0), 0.0))
    # Where the ratio is larger everywhere, all outcomes say P.
    return np.asarray(np.where(inside, np.maximum(mixture - np.exp(e) * there, 0), 1 - np.exp(e)))
