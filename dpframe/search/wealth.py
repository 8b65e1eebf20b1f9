"""The wealth of one search: against its claim, and of each pair against losses.

Three twentieths of it are bet on one event, the rest on the whole output of the plainest attack
that shows about as much.
Some leaks show in one event, whose probability takes few draws to estimate. Other leaks are spread
over many outputs; bets on all of them earn up to five times as much.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpframe.common.types import Floats, Ints
from dpframe.count.events import Seen
from dpframe.stats.betting import Bet, choose, pay
from dpframe.stats.output_bets import Lines, Supposed, bets, grouped, lines
from dpframe.stats.output_bounds import bound, history, profile_below
from dpframe.stats.shares import learned

LOSS_LIMIT = 350.0
"""Largest loss that is bet on: squares of exponentials of larger ones overflow."""

FINE = 8  # neighbouring losses of the grid that share one event, chosen for the smallest of them

GRID = np.concatenate([[0.0], np.geomspace(0.01, 40.0, 560 * FINE - 1)])
"""Losses that bounds are taken from, 0.19 % apart."""

OPEN = 1.002  # a loss not yet refuted, as a multiple of a bound by bets on the whole output
RUINED = 100.0  # logarithm of a wealth that refutes a loss at every level of an audit


FIRST = 0.9  # share of the error of the first arm of the only pair


class Point(NamedTuple):
    """One (ε, δ) that follows from a claim."""

    epsilon: float
    delta: float


class Guess(NamedTuple):
    """The event that lies farthest outside a claim, and the point of the claim that it violates."""

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
    own = seen.outside
    bets = [(p, choose(*seen[:2], np.exp([p.epsilon]), p.delta, own)) for p in usable]
    guesses = [Guess(p, bet, float(bet.z[0]) * math.sqrt(seen.trials)) for p, bet in bets]
    return max(guesses, key=lambda guess: guess.z, default=None)


SIMILAR_SHARE = 0.9  # share of the largest distance from a claim that counts as equally far


def clearest(seen: Seen, points: Sequence[Point]) -> int | None:
    """Return the first event nearly as far outside a claim as any; None if all are inside.

    Attacks are in the order of the spec, the plainest first.
    """
    shares = (seen.hits + 0.5) / (seen.trials + 1)
    q, p = shares.T
    zs = [
        (p - math.exp(e) * q - d) / np.sqrt(math.exp(2 * e) * q * (1 - q) + p * (1 - p))
        for e, d in points
    ]
    if not zs or not len(q):
        return None
    best = np.max(zs, axis=0)
    if best.max() <= 0:
        return None
    cuts = seen.above.shape[1]
    near = np.flatnonzero(best >= SIMILAR_SHARE * best.max())
    return int(min(near, key=lambda number: (number % cuts, number)))


def on_output(before: Seen, fresh: Seen, event: int) -> tuple[Supposed, Ints]:
    """Return the output of an event's attack as estimated before, and a round in its groups."""
    past, now = before.of_attack(event), fresh.of_attack(event)
    places = before.places(event) if past.shape[1] > 2 else None
    share = learned(past, places, may_be_ratio=False)
    if before.outside is not None:  # suppose the least telling answers in place of those outside
        past[(0, 1), (np.argmin(share), np.argmax(share))] += before.outside
        share = learned(past, places, may_be_ratio=False)
    supposed, group = grouped(share, past.sum(axis=0))
    return supposed, np.stack([np.bincount(group, side, supposed.mass.size) for side in now])


@functools.lru_cache(maxsize=1024)
def _claim(points: tuple[Point, ...]) -> Lines:
    usable = [p for p in points if p.epsilon <= LOSS_LIMIT and p.delta < 1]
    epsilon, delta = np.array(usable, np.float64).T
    return lines(np.exp(epsilon), delta)


CAUTION = np.array([np.inf, 0.4, 0.2, 0.1])
"""Ways to bet on the whole output: the largest loss beyond the claimed one that each assumes."""

WAYS = 2 + len(CAUTION)  # to bet against a claim: two of them on one event
_FIRST = 0.05, 0.1, 0.15, 0.2, 0.3
SHARES = np.log([*_FIRST, 1 - sum(_FIRST)])
"""Logarithms of the shares of the wealth that are bet each way. Bets on the whole output earn more,
unless the event is rare on one side and has almost no probability on the other."""


def paid(before: Seen, fresh: Seen, points: Sequence[Point], least: float = 0.0) -> Floats | None:
    """Return the logarithm of the factor that a round earns against a claim, for each way to bet.

    None if no event lies outside the claim by more than `least` standard errors.
    """
    guess = farthest(before, points)
    if guess is None or guess.z <= least:
        return None
    slope, delta = np.exp([guess.point.epsilon]), guess.point.delta
    by_event = pay(*fresh[:2], guess.bet, slope, delta, fresh.outside)[:, 0]
    plainest = clearest(before, points)
    event = int(guess.bet.event[0]) if plainest is None else plainest
    supposed, counts = on_output(before, fresh, event)
    log_weights = bets(supposed, _claim(tuple(points)), CAUTION)
    by_output = np.sum(log_weights * counts, axis=(1, 2))
    if fresh.outside is not None:  # they earn no more than any other answer would
        by_output = by_output + log_weights.min(axis=2) @ fresh.outside
    return np.concatenate([by_event, by_output])


@functools.lru_cache(maxsize=1024)
def most_extreme(before: int, fresh: int, points: tuple[Point, ...], least: float = 0.0) -> Floats:
    """Return the gain of a round if every answer differs, in it and before it; see `paid`."""
    past, now = (Seen(np.array([[0], [n]]), n) for n in (before, fresh))
    earned = paid(past, now, points, least)
    return np.zeros(WAYS) if earned is None else earned


def mean(ways: Floats) -> float:
    """Return the logarithm of the wealth of all ways to bet together."""
    return float(np.logaddexp.reduce(ways + SHARES))


def least_losses(
    seen: Seen, delta: float, resolution: float = 0.0, errors: float = 2.0
) -> tuple[Floats, Floats]:
    """Return the loss that each event shows, and the loss minus `errors` standard errors.

    The standard errors are those of the logarithm. Each probability may be wrong by the resolution
    of the sampler. Events that show no loss have −∞.
    """
    n = seen.trials
    q, p = ((seen.hits + 0.5) / (n + 1)).T
    beyond = p > delta + resolution
    excess, base = np.where(beyond, p - delta - resolution, 1.0), q + resolution
    loss = np.where(beyond, np.log(excess / base), -np.inf)
    error = np.sqrt(p * (1 - p) / (n * excess**2) + q * (1 - q) / (n * base**2))
    return loss, np.where(beyond, loss - errors * error, -np.inf)


Profile = tuple[tuple[float, float], ...]  # certified points (ε, δ), by ascending ε


class PairWealth:
    """Wealth earned by bets on one pair, against each loss.

    Each pair has its own wealth, because a common wealth would give a pair with a small loss the
    bound of another pair. Bets on events are paid against the losses of the grid, round by round;
    bets on the whole output are computed when a bound is wanted.

    Args:
        share: share of the error that the pair has from the start.
        scale: loss claimed for the pair, as a multiple of that of the first pair.
    """

    def __init__(self, share: float, scale: float) -> None:
        self.scale = scale
        self.rounds: list[tuple[Supposed, Ints]] = []  # see `on_output`
        self.opened = {"proposed": (0, share)}
        """By reason: a number of rounds, and the share of the error of the bets after them."""
        self.now = np.zeros((2, len(GRID)))  # logarithms, for both ways to bet
        self.shares = {"proposed": (share, self.now)}
        """By reason: a share of the error, and the logarithm of its earnings since then."""
        self.best = np.full(len(GRID), -np.inf)
        """Largest logarithm so far of the wealth of all shares together."""

    def open(self, name: str, share: float) -> None:
        """Grant a share before a round; do nothing if the pair has one of that name."""
        self.shares.setdefault(name, (share, np.zeros((2, len(GRID)))))
        self.opened.setdefault(name, (len(self.rounds), share))

    def pay(self, at: Ints, paid: Floats) -> None:
        """Add the payoff of a round at some places of the grid."""
        for _, earned in self.shares.values():
            earned[:, at] += paid
        self.best[at] = np.maximum(self.best[at], self.log_wealth(at))

    def log_wealth(self, at: Ints) -> Floats:
        """Return the logarithm of the wealth of all shares, at some places of the grid."""
        each = [
            np.logaddexp(*earned[:, at]) - math.log(2) + math.log(share)
            for share, earned in self.shares.values()
        ]
        return np.asarray(np.logaddexp.reduce(each))

    def bound(self, delta: float, error: float, resolution: float) -> float:
        """Bound the loss of the pair from below, in units of the first pair's claim.

        Half of the error is for bets on events, and half for those on the whole output.
        """
        first_held, least = self.first_held(error / 2), 0.0
        if (opened := self._betting()) and delta < 1:
            least = bound(history(self.rounds), delta, error / 2, opened, resolution) / self.scale
        return max(least, float(GRID[max(0, first_held - 1)]))

    def profile(self, delta: float, error: float, near: float, resolution: float) -> Profile:
        """Bound the pair's δ(ε) from below by bets on the whole output; `near` is its bound."""
        if not (opened := self._betting()):
            return ()
        return profile_below(history(self.rounds), delta, error, near, opened, resolution)

    def _betting(self) -> list[tuple[int, float]]:
        """Return the shares that have been bet on the whole output, with their first rounds."""
        return [one for one in self.opened.values() if one[0] < len(self.rounds)]

    def first_held(self, error: float) -> int:
        """Return the index of the smallest loss of the grid that bets on events do not refute."""
        unrefuted = np.flatnonzero(self.best < -math.log(error))
        return int(unrefuted[0]) if len(unrefuted) else len(GRID)


class Wealth:
    """Wealth that grows by bets on rounds that were not seen when the bets were chosen.

    The error of the bounds is divided into equal parts, each shared among the pairs in an order: of
    their proposal, of their first bet against the claim, and, if pairs lead, of their first lead.
    Each order is known before the bets that depend on it.

    Args:
        delta: δ of the bounds.
        resolution: of the sampler; no bound relies on smaller probabilities.
        led: True if `lead` will be called.
        alone: True if there is only one pair, which then has the whole wealth and almost all error.
    """

    def __init__(
        self, delta: float, resolution: float = 0.0, *, led: bool = False, alone: bool = False
    ) -> None:
        self.delta, self.resolution, self._alone = delta, resolution, alone
        self._part = 1 / 3 if led else 1 / 2  # of the error, for each of the orders
        self._leaders: list[int] = []
        self._bettors: list[int] = []  # against the claim, in the order of their first bets
        self._aside: set[int] = set()
        self._pairs: dict[int, PairWealth] = {}
        self._bounds: dict[tuple[int, float, int], float] = {}  # by arm, error and rounds
        self._begin()

    def _begin(self) -> None:
        self.together = np.zeros(WAYS)
        """Logarithms of the wealth bet as one sum against the claim, for each way to bet."""
        self.apart: dict[int, Floats] = {}
        """The same, by arm, in the order of their first bets."""
        self.best = 0.0  # largest logarithm of the wealth against the claim
        self.history: list[tuple[int, float]] = []
        """(draws per dataset, logarithm of the wealth against the claim) after each round."""
        self._most_extreme: dict[int, Floats] = {}  # by arm
        self._opened = (0, 0.0), 0.0  # (rounds, error) of the last call of `open`, and its answer

    def without(self, number: int) -> Wealth:
        """Return a new wealth against the claim after an arm, no longer bet on, refuted it.

        Bounds continue: the pairs share one error, however often a new wealth begins.
        """
        fresh = self.afresh()
        fresh._aside = self._aside | {number}
        return fresh

    def afresh(self) -> Wealth:
        """Return a new wealth against the claim, with the same pairs; bounds continue."""
        fresh = copy.copy(self)
        fresh._begin()
        return fresh

    @property
    def most(self) -> float:
        """Approximate logarithm of the largest wealth that the same rounds could have earned.

        Rounds of arms that were given up do not count, because their evidence is ignored.
        """
        most = mean(sum(self._most_extreme.values(), np.zeros(WAYS)))
        return max(0.0, most if self._alone else most - math.log(2))

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
            least: standard errors by which an event must lie outside the claim to be bet on.

        Returns:
            Logarithm of the factor that the round has earned against the claim.
        """
        self.pass_over(number, before, fresh, points)
        earned = self.bet_against_claim(number, before, fresh, points, least)
        self._bet_against_grid(number, before, fresh, scale)
        self.history.append((drawn, self.log_wealth))
        return earned

    def pass_over(self, number: int, before: Seen, fresh: Seen, points: Sequence[Point]) -> None:
        """Add to `most` what a round would have earned if every answer differed; see `bet`."""
        past, now = (int(seen.inside.min()) for seen in (before, fresh))
        earned = most_extreme(past, now, tuple(points))
        self._most_extreme[number] = self._most_extreme.get(number, np.zeros(WAYS)) + earned

    def give_back(self, number: int) -> None:
        """Give back the gains of an arm against the claim, but not its losses.

        So the wealth is never larger than without the arm, whatever the reason for giving it up.

        Args:
            number: of the arm, which is no longer bet on.
        """
        self._aside.add(number)
        self._most_extreme.pop(number, None)
        self._opened = (0, 0.0), 0.0
        if (own := self.apart.get(number)) is not None:
            self.together = self.together - np.maximum(own, 0.0)
            self.apart[number] = np.full(WAYS, -np.inf)
            self.best = min(self.best, max(0.0, self.log_wealth))

    def lead(self, number: int) -> None:
        """Note that an arm is drawn for its bound from the next round on."""
        if number not in self._leaders:
            self._leaders.append(number)

    @property
    def log_wealth(self) -> float:
        """Logarithm of the wealth against the claim.

        Half of it is bet as one sum, which multiplies the gains and losses of all arms. If many
        pairs lose a little before one is found, much of it is lost. So the other half is divided
        among the arms in the order of their first bets, and an arm can lose no more than its share.
        This order is known before the bets.
        """
        if self._alone:
            return mean(self.together)
        shares = [mean(own) + math.log(_share(at)) for at, own in enumerate(self.apart.values())]
        unspent = 1 - sum(_share(at) for at in range(len(self.apart)))
        apart = np.logaddexp.reduce([*shares, math.log(max(unspent, 1e-300))])
        return float(np.logaddexp(mean(self.together), apart) - math.log(2))

    def supposing(self, number: int, own: Floats) -> Floats:
        """Return `log_wealth` as if an arm had earned something else.

        Args:
            number: of the arm.
            own: logarithms of its earnings, shape [ways, ...].
        """
        if self._alone:
            return np.asarray(np.logaddexp.reduce(own + SHARES[:, None]), np.float64)
        before = {n: each[:, None] for n, each in self.apart.items()} | {number: own}
        shares = SHARES[:, None]
        mean = {n: np.logaddexp.reduce(each + shares) for n, each in before.items()}
        apart = [each + math.log(_share(at)) for at, each in enumerate(mean.values())]
        unspent = 1 - sum(_share(at) for at in range(len(mean)))
        others = self.together - self.apart.get(number, np.zeros(WAYS))
        combined = np.logaddexp.reduce(others[:, None] + own + shares)
        for each in (*apart, math.log(max(unspent, 1e-300))):
            combined = np.logaddexp(combined, each)
        return np.asarray(combined - math.log(2))

    def bound(self, error: float, number: int = 0) -> float:
        """Bound the loss of an arm's pair from below, in units of the first pair's claim.

        Args:
            error: probability that a bound of any arm is wrong at any time.
            number: of the arm.
        """
        if (own := self._pairs.get(number)) is None:
            return 0.0
        if (about := (number, error, len(own.rounds))) not in self._bounds:
            self._bounds[about] = own.bound(self.delta, error, self.resolution)
        return self._bounds[about]

    def profile(self, error: float, number: int = 0) -> Profile:
        """Bound the privacy profile of an arm's pair from below: points (ε, δ), by ascending ε.

        Args:
            error: probability that any point of any arm is wrong at any time.
            number: of the arm.
        """
        if (own := self._pairs.get(number)) is None:
            return ()
        near = own.scale * self.bound(error, number)
        return own.profile(self.delta, error, near, self.resolution)

    def open(self, error: float) -> float:
        """Return the smallest loss that is not refuted for any pair that was not given up."""
        about = len(self.history), error
        if self._opened[0] != about:
            left = [number for number in self._pairs if number not in self._aside]
            place = max((self._pairs[number].first_held(error / 2) for number in left), default=0)
            bound = max((self.bound(error, number) for number in left), default=0.0)
            self._opened = (about, max(OPEN * bound, float(GRID[min(len(GRID) - 1, place)])))
        return self._opened[1]

    def bet_against_claim(
        self, number: int, before: Seen, fresh: Seen, points: Sequence[Point], least: float
    ) -> float:
        """Bet on a round against the claim alone; see `bet`."""
        earned = paid(before, fresh, points, least)
        if earned is None:
            return 0.0
        if number not in self._bettors:
            self._bettors.append(number)
        old = self.apart.get(number, np.zeros(WAYS))
        self.apart[number] = old + earned
        self.together = self.together + earned
        self.best = max(self.best, self.log_wealth)
        return mean(self.apart[number]) - mean(old)

    def _bet_against_grid(self, number: int, before: Seen, fresh: Seen, scale: float) -> None:
        own = self._pairs.get(number)
        if own is None:
            share = self._part * _share(number)
            if self._alone:  # other arms of the pair look behind its leaks
                share = FIRST if number == 0 else (1 - FIRST) * _share(number - 1)
            own = self._pairs[number] = PairWealth(share, scale)
        for name, order in (("bet on", self._bettors), ("led", self._leaders)):
            if number in order and not self._alone:
                own.open(name, self._part * _share(order.index(number)))
        losses = GRID * scale
        shown, sure = least_losses(before, self.delta, self.resolution)
        largest_shown = min(np.max(shown, initial=-np.inf), LOSS_LIMIT)
        # Bounds from whole outputs know no answers outside.
        if largest_shown > 0 and before.trials and before.outside is None:
            # Without the standard errors the luckiest event would choose the attack.
            own.rounds.append(on_output(before, fresh, int(np.argmax(sure))))
        possible = (losses <= largest_shown) & (self.delta < 1)
        # A refuted loss stays refuted, whatever later rounds would bet against it.
        at = np.flatnonzero(possible & (own.best < RUINED))
        if not len(at):
            return
        coarse, of = np.unique(at // FINE, return_inverse=True)
        first, slope = np.exp(losses[coarse * FINE]), np.exp(losses[at])
        deltas = [self.delta + self.resolution * (1 + each) for each in (first, slope)]
        chosen = choose(*before[:2], first, deltas[0], before.outside)
        bet = Bet(chosen.event[of], chosen.q[of], chosen.p[of], chosen.z[of])
        usable = deltas[1] < 1
        delta = np.where(usable, deltas[1], 0.0)
        earned = pay(*fresh[:2], bet, slope, delta, fresh.outside)
        own.pay(at, np.where(usable, earned, 0.0))


def _share(number: int) -> float:
    """Return the share of the nth arm: 1/2, 1/6, 1/12, …; they never sum to more than 1."""
    return 1 / ((number + 1) * (number + 2))
