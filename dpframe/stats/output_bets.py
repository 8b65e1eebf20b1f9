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

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from dpframe.common.types import Floats, Ints
from dpframe.stats.tradeoff import falling_hull

ROUNDING = 1e-11
"""Relative margin of S: sums of a few hundred terms that are each right to some 1e-15."""

LEAST = 1e-12  # no bin loses all of the wealth
STEPS = (0.4, 0.2, 0.1, 0.05, 0.025)  # by which the ratio of the sides is corrected

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
    return np.asarray(sums.max(axis=-1).sum(axis=-1) * (1 + ROUNDING), np.float64)


class Lines(NamedTuple):
    """A claim as lines p ≤ e^ε q + δ that contain every event, both ways."""

    slope: Floats
    delta: Floats
    pair: DominatingPair  # of all lines together


def lines(slope: Floats, delta: Floats) -> Lines:
    """Return a claim from e^ε and δ of its lines; see `dominating_pair`."""
    return Lines(slope, delta, dominating_pair(slope, delta))


MOST_GROWTH = 600.0  # ε whose exponential is still far from the largest float
FREQUENT, BETWEEN = 1e-3, 24  # a curve has so many more lines where δ is at least this


def lines_of(
    epsilon_at: Callable[[float], float],
    delta_at: Callable[[float], float],
    telling: Sequence[float],
    raised: float = 0.0,
) -> Lines | None:
    """Return a claim, widened by an error of every probability; None if it leaves nothing to bet.

    A curve has lines at its telling δ and between them. Neither ε(δ) nor δ(ε) may be too small.
    """
    said = [(epsilon_at(delta), delta) for delta in telling]
    said = [(epsilon, delta) for epsilon, delta in said if epsilon <= MOST_GROWTH]
    if len(said) > 1:
        most = max((epsilon for epsilon, delta in said if delta >= FREQUENT), default=0.0)
        said += [(e, delta_at(e)) for e in np.linspace(0, most, BETWEEN).tolist()]
    epsilon, delta = np.array(said, np.float64).reshape(-1, 2).T
    slope = np.exp(epsilon)
    delta = delta + raised * (1 + slope)
    left = delta < 1
    return lines(slope[left], delta[left]) if left.any() else None


GROUPS = 24  # of about the same mass, and as many of about the same share, of which all are cut


class Supposed(NamedTuple):
    """The output as earlier rounds suggest it, in groups of bins of about one share.

    Groups are in the order of falling shares. Groups of several rounds may lie in leading axes.
    """

    share: Floats  # of the draws in each group that come from D, in (0, 1), shape [..., groups]
    mass: Floats  # of each group, on both sides together, adding up to 1

    def capped(self, most: Floats) -> Supposed:
        """Suppose no share above `most`, nor below 1 − most."""
        most = np.asarray(most)[..., None]
        return Supposed(np.minimum(np.maximum(self.share, 1 - most), most), self.mass)

    @property
    def sides(self) -> tuple[Floats, Floats]:
        """The probability of each group on D and on D′."""
        p, q = self.mass * self.share, self.mass * (1 - self.share)
        return p / p.sum(axis=-1, keepdims=True), q / q.sum(axis=-1, keepdims=True)


def grouped(share: Floats, mass: Floats) -> tuple[Supposed, Ints]:
    """Group bins of about one share; weights depend on nothing else.

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
    found = np.where(whole > 0, by_mass, np.where(size > 0, by_bins, 0.5))
    return Supposed(found, whole), group


def weights(supposed: Supposed, claim: Lines) -> tuple[Floats, Floats]:
    """Choose weights that grow fast if the output is as supposed.

    Args:
        supposed: groups of bins, shape [groups].
        claim: that is bet against.

    Returns:
        (g, h), with S = 2: what a draw from D and what one from D′ multiplies the wealth by. All
        are 1 if the supposed output does not violate the claim.
    """
    p, q = supposed.sides
    slope, delta = claim.slope, claim.delta
    tilt = np.zeros(len(slope))
    if len(slope) > BEST:
        growth = _at(supposed, p, q, slope, delta, tilt)[2]
        promising = np.argsort(-growth)[:BEST]
        slope, delta, tilt = slope[promising], delta[promising], tilt[promising]
    g, h, *_ = _best(supposed, p, q, slope, delta, tilt)
    if len(claim.slope) > 1:
        powers = _powers(supposed.share, p, q)
        g, h = np.concatenate([g, powers[0]]), np.concatenate([h, powers[1]])
    g, h = np.maximum(g, LEAST), np.maximum(h, LEAST)
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
        tilt: ratios of the two sides, if known; otherwise they are looked for.

    Returns:
        g and h, shape [..., groups], and the ratios of the two sides.
    """
    p, q = supposed.sides
    slope, delta, _ = np.broadcast_arrays(slope, delta, p[..., 0])
    if tilt is None:
        g, h, _, tilt = _best(supposed, p, q, slope, delta, np.zeros(slope.shape))
    else:
        g, h, _ = _at(supposed, p, q, slope, delta, tilt)
    g, h = np.maximum(g, LEAST), np.maximum(h, LEAST)
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
    return np.asarray((delta * far + (1 - delta) / (1 + slope) * near) * (1 + ROUNDING))


def _growth(g: Floats, h: Floats, p: Floats, q: Floats) -> Floats:
    return np.asarray((np.log(g) * p + np.log(h) * q).sum(axis=-1), np.float64)


def _best(
    supposed: Supposed, p: Floats, q: Floats, slope: Floats, delta: Floats, tilt: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the weights of the best ratio of the two sides, their growth, and that ratio.

    At the best ratio the projection on the claim has as much mass on one side as on the other.
    """
    found = best = (*_at(supposed, p, q, slope, delta, tilt), tilt)
    for step in STEPS:
        g, h, _, tilt = found
        tilt = tilt - step * np.sign((p / g).sum(axis=-1) - (q / h).sum(axis=-1))
        found = (*_at(supposed, p, q, slope, delta, tilt), tilt)
        better = found[2] > best[2]
        g, h, growth, own = (
            np.where(better[(...,) + (None,) * (new.ndim - better.ndim)], new, old)
            for new, old in zip(found, best, strict=True)
        )
        best = g, h, growth, own
    return best


def _at(
    supposed: Supposed, p: Floats, q: Floats, slope: Floats, delta: Floats, tilt: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the best weights against lines at some ratios of the two sides, and their growth.

    With multipliers λ, ν of the two sides' total mass, weights are (λ, ν) where the claim is met,
    lie on e^ε g + h = e^ε λ + ν where D has too much, in proportion to the share, and stop where
    the mass beyond is worth δ; and the same for D′.
    """
    share, slope, delta = supposed.share, slope[..., None], delta[..., None]
    left, right = 1 - tilt[..., None], 1 + tilt[..., None]
    high = np.cumsum(p, axis=-1), np.cumsum(q, axis=-1)
    low = tuple(np.cumsum(side[..., ::-1], axis=-1) for side in (q, p))
    half = np.ones_like(left)
    for _ in range(2 if delta.any() else 1):  # the price of δ depends on S
        g, h, top = _side(share, high, (left, right), slope, delta / half)
        down, up, bottom = _side(1 - share, low, (right, left), slope, delta / half)
        half = (delta * (top + bottom) + (1 - delta) * (left + right)) / 2
    is_high = share > left * slope / (left * slope + right)
    is_low = 1 - share > right * slope / (right * slope + left)
    g = np.where(is_high, g, np.where(is_low, up, left))
    h = np.where(is_high, h, np.where(is_low, down, right))
    growth = _growth(g, h, p, q) - 2 * np.log(half[..., 0])
    return g, h, np.nan_to_num(growth, nan=-np.inf)


def _side(
    share: Floats,
    tails: tuple[Floats, ...],
    sides: tuple[Floats, Floats],
    slope: Floats,
    delta: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Return the weights of bins of too large a share: own side, other side, and the largest."""
    (tail, other), (own, across) = tails, sides
    total = own * slope + across
    # Where the tail beyond X is worth its price: P/X − Q/(1 − X) = r has this root in (0, 1), and
    # of all tails the one that ends at X itself has the largest.
    if delta.any():
        price = delta * total / slope
        both = tail + other + price
        root = np.sqrt(np.maximum(both**2 - 4 * price * tail, 0.0))
        cut = np.max(2 * tail / np.maximum(both + root, 1e-300), axis=-1, keepdims=True)
    else:
        cut = np.max(tail / np.maximum(tail + other, 1e-300), axis=-1, keepdims=True)
    cut = np.maximum(cut, own * slope / total)
    x = np.minimum(share, cut)
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
"""Ways to bet: the largest loss beyond the claimed one that each supposes. What is learned from few
draws is often too much."""

LOG_PRIOR = np.log([0.5, 0.5])  # share of the wealth that is bet each way


def bets(supposed: Supposed, claim: Lines) -> Floats:
    """Return the logarithms of weights for each group, shape [ways, 2 datasets, ..., groups]."""
    if len(claim.slope) == 1:
        return bets_against_each(supposed, claim.slope, claim.delta)[0][..., 0, :]
    if supposed.share.ndim > 1:
        each = zip(supposed.share, supposed.mass, strict=True)
        return np.stack([bets(Supposed(*one), claim) for one in each], axis=2)
    g, h = weights(supposed, claim)
    found = [[g, h], *([(1 + g) / 2, (1 + h) / 2] for _ in LOG_PRIOR[1:])]
    return np.log(np.array(found, np.float64))


def bets_against_each(
    supposed: Supposed, slope: Floats, delta: Floats, tilts: Floats | None = None
) -> tuple[Floats, Floats]:
    """Bet as `bets` does, against each of many claims (ε, δ) by itself.

    Args:
        supposed: shape [..., groups].
        slope: e^ε, shape [claims].
        delta: δ, in [0, 1), shape [claims].
        tilts: from another call.

    Returns:
        The logarithms, shape [ways, 2 datasets, ..., claims, groups], and the tilts.
    """
    own = Supposed(supposed.share[..., None, :], supposed.mass[..., None, :])
    caution = CAUTION.reshape(-1, *[1] * (own.share.ndim - 1))  # both ways at once
    capped = own.capped(expit(np.log(slope) + caution))
    g, h, tilts = weights_against_each(capped, slope, delta, tilts)
    # So small a violation may be none, if δ is large.
    none = (g[1:] == 1).all(axis=-1, keepdims=True)
    for side in (g, h):
        side[1:] = np.where(none, side[:1], side[1:])
    return np.log(np.stack([g, h], axis=1)), tilts


def mean_wealth(ways: Floats) -> Floats:
    """Return the logarithm of the wealth of all ways to bet together; shape [ways, ...]."""
    shape = (-1,) + (1,) * (np.ndim(ways) - 1)
    return np.asarray(np.logaddexp.reduce(ways + LOG_PRIOR.reshape(shape)), np.float64)


class History(NamedTuple):
    """Rounds that were bet on: the output as it was supposed before each, and its counts."""

    share: Floats  # see `Supposed`, shape [rounds, groups]
    mass: Floats
    counts: Ints  # of D and D′ in the round, shape [rounds, 2, groups]
    known: dict[Any, tuple[Floats, Floats]]
    """Wealth and tilts of bets on these rounds against ends of parts, for bounds at all levels."""


def history(rounds: Sequence[tuple[Supposed, Ints]]) -> History:
    """Build the history of rounds in order, each (as supposed, counts by group)."""
    supposed, counts = zip(*rounds, strict=True)
    share, mass = (np.stack(part) for part in zip(*supposed, strict=True))
    return History(share, mass, np.stack(counts), {})


COARSE = np.concatenate([[0.0], 0.01 * 1.16 ** np.arange(56)])  # ε from 0 to 35: ends of the parts
FINE = 64  # points of each part: a bound is rounded down by at most a four-hundredth of itself
SHARED = 1e-4  # share of the wealth against a fine point that bets against the end of its part
AT_ONCE = 8  # ends of parts that are looked at together
MOST_AT_ONCE = 25_000  # groups times rounds times ε evaluated together: they fit a core's cache


def bound(
    past: History,
    delta: float,
    error: float,
    opened: Sequence[tuple[int, float]] = ((0, 1.0),),
    resolution: float = 0.0,
    claimed: float = 0.0,
) -> float:
    """Bound the loss from below, with probability 1 − error at all times together.

    A bet against ε is also a bet against every smaller ε, whose claim allows less. So each point of
    a fine grid is refuted by its own bets and, with a share of the wealth, by those against the end
    of its part of a coarse grid. If the latter suffice alone, the fine points are skipped.

    Args:
        past: rounds that were bet on.
        delta: δ of the loss.
        error: probability that a bound is wrong.
        opened: shares of the wealth, each with the number of the round from which on it is bet.
        resolution: error of every probability.
        claimed: a loss that is one of the ends.
    """
    wanted, found = -np.log(error), 0.0
    wealth = _Replay(past, delta, resolution, opened)
    every = np.union1d(COARSE, claimed)
    for first in range(0, len(every), AT_ONCE):
        ends = every[first : first + AT_ONCE]
        key = (*ends, delta, resolution, *opened)
        if key not in past.known:
            past.known[key] = wealth.against(ends)
        paths, tilts = past.known[key]
        for place, end in enumerate(ends):
            path = paths[:, place]
            if path.max() + np.log(SHARED) >= wanted:
                found = end
                continue
            if end == 0:
                if path.max() < wanted:
                    return 0.0
                continue
            before = every[first + place - 1]
            points = np.linspace(before, end, FINE + 1)[1:]
            own, _ = wealth.against(points, tilts[..., [place]])
            mixed = np.logaddexp(own + np.log1p(-SHARED), path[:, None] + np.log(SHARED))
            mixed[:, -1] = path
            kept = np.flatnonzero(mixed.max(axis=0) < wanted)
            if len(kept):
                return float(points[kept[0] - 1]) if kept[0] else float(before)
            found = end
    return float(found)


POINTS = 21  # of a written profile
HALVINGS = 30
ERRORS = 3.0  # standard errors by which what is bet on for a profile lies below what was seen
NEAREST = np.concatenate([[0.0], 0.01 * 1.005 ** np.arange(1640)])
LEVELS = np.concatenate([[0.0], 1.25 ** np.arange(-80.0, 0.0)])
"""Grids of ε and δ. Half of the wealth is divided among the points of `NEAREST` at the δ of the
bound, and half among those of `COARSE` and `LEVELS`."""


def _experts(past: History, delta: float, near: float) -> tuple[Floats, Floats, Floats]:
    """Return ε and δ of some points of the grids, and the logarithm of the wealth of each."""
    at = near * np.array([0.6, 0.75, 0.85, 0.92, 0.97, 0.985, 0.995])
    close = NEAREST[np.unique(np.searchsorted(NEAREST, at, side="right") - 1)]
    p, q = Supposed(past.share[-1], past.mass[-1]).sides
    ends = np.unique(COARSE[np.searchsorted(COARSE, near * np.arange(6) / 5, side="right") - 1])
    over = [np.maximum(x - np.exp(ends)[:, None] * y, 0).sum(axis=1) for x, y in ((p, q), (q, p))]
    seen = np.maximum(*over)
    seen = np.maximum(seen - ERRORS * np.sqrt(seen / past.counts[:, 0].sum()), 0)
    levels = LEVELS[np.searchsorted(LEVELS, seen, side="right") - 1]
    prior = np.repeat([len(NEAREST), len(COARSE) * len(LEVELS)], [len(close), len(ends)])
    deltas = np.concatenate([np.full(len(close), delta), levels])
    return np.concatenate([close, ends]), deltas, -np.log(2 * prior)


def profile_below(
    past: History,
    delta: float,
    error: float,
    near: float,
    opened: Sequence[tuple[int, float]] = ((0, 1.0),),
    resolution: float = 0.0,
) -> tuple[tuple[float, float], ...]:
    """Bound the privacy profile from below: points (ε, δ), for all ε and all times together.

    Weights that do not depend on (ε, δ) earn more against a smaller claim than against a larger
    one, and most against the truth itself. So a mixture of fixed weights, one for each point of a
    grid, refutes everything that it says at once. Leaving most of them out earns less.

    Args:
        past: rounds that were bet on.
        delta: at which they were chosen.
        error: probability that any point is wrong.
        near: a bound at that δ, near which the points of the grid are looked for.
        opened: as for `bound`.
        resolution: error of every probability.

    Returns:
        Points from ε = 0 to where nothing is left; none if nothing is certified.
    """
    if not near > 0:
        return ()
    replay, wanted = _Replay(past, delta, resolution, opened), -np.log(error)
    ends, deltas, log_prior = _experts(past, delta, near)
    log_weights = bets_against_each(Supposed(past.share, past.mass), np.exp(ends), deltas)[0]
    g, h = np.exp(log_weights[:, 0]), np.exp(log_weights[:, 1])  # [ways, rounds, experts, groups]
    earned = np.einsum("wsreg,rsg->wre", log_weights, past.counts)
    far, draws = g.max(axis=-1) + h.max(axis=-1), past.counts[:, 0].sum(axis=1)[:, None]
    epsilons = [float(f"{e:.6g}") for e in np.linspace(0, (2 if delta else 1) * near, POINTS)]
    found: list[tuple[float, float]] = []
    for epsilon in epsilons:
        slope = np.exp(epsilon)
        sides = (slope * g + h).max(axis=-1) + (g + slope * h).max(axis=-1)
        low, high = 0.0, found[-1][1] if found else 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            wide = min(middle + resolution * (1 + slope), 1.0)
            half = (wide * far + (1 - wide) / (1 + slope) * sides) * (1 + ROUNDING) / 2
            wealth = replay.wealth(earned - 2 * draws * np.log(half))
            refuted = np.logaddexp.reduce(wealth + log_prior, axis=1).max() >= wanted
            low, high = (middle, high) if refuted else (low, middle)
        found.append((epsilon, float(f"{low:.6g}") * (1 - 1e-6)))
        if low == 0:
            break
    return tuple(found) if found[0][1] > 0 else ()


def in_agreement(
    profile: Sequence[tuple[float, float]],
    lower: float,
    delta: float,
    delta_at: Callable[[float], float] | None,
) -> tuple[tuple[float, float], ...]:
    """Lower a certified profile to where bound and verdict agree with it.

    Profile, bound and claim are bet on apart, so that the profile may say more.

    Args:
        profile: points (ε, δ).
        lower: bound on ε at `delta`.
        delta: δ of the bound.
        delta_at: δ(ε) of a claim that is not refuted; None if there is none.
    """
    found: list[tuple[float, float]] = []
    for epsilon, certified in profile:
        most = [certified, *(before for _, before in found[-1:])]
        most += [delta] * (epsilon > lower)
        most += [] if delta_at is None else [delta_at(epsilon)]
        found.append((epsilon, max(0.0, min(most))))
    return tuple(found)


class _Replay:
    """Bets on past rounds against any (ε, δ)."""

    def __init__(
        self,
        past: History,
        delta: float,
        resolution: float,
        opened: Sequence[tuple[int, float]],
    ) -> None:
        self.past, self.delta, self.resolution, self.opened = past, delta, resolution, opened

    def against(self, epsilons: Floats, tilts: Floats | None = None) -> tuple[Floats, Floats]:
        """Return the logarithm of the wealth after each round, shape [rounds, ε], and tilts."""
        rounds, groups = self.past.share.shape
        size = max(1, MOST_AT_ONCE // (groups * len(epsilons)))
        paid, used = [], []
        for at in range(0, rounds, size):
            part = slice(at, at + size)
            log_weights, tilt = self._chosen(
                epsilons, part, None if tilts is None else tilts[:, part]
            )
            paid.append(np.einsum("wsreg,rsg->wre", log_weights, self.past.counts[part]))
            used.append(tilt)
        return self.wealth(np.concatenate(paid, axis=1)), np.concatenate(used, axis=1)

    def wealth(self, earned: Floats) -> Floats:
        """Return the logarithm of the wealth after each round from what each round earned.

        Args:
            earned: shape [ways, rounds, ε].
        """
        upto = np.concatenate([np.zeros_like(earned[:, :1]), np.cumsum(earned, axis=1)], axis=1)
        each = []
        for first, share in self.opened:
            own = upto[:, 1:] - upto[:, [first]]
            own[:, :first] = 0.0  # what a share earns before it is opened does not count
            each.append(mean_wealth(own) + np.log(share))
        return np.asarray(np.logaddexp.reduce(each))

    def _chosen(self, epsilons: Floats, part: slice, tilts: Floats | None) -> tuple[Floats, Floats]:
        slope = np.exp(epsilons)
        delta = self.delta + self.resolution * (1 + slope)
        usable = delta < 1
        supposed = Supposed(self.past.share[part], self.past.mass[part])
        found, tilts = bets_against_each(supposed, slope, np.where(usable, delta, 0.0), tilts)
        return np.where(usable[:, None], found, 0.0), tilts
