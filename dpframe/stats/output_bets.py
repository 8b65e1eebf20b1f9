"""Bets on the whole output: one weight for each bin on each side, best against a claim.

A pair of draws, x from D and y from D′, pays g(x) h(y) (2/S)². The pairs of distributions that meet
a claimed trade-off curve are those made from its dominating pair (P, Q) [Kairouz2015], [Dong2022],
so the largest mean of g(x) + h(y) under the claim is

    S = Σ over atoms k of max over bins i of (P_k g_i + Q_k h_i).

The draws are independent, so the mean of what a pair pays is a b (2/S)² ≤ ((a + b)/S)² ≤ 1, with a
and b the means of g and h: whatever the weights, if they were chosen before the draws. The weights
whose logarithm grows fastest are the ratios of the truth to its reverse information projection on
the claim [Grunwald2024]. For (ε, δ) they have a closed form given the ratio of the two sides.
Events are the weights that take two values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from dpframe.common.types import Floats, Ints
from dpframe.stats.tradeoff import falling_hull

MEAN_ROUNDING = 1e-11
"""Relative margin of S, a sum of a few hundred terms with relative errors of about 1e-15."""

LEAST_WEALTH = 1e-12  # so that no bin loses all of the wealth
RATIO_STEPS = (0.4, 0.2, 0.1, 0.05, 0.025)  # by which the ratio of the sides is corrected

BEST = 3  # points of a curve whose weights are tried against the whole of it
POWERS = np.geomspace(0.02, 1.0, 12)[:, None]  # exponents of the shares that are tried


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
    return np.asarray(sums.max(axis=-1).sum(axis=-1) * (1 + MEAN_ROUNDING), np.float64)


class Lines(NamedTuple):
    """A claim as lines p ≤ e^ε q + δ that contain every event, both ways."""

    slope: Floats
    delta: Floats
    pair: DominatingPair  # of all lines together


def lines(slope: Floats, delta: Floats) -> Lines:
    """Return a claim from e^ε and δ of its lines; see `dominating_pair`."""
    return Lines(slope, delta, dominating_pair(slope, delta))


MOST_GROWTH = 600.0  # ε whose exponential is still far from the largest float
FREQUENT, BETWEEN = 1e-3, 24  # δ from which a curve has this many more lines


def lines_of(
    epsilon_at: Callable[[float], float],
    delta_at: Callable[[float], float],
    telling: Sequence[float],
    raised: float = 0.0,
) -> Lines | None:
    """Return a claim, widened by an error of every probability; None if it leaves nothing to bet.

    A curve has lines at its telling δ and between them. Neither ε(δ) nor δ(ε) may be too small.
    """
    points = [(epsilon_at(delta), delta) for delta in telling]
    points = [(epsilon, delta) for epsilon, delta in points if epsilon <= MOST_GROWTH]
    if len(points) > 1:
        end = max((epsilon for epsilon, delta in points if delta >= FREQUENT), default=0.0)
        points += [(e, delta_at(e)) for e in np.linspace(0, end, BETWEEN).tolist()]
    epsilon, delta = np.array(points, np.float64).reshape(-1, 2).T
    slope = np.exp(epsilon)
    delta = delta + raised * (1 + slope)
    left = delta < 1
    return lines(slope[left], delta[left]) if left.any() else None


GROUPS = 24  # steps of equal mass, and as many of equal angle; each step begins a group


class Supposed(NamedTuple):
    """The distribution estimated from earlier rounds, in groups of bins of nearly equal shares.

    Groups are in the order of falling shares. Groups of several rounds may lie in leading axes.
    """

    share: Floats  # of the draws in each group that come from D, in (0, 1), shape [..., groups]
    mass: Floats  # of each group, on both sides together, adding up to 1

    def capped(self, most: Floats) -> Supposed:
        """Limit all shares to between 1 − `most` and `most`."""
        most = np.asarray(most)[..., None]
        return Supposed(np.minimum(np.maximum(self.share, 1 - most), most), self.mass)

    @property
    def sides(self) -> tuple[Floats, Floats]:
        """The probability of each group on D and on D′."""
        p, q = self.mass * self.share, self.mass * (1 - self.share)
        return p / p.sum(axis=-1, keepdims=True), q / q.sum(axis=-1, keepdims=True)


def grouped(share: Floats, mass: Floats) -> tuple[Supposed, Ints]:
    """Group bins with nearly equal shares; weights depend on nothing else.

    Args:
        share: of the draws in each bin that came from D, in (0, 1), shape [bins].
        mass: of each bin, on both sides together, not all 0, shape [bins]; any scale.

    Returns:
        The groups, and the group of each bin.
    """
    order, mass = np.argsort(-share), mass / mass.sum()
    middle = np.cumsum(mass[order]) - mass[order] / 2
    angle = np.arcsin(np.sqrt(share[order]))
    low, high = angle[mass[order] > 0][[-1, 0]]
    angle = np.clip((high - angle) / max(high - low, 1e-300), 0, 1 - 1e-9)
    group = np.empty(len(share), np.int64)
    group[order] = (GROUPS * middle).astype(int) + (GROUPS * angle).astype(int)
    size = np.bincount(group, minlength=2 * GROUPS)
    whole = np.bincount(group, mass, 2 * GROUPS).astype(np.float64)
    # A group without mass has the mean of its bins; nothing is bet on one without bins.
    by_mass = np.bincount(group, mass * share, 2 * GROUPS) / np.maximum(whole, 1e-300)
    by_bins = np.bincount(group, share, 2 * GROUPS) / np.maximum(size, 1)
    of_d = np.where(whole > 0, by_mass, np.where(size > 0, by_bins, 0.5))
    return Supposed(of_d, whole), group


def weights(supposed: Supposed, claim: Lines) -> tuple[Floats, Floats]:
    """Choose weights under which wealth grows fast if the supposed distribution is right.

    Args:
        supposed: groups of bins, shape [groups].
        claim: the claim to bet against.

    Returns:
        (g, h), scaled to S = 2: factors of the wealth for a draw from D and for one from D′. All
        are 1 if the supposed output does not violate the claim.
    """
    sides = _Sides.of(supposed)
    p, q = sides.p, sides.q
    slope, delta = claim.slope, claim.delta
    tilt = np.zeros(len(slope))
    if len(slope) > BEST:
        growth = _at(sides, slope, delta, tilt)[2]
        promising = np.argsort(-growth)[:BEST]
        slope, delta, tilt = slope[promising], delta[promising], tilt[promising]
    g, h, *_ = _best(sides, slope, delta, tilt)
    if len(claim.slope) > 1:
        powers = _powers(supposed.share, p, q)
        g, h = np.concatenate([g, powers[0]]), np.concatenate([h, powers[1]])
    g, h = np.maximum(g, LEAST_WEALTH), np.maximum(h, LEAST_WEALTH)
    half = largest_sum(g, h, claim.pair) / 2
    growth = _growth(g, h, p, q) - 2 * np.log(half)
    best = int(np.argmax(np.nan_to_num(growth, nan=-np.inf)))
    if not growth[best] > 0:
        return np.ones_like(p), np.ones_like(q)
    return g[best] / half[best], h[best] / half[best]


def weights_against_each(
    supposed: Supposed, slope: Floats, delta: Floats, tilt: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Choose weights as `weights` does, against each of many claims (ε, δ) by itself.

    Args:
        supposed: shape [..., groups].
        slope: e^ε, broadcasts with [...].
        delta: δ, in [0, 1), of the same shape.
        tilt: ratios of the two sides, if known; otherwise they are computed.

    Returns:
        g and h, shape [..., groups], and the ratios of the two sides.
    """
    sides = _Sides.of(supposed)
    p, q = sides.p, sides.q
    slope, delta, _ = np.broadcast_arrays(slope, delta, p[..., 0])
    if tilt is None:
        g, h, _, tilt = _best(sides, slope, delta, np.zeros(slope.shape))
    else:
        g, h, _ = _at(sides, slope, delta, tilt)
    g, h = np.maximum(g, LEAST_WEALTH), np.maximum(h, LEAST_WEALTH)
    half = largest_sum_of_line(g, h, slope, delta) / 2
    gains = (_growth(g, h, p, q) > 2 * np.log(half))[..., None]
    return (
        np.where(gains, g / half[..., None], 1.0),
        np.where(gains, h / half[..., None], 1.0),
        tilt,
    )


def largest_sum_of_line(g: Floats, h: Floats, slope: Floats, delta: Floats) -> Floats:
    """Return S, rounded up, against (ε, δ) alone; weights of shape [..., bins], e^ε and δ [...]."""
    growth, far = slope[..., None], np.max(g, axis=-1) + np.max(h, axis=-1)
    near = (growth * g + h).max(axis=-1) + (g + growth * h).max(axis=-1)
    return np.asarray((delta * far + (1 - delta) / (1 + slope) * near) * (1 + MEAN_ROUNDING))


def _growth(g: Floats, h: Floats, p: Floats, q: Floats) -> Floats:
    return np.asarray((np.log(g) * p + np.log(h) * q).sum(axis=-1), np.float64)


class _Tails(NamedTuple):
    """One side of a supposed output, from its largest share on."""

    share: Floats  # of the draws in each group that come from this side
    own: Floats  # probability on this side of the groups so far
    both: Floats  # on both sides together
    most: Floats  # largest share of this side in groups so far, shape [..., 1]

    @classmethod
    def of(cls, share: Floats, side: Floats, other: Floats) -> _Tails:
        """Return the tails, given the probabilities of groups by falling share of the side."""
        own = np.cumsum(side, axis=-1)
        both = own + np.cumsum(other, axis=-1)
        largest_share = np.max(own / np.maximum(both, 1e-300), axis=-1, keepdims=True)
        return cls(share, own, both, largest_share)


class _Sides(NamedTuple):
    """Both sides of a supposed output, with what does not depend on the ratio of the sides."""

    p: Floats  # probability of each group on D
    q: Floats  # on D′
    high: _Tails  # of D
    low: _Tails  # of D′

    @classmethod
    def of(cls, supposed: Supposed) -> _Sides:
        p, q = supposed.sides
        high = _Tails.of(supposed.share, p, q)
        return cls(p, q, high, _Tails.of(1 - supposed.share, q[..., ::-1], p[..., ::-1]))


def _best(
    sides: _Sides, slope: Floats, delta: Floats, tilt: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the weights of the best ratio of the two sides, their growth, and that ratio.

    At the best ratio the projection on the claim has as much mass on one side as on the other.
    """
    p, q = sides.p, sides.q
    current = best = (*_at(sides, slope, delta, tilt), tilt)
    for step in RATIO_STEPS:
        g, h, _, tilt = current
        tilt = tilt - step * np.sign((p / g).sum(axis=-1) - (q / h).sum(axis=-1))
        current = (*_at(sides, slope, delta, tilt), tilt)
        better = current[2] > best[2]
        g, h, growth, own = (
            np.where(better[(...,) + (None,) * (new.ndim - better.ndim)], new, old)
            for new, old in zip(current, best, strict=True)
        )
        best = g, h, growth, own
    return best


def _at(sides: _Sides, slope: Floats, delta: Floats, tilt: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the best weights against lines at some ratios of the two sides, and their growth.

    λ and ν multiply the total mass of the two sides. Weights are (λ, ν) where the claim is met.
    Where D has too much, they lie on e^ε g + h = e^ε λ + ν in proportion to its share, and grow no
    further once the mass beyond is worth δ; where D′ has too much, likewise.
    """
    slope, delta = slope[..., None], delta[..., None]
    left, right = 1 - tilt[..., None], 1 + tilt[..., None]
    half = np.ones_like(left)
    for _ in range(2 if delta.any() else 1):  # the price of δ depends on S
        g, h, top = _side(sides.high, (left, right), slope, delta / half)
        down, up, bottom = _side(sides.low, (right, left), slope, delta / half)
        half = (delta * (top + bottom) + (1 - delta) * (left + right)) / 2
    is_high = sides.high.share > left * slope / (left * slope + right)
    is_low = sides.low.share > right * slope / (right * slope + left)
    g = np.where(is_high, g, np.where(is_low, up, left))
    h = np.where(is_high, h, np.where(is_low, down, right))
    growth = _growth(g, h, sides.p, sides.q) - 2 * np.log(half[..., 0])
    if not np.isfinite(growth).all():
        growth = np.nan_to_num(growth, nan=-np.inf)
    return g, h, growth


def _side(
    tails: _Tails, sides: tuple[Floats, Floats], slope: Floats, delta: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the weights of bins of too large a share: own side, other side, and the largest."""
    own, across = sides
    total = own * slope + across
    # Where the tail beyond X is worth its price: P/X − Q/(1 − X) = r has this root in (0, 1), and
    # of all tails the one that ends at X itself has the largest.
    if delta.any():
        price = delta * total / slope
        both = tails.both + price
        root = np.sqrt(np.maximum(both**2 - 4 * price * tails.own, 0.0))
        cut = np.max(2 * tails.own / np.maximum(both + root, 1e-300), axis=-1, keepdims=True)
    else:
        cut = tails.most
    cut = np.maximum(cut, own * slope / total)
    x = np.minimum(tails.share, cut)
    return total / slope * x, total * (1 - x), total / slope * cut


def _powers(share: Floats, p: Floats, q: Floats) -> list[Floats]:
    """Return powers of the sides' shares, which are close to the best weights against a curve.

    Against smooth curves such as those of `GaussianDP`, weights found by numerical optimisation
    differ from a power by less than 1 %.
    """
    g, h = share**POWERS, (1 - share) ** POWERS
    # Scaled so that the projection has as much mass on one side as on the other.
    return [g * ((1 / g) @ p)[:, None], h * ((1 / h) @ q)[:, None]]


CAUTION = np.array([np.inf, 0.3])
"""Ways to bet: the largest loss beyond the claimed one that each assumes. A loss estimated from few
draws is often too large."""

LOG_PRIOR = np.log([0.5, 0.5])  # share of the wealth that is bet each way


def bets(supposed: Supposed, claim: Lines, caution: Floats = CAUTION) -> Floats:
    """Return the logarithms of weights for each group, shape [ways, 2 datasets, ..., groups].

    Against one line, `caution` limits the assumed loss; against several, half of the stake of each
    way is bet in the next one.
    """
    if len(claim.slope) == 1:
        chosen, _ = bets_against_each(supposed, claim.slope, claim.delta, caution=caution)
        return chosen[..., 0, :]
    if supposed.share.ndim > 1:
        each = zip(supposed.share, supposed.mass, strict=True)
        return np.stack([bets(Supposed(*one), claim, caution) for one in each], axis=2)
    g, h = weights(supposed, claim)
    stakes = [0.5**way for way in range(len(caution))]
    return np.log([[1 + stake * (g - 1), 1 + stake * (h - 1)] for stake in stakes])


def bets_of_both(supposed: Supposed, exact: Lines, widened: Lines) -> list[Floats]:
    """Bet as `bets` does against a claim and a wider one; against single lines at once."""
    if max(len(exact.slope), len(widened.slope)) > 1:
        return [bets(supposed, exact), bets(supposed, widened)]
    slope, delta = (np.concatenate(part) for part in zip(exact[:2], widened[:2], strict=True))
    chosen, _ = bets_against_each(supposed, slope, delta)
    return [chosen[..., 0, :], chosen[..., 1, :]]


def bets_against_each(
    supposed: Supposed,
    slope: Floats,
    delta: Floats,
    tilts: Floats | None = None,
    caution: Floats = CAUTION,
) -> tuple[Floats, Floats]:
    """Bet as `bets` does, against each of many claims (ε, δ) by itself.

    Args:
        supposed: shape [..., groups].
        slope: e^ε, shape [claims].
        delta: δ, in [0, 1), shape [claims].
        tilts: from another call.
        caution: for each way, the largest loss beyond the claimed one that it assumes.

    Returns:
        The logarithms, shape [ways, 2 datasets, ..., claims, groups], and the tilts.
    """
    own = Supposed(supposed.share[..., None, :], supposed.mass[..., None, :])
    beyond = caution.reshape(-1, *[1] * (own.share.ndim - 1))  # all ways at once
    capped = own.capped(expit(np.log(slope) + beyond))
    g, h, tilts = weights_against_each(capped, slope, delta, tilts)
    # If the capped output meets the claim, bet as without a cap.
    none = (g[1:] == 1).all(axis=-1, keepdims=True)
    for side in (g, h):
        side[1:] = np.where(none, side[:1], side[1:])
    return np.log(np.stack([g, h], axis=1)), tilts


def mean_wealth(ways: Floats) -> Floats:
    """Return the logarithm of the wealth of all ways to bet together; shape [ways, ...]."""
    shape = (-1,) + (1,) * (np.ndim(ways) - 1)
    return np.asarray(np.logaddexp.reduce(ways + LOG_PRIOR.reshape(shape)), np.float64)
