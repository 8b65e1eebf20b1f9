"""Bets on the whole output: one weight for each bin on each side, best against a claim.

A pair of draws, x from D and y from D′, pays g(x) h(y) (2/S)². A claim that is a trade-off curve is
met by those pairs of distributions that are made from its dominating pair (P, Q) [Kairouz2015],
[Dong2022], so the largest mean of g(x) + h(y) under the claim is

    S = Σ over atoms k of max over bins i of (P_k g_i + Q_k h_i).

The draws are independent, so the mean of what a pair pays is a b (2/S)² ≤ ((a + b)/S)² ≤ 1, with a
and b the means of g and h: whatever the weights, if they were chosen before the draws. The weights
whose logarithm grows fastest are the ratios of the truth to its reverse information projection on
the claim [Grunwald2024]. For (ε, δ) they have a closed form but for the ratio of the two sides.
Events are the weights that take two values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpframe.common.types import Floats
from dpframe.stats.tradeoff import falling_hull

ROUNDING = 1e-11
"""Relative margin of S: sums of a few hundred terms that are each right to some 1e-15."""

STEPS = (0.2, 0.1, 0.04)  # between ratios of the sides that are tried, each time around the best

LEAST = 1e-12  # no bin loses all of the wealth

BEST = 3  # points of a curve whose weights are tried against the whole of it
POWERS = np.geomspace(0.02, 1.0, 9)  # exponents of the ratio of the truth that are tried
FURTHEST = np.array([2.0, 30.0])  # logarithms at which these ratios are cut off


class DominatingPair(NamedTuple):
    """A discrete pair of distributions from which all pairs under a claim can be made."""

    p: Floats  # probability of each atom on one dataset
    q: Floats  # on the other


def dominating_pair(slope: Floats, delta: Floats) -> DominatingPair:
    """Return the pair whose trade-off curve is the envelope of lines p ≤ e^ε q + δ, both ways.

    Args:
        slope: e^ε of each line, at least 1, shape [lines], not empty.
        delta: its δ, in [0, 1).
    """
    # Every pair has δ = 1 at ε = 0. The hull is by ascending ε; the curve begins with the steepest.
    hull = falling_hull([(1.0, 1.0), *zip(slope.tolist(), delta.tolist(), strict=True)])
    growth, rest = np.array(hull[::-1]).T
    x = np.diff(rest) / -np.diff(growth)
    steep = int((x < 1 - rest[:-1] - growth[:-1] * x).sum())
    growth, rest = growth[: steep + 1], rest[: steep + 1]
    ends = np.concatenate([[0.0], x[:steep], [(1 - rest[-1]) / (1 + growth[-1])]])
    mass = np.maximum(np.diff(ends), 0.0)
    high, low = np.append(rest[0], growth * mass), np.append(0.0, mass)
    p, q = np.append(high, low), np.append(low, high)
    # No less than 1: rounding may only allow more.
    return DominatingPair(p / min(1.0, p.sum()), q / min(1.0, q.sum()))


def largest_sum(g: Floats, h: Floats, pair: DominatingPair) -> Floats:
    """Return S, rounded up, for weights of shape [..., bins]."""
    sums = pair.p[:, None] * g[..., None, :] + pair.q[:, None] * h[..., None, :]
    return np.asarray(sums.max(axis=-1).sum(axis=-1) * (1 + ROUNDING), np.float64)


class Lines(NamedTuple):
    """A claim as lines p ≤ e^ε q + δ that contain every event, both ways."""

    slope: Floats
    delta: Floats
    pair: DominatingPair  # of all lines together


def lines(slope: Floats, delta: Floats) -> Lines:
    """Return a claim from e^ε and δ of its lines; see `dominating_pair`."""
    return Lines(slope, delta, dominating_pair(slope, delta))


def weights(share: Floats, mass: Floats, claim: Lines) -> tuple[Floats, Floats]:
    """Choose weights that grow fast if the output is as supposed.

    Args:
        share: of the draws in each bin that came from D, in (0, 1), shape [bins].
        mass: of each bin, on both sides together, shape [bins]; any scale.
        claim: that is bet against.

    Returns:
        (g, h), with S = 2: what a draw from D and what one from D′ multiplies the wealth by. All
        are 1 if the supposed output does not violate the claim.
    """
    p, q = mass * share, mass * (1 - share)
    p, q = p / max(p.sum(), 1e-300), q / max(q.sum(), 1e-300)
    tried = _against_lines(share, p, q, claim)
    if len(claim.slope) > 1:
        tried = [np.concatenate(both) for both in zip(tried, _powers(share, p, q), strict=True)]
    g, h = (np.maximum(part, LEAST) for part in tried)
    half = largest_sum(g, h, claim.pair) / 2
    growth = _growth(g, h, p, q) - 2 * np.log(half)
    best = int(np.argmax(np.nan_to_num(growth, nan=-np.inf)))
    if not growth[best] > 0:
        return np.ones(len(share)), np.ones(len(share))
    return g[best] / half[best], h[best] / half[best]


def _growth(g: Floats, h: Floats, p: Floats, q: Floats) -> Floats:
    return np.asarray(np.log(g) @ p + np.log(h) @ q, np.float64)


def _against_lines(share: Floats, p: Floats, q: Floats, claim: Lines) -> list[Floats]:
    """Return the best weights against single lines, shape [at most BEST, bins].

    With multipliers λ, ν of the two sides' total mass, weights are (λ, ν) where the claim is met,
    lie on e^ε g + h = e^ε λ + ν where D has too much, in proportion to the share, and stop where
    the mass beyond is worth δ; and the same for D′.
    """
    order = np.argsort(-share)
    high = np.cumsum(p[order]), np.cumsum(q[order])
    low = np.cumsum(q[order[::-1]]), np.cumsum(p[order[::-1]])

    def at(tilt: Floats, slope: Floats, delta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return weights and their growth at some ratios of λ and ν, shape [lines, ratios, …]."""
        slope, delta = slope[:, None, None], delta[:, None, None]
        left, right = 1 - tilt[..., None], 1 + tilt[..., None]
        half = np.ones_like(left)
        for _ in range(2):  # the price of δ depends on S
            g, h, top = _side(share, high, (left, right), slope, delta / half)
            down, up, bottom = _side(1 - share, low, (right, left), slope, delta / half)
            half = (delta * (top + bottom) + (1 - delta) * (left + right)) / 2
        is_high = share > left * slope / (left * slope + right)
        is_low = 1 - share > right * slope / (right * slope + left)
        g = np.where(is_high, g, np.where(is_low, up, left))
        h = np.where(is_high, h, np.where(is_low, down, right))
        growth = _growth(g, h, p, q) - 2 * np.log(half[..., 0])
        return g, h, np.nan_to_num(growth, nan=-np.inf)

    slope, delta = claim.slope, claim.delta
    if len(slope) > BEST:
        promising = np.argsort(-at(np.zeros((len(slope), 1)), slope, delta)[2][:, 0])[:BEST]
        slope, delta = slope[promising], delta[promising]
    center, rows = np.zeros(len(slope)), np.arange(len(slope))
    for step in STEPS:
        tilt = center[:, None] + step * np.arange(-2, 3)
        g, h, growth = at(tilt, slope, delta)
        best = np.argmax(growth, axis=1)
        center = tilt[rows, best]
    return [g[rows, best], h[rows, best]]


def _side(
    share: Floats,
    tails: tuple[Floats, Floats],
    sides: tuple[Floats, Floats],
    slope: Floats,
    delta: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Return the weights of bins of too large a share: own side, other side, and the largest."""
    (tail, other), (own, across) = tails, sides
    total = own * slope + across
    # Where the tail beyond X is worth its price: P/X − Q/(1 − X) = r has this root in (0, 1), and
    # of all tails the one that ends at X itself has the largest.
    price = delta * total / slope
    both = tail + other + price
    root = np.sqrt(np.maximum(both**2 - 4 * price * tail, 0.0))
    cut = np.max(2 * tail / np.maximum(both + root, 1e-300), axis=-1)
    cut = np.maximum(cut[..., None], own * slope / total)
    x = np.minimum(share, cut)
    return total / slope * x, total * (1 - x), total / slope * cut


def _powers(share: Floats, p: Floats, q: Floats) -> list[Floats]:
    """Return powers of the ratio of the truth: what projects a curve on one of its own kind."""
    ratio = np.log(share) - np.log1p(-share)
    ratio = np.clip(ratio, -FURTHEST[:, None], FURTHEST[:, None])
    g = np.exp(POWERS[:, None, None] * ratio).reshape(-1, len(share))
    h = 1 / g
    return [g * (h @ p)[:, None], h * (g @ q)[:, None]]
