"""One search: spend its draws on many pairs, then on those that show most."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.engine.checkpoint import Saved
from dpframe.engine.checks import guarded
from dpframe.engine.fingerprint import source_of, told_as
from dpframe.errors import CellError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import Earned
from dpframe.sampling.address import EVAL, Stream, digest, host_generator
from dpframe.search.arms import SHARE, WARM_UP
from dpframe.search.box_arms import LARGEST as LOOKED
from dpframe.search.box_arms import BoxArm, Haste, is_fast
from dpframe.search.box_draws import MOST_PAIRS
from dpframe.search.proposals import Maker
from dpframe.search.wealth import LOSS_LIMIT, Point, Wealth, farthest
from dpframe.stats.betting import events
from dpframe.workers.scheduling import GRACE, Clock, Overdue
from dpframe.workers.sensitivity import SensitivityCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.common.types import Floats
    from dpframe.engine.checkpoint import Store
    from dpframe.interfaces.pair import Pair
    from dpframe.search.arms import Counter
    from dpframe.search.proposals import AnyArm
    from dpframe.search.runner import Settings
    from dpframe.search.wealth import Seen
    from dpframe.spec.audit import Cell, Choice


# What may be hoped for of a pair that has shown little.


FARTHEST = -4.0
"""Standard errors inside of the claim beyond which all pairs are alike."""


def hoped(z: float) -> float:
    """Mean of the square of what is positive of a normal variable.

    Args:
        z: its mean, in units of its standard deviation.
    """
    z = max(z, FARTHEST)
    density = math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return (1 + z**2) * math.erfc(-z / math.sqrt(2)) / 2 + z * density


# Where the draws of a search go: by what they may earn, or to the pair with the largest bound.


SURE = 3.0
"""Standard errors of the logarithm by which the loss of the pair that leads is surely larger."""

OTHERS = 0.2
"""Of the draws after a claim is refuted, those of pairs that do not lead."""

UNDECIDED = 0.3
"""Of the draws while it is not."""


def least_losses(
    seen: Seen, delta: float, resolution: float = 0.0, errors: float = 2.0
) -> tuple[Floats, Floats]:
    """The loss that each event shows, and the same less some standard errors of its logarithm.

    Args:
        seen: of one pair.
        delta: δ of the loss.
        resolution: what the sampler does not resolve of either probability.
        errors: how many.

    Returns:
        −∞ where an event shows no loss.
    """
    n = seen.trials
    q, p = ((events(*seen) + 0.5) / (n + 1)).T
    beyond = p > delta + resolution
    excess, base = np.where(beyond, p - delta - resolution, 1.0), q + resolution
    loss = np.where(beyond, np.log(excess / base), -np.inf)
    error = np.sqrt(p * (1 - p) / (n * excess**2) + q * (1 - q) / (n * base**2))
    return loss, np.where(beyond, loss - errors * error, -np.inf)


class Leading:
    """Who is drawn from for a bound: the pair that leads, and others, which may overtake it.

    Args:
        delta: δ of the bound.
        resolution: what the sampler does not resolve.
    """

    def __init__(self, delta: float, resolution: float) -> None:
        self._about = delta, resolution
        self._led = self._others = 0

    def pick(
        self, arms: Sequence[AnyArm], growth: Callable[[AnyArm], float], share: float
    ) -> tuple[AnyArm, bool]:
        """Who is next, and whether it leads.

        Args:
            arms: of the search.
            growth: about how much a draw would earn against the claim or, once that is refuted,
                against what is not.
            share: of the draws, that others than the one that leads get.
        """

        def shown(arm: AnyArm) -> float:
            return (
                float(np.max(least_losses(arm.seen, *self._about)[1], initial=-np.inf)) / arm.scale
            )

        leader = max(arms, key=shown)
        others = [arm for arm in arms if arm is not leader]
        if others and self._others < share * (self._led + self._others):
            return max(others, key=growth), False
        return leader, True

    def spent(self, draws: int, *, leads: bool) -> None:
        """Draws were made of who was picked."""
        if leads:
            self._led += draws
        else:
            self._others += draws


# The time that a search had before it was interrupted: it gets what is left of its seconds.


LEAST = 0.1
"""Share of its seconds that a search gets however often it was interrupted."""

EVERY = 0.5
"""Seconds after which they are put down again."""


class Spent:
    """What a search has used of its seconds, kept beside its counts until it has come to its end.

    Who goes on takes the same steps again, with answers that are kept; that costs none of them.

    Args:
        store: where it is kept.
        stream: address of the search.
        key: of what is searched.
        clock: of the search.
        limit: its seconds; None where time is no budget.
    """

    def __init__(
        self, store: Store, stream: Stream, key: str, clock: Clock, limit: float | None
    ) -> None:
        self._store, self._stream, self._key = store, stream, key
        self._clock, self._limit = clock, limit
        kept = None if limit is None else store.load(stream, key)
        self._until = 0 if kept is None else kept.done[0]
        """Draws of the try before this one that are still to be gone through."""
        self._seconds = 0.0 if kept is None else float(kept.leaves[0])

    def note(self, drawn: int) -> None:
        """Takes in how far the search has come.

        Args:
            drawn: draws of each dataset until now.
        """
        if self._limit is None:
            return
        if drawn < self._until:
            self._clock.set(0.0)
            return
        if self._until:
            self._until = 0
            self._clock.set(min(self._seconds, (1 - LEAST) * self._limit))
            return
        used = self._clock.used()
        if used >= self._seconds + EVERY:
            self._seconds = used
            self._store.save(self._stream, self._key, Saved((drawn, drawn), [round(used, 3)]))

    def forget(self) -> None:
        """The search has come to its end; who repeats it has all of its seconds."""
        self._store.forget(self._stream, self._key)


# What a search asks of its draws: another question of the same draws is another look at them.


def asked_of_draws(cell: Cell, seconds: float | None) -> list[Any]:
    """What makes a search another one at the same draws; more trials only where they begin it anew.

    Args:
        cell: what is searched.
        seconds: budget of a box; half of it decides how many pairs are begun.
    """
    assert cell.search is not None
    search = cell.search
    chosen: list[Choice[Any]] = [search.neighbourhood, *search.attacks]
    kinds: list[Any] = [type(choice.value) for choice in chosen]
    values = [
        [choice.distribution, choice.use, choice.value.params(), source_of(kind)]
        for choice, kind in zip(chosen, kinds, strict=True)
    ]
    begins = min(cell.trials, math.ceil(WARM_UP / SHARE))
    asked = [search.mechanism.value.params(), values, repr(cell.delta), begins]
    if isinstance(search.mechanism.value, HostMechanism):
        asked += [seconds, told_as(search.mechanism)]
    return asked


# Spends the draws of one search: many pairs cheaply, then those that show most.


PROPOSALS = 1 / 2
"""Share of the trials after which no pair is warmed up any more: what is left is bet on."""

AGAIN = 16, 256
"""Draws after which more pairs are proposed, as a multiple of those after the last time: where no
pair looks promising, and where one does."""

FOR_BOUND = 1 << 20
"""Draws after which a search that goes on to the end draws for its bound too, whatever it shows."""

PROMISING = 3.0
"""Standard errors beyond a claim that are hardly the luck of one among many events."""

LUCK = 1.0
"""Standard errors that the luckiest of a pair's events owes to its luck."""

NO_PAIR = "the neighbourhood proposed no pair in which D and D′ differ"

ONE_EXCEPTION = (
    "all answers, on D and on D′ of every pair, were one and the same exception: nothing is tested"
    ". The last one {}"
)

PROPOSE = "proposals"
"""Stream of what a neighbourhood makes up."""


class Hunt:
    """One search.

    Args:
        cell: what is searched; its `search` says where.
        settings: of the run.
        count: calls functions, perhaps at once, and returns what they gave.
        progress: told how many draws were made, on both datasets together.
    """

    def __init__(
        self, cell: Cell, settings: Settings, count: Counter, progress: Callable[[int], None]
    ) -> None:
        assert cell.search is not None
        self.cell, self.search, self.settings = cell, cell.search, settings
        self.error = settings.error_of(cell)
        self.arms: list[AnyArm] = []
        about = cell.delta, settings.resolution_of(cell)
        self.wealth = Wealth(*about, led=not settings.ends_when_decided)
        self._leading = Leading(*about)
        self.drawn = 0
        """Draws of each dataset, of all pairs together."""
        self.ended_by_time = False
        self._count, self._progress = count, progress
        limit = settings.run.seconds
        self._clock = Clock(None if limit is None else max(limit, GRACE))
        self.maker = Maker(cell, settings, self._clock)
        self.sensitivity = SensitivityCheck(
            self.search.mechanism.value, settings.source, settings.run
        )
        self._stream = Stream(cell.seed, self.maker.group([]), cell.repeat, EVAL)
        self._question = digest([*asked_of_draws(cell, limit), repr(self.error)])
        self._haste = Haste(settings.store, self._stream, f"looks-{self._question}")
        where = settings.store, self._stream, f"spent-{self._question}"
        self._spent = Spent(*where, self._clock, limit)
        self._known: dict[Pair, AnyArm | None] = {}
        """Every proposed pair, in order, with its arm if draws were spent on it."""
        self._waiting: list[Pair] = []
        """Proposed pairs that were not drawn from yet."""
        self._asked_at = 0
        """Draws when the neighbourhood was last asked."""
        self._most_begun: int | None = None
        """Pairs after which no more were begun, once half of the time was spent."""
        self._silent = 0
        """Pairs on which every answer was one exception."""
        self._raised = "has no text"
        """The last of these exceptions, in words."""
        self._rounds = 0
        self._zs: dict[int, tuple[Any, float]] = {}
        """Of each arm what its standard errors were asked of, and how many they are."""

    def run(self) -> None:
        """Searches until the draws, or the time, are spent or the question is answered.

        Raises:
            CellError: what makes the draws, or proposes pairs, cannot be used.
            WorthlessError: answers of a box depend on each other.
        """
        try:
            with self._clock.running():
                while not self._is_decided() and self._goes_on():
                    pass
        except Overdue:  # the round that was being drawn counts for nothing
            self.ended_by_time = True
        for arm in self.arms:
            if arm.at_once:
                arm.conclude()
        self._spent.forget()

    def _is_half_spent(self) -> bool:
        """Whether no more pairs are begun, because half of the time is spent on those that were.

        How many there were is kept: whoever repeats the search bets on the same rounds.
        """
        limit, begun = self.settings.run.seconds, len(self._known)
        if limit is None or not any(arm.at_once for arm in self.arms):
            return False
        key, stream = f"begun-{self._question}", self._stream
        if self._most_begun is None:
            kept = self.settings.store.load(stream, key)
            if kept is not None:
                self._most_begun = kept.done[0]
            elif (left := self._clock.left()) is not None and left < limit / 2:
                self.settings.store.save(stream, key, Saved((begun, begun), [begun]))
                self._most_begun = begun
        return self._most_begun is not None and begun >= self._most_begun

    def _goes_on(self) -> bool:
        """Takes a step; False if there is none."""
        is_half_spent = self._is_half_spent()
        if self._waiting and is_half_spent:
            self._waiting.clear()
            self._asked_at = self.drawn
        if self._waiting and not any(arm.at_once and self._z(arm) > PROMISING for arm in self.arms):
            self._begin(self._waiting.pop(0))
            if not self._waiting:
                self._asked_at = self.drawn
            return True
        if not self._waiting and not is_half_spent and self._wants_more():
            self._propose()
            self._asked_at = self.drawn
            return True
        if not self.arms:
            raise CellError(ONE_EXCEPTION.format(self._raised) if self._silent else NO_PAIR)
        arm, leads = self._next()
        looked = self._look_at(arm)
        draws = looked or arm.next_round(self._left)
        if not draws:
            return False
        left = self._clock.left()
        if left is not None and left <= 0:
            self.ended_by_time = True
            return False
        if leads and not looked:
            self.wealth.lead(self.arms.index(arm))
        self._leading.spent(draws, leads=leads)
        (self._look if looked else self._bet)(arm, draws)
        return True

    def _look_at(self, arm: AnyArm) -> int:
        """Draws of each dataset that a pair of a fast box gets before it is bet on; perhaps 0."""
        if not isinstance(arm, BoxArm) or self.settings.run.seconds is None or not self.has_bet:
            return 0
        if self._z(arm) > arm.least or arm.trials >= LOOKED:
            return 0
        most = self._left // (2 * len(self.arms))
        paces = [told for a in self.arms if isinstance(a, BoxArm) for told in a.paces]
        return arm.up_to(self._haste.next(is_fast(arm.paces, paces), most), self._left)

    @property
    def has_bet(self) -> bool:
        """Whether anything was bet on."""
        return self._rounds > 0

    def witness(self) -> AnyArm:
        """The pair that has earned most; before any has, the one that suggests most.

        Where draws go on for the bound, the pair that has the largest.
        """
        if not self.settings.ends_when_decided:
            bounds = [self.wealth.bound(self.error, number) for number in range(len(self.arms))]
            if max(bounds) > 0:
                return self.arms[bounds.index(max(bounds))]
        best = max(self.arms, key=lambda arm: arm.earned)
        return best if best.earned > 0 else max(self.arms, key=self._suggests)

    def target(self, arm: AnyArm) -> tuple[Point, ...]:
        """What is worth betting against: the claim; once that is refuted, what still holds."""
        if arm.claim is not None and not self.is_refuted():
            return arm.points
        open_ = min(self.wealth.open(self.error) * arm.scale, LOSS_LIMIT)
        return (Point(open_, self.cell.delta + self.wealth.resolution * (1 + math.exp(open_))),)

    @property
    def _left(self) -> int:
        return self.cell.trials - self.drawn

    def is_refuted(self) -> bool:
        """Whether the claim is."""
        return self.wealth.best >= -math.log(self.error)

    def _is_decided(self) -> bool:
        return self.settings.ends_when_decided and self.is_refuted()

    def _wants_more(self) -> bool:
        return self.drawn >= AGAIN[self._is_promising()] * self._asked_at

    def _is_promising(self) -> bool:
        return any(self._z(arm) > PROMISING for arm in self.arms)

    def _propose(self) -> None:
        history = [
            Earned(pair, arm.trials, self._growth(arm)) if arm else Earned(pair, 0, 0.0)
            for pair, arm in self._known.items()
        ]
        rng = host_generator(
            Stream(self.cell.seed, self.maker.group([]), self.cell.repeat, PROPOSE), len(self.arms)
        )
        neighbourhood = self.search.neighbourhood.value
        proposed = guarded("propose", lambda: list(neighbourhood.propose(rng, history)))
        proposed = self.sensitivity.look([pair for pair in proposed if pair not in self._known])
        self._waiting = list(dict.fromkeys(proposed))[: MOST_PAIRS - len(self.arms)]

    def _begin(self, pair: Pair) -> None:
        """Draws from a pair for the first time."""
        self._known[pair] = None
        if (arm := self.maker.arm(pair)) is None:
            return
        needed = arm.first()
        if self.drawn + needed > (PROPOSALS if self.arms else 1) * self.cell.trials:
            if not self.arms:
                raise CellError(f"a search takes {needed} trials to begin with, and more to go on")
            self._waiting.clear()
            return
        arm.warm_up(self._count)
        if isinstance(arm, BoxArm) and arm.shows_nothing:
            self._silent += 1
            self._raised = self.settings.source.words.get(arm.first_kind, self._raised)
            self._spend(arm.trials)
            return
        self.arms.append(arm)
        self._known[pair] = arm
        self._spend(arm.trials)

    def _next(self) -> tuple[AnyArm, bool]:
        """Who is drawn from next, and whether that is because its bound is the largest."""
        if not self.settings.ends_when_decided:
            refuted = self.is_refuted()
            idle = self.drawn >= FOR_BOUND and not self._is_promising()
            if refuted or idle:
                share = OTHERS if refuted else UNDECIDED
                return self._leading.pick(self.arms, self._growth, share)
        return max(self.arms, key=lambda arm: (self._growth(arm), self._suggests(arm))), False

    def _growth(self, arm: AnyArm) -> float:
        """About how much a draw would earn, on average over what the pair may be.

        What it has shown is off by one standard error. So a pair that shows little is looked at
        again some time, and one that lies well inside of the claim after all others.
        """
        z, trials = self._z(arm), arm.seen.trials
        if arm.at_once and z <= arm.least:  # a look comes first, on which nothing is earned
            trials = max(trials, self._haste.last // 2)
        return hoped(z - LUCK) / (2 * trials)

    def _suggests(self, arm: AnyArm) -> float:
        return self._z(arm) / math.sqrt(arm.seen.trials)

    def _z(self, arm: AnyArm) -> float:
        key = (arm.drawn, self.target(arm))
        if self._zs.get(id(arm), ((), 0.0))[0] != key:
            guess = farthest(arm.seen, key[1])
            self._zs[id(arm)] = key, -math.inf if guess is None else guess.z
        return self._zs[id(arm)][1]

    def _look(self, arm: AnyArm, draws: int) -> None:
        """Nothing would have been bet on what the pair had shown: answers to learn from."""
        before = arm.seen
        fresh = arm.draw(draws, self._count)
        self._spend(draws)
        self.wealth.pass_over(before, fresh, arm.points)
        arm.take_in(fresh, self._count)

    def _bet(self, arm: AnyArm, draws: int) -> None:
        before = arm.seen
        fresh = arm.draw(draws, self._count)
        self._spend(draws)
        where = arm.scale, self.drawn, self.arms.index(arm), arm.least
        arm.earned += self.wealth.bet(before, fresh, arm.points, *where)
        self._rounds += 1
        arm.take_in(fresh, self._count)

    def _spend(self, draws: int) -> None:
        self.drawn += draws
        self._spent.note(self.drawn)
        self._progress(2 * draws)
