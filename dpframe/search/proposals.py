"""Turn the pairs that a neighbourhood proposes into arms."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dpframe.claims import Claim
from dpframe.claims.relation import other_relation
from dpframe.common.text import shown
from dpframe.count import fingerprint, kept_answers
from dpframe.count.events import AnswerEvents, TailCuts
from dpframe.count.plan import Pass, PassPosition, Scorer
from dpframe.draw import trace
from dpframe.draw.scheduling import Clock
from dpframe.draw.streams import EVAL, Stream, digest, draw_group, for_a_box, rows_per_chunk
from dpframe.draw.trial_call import asking_of
from dpframe.draw.value_digest import made_by
from dpframe.engine import ledger
from dpframe.errors import CellError
from dpframe.interfaces.attack import Attack, Target
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import Pair, equal, untraceable, unusable
from dpframe.interfaces.plugin_calls import call_plugin, learns, mismatch, nan_allowed, unsuited
from dpframe.interfaces.statistic import DecisionCounts
from dpframe.search import arms, black_box_arms, wealth
from dpframe.spec.audit import Cell, Choice
from dpframe.spec.sweep import Setting, varied

if TYPE_CHECKING:
    from dpframe.search.search import Settings

ROWS = 1 << 10  # rows of a chunk, at most: a search begins with a few draws of many pairs

DIFFERENT = (
    "the mechanism differs from pair to pair: in a search it must be the same for all, so "
    "set what it takes from the pair, such as params.sensitivity"
)

UNCLAIMED = (
    "the mechanism claims nothing for the first proposed pair, but something for another: in a "
    "search, propose a pair with a claim first"
)


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
        self._room = black_box_arms.Room()
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
            given = varied(self.search.mechanism.value, setting)
        except ValueError:  # parameters that do not go together
            return None
        unfit = unusable if isinstance(given, HostMechanism) else untraceable
        if (problem := call_plugin("the pair", lambda: unfit(pair))) is not None:
            raise CellError(f"a proposed pair, {shown(pair)}: {problem}")
        if call_plugin("the pair", lambda: equal(pair)):
            return None
        mechanism: Any = call_plugin("resolve", lambda: given.resolve(pair))
        claim = call_plugin("claim", lambda: mechanism.claim(pair))
        if not isinstance(mechanism, type(given)) or not isinstance(claim, Claim | None):
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
        about = arms.Proposed(pair, mechanism, claim, points, self._scale(points), data, setting)
        arm: arms.Arm
        if isinstance(mechanism, HostMechanism):
            arm = self._black_box_arm(about, made)
        else:
            drawn = self._pass(about)
            arm = arms.TracedArm(about, drawn, self.settings, self._tried)
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

    def _stream(self, about: arms.Proposed, rows: int, precision: str) -> Stream:
        """Return the stream of a proposed pair, in chunks of `rows`; 0 if they grow."""
        cell, prng = self.of(about.pair, about.mechanism, 0), self.settings.plan.prng
        group = draw_group(cell, data=about.data, precision=precision, prng=prng, rows=rows)
        return Stream(cell.seed, self.group([group], about.setting), cell.repeat, EVAL)

    def _black_box_arm(
        self, about: arms.Proposed, made: tuple[Any, Any]
    ) -> black_box_arms.BlackBoxArm:
        pair, mechanism, *_ = about
        settings = self.settings
        for choice in self.search.attacks:
            _check_kind(mechanism, choice.value)
        rows = settings.run.chunk or trace.declared_rows(mechanism)
        stream = self._stream(about, rows or 0, "")
        asking = asking_of(self.of(pair, mechanism, 0))
        assert asking is not None
        kept = self._files.of(stream, [self.cell.id, fingerprint.box_key(self.search.mechanism)])
        where = stream, asking, settings.source, rows, self.clock, kept
        draws = kept_answers.AnswerRounds(mechanism, for_a_box(made), *where)
        run = settings.run, stream, settings.plan.prng, self._tried
        events = AnswerEvents(self.search.attacks, mechanism, pair, *run)
        arm = black_box_arms.BlackBoxArm(about, draws, events, self._room)
        if not self._tried_addresses:
            self._tried_addresses = True
            draws.check_addresses()
        return arm

    def _pass(self, about: arms.Proposed) -> Pass:
        """Return the draws of a pair with the scorers that count them."""
        pair, mechanism, *_ = about
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
            stream=self._stream(about, rows, run.precision),
            trials=self.cell.trials,
            rows=rows,
            shape=shape,
            pair=pair,
            data=about.data,
            mechanisms=(mechanism,),
            scorers=tuple(scorers),
            cells=tuple(places),
        )

    def _points(self, claim: Claim | None) -> tuple[wealth.Point, ...]:
        """Return the most telling points of a claim, raised by the sampler's resolution."""
        if claim is None:
            return ()
        found = {}
        for delta in claim.telling_deltas:
            epsilon: float = call_plugin("claim", partial(claim.epsilon_at, delta))
            if epsilon <= wealth.LOSS_LIMIT:
                resolution = ledger.resolution_of(self.cell, self.settings.plan)
                raised = delta + resolution * (1 + math.exp(epsilon))
                found[epsilon] = wealth.Point(epsilon, raised)
        return tuple(found.values())

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
