"""The wealth of one search: against its claim, and of each pair against a grid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpframe.stats.betting import Bet, choose, events, pay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.common.types import Floats, Ints


LARGEST = 500.0
"""A loss beyond which nothing is bet on: its exponential, and δ beside it, have no float."""

FINE = 8
"""Losses of the grid for which one event is chosen: that of the smallest of them."""

GRID = np.concatenate([[0.0], np.geomspace(0.01, 40.0, 560 * FINE - 1)])
"""Losses that bounds are taken from: .19 % apart."""


class Seen(NamedTuple):
    """Draws of one arm under one set of cuts."""

    above: Ints
    """At or above each cut, shape [2, cuts]: on D, on D′."""
    trials: int
    """Draws on each side."""


class Point(NamedTuple):
    """One (ε, δ) that follows from a claim."""

    epsilon: float
    delta: float


class Guess(NamedTuple):
    """The event that lies farthest outside of a claim, at the point of it where it does."""

    point: Point
    bet: Bet
    z: float
    """By how many standard errors."""


def farthest(seen: Seen, points: Sequence[Point]) -> Guess | None:
    """What to bet on against a claim; None where nothing can be.

    Args:
        seen: what an arm has shown until now.
        points: of the claim.
    """
    usable = [p for p in points if p.epsilon <= LARGEST and p.delta < 1]
    bets = [(p, choose(*seen, np.exp([p.epsilon]), p.delta)) for p in usable]
    found = [Guess(p, bet, float(bet.z[0]) * math.sqrt(seen.trials)) for p, bet in bets]
    return max(found, key=lambda guess: guess.z, default=None)


def _share(number: int) -> float:
    """What an arm has of what the arms share, however many come after: 1/2, 1/6, 1/12 and so on."""
    return 1 / ((number + 1) * (number + 2))


def _mean(ways: Floats) -> float:
    return float(np.logaddexp(*ways) - math.log(2))


class Ladder:
    """What the bets on one pair have earned against each loss of the grid.

    A bound is about one pair. Were it earned by all of them together, a pair that loses little
    would be told the bound of another.

    Args:
        share: of the error, that the pair has from the start.
    """

    def __init__(self, share: float) -> None:
        self.now = np.zeros((2, len(GRID)))
        """Logarithms of the wealth of both ways to bet."""
        self.purses = {"proposed": (share, self.now)}
        """Shares of the error that it got, and what was earned since."""
        self.best = np.full(len(GRID), -np.inf)
        """Largest logarithm so far of what a purse for all pairs has become in this one's hands."""

    def open(self, name: str, share: float) -> None:
        """A share that it gets before a round; nothing if it has one of that name."""
        self.purses.setdefault(name, (share, np.zeros((2, len(GRID)))))

    def pay(self, at: Ints, paid: Floats) -> None:
        """Adds what a round has paid at some places of the grid."""
        for _, earned in self.purses.values():
            earned[:, at] += paid
        self.best[at] = np.maximum(self.best[at], self.log_wealth(at))

    def log_wealth(self, at: Ints) -> Floats:
        """Of all of its purses together, at some places of the grid."""
        each = [
            np.logaddexp(*earned[:, at]) - math.log(2) + math.log(share)
            for share, earned in self.purses.values()
        ]
        return np.asarray(np.logaddexp.reduce(each))


class Wealth:
    """Grows by bets on rounds that were not seen when they were chosen.

    Of the error of the bounds equal parts are divided among the pairs in the order in which they
    were proposed, in that in which they were first bet on against the claim, and in that in which
    they first led, where some do: each order is known before the bets that it is about.

    Args:
        delta: δ of the bounds.
        resolution: what the sampler does not resolve: no bound rests on it.
        led: whether pairs will lead.
    """

    def __init__(self, delta: float, resolution: float = 0.0, *, led: bool = False) -> None:
        self.delta, self.resolution = delta, resolution
        self._part = 1 / 3 if led else 1 / 2
        """Of the error, that is divided in each of the orders."""
        self._leaders: list[int] = []
        self.together = np.zeros(2)
        """Logarithms of what both ways to bet against the claim have made of one purse for all."""
        self.apart: dict[int, Floats] = {}
        """The same of a purse for each arm, in the order in which they were first bet on."""
        self.best = 0.0
        """Largest logarithm of the wealth against the claim."""
        self.history: list[tuple[int, float]] = []
        """(draws per dataset, logarithm of the wealth against the claim) after each round."""
        self._loudest = np.zeros(2)
        self.most = 0.0
        """About the largest logarithm of the wealth that the same rounds could have earned."""
        self._ladders: dict[int, Ladder] = {}
        self._opened = (0, 0.0), 0.0
        """The answer of `open`, and after how many rounds it was asked with which error."""

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
        """Bets on a round.

        Args:
            before: what the arm had shown before the round.
            fresh: the round.
            points: of the claim, for the pair of the arm; empty if nothing is claimed.
            scale: loss claimed for this pair, as a multiple of the first one's.
            drawn: draws per dataset of all rounds, this one included.
            number: which arm it is, from 0, in the order in which they were proposed.
            least: standard errors by which an event must lie outside of the claim to be bet on.

        Returns:
            What the round has earned against the claim, as a logarithm.
        """
        self.pass_over(before, fresh, points)
        earned = self._bet_against_claim(number, before, fresh, points, least)
        self._bet_against_grid(number, before, fresh, scale)
        self.history.append((drawn, self.log_wealth))
        return earned

    def pass_over(self, before: Seen, fresh: Seen, points: Sequence[Point]) -> None:
        """Of a round counts what answers that always differ would have earned; see `bet`."""
        past, now = (Seen(np.array([[0], [n]]), n) for n in (before.trials, fresh.trials))
        self._loudest = self._loudest + _paid(past, now, points)
        self.most = max(self.most, _mean(self._loudest) - math.log(2))

    def lead(self, number: int) -> None:
        """From the next round on, draws are spent on a pair because its bound is the largest."""
        if number not in self._leaders:
            self._leaders.append(number)

    @property
    def log_wealth(self) -> float:
        """Logarithm of the wealth against the claim.

        Half of it was bet as one purse, which multiplies what all arms earn and lose; where many
        pairs lose a little before one is found, that is a lot. The other half was divided among the
        arms as they were first bet on, each with a purse of its own: no more is lost than what is
        in it. When an arm is first bet on is known before that bet.
        """
        purses = [_mean(own) + math.log(_share(at)) for at, own in enumerate(self.apart.values())]
        unspent = 1 - sum(_share(at) for at in range(len(self.apart)))
        apart = np.logaddexp.reduce([*purses, math.log(max(unspent, 1e-300))])
        return float(np.logaddexp(_mean(self.together), apart) - math.log(2))

    def bound(self, error: float, number: int = 0) -> float:
        """The loss of an arm's pair is at least this, in the units of the first pair's claim.

        Args:
            error: with which probability a bound of any of the arms may be wrong, at all times
                together.
            number: which arm.
        """
        return float(GRID[max(0, self._first_held(error, number) - 1)])

    def open(self, error: float) -> float:
        """The first loss that is refuted for none of the pairs."""
        about = len(self.history), error
        if self._opened[0] != about:
            held = max((self._first_held(error, number) for number in self._ladders), default=0)
            self._opened = about, float(GRID[min(len(GRID) - 1, held)])
        return self._opened[1]

    def _first_held(self, error: float, number: int) -> int:
        if number not in self._ladders:
            return 0
        held = np.flatnonzero(self._ladders[number].best < -math.log(error))
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
        ladder = self._ladders.get(number)
        if ladder is None:
            ladder = self._ladders[number] = Ladder(self._part * _share(number))
        for name, order in (("bet on", list(self.apart)), ("led", self._leaders)):
            if number in order:
                ladder.open(name, self._part * _share(order.index(number)))
        losses = GRID * scale
        most = min(largest_loss(before, self.delta, self.resolution), LARGEST)
        hopeful = (losses <= most) & (self.delta < 1)
        # What is refuted stays so, whatever it is bet against later.
        at = np.flatnonzero(hopeful & (ladder.best < RUINED))
        if not len(at):
            return
        coarse, of = np.unique(at // FINE, return_inverse=True)
        first, slope = np.exp(losses[coarse * FINE]), np.exp(losses[at])
        deltas = [self.delta + self.resolution * (1 + each) for each in (first, slope)]
        chosen = choose(*before, first, deltas[0])
        bet = Bet(chosen.event[of], chosen.q[of], chosen.p[of], chosen.z[of])
        possible = deltas[1] < 1
        paid = pay(fresh.above, fresh.trials, bet, slope, np.where(possible, deltas[1], 0.0))
        ladder.pay(at, np.where(possible, paid, 0.0))


def _paid(before: Seen, fresh: Seen, points: Sequence[Point]) -> Floats:
    """What a round pays against a claim, as logarithms of two factors."""
    guess = farthest(before, points)
    if guess is None or guess.z <= 0:
        return np.zeros(2)
    slope = np.exp([guess.point.epsilon])
    return pay(fresh.above, fresh.trials, guess.bet, slope, guess.point.delta)[:, 0]


RUINED = 100.0
"""Logarithm of a wealth against which no audit holds a loss any longer."""


def largest_loss(seen: Seen, delta: float, resolution: float = 0.0) -> float:
    """The largest loss that any event suggests; −inf if none suggests one.

    Args:
        seen: of one pair.
        delta: δ of the loss.
        resolution: what the sampler does not resolve of either probability.
    """
    q, p = ((events(*seen) + 0.5) / (seen.trials + 1)).T
    p = p - delta - resolution
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(p > 0, np.log(p / (q + resolution)), -np.inf)))
