"""Ask a neighbourhood for pairs, and turn them into arms."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.claims import Claim
from dpframe.claims.relation import other_relation
from dpframe.common.text import shown
from dpframe.count import fingerprint, kept_answers
from dpframe.count.events import AnswerEvents, TailCuts
from dpframe.count.plan import Pass, PassPosition, Scorer
from dpframe.draw import requests, trace, trial_call
from dpframe.draw.sampler import MOST_PAIRS
from dpframe.draw.scheduling import Clock
from dpframe.draw.sensitivity import SensitivityCheck
from dpframe.draw.stated import StatedCheck
from dpframe.draw.streams import (
    EVAL,
    Stream,
    digest,
    draw_group,
    for_black_box,
    host_generator,
    rows_per_chunk,
)
from dpframe.draw.value_digest import made_by
from dpframe.engine import ledger
from dpframe.errors import CellError, SampleError
from dpframe.interfaces.attack import Attack, Target
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import Earned, Pair, equal, untraceable, unusable
from dpframe.interfaces.plugin_calls import call_plugin, learns, mismatch, nan_allowed, unsuited
from dpframe.interfaces.statistic import DecisionCounts
from dpframe.search import arms, wealth
from dpframe.search.black_box_arms import BlackBoxArm, Room
from dpframe.spec.audit import Cell, Choice
from dpframe.spec.sweep import Setting, by_chance, planned, varied

if TYPE_CHECKING:
    from dpframe.search.search import Settings

PROPOSALS = 1 / 2  # share of the trials after which no more pairs are begun; the rest is bet on

PARENTS, CHILDREN = 4, 3  # pairs with the largest gains, and new settings of each

CRASHES = requests.LostError, requests.OutOfMemoryError
MOST_CRASHES = 16  # pairs at which a black box crashes before it has answered at any

STREAM = "proposals"  # of the neighbourhood's random numbers

ROWS = 1 << 10  # rows of a chunk, at most: a search begins with a few draws of many pairs

DIFFERENT = (
    "the mechanism differs from pair to pair: in a search it must be the same for all, so "
    "set what it takes from the pair, such as params.sensitivity"
)

UNCLAIMED = (
    "the mechanism claims nothing for the first proposed pair, but something for another: in a "
    "search, propose a pair with a claim first"
)


Candidate = tuple[Pair, Setting]
"""A proposed pair, and a setting of the mechanism."""


class Proposals:
    """The pairs that are proposed to one search, and the arms that were begun.

    The clock has the time that black boxes have used.
    """

    def __init__(self, cell: Cell, settings: Settings, clock: Clock) -> None:
        assert cell.search is not None
        self.cell, self.search, self.settings, self.clock = cell, cell.search, settings, clock
        chosen, mechanism = self.search.neighbourhood.value, self.search.mechanism.value
        self._neighbourhood = call_plugin("for_mechanism", lambda: chosen.for_mechanism(mechanism))
        self._needs = self._neighbourhood.needs
        self.maker = ArmMaker(cell, settings, clock)
        self.sensitivity = SensitivityCheck(
            self.search.mechanism.value, settings.source, settings.run, self._neighbourhood
        )
        self.stream = Stream(cell.seed, self.maker.group([]), cell.repeat, EVAL)
        self.stated = StatedCheck(
            self.search.mechanism.value,
            settings.source,
            settings.run,
            self.stream,
            self._neighbourhood,
        )
        self.arms: list[arms.Arm] = []
        self.begun: dict[Candidate, arms.Arm | None] = {}
        """Every candidate that was begun, in order, with its arm if it has one."""
        self.waiting: list[Candidate] = []  # proposed, and not drawn from yet
        self.drawable: dict[Candidate, None] = {}  # all that can be drawn from
        self.raised: list[int] = []  # kinds of exceptions, of pairs with no other answers
        self.lost: list[SampleError] = []  # crashes and lacks of memory, each at another pair
        self._tried_own_data = False

    def propose(self, growth: Callable[[arms.Arm], float]) -> None:
        """Let the neighbourhood propose pairs; `growth` is the expected gain of an arm's draw."""
        history: dict[Pair, Earned] = {}
        for (pair, _), arm in self.begun.items():
            own = 0.0 if arm is None or arm.known else growth(arm)
            before = history.get(pair, Earned(pair, 0, 0.0))
            draws = before.draws + (arm.trials if arm else 0)
            history[pair] = Earned(pair, draws, max(before.growth, own))
        rng = host_generator(self.stream.of(STREAM), len(self.arms))
        earlier = list(history.values())
        pairs = call_plugin("propose", lambda: list(self._neighbourhood.propose(rng, earlier)))
        if self.search.one_pair and len({*history, *pairs}) > 1:
            raise CellError("the neighbourhood has one_pair = True, but proposed several pairs")
        pairs = self.sensitivity.look([pair for pair in pairs if pair not in history])
        with self.clock.paused():
            pairs = self.stated.look(pairs)
        pairs = list(dict.fromkeys(pairs))
        candidates: list[Candidate] = [(pair, ()) for pair in pairs]
        if self.search.parameters:
            candidates = self._with_settings(pairs, rng, growth)
        fresh = [one for one in dict.fromkeys(candidates) if one not in self.begun]
        if self.search.findings > 1:  # leaks of data beyond the schema come last
            fresh.sort(key=lambda one: bool(call_plugin("needs", partial(self._needs, one[0]))))
        self.drawable.update(dict.fromkeys(fresh))
        self.waiting = fresh[: max(0, MOST_PAIRS - len(self.arms))]

    def _with_settings(
        self,
        pairs: Sequence[Pair],
        rng: np.random.Generator,
        growth: Callable[[arms.Arm], float],
    ) -> list[Candidate]:
        """Choose settings of the mechanism for new pairs, and for those with the largest gains."""
        ranges = self.search.parameters
        if not self.begun:
            first = planned(ranges)
            return [
                (pair, first[(at + shift) % len(first)])
                for shift in range(len(first))
                for at, pair in enumerate(pairs)
            ]
        playing = [arm for arm in self.arms if not arm.known]
        best = sorted(playing, key=growth, reverse=True)[:PARENTS]
        parents = [arm for arm in best for _ in range(CHILDREN)]
        candidates = [(arm.pair, by_chance(ranges, rng, arm.setting)) for arm in parents]
        near = [arm.setting for arm in best] or [()]
        for at, pair in enumerate(pairs):
            setting = near[at % len(near)] if at % 2 else by_chance(ranges, rng)
            candidates.append((pair, setting))
        return candidates

    def begin(self, drawn: int) -> int:
        """Draw from the first waiting pair for the first time.

        Args:
            drawn: draws of each dataset, of all pairs together, so far.

        Returns:
            The draws of each dataset; 0 if the pair cannot be drawn from.
        """
        pair, setting = candidate = self.waiting.pop(0)
        self.begun[candidate] = None
        try:
            arm = self.maker.arm(pair, setting)
        except CRASHES as error:
            return self._note_crash(error)
        if arm is None:
            self.drawable.pop(candidate, None)
            return 0
        self._try_own_data(arm)
        needed = arm.first_draws()
        if drawn + needed > (PROPOSALS if self.arms else 1) * self.cell.trials:
            if not self.arms:
                raise self.failure(f"a search takes {needed} trials to start, and more to continue")
            self.waiting.clear()
            return 0
        try:
            arm.warm_up()
        except CRASHES as error:
            return self._note_crash(error)
        if isinstance(arm, BlackBoxArm):
            trial_call.check_names(arm.raised, self.settings.source.words)
        if isinstance(arm, BlackBoxArm) and (kind := arm.same_exception()) is not None:
            self.raised.append(kind)
        else:
            self.arms.append(arm)
            self.begun[candidate] = arm
        return arm.trials

    def _try_own_data(self, arm: arms.Arm) -> None:
        """Try a black box on the user's own data, once."""
        if self._tried_own_data:
            return
        self._tried_own_data = True
        own = call_plugin("own_data", lambda: list(self._neighbourhood.own_data()))
        if own and isinstance(arm.mechanism, HostMechanism):
            settings = self.cell, self.settings.source, self.clock.deadline()
            trial_call.try_own_data(arm.mechanism, own, *settings)

    def _note_crash(self, error: SampleError) -> int:
        """Leave out a pair at which the black box crashed; raise if it has answered at no other."""
        self.lost.append(error)
        if not self.arms and len(self.lost) == MOST_CRASHES:
            raise error
        return 0

    def failure(self, reason: str) -> CellError:
        """Return why there is no pair to bet on: exceptions if there were any, else the reason."""
        if self.raised:
            words = self.settings.source.words
            reason = trial_call.only_exceptions("all answers of every pair", {*self.raised}, words)
        elif self.lost:
            return self.lost[0]
        return CellError(reason)


class ArmMaker:
    """Makes the arms of one search.

    The clock has the time that black boxes have used.
    """

    def __init__(self, cell: Cell, settings: Settings, clock: Clock) -> None:
        assert cell.search is not None
        self.cell, self.search, self.settings, self.clock = cell, cell.search, settings, clock
        self._tracer = trace.Tracer(settings.run, settings.plan.prng, settings.source)
        self._tried: set[Any] = set()
        self._mechanisms: dict[Setting, Any] = {}
        self._groups: set[str] = set()  # draw groups of all arms
        self._tried_addresses = False
        self._room = Room()
        self._files = kept_answers.AnswerFiles(settings.store.directory)
        self._unit: float | None = None

    def arm(self, pair: Pair, setting: Setting = ()) -> arms.Arm | None:
        """Make an arm of a proposed pair and a setting of the mechanism.

        Returns:
            None if D and D′ are equal, if the mechanism refuses the setting or claims nothing for
            it, or if an earlier arm has the same draws, which must not be bet on twice.

        Raises:
            CellError: the pair, or the mechanism resolved for it, cannot be used.
        """
        try:
            unresolved = varied(self.search.mechanism.value, setting)
        except ValueError:  # parameters that do not go together
            return None
        problem_of = unusable if isinstance(unresolved, HostMechanism) else untraceable
        if (problem := call_plugin("the pair", lambda: problem_of(pair))) is not None:
            raise CellError(f"a proposed pair, {shown(pair)}: {problem}")
        if call_plugin("the pair", lambda: equal(pair)):
            return None
        mechanism: Any = call_plugin("resolve", lambda: unresolved.resolve(pair))
        claim = call_plugin("claim", lambda: mechanism.claim(pair))
        if not isinstance(mechanism, type(unresolved)) or not isinstance(claim, Claim | None):
            raise CellError("resolve or claim gave something different for a proposed pair")
        if (other := other_relation(claim, str(pair.adjacency))) is not None:
            raise CellError(other)
        if self._mechanisms.setdefault(setting, mechanism) != mechanism:
            raise CellError(DIFFERENT)
        if claim is None and self.cell.claim is not None:
            return None
        if claim is not None and self.cell.claim is None:
            raise CellError(UNCLAIMED)
        points = self._points(claim)
        made, data = made_by(pair)
        proposed = arms.Proposed(pair, mechanism, claim, points, self._scale(points), data, setting)
        arm: arms.Arm
        if isinstance(mechanism, HostMechanism):
            arm = self._black_box_arm(proposed, made)
        else:
            drawn = self._pass(proposed)
            arm = arms.TracedArm(proposed, drawn, self.settings, self._tried)
        # Pairs with equal parameters may compare as different if one is NaN.
        if arm.group in self._groups:
            return None
        self._groups.add(arm.group)
        return arm

    def of(self, pair: Pair, mechanism: Any, attack: int) -> Cell:
        """Return the cell of a pair and an attack, given by number."""
        kind: Any = type(pair)
        chosen = Choice(kind.name, kind.name, self.cell.pair.distribution, "", pair)
        return dataclasses.replace(
            self.cell,
            pair=chosen,
            mechanism=dataclasses.replace(self.search.mechanism, value=mechanism),
            attack=self.search.attacks[attack],
        )

    def group(self, of: Sequence[str], setting: Setting = ()) -> str:
        """Return a draw group of the search, so that an audit of the same pair has other draws.

        Settings share no draws either, because results of one must not be known when another is bet
        on.
        """
        mechanism = self.search.mechanism
        own = [mechanism.distribution, mechanism.use, mechanism.value.params()]
        return digest(["search", *(of or own), *setting])

    def _stream(self, proposed: arms.Proposed, rows: int, precision: str) -> Stream:
        """Return the stream of a proposed pair, in chunks of `rows`; 0 if they grow."""
        cell, prng = self.of(proposed.pair, proposed.mechanism, 0), self.settings.plan.prng
        group = draw_group(cell, data=proposed.data, precision=precision, prng=prng, rows=rows)
        return Stream(cell.seed, self.group([group], proposed.setting), cell.repeat, EVAL)

    def _black_box_arm(self, proposed: arms.Proposed, made: tuple[Any, Any]) -> BlackBoxArm:
        pair, mechanism, *_ = proposed
        settings = self.settings
        for choice in self.search.attacks:
            _check_kind(mechanism, choice.value)
        rows = settings.run.chunk or trace.declared_rows(mechanism)
        stream = self._stream(proposed, rows or 0, "")
        asking = trial_call.asking_of(self.of(pair, mechanism, 0))
        assert asking is not None
        kept = self._files.of(
            stream, [self.cell.id, fingerprint.black_box_key(self.search.mechanism)]
        )
        where = stream, asking, settings.source, rows, self.clock, kept
        draws = kept_answers.AnswerRounds(mechanism, for_black_box(made), *where)
        run = settings.run, stream, settings.plan.prng, self._tried
        events = AnswerEvents(self.search.attacks, mechanism, pair, *run)
        arm = BlackBoxArm(proposed, draws, events, self._room, alone=self.search.one_pair)
        if not self._tried_addresses:
            self._tried_addresses = True
            draws.check_addresses()
        return arm

    def _pass(self, proposed: arms.Proposed) -> Pass:
        """Return the draws of a pair with the scorers that count them."""
        pair, mechanism, *_ = proposed
        shape = self._tracer.output_shape(self.of(pair, mechanism, 0))
        target = Target(mechanism, pair, shape.dims)
        scorers, places = [], []
        for number, choice in enumerate(self.search.attacks):
            attack = choice.value
            if (reason := unsuited(attack, target)) is not None:
                raise CellError(f"{choice.label}: {reason}")
            _check_kind(mechanism, attack)
            decides = attack.gives == "decision"
            scorers.append(Scorer((attack,), DecisionCounts() if decides else TailCuts()))
            of_attack = self.of(pair, mechanism, number)
            places.append(
                (dataclasses.replace(of_attack, id=str(number)), PassPosition(0, number, 0))
            )
        run = self.settings.run
        usual = trace.declared_rows(mechanism) or rows_per_chunk(shape.dims, on_host=False)
        rows = run.chunk or rows_of(self.cell.trials, usual)
        nan_allowed(mechanism)
        return Pass(
            stream=self._stream(proposed, rows, run.precision),
            trials=self.cell.trials,
            rows=rows,
            shape=shape,
            pair=pair,
            data=proposed.data,
            mechanisms=(mechanism,),
            scorers=tuple(scorers),
            cells=tuple(places),
        )

    def _points(self, claim: Claim | None) -> tuple[wealth.Point, ...]:
        """Return the most telling points of a claim, raised by the sampler's resolution."""
        if claim is None:
            return ()
        points = {}
        for delta in claim.telling_deltas:
            epsilon: float = call_plugin("claim", partial(claim.epsilon_at, delta))
            if epsilon <= wealth.LOSS_LIMIT:
                resolution = ledger.resolution_of(self.cell, self.settings.plan)
                raised = delta + resolution * (1 + math.exp(epsilon))
                points[epsilon] = wealth.Point(epsilon, raised)
        return tuple(points.values())

    def _scale(self, points: Sequence[wealth.Point]) -> float:
        """Return the loss claimed for a pair, as a multiple of that of the first pair."""
        claimed = points[0].epsilon if points else None
        if claimed is None or claimed <= 0:
            return 1.0
        if self._unit is None:
            self._unit = claimed
        return claimed / self._unit


def rows_of(trials: int, usual: int) -> int:
    """Return the rows of a chunk, small enough that first draws of a pair fill three or more."""
    return min(ROWS, usual, 1 << max(4, int(arms.SHARE * trials / 3).bit_length() - 1))


def _check_kind(mechanism: Any, attack: Attack) -> None:
    if (reason := mismatch(mechanism, attack.gives)) is not None:
        raise CellError(reason)
    learns(attack)  # raises if the attack's `learns` is invalid
