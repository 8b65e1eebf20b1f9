"""The wealth of one search: against its claim, and of each pair against a grid of losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpframe.common.types import Floats, Ints
from dpframe.stats.betting import Bet, choose, events, pay

LOSS_LIMIT = 500.0
"""Largest loss that is bet on: the exponential of a larger one, next to δ, has no float."""

FINE = 8  # neighbouring losses of the grid that share one event, chosen for the smallest of them

GRID = np.concatenate([[0.0], np.geomspace(0.01, 40.0, 560 * FINE - 1)])
"""Losses that bounds are taken from, 0.19 % apart."""

RUINED = 100.0  # logarithm of a wealth that refutes a loss at every level an audit may ask for


class Seen(NamedTuple):
    """Counts of one arm under one set of cuts."""

    above: Ints  # draws at or above each cut, shape [2, cuts]: on D, on D′
    trials: int  # draws on each side


class Point(NamedTuple):
    """One (ε, δ) that follows from a claim."""

    epsilon: float
    delta: float


class Guess(NamedTuple):
    """The event that lies farthest outside of a claim, and the point of the claim it violates."""

    point: Point
    bet: Bet
    z: float  # standard errors


def farthest(seen: Seen, points: Sequence[Point]) -> Guess | None:
    """Choose the bet against a claim; None if no point of it can be bet against.

    Args:
        seen: all counts of an arm so far.
        points: of the claim.
    """
    usable = [p for p in points if p.epsilon <= LOSS_LIMIT and p.delta < 1]
    bets = [(p, choose(*seen, np.exp([p.epsilon]), p.delta)) for p in usable]
    found = [Guess(p, bet, float(bet.z[0]) * math.sqrt(seen.trials)) for p, bet in bets]
    return max(found, key=lambda guess: guess.z, default=None)


def largest_loss(seen: Seen, delta: float, resolution: float = 0.0) -> float:
    """Return the largest loss that any event suggests; −inf if none suggests one.

    Args:
        seen: counts of one pair.
        delta: δ of the loss.
        resolution: of the sampler: the error of either probability.
    """
    q, p = ((events(*seen) + 0.5) / (seen.trials + 1)).T
    p = p - delta - resolution
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(p > 0, np.log(p / (q + resolution)), -np.inf)))


class PairWealth:
    """Wealth earned by bets on one pair, against each loss of the grid.

    Each pair has its own: wealth pooled over all pairs would give a pair of small loss the bound
    of another one.

    Args:
        share: of the error, that the pair has from the start.
    """

    def __init__(self, share: float) -> None:
        self.now = np.zeros((2, len(GRID)))  # logarithms, for both ways to bet
        self.shares = {"proposed": (share, self.now)}
        """By reason: a share of the error, and the logarithm of what it has earned since."""
        self.best = np.full(len(GRID), -np.inf)
        """Largest logarithm so far of the wealth of all shares together."""

    def open(self, name: str, share: float) -> None:
        """Grant a share before a round; do nothing if the pair has one of that name."""
        self.shares.setdefault(name, (share, np.zeros((2, len(GRID)))))

    def pay(self, at: Ints, paid: Floats) -> None:
        """Add the payoff of a round at some places of the grid."""
        for _, earned in self.shares.values():
            earned[:, at] += paid
        self.best[at] = np.maximum(self.best[at], self.log_wealth(at))

    def log_wealth(self, at: Ints) -> Floats:
        """Logarithm of the wealth of all shares together, at some places of the grid."""
        each = [
            np.logaddexp(*earned[:, at]) - math.log(2) + math.log(share)
            for share, earned in self.shares.values()
        ]
        return np.asarray(np.logaddexp.reduce(each))


class Wealth:
    """Wealth that grows by bets on rounds that were not seen when the bets were chosen.

    The error of the bounds is divided among the pairs in equal parts: in the order in which they
    were proposed, in that in which they were first bet on against the claim, and, if pairs lead,
    in that in which they first led. Each order is known before the bets that depend on it.

    Args:
        delta: δ of the bounds.
        resolution: of the sampler: no bound rests on smaller probabilities.
        led: True if `lead` will be called.
    """

    def __init__(self, delta: float, resolution: float = 0.0, *, led: bool = False) -> None:
        self.delta, self.resolution = delta, resolution
        self._part = 1 / 3 if led else 1 / 2  # of the error, for each of the orders
        self._leaders: list[int] = []
        self.together = np.zeros(2)
        """Logarithms of the wealth against the claim if bet as one sum, for both ways to bet."""
        self.apart: dict[int, Floats] = {}
        """The same for each arm alone, in the order in which they were first bet on."""
        self.best = 0.0  # largest logarithm of the wealth against the claim
        self.history: list[tuple[int, float]] = []
        """(draws per dataset, logarithm of the wealth against the claim) after each round."""
        self._loudest = np.zeros(2)
        self.most = 0.0
        """Approximate logarithm of the largest wealth that the same rounds could have earned."""
        self._pairs: dict[int, PairWealth] = {}
        self._opened = (0, 0.0), 0.0  # (rounds, error) of the last call of `open`, and its answer

    def bet(
        self,
        before: Seen,
        fresh: Seen,
        points: Sequence[Point],
        scale: float,
        drawn: int,
        number: int = 0,
        least: float = 0.0,
    ) -> float:
        """Bet on a round.

        Args:
            before: counts of the arm before the round.
            fresh: counts of the round.
            points: of the claim, for the pair of the arm; empty if nothing is claimed.
            scale: loss claimed for this pair, as a multiple of the first one's.
            drawn: draws per dataset of all rounds, this one included.
            number: of the arm, from 0, in the order of proposal.
            least: standard errors by which an event must lie outside of the claim to be bet on.

        Returns:
            Logarithm of the factor that the round has earned against the claim.
        """
        self.pass_over(before, fresh, points)
        earned = self._bet_against_claim(number, before, fresh, points, least)
        self._bet_against_grid(number, before, fresh, scale)
        self.history.append((drawn, self.log_wealth))
        return earned

    def pass_over(self, before: Seen, fresh: Seen, points: Sequence[Point]) -> None:
        """Add to `most` what a round would have earned if every answer differed; see `bet`."""
        past, now = (Seen(np.array([[0], [n]]), n) for n in (before.trials, fresh.trials))
        self._loudest = self._loudest + _paid(past, now, points)
        self.most = max(self.most, _mean(self._loudest) - math.log(2))

    def give_back(self, number: int) -> None:
        """Give back what an arm has earned against the claim; what it has lost stays lost.

        So the wealth is at no time larger than without, whatever the arm is given up for.

        Args:
            number: of the arm, which is bet on no more.
        """
        if (own := self.apart.get(number)) is not None:
            self.together = self.together - np.maximum(own, 0.0)
            self.apart[number] = np.full(2, -np.inf)
            self.best = min(self.best, max(0.0, self.log_wealth))

    def lead(self, number: int) -> None:
        """Note that from the next round on an arm is drawn because its bound is the largest."""
        if number not in self._leaders:
            self._leaders.append(number)

    @property
    def log_wealth(self) -> float:
        """Logarithm of the wealth against the claim.

        Half of it was bet as one sum, which multiplies what all arms earn and lose. If many pairs
        lose a little before one is found, that is a lot. So the other half was divided among the
        arms as they were first bet on: an arm can lose no more than its share. When an arm is
        first bet on is known before that bet.
        """
        shares = [_mean(own) + math.log(_share(at)) for at, own in enumerate(self.apart.values())]
        unspent = 1 - sum(_share(at) for at in range(len(self.apart)))
        apart = np.logaddexp.reduce([*shares, math.log(max(unspent, 1e-300))])
        return float(np.logaddexp(_mean(self.together), apart) - math.log(2))

    def bound(self, error: float, number: int = 0) -> float:
        """Lower bound on the loss of an arm's pair, in the units of the first pair's claim.

        Args:
            error: probability that a bound of any arm is wrong at any time.
            number: of the arm.
        """
        return float(GRID[max(0, self._first_held(error, number) - 1)])

    def open(self, error: float) -> float:
        """Return the smallest loss that is refuted for none of the pairs."""
        about = len(self.history), error
        if self._opened[0] != about:
            held = max((self._first_held(error, number) for number in self._pairs), default=0)
            self._opened = about, float(GRID[min(len(GRID) - 1, held)])
        return self._opened[1]

    def _first_held(self, error: float, number: int) -> int:
        if number not in self._pairs:
            return 0
        held = np.flatnonzero(self._pairs[number].best < -math.log(error))
        return int(held[0]) if len(held) else len(GRID)

    def _bet_against_claim(
        self, number: int, before: Seen, fresh: Seen, points: Sequence[Point], least: float
    ) -> float:
        guess = farthest(before, points)
        if guess is None or guess.z <= least:
            return 0.0
        paid = _paid(before, fresh, points)
        old = self.apart.get(number, np.zeros(2))
        self.apart[number] = old + paid
        self.together = self.together + paid
        self.best = max(self.best, self.log_wealth)
        return _mean(self.apart[number]) - _mean(old)

    def _bet_against_grid(self, number: int, before: Seen, fresh: Seen, scale: float) -> None:
        own = self._pairs.get(number)
        if own is None:
            own = self._pairs[number] = PairWealth(self._part * _share(number))
        for name, order in (("bet on", list(self.apart)), ("led", self._leaders)):
            if number in order:
                own.open(name, self._part * _share(order.index(number)))
        losses = GRID * scale
        most = min(largest_loss(before, self.delta, self.resolution), LOSS_LIMIT)
        possible = (losses <= most) & (self.delta < 1)
        # A refuted loss stays refuted, whatever later rounds would bet against it.
        at = np.flatnonzero(possible & (own.best < RUINED))
        if not len(at):
            return
        coarse, of = np.unique(at // FINE, return_inverse=True)
        first, slope = np.exp(losses[coarse * FINE]), np.exp(losses[at])
        deltas = [self.delta + self.resolution * (1 + each) for each in (first, slope)]
        chosen = choose(*before, first, deltas[0])
        bet = Bet(chosen.event[of], chosen.q[of], chosen.p[of], chosen.z[of])
        usable = deltas[1] < 1
        paid = pay(fresh.above, fresh.trials, bet, slope, np.where(usable, deltas[1], 0.0))
        own.pay(at, np.where(usable, paid, 0.0))


def _share(number: int) -> float:
    """Share of the nth arm: 1/2, 1/6, 1/12, …; they add up to 1 however many arms come."""
    return 1 / ((number + 1) * (number + 2))


def _mean(ways: Floats) -> float:
    return float(np.logaddexp(*ways) - math.log(2))


def _paid(before: Seen, fresh: Seen, points: Sequence[Point]) -> Floats:
    """Payoff of a round against a claim, as the logarithms of two factors."""
    guess = farthest(before, points)
    if guess is None or guess.z <= 0:
        return np.zeros(2)
    slope = np.exp([guess.point.epsilon])
    return pay(fresh.above, fresh.trials, guess.bet, slope, guess.point.delta)[:, 0]
