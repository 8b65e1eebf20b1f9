"""One search: draw from many pairs, then from those that show the largest losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from dpframe.common.types import HostArray
from dpframe.count.checkpoint import Store
from dpframe.count.events import Seen
from dpframe.count.kept_answers import LOOKS, KeptChoices, fitting_look
from dpframe.count.pair_pass import Counter
from dpframe.count.plan import Plan
from dpframe.draw import requests, trial_call
from dpframe.draw.scheduling import LEAST_SECONDS, Clock
from dpframe.draw.streams import digest
from dpframe.engine.ledger import resolution_of, share_of_error
from dpframe.interfaces.executor import Executor
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.results.verdict import Looks, equal_scores
from dpframe.search import leaks
from dpframe.search.arms import Arm
from dpframe.search.black_box_arms import BlackBoxArm
from dpframe.search.proposals import CRASHES, Proposals
from dpframe.search.wealth import LOSS_LIMIT, Point, Wealth, farthest, least_losses
from dpframe.spec.audit import Cell, RunSettings

MOST_FRUITLESS = 16  # largest number of unusable proposals in a row

PROPOSE_AGAIN = 16, 256
"""Factors by which draws grow before more pairs are proposed: if no pair is promising, and if one
is."""

AFTER_LOOKS = 2.0  # the same factor, if no pair is promising after a look at every pair

FOR_BOUND = 1 << 20
"""Draws after which a search that uses all of its trials draws for its bound, even without a
refutation."""

PROMISING = 3.0  # standard errors beyond a claim that the best event hardly reaches by chance
LUCK = 1.0  # standard errors that the best event of a pair reaches by chance, approximately

EARLY_DRAWS = 5_000
"""Draws of each dataset before which a drift of a black box is hardly noticed.

Draws of an unseeded black box cannot be repeated, so a second batch confirms its refutation."""

CONFIRMED = 2, 8
"""Draws of the second batch as multiples of the first: with fewer, the first decides and the record
says that it is not confirmed; without a refutation after more, the search ends."""

NO_PAIR = "the neighbourhood proposed no pair in which D and D′ differ"

ALL_KNOWN = "all pairs show ignored leaks, or nothing: no other pair was proposed"

EndedBy = Literal["decided", "trials", "seconds", "pairs", "lost"]  # as in `CoverageRecord`


class Settings(NamedTuple):
    """The settings and services of a run that one of its searches uses."""

    plan: Plan
    run: RunSettings
    store: Store
    source: requests.WorkerSource
    executor: Executor  # counts and draws traced mechanisms
    question: str  # digest of the search's question
    look: Callable[[Sequence[HostArray], Looks | None], Looks]
    """Numbers the look at the draws, given the counts of each round and the look before them."""
    at_once: Counter
    note_draws: Callable[[int], None]  # takes the number of draws made, on both datasets together


class SearchOutcome(NamedTuple):
    """A finding, or the present state: the bets since the previous finding."""

    arm: Arm  # the witness
    wealth: Wealth
    refuted: bool
    name: str  # of the leak


class SearchRun:
    """The run of one search.

    All draws are bet on under one wealth. A pair that shows a known leak is set aside, and gives
    its gains back; another arm goes on with its other answers. If a known leak refutes the claim,
    a new wealth starts. None of this makes it more probable that a true claim is refuted.
    """

    def __init__(self, cell: Cell, settings: Settings) -> None:
        assert cell.search is not None
        self.cell, self.search, self.settings = cell, cell.search, settings
        self.looks = settings.look((), None)
        self._delta_and_resolution = cell.delta, resolution_of(cell, settings.plan)
        self._ends_when_decided = settings.run.stop == "decided" or self.search.findings > 1
        self.wealth = Wealth(
            *self._delta_and_resolution,
            led=not self._ends_when_decided,
            alone=self.search.one_pair,
        )
        self.known = leaks.KnownLeaks(self.search.ignore)
        self.outcomes: list[SearchOutcome] = []
        """Distinct refutations, in order, if more than one is wanted."""
        self.first_best = math.inf  # largest logarithm of the first one's wealth
        self._early_refutation: SearchOutcome | None = None
        """A refutation by few draws of an unseeded black box, which a second batch confirms."""
        self._early_draws = 0
        self._draws_for_bound = False  # True if the claim is refuted and draws continue
        self.drawn = 0  # draws of each dataset, of all pairs together
        self.ended_by: EndedBy = "decided"
        self._leading = Leading(*self._delta_and_resolution)
        limit = settings.run.seconds
        self._clock = Clock(None if limit is None else max(limit, LEAST_SECONDS))
        self.proposals = Proposals(cell, settings, self._clock)
        self.arms = self.proposals.arms
        question = digest([settings.question, repr(self.error)])
        self._kept = KeptChoices(
            settings.store, self.proposals.stream, question, self._clock, limit
        )
        self._drawn_at_proposal = 0  # draws at the last proposal
        self._picks = 0  # of pairs to draw from, while none is promising
        self._fruitless = 0  # proposals in a row without draws between them
        self._rounds: list[HostArray] = []  # what was counted, round by round
        self._known_zs: dict[int, tuple[Any, float]] = {}  # results of `_z`, with their arguments

    @property
    def error(self) -> float:
        """The cell's share of the error, at its look."""
        return share_of_error(self.cell, self.settings.plan) / self.looks.price

    def run(self) -> None:
        """Search until the draws or the time are spent, or the claim is decided.

        Raises CellError if a plugin cannot be used, WorthlessError if answers of a black box depend
        on each other.
        """
        try:
            with self._clock.running():
                self._allow_time()
                while not (self._is_computed() or self._is_decided()) and self._take_step():
                    self._allow_time()
        except requests.DeadlinePassed:  # the unfinished round does not count
            self.ended_by = "seconds"
        for arm in self.pairs:
            if isinstance(arm, BlackBoxArm):
                arm.conclude()
        self._kept.forget_time()

    def _allow_time(self) -> None:
        """Allow more time as long as even the most extreme answers could not refute the claim."""
        run = self.settings.run
        if run.seconds is not None and run.extended is not None:
            enough = self.wealth.most >= -math.log(self.error) or self.proposals.stated.gives
            self._clock.limit_to(max(run.seconds if enough else run.extended, LEAST_SECONDS))

    def settle(self) -> None:
        """Number the look by the draws made, and charge for it; it may be a later one."""
        self.looks = self.settings.look(self._rounds, self.looks)
        needed = -math.log(self.error)
        if self._early_refutation is not None:
            early = self._early_refutation
            self._early_refutation = early._replace(refuted=early.wealth.best >= needed)
        outcomes = [one._replace(refuted=one.wealth.best >= needed) for one in self.outcomes]
        # The bets of one outcome, continued by those of the next, are also bets against the claim.
        self.outcomes = [one for one in outcomes if one.refuted] or outcomes[:1]
        # Leaks that need data beyond the schema are listed last. Answers decide this order, so the
        # first of them all limits the cell's p-value.
        self.first_best = min((one.wealth.best for one in self.outcomes[:1]), default=math.inf)
        self.outcomes.sort(key=lambda one: leaks.FEATURES in one.name)

    @property
    def has_bet(self) -> bool:
        """True if any round was bet on."""
        return len(self._rounds) > 0

    def is_refuted(self) -> bool:
        """True if the bets since the previous finding refute the claim."""
        return self.wealth.best >= -math.log(self.error)

    def outcome(self) -> SearchOutcome:
        """Return the first finding, or else the present state."""
        if self.outcomes:
            return self.outcomes[0]
        arm, refuted = self.witness(), self.is_refuted()
        if (
            self._early_refutation is not None
            and not refuted
            and not self._has_second_batch(CONFIRMED[0])
        ):
            return self._early_refutation
        return SearchOutcome(arm, self.wealth, refuted, self._name(arm)[0])

    def witness(self) -> Arm:
        """Return the pair with the largest bound, if the search draws for a bound and has one.

        Otherwise return the pair that has earned most; if none has earned, the one whose best event
        lies farthest outside the claim.
        """
        active = self._active or self.arms
        if not self._ends_when_decided:
            numbers = [number for number, arm in enumerate(self.arms) if arm in active]
            bounds = {number: self.wealth.bound(self.error, number) for number in numbers}
            best_bounded = max(numbers, key=lambda number: bounds[number])
            if bounds[best_bounded] > 0:
                return self.arms[best_bounded]
        best = max(active, key=lambda arm: arm.earned)
        return best if best.earned > 0 else max(active, key=self._effect)

    def leak(self, arm: Arm, *, refuted: bool) -> leaks.Leak:
        """Return the most telling event of a pair."""
        words = self.settings.source.words
        return leaks.leak_of(
            arm, self.search.attacks, words, self._delta_and_resolution, refuted=refuted
        )

    def untested(self) -> str | None:
        """Return why nothing was tested: all answers on all pairs, or all scores, were the same."""
        black_box, number = self.search.mechanism, 2 * self.drawn
        arms = [arm for arm in self.arms if isinstance(arm, BlackBoxArm)]
        if black_box.constant:
            return None
        if arms:
            answers = set[tuple[int, int]]().union(*(arm.answers for arm in arms))
            words = self.settings.source.words
            one_answer = trial_call.one_answer(answers, black_box.label, number, words)
            # A black box may give one answer on a pair and another one on the next pair.
            if one_answer is not None or all(len(arm.answers) == 1 for arm in arms):
                return one_answer
        labels = ", ".join(attack.label for attack in self.search.attacks)
        return (
            equal_scores(number, labels) if all(arm.shows_one_output for arm in self.arms) else None
        )

    def examples(self, arm: Arm, leak: leaks.Leak) -> dict[str, Any]:
        """Return outputs in the event of a leak and outside, if its attack has no words for it."""
        return {} if leak.has_words else arm.examples(leak.number, self.settings.source.words)

    def _name(self, arm: Arm) -> tuple[str, float]:
        """Return the name of a pair's leak, and the largest loss that it may have."""
        leak, words = self.leak(arm, refuted=True), self.settings.source.words
        return leaks.name_of(leak, arm, self.search.neighbourhood.value, words), leak.most

    @property
    def pairs(self) -> list[Arm]:
        """The last arm of each pair; an arm behind a leak continues the draws of another one."""
        return list({arm.group: arm for arm in self.arms}.values())

    @property
    def _active(self) -> list[Arm]:
        """The pairs that are not set aside."""
        return [arm for arm in self.arms if not arm.known]

    def target(self, arm: Arm) -> tuple[Point, ...]:
        """Return the points to bet against: the claim's or, once it is refuted, the least loss."""
        if arm.claim is not None and not self.is_refuted():
            return arm.points
        least_open = min(self.wealth.open(self.error) * arm.scale, LOSS_LIMIT)
        return (
            Point(
                least_open, self.cell.delta + self.wealth.resolution * (1 + math.exp(least_open))
            ),
        )

    def _begin_confirmation(self) -> None:
        """Begin a second batch if few draws of a black box without a seed refute the claim."""
        early = self.drawn < EARLY_DRAWS and self._early_refutation is None and not self.outcomes
        seeded = getattr(self.search.mechanism.value, "seedable", True)  # traced ones are, too
        if seeded or not (early and self.is_refuted()):
            return
        arm = self.witness()
        name, most = self._name(arm)
        if self.known.has(name, most):  # it is set aside, and decides nothing
            return
        self._early_refutation = SearchOutcome(arm, self.wealth, True, name)
        self._early_draws = self.drawn
        self._begin_wealth(self.wealth.afresh())

    def _has_second_batch(self, factor: int) -> bool:
        """True if the second batch has as many draws as some multiple of the first."""
        return self.drawn - self._early_draws >= factor * self._early_draws

    @property
    def drift(self) -> str | None:
        """The reason to doubt a refutation that was not confirmed; None without one."""
        if self._early_refutation is None or self.is_refuted() or self.outcomes:
            return None
        first, more = self._early_draws, self.drawn - self._early_draws
        return (
            f"the first {first:,} draws of each dataset refuted the claim, and the next {more:,} "
            "alone did not; the black box takes no seed and may have drifted"
        )

    def _is_computed(self) -> bool:
        """True if a stated distribution violates the claim and the search ends by that."""
        return self._ends_when_decided and self.has_bet and self.proposals.stated.exceeds

    def _is_decided(self) -> bool:
        """True if the search ends; sets a leak aside if others are wanted."""
        self._begin_confirmation()
        self._draws_for_bound &= self.is_refuted()  # a pair may have given its gains back
        if self._draws_for_bound or not self.is_refuted():
            unconfirmed = self._early_refutation is not None and not (
                self._draws_for_bound or self.outcomes
            )
            return unconfirmed and self._ends_when_decided and self._has_second_batch(CONFIRMED[1])
        wanted = self.search.findings
        if wanted == 1 and not self.known:
            return self._ends_when_decided
        arm = self.witness()
        name, most = self._name(arm)
        if not self.known.has(name, most):
            if wanted == 1:
                self._draws_for_bound = (
                    not self._ends_when_decided
                )  # further draws are for the bound
                return self._ends_when_decided
            self.outcomes.append(SearchOutcome(arm, self.wealth, True, name))
            self.known.add(name, most)
            if len(self.outcomes) == wanted:
                return True
        self._begin_wealth(self.wealth.without(self.arms.index(arm)))
        self._look_behind(arm, name)
        return False

    def _look_behind(self, arm: Arm, name: str) -> None:
        """Set aside a pair with a known leak; bet on its later answers of other kinds instead."""
        arm.known = name
        if isinstance(arm, BlackBoxArm) and (behind := arm.behind()) is not None:
            self.arms.append(behind)

    def _begin_wealth(self, wealth: Wealth) -> None:
        self.wealth = wealth
        for arm in self.arms:
            arm.earned = 0.0

    def _set_aside(self, arm: Arm) -> bool:
        """Set a pair aside if it shows a known leak; True if so."""
        if self.known and self._z(arm) > PROMISING and self.known.has(*(leak := self._name(arm))):
            arm.earned = 0.0
            self.wealth.give_back(self.arms.index(arm))
            self._look_behind(arm, leak[0])
        return bool(arm.known)

    def _is_promising(self) -> bool:
        return any(self._z(arm) > PROMISING for arm in self._active)

    @property
    def _left(self) -> int:
        return self.cell.trials - self.drawn

    def _take_step(self) -> bool:
        """Take one step; False if none is left."""
        waiting, active = self.proposals.waiting, self._active
        is_half_spent = (
            self._is_black_box
            and len(self.arms) > 0
            and self._kept.are_enough(len(self.proposals.begun))
        )
        if waiting and is_half_spent:
            waiting.clear()
            self._drawn_at_proposal = self.drawn
        # A promising pair of a black box is followed before other pairs are begun.
        if waiting and not (self._is_black_box and self._is_promising()):
            if draws := self.proposals.begin(self.drawn):
                self._spend(draws)
            if not self.proposals.waiting:
                self._drawn_at_proposal = self.drawn
            return True
        again: float = PROPOSE_AGAIN[self._is_promising()]
        if self._kept.last_look and not self._is_promising():
            # Looks cost little, and choose the pairs from which the next ones are made.
            again = math.inf if self._not_looked_at(active) else AFTER_LOOKS
        wants_more = not active or self.drawn >= again * self._drawn_at_proposal
        wants_more &= self._fruitless < MOST_FRUITLESS
        if wants_more and not waiting and not is_half_spent:
            self._fruitless = 0 if self.drawn > self._drawn_at_proposal else self._fruitless + 1
            self.proposals.propose(self._growth)
            self._drawn_at_proposal = self.drawn
            if self.proposals.waiting or active:
                return True
        if not self.arms:
            raise self.proposals.failure(NO_PAIR)
        if not active:
            self.ended_by = "pairs"
            return False
        return self._draw_and_bet(*self._next(active))

    def _draw_and_bet(self, arm: Arm, leads: bool) -> bool:
        """Draw from a pair, and bet on it; False if there is nothing left to draw."""
        if self._set_aside(arm):
            return True
        looked = self._look_at(arm)
        draws = looked or arm.next_round(self._left)
        if not draws:
            self.ended_by = "trials"
            return False
        left = self._clock.left()
        if left is not None and left <= 0:
            self.ended_by = "seconds"
            return False
        if leads and not looked:
            self.wealth.lead(self.arms.index(arm))
        self._leading.spent(draws, leads=leads)
        try:
            (self._look if looked else self._bet)(arm, draws)
        except CRASHES as error:
            # A search that went on would bet only on rounds without a crash, which is a condition
            # on the answers. What was refuted before stands.
            if not self.outcomes and not self.is_refuted():
                raise
            self.proposals.lost.append(error)
            self.ended_by = "lost"
            return False
        return True

    @property
    def _is_black_box(self) -> bool:
        return isinstance(self.search.mechanism.value, HostMechanism)

    def _next(self, arms: Sequence[Arm]) -> tuple[Arm, bool]:
        """Return the next pair to draw from; True if it is drawn for its bound."""
        if not self._ends_when_decided:
            refuted = self.is_refuted()
            idle = self.drawn >= FOR_BOUND and not self._is_promising()
            if refuted or idle:
                share = SHARE_OF_OTHERS if refuted else UNDECIDED_SHARE_OF_OTHERS
                return self._leading.pick(arms, self._growth, share)
        order = self._growth
        if self._is_black_box and not self._is_promising():
            self._picks += 1
            unseen = self._not_looked_at(arms)
            if self._picks % 4 == 1 and unseen:
                return unseen[0 if self._picks % 8 == 1 else -1], False  # the last are the smallest
            order = self._one_sided_growth if self._picks % 4 == 3 else order
        return max(arms, key=lambda arm: (order(arm), self._effect(arm))), False

    def _not_looked_at(self, arms: Sequence[Arm]) -> list[Arm]:
        return [arm for arm in arms if arm.trials < self._kept.last_look]

    def _one_sided_growth(self, arm: Arm) -> float:
        """Estimate the gain of one more draw by an event that has never occurred on one side."""
        delta = min((point.delta for point in self.target(arm)), default=0.0)
        return self._gain(arm, one_sided(arm.seen, delta))

    def _growth(self, arm: Arm) -> float:
        """Estimate the gain of one more draw, averaged over the losses that the pair may have.

        The estimate of a loss has a standard error. So a pair with a small loss is drawn again
        later, and a pair well inside the claim after all others.
        """
        return self._gain(arm, self._z(arm))

    def _gain(self, arm: Arm, z: float) -> float:
        trials = arm.seen.trials
        if self._is_black_box and z <= arm.least_z:  # the next draws are a look, without bets
            trials = max(trials, self._kept.last_look // 2)
        return expected_gain(z - LUCK) / (2 * trials)

    def _effect(self, arm: Arm) -> float:
        return self._z(arm) / math.sqrt(arm.seen.trials)

    def _z(self, arm: Arm) -> float:
        """Return the standard errors by which the farthest event lies outside the target."""
        key = (arm.trials, self.target(arm))
        if self._known_zs.get(id(arm), ((), 0.0))[0] != key:
            guess = farthest(arm.seen, key[1])
            self._known_zs[id(arm)] = key, -math.inf if guess is None else guess.z
        return self._known_zs[id(arm)][1]

    def _look_at(self, arm: Arm) -> int:
        """Return the draws of each dataset for a look at a pair; 0 if it gets none."""
        if not isinstance(arm, BlackBoxArm) or self.settings.run.seconds is None:
            return 0
        if self.search.one_pair or not self.has_bet:
            return 0
        if self._z(arm) > arm.least_z or arm.trials >= LOOKS[0]:
            return 0
        most = self._left // (2 * len(self.arms))
        durations = [
            seconds
            for one in self.arms
            if isinstance(one, BlackBoxArm)
            for seconds in one.durations
        ]
        return arm.up_to(self._kept.look(fitting_look(arm.durations, durations), most), self._left)

    def _look(self, arm: Arm, draws: int) -> None:
        """Draw answers to learn from, without a bet: the pair has shown too little."""
        before, fresh = self._draw_round(arm, draws)
        self.wealth.pass_over(self.arms.index(arm), before, fresh, arm.points)
        arm.add_round(fresh)

    def _bet(self, arm: Arm, draws: int) -> None:
        before, fresh = self._draw_round(arm, draws)
        position = arm.scale, self.drawn, self.arms.index(arm), arm.least_z
        arm.earned += self.wealth.bet(before, fresh, arm.points, *position)
        self._rounds.append(fresh.above)
        arm.add_round(fresh)

    def _draw_round(self, arm: Arm, draws: int) -> tuple[Seen, Seen]:
        """Draw a round; return the counts before it, and its own."""
        before, drawn = arm.seen, arm.trials
        fresh = arm.draw(draws)
        arm.rounds.append((drawn, before.trials, fresh.trials))
        self._spend(draws)
        return before, fresh

    def _spend(self, draws: int) -> None:
        self.drawn += draws
        self._kept.note_time(self.drawn)
        self.settings.note_draws(2 * draws)


def one_sided(seen: Seen, delta: float) -> float:
    """Return the standard errors by which an event exceeds δ that has never occurred on one side.

    Such an event violates every ε. After few draws `farthest` misses it, because it takes no
    probability to be 0. If there is no such event, the result is −∞.
    """
    never, hits = seen.hits.T
    beyond = (hits - delta * seen.trials) / np.sqrt(hits + 1)
    return float(np.max(beyond, where=never == 0, initial=-math.inf))


FARTHEST_INSIDE = -4.0  # standard errors inside the claim beyond which all pairs count as equal


def expected_gain(z: float) -> float:
    """Return the mean of max(X, 0)² for X ~ N(z, 1), z in standard errors beyond the claim."""
    z = max(z, FARTHEST_INSIDE)
    density = math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return (1 + z**2) * math.erfc(-z / math.sqrt(2)) / 2 + z * density


SHARE_OF_OTHERS = 0.2
"""Share of the draws after a claim is refuted that pairs other than the leading one get."""

UNDECIDED_SHARE_OF_OTHERS = 0.3  # the same share before the claim is refuted


class Leading:
    """Divides draws for a bound between the leading pair and the others, which may overtake it."""

    def __init__(self, delta: float, resolution: float) -> None:
        self._delta_and_resolution = delta, resolution
        self._led = self._others = 0

    def pick(
        self, arms: Sequence[Arm], growth: Callable[[Arm], float], share: float
    ) -> tuple[Arm, bool]:
        """Return the next pair to draw from; True if it is the leading one.

        `growth` is the expected gain of a draw against the claim or, once that is refuted, against
        the least loss that is not. Other pairs than the leading one get `share` of the draws.
        """

        def shown(arm: Arm) -> float:
            least = least_losses(arm.seen, *self._delta_and_resolution)[1]
            return float(np.max(least, initial=-np.inf)) / arm.scale

        leader = max(arms, key=shown)
        others = [arm for arm in arms if arm is not leader]
        if others and self._others < share * (self._led + self._others):
            return max(others, key=growth), False
        return leader, True

    def spent(self, draws: int, *, leads: bool) -> None:
        """Note the draws made of the pair that was picked."""
        if leads:
            self._led += draws
        else:
            self._others += draws
