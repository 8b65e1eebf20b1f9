"""Which column of categories tells most against a claim, by shares that were learned elsewhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dpframe import Floats, HostArray, Ints, Target

SMOOTHING = 0.5
"""Added to every count: what one dataset has not shown is no proof."""

CAUTION = 1.5
"""Standard errors by which the logarithm of a ratio is drawn in to 0."""

LARGEST = 50.0
"""Losses beyond are taken for this."""

MOST_POINTS = 4
"""Of a claim, that columns are judged by."""


def points(target: Target) -> list[tuple[float, float]]:
    """A few (ε, δ) of what is claimed for a pair; (0, 0) where nothing is."""
    claim = target.mechanism.claim(target.pair)
    if claim is None:
        return [(0.0, 0.0)]
    deltas = list(claim.telling_deltas)
    step = -(-len(deltas) // MOST_POINTS)
    found = [(min(claim.epsilon_at(delta), LARGEST), delta) for delta in deltas[::step]]
    return [(epsilon, delta) for epsilon, delta in found if not math.isnan(epsilon)]


def ratios(counts: Ints) -> Floats:
    """Logarithms of ratios of shares, D′ over D, drawn in to 0 by what chance does to them.

    Args:
        counts: shape [..., 2, categories].

    Returns:
        Shape [..., categories]; 0 for a category that was not seen.
    """
    smooth = counts + SMOOTHING
    total = np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    logs = np.log(smooth / total)
    plain = logs[..., 1, :] - logs[..., 0, :]
    error = np.sqrt((1 / smooth).sum(axis=-2))
    drawn = np.sign(plain) * np.maximum(np.abs(plain) - CAUTION * error, 0)
    # Where caution takes all of it, what is left still puts the categories in order.
    ordered = np.where(drawn == 0, 1e-3 * plain / (1 + error), drawn)
    found: Floats = np.where(counts.sum(axis=-2) > 0, ordered, 0.0)
    return found


def farthest(learned: Floats, counts: Ints, claimed: list[tuple[float, float]]) -> Floats:
    """By how many standard errors an event of each column lies outside of a claim, at most.

    Args:
        learned: ratios from other draws, shape [k, categories]; an event is all categories from
            some ratio on.
        counts: shape [k, 2, categories].
        claimed: (ε, δ).

    Returns:
        Shape [k].
    """
    order = np.argsort(-learned, axis=-1, kind="stable")
    ordered = np.take_along_axis(counts, order[:, None, :], axis=-1)
    trials = counts.sum(axis=-1)[:, :, None]
    first = np.cumsum(ordered, axis=-1)
    best: Any = np.full(len(counts), -np.inf)
    for hits, (side, other) in ((first, (1, 0)), (trials - first, (0, 1))):
        share = (hits + 0.5) / (trials + 1)
        p, q = share[:, side], share[:, other]
        n = np.maximum(trials.min(axis=1), 1)
        for epsilon, delta in claimed:
            slope = math.exp(epsilon)
            noise = np.sqrt((slope**2 * q * (1 - q) + p * (1 - p)) / n)
            best = np.maximum(best, ((p - slope * q - delta) / noise).max(axis=-1))
    return np.asarray(best, np.float64)


def counted(codes: HostArray, categories: int) -> Ints:
    """How often each category comes in each column, shape [k, categories].

    Args:
        codes: whole numbers below `categories`, shape [n, k].
        categories: how many there may be.
    """
    k = codes.shape[1]
    flat = codes.astype(np.int64) + categories * np.arange(k)
    return np.bincount(flat.reshape(-1), minlength=k * categories).reshape(k, categories)
