"""Bounds on the loss and the privacy profile from past bets on the whole output.

The bets are those of `output_bets`, repeated against each of many claims; every claim that they
refute lies below the truth.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe.common.types import Floats, Ints
from dpframe.stats.output_bets import MEAN_ROUNDING, Supposed, bets_against_each, mean_wealth


class History(NamedTuple):
    """Rounds that were bet on: the output distribution estimated before each, and its counts."""

    share: Floats  # see `Supposed`, shape [rounds, groups]
    mass: Floats
    counts: Ints  # of D and D′ in the round, shape [rounds, 2, groups]
    known: dict[Any, tuple[Floats, Floats]]
    """Wealth and tilts of bets on these rounds against ends of parts, for bounds at all levels."""


def history(rounds: Sequence[tuple[Supposed, Ints]]) -> History:
    """Build the history of rounds, each as (distribution estimated before it, counts by group)."""
    supposed, counts = zip(*rounds, strict=True)
    share, mass = (np.stack(part) for part in zip(*supposed, strict=True))
    return History(share, mass, np.stack(counts), {})


COARSE = np.concatenate([[0.0], 0.01 * 1.16 ** np.arange(56)])  # ε from 0 to 35: ends of the parts
FINE = 64  # points of each part: a bound is rounded down by at most a four-hundredth of itself
SHARED = 1e-4  # share of the wealth against a fine point that bets against the end of its part
AT_ONCE = 8  # ends of parts that are evaluated together
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
        opened: shares of the wealth, each with the number of the round from which it is bet.
        resolution: error of every probability.
        claimed: a loss that is one of the ends.
    """
    wanted, least = -np.log(error), 0.0
    wealth = _Replay(past, delta, resolution, opened)
    part_ends = np.union1d(COARSE, claimed)
    for first in range(0, len(part_ends), AT_ONCE):
        ends = part_ends[first : first + AT_ONCE]
        keys = [(end, delta, resolution, *opened) for end in ends.tolist()]
        new = [place for place, key in enumerate(keys) if key not in past.known]
        if new:
            paths, tilts = wealth.against(ends[new])
            for column, place in enumerate(new):
                past.known[keys[place]] = paths[:, column], tilts[..., [column]]
        for place, end in enumerate(ends):
            path, tilt = past.known[keys[place]]
            if path.max() + np.log(SHARED) >= wanted:
                least = end
                continue
            if end == 0:
                if path.max() < wanted:
                    return 0.0
                continue
            before = part_ends[first + place - 1]
            points = np.linspace(before, end, FINE + 1)[1:]
            own, _ = wealth.against(points, tilt)
            mixed = np.logaddexp(own + np.log1p(-SHARED), path[:, None] + np.log(SHARED))
            mixed[:, -1] = path
            kept = np.flatnonzero(mixed.max(axis=0) < wanted)
            if len(kept):
                return float(points[kept[0] - 1]) if kept[0] else float(before)
            least = end
    return float(least)


POINTS = 21  # of a written profile
HALVINGS = 30
ERRORS = 3.0  # standard errors by which bets for a profile stay below the observed loss
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
    grid, refutes all of its points at once. Leaving out most points only lowers its wealth.

    Args:
        past: rounds that were bet on.
        delta: at which they were chosen.
        error: probability that any point is wrong.
        near: a bound at that δ, around which the points of the grid lie.
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
    points: list[tuple[float, float]] = []
    for epsilon in epsilons:
        slope = np.exp(epsilon)
        sides = (slope * g + h).max(axis=-1) + (g + slope * h).max(axis=-1)
        low, high = 0.0, points[-1][1] if points else 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            wide = min(middle + resolution * (1 + slope), 1.0)
            half = (wide * far + (1 - wide) / (1 + slope) * sides) * (1 + MEAN_ROUNDING) / 2
            wealth = replay.wealth(earned - 2 * draws * np.log(half))
            refuted = np.logaddexp.reduce(wealth + log_prior, axis=1).max() >= wanted
            low, high = (middle, high) if refuted else (low, middle)
        points.append((epsilon, float(f"{low:.6g}") * (1 - 1e-6)))
        if low == 0:
            break
    return tuple(points) if points[0][1] > 0 else ()


def in_agreement(
    profile: Sequence[tuple[float, float]],
    lower: float,
    delta: float,
    delta_at: Callable[[float], float] | None,
) -> tuple[tuple[float, float], ...]:
    """Lower a certified profile to where bound and verdict agree with it.

    Profile, bound and claim have separate bets, so the profile may certify more.

    Args:
        profile: points (ε, δ).
        lower: bound on ε at `delta`.
        delta: δ of the bound.
        delta_at: δ(ε) of a claim that is not refuted; None if there is none.
    """
    points: list[tuple[float, float]] = []
    for epsilon, certified in profile:
        upper_limits = [certified, *(before for _, before in points[-1:])]
        upper_limits += [delta] * (epsilon > lower)
        upper_limits += [] if delta_at is None else [delta_at(epsilon)]
        points.append((epsilon, max(0.0, min(upper_limits))))
    return tuple(points)


class _Replay(NamedTuple):
    """Bets on past rounds against any (ε, δ)."""

    past: History
    delta: float
    resolution: float
    opened: Sequence[tuple[int, float]]

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
        upto, each = np.cumsum(earned, axis=1), []
        for first, share in self.opened:
            own = upto
            if first:
                own = upto - upto[:, [first - 1]]
                own[:, :first] = 0.0  # earnings of a share before it is opened do not count
            each.append(mean_wealth(own) + np.log(share))
        return each[0] if len(each) == 1 else np.asarray(np.logaddexp.reduce(each))

    def _chosen(self, epsilons: Floats, part: slice, tilts: Floats | None) -> tuple[Floats, Floats]:
        slope = np.exp(epsilons)
        delta = self.delta + self.resolution * (1 + slope)
        usable = delta < 1
        supposed = Supposed(self.past.share[part], self.past.mass[part])
        chosen, tilts = bets_against_each(supposed, slope, np.where(usable, delta, 0.0), tilts)
        return np.where(usable[:, None], chosen, 0.0), tilts
