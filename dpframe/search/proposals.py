"""Turn the pairs that a neighbourhood proposes into draws."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING, Any

from dpframe.claims import Claim
from dpframe.common.text import shown
from dpframe.engine.checks import guarded, learns, mismatch, nan_allowed, unsuited
from dpframe.engine.fingerprint import box_key
from dpframe.engine.plan import Pass, Place
from dpframe.engine.trace import Scorer, Tracer, declared_rows
from dpframe.errors import CellError
from dpframe.interfaces.attack import Target
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import equal, unplayable, untraceable
from dpframe.interfaces.statistic import DecisionCounts
from dpframe.sampling.address import (
    EVAL,
    Stream,
    both_as_made,
    digest,
    draw_group,
    for_a_box,
    rows_per_chunk,
)
from dpframe.sampling.content import data_digest
from dpframe.search.arms import SHARE, Arm, Cuts
from dpframe.search.box_arms import BoxArm, Room
from dpframe.search.box_draws import BoxDraws, Shelves
from dpframe.search.views import Views
from dpframe.search.wealth import LARGEST, Point
from dpframe.spec.audit import Choice
from dpframe.workers.trial_call import asking_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.interfaces.pair import Pair
    from dpframe.search.runner import Settings
    from dpframe.spec.audit import Cell
    from dpframe.workers.scheduling import Clock

    AnyArm = Arm | BoxArm

ROWS = 1 << 10
"""Draws at a time, at most: a search looks at many pairs before it settles on one."""

DIFFERENT = (
    "the mechanism is another one for each pair: in a search it must be the same for all, so say "
    "what it would take from the pair, such as params.sensitivity"
)


class Maker:
    """Makes the arms of one search.

    Args:
        cell: what is searched; its `search` says where.
        settings: of the run.
        clock: time that boxes have had.
    """

    def __init__(self, cell: Cell, settings: Settings, clock: Clock) -> None:
        assert cell.search is not None
        self.cell, self.search, self.settings, self.clock = cell, cell.search, settings, clock
        self._tracer = Tracer(settings.run, settings.prng, settings.source)
        self._tried: set[Any] = set()
        self._mechanism: Any = None
        self._tried_addresses = False
        self._room = Room()
        self._shelves = Shelves(settings.store.directory)
        self._unit: float | None = None

    def arm(self, pair: Pair) -> AnyArm | None:
        """A proposed pair as an arm; None if there is nothing to tell apart.

        Raises:
            CellError: the pair, or what it makes of the mechanism, cannot be used.
        """
        given = self.search.mechanism.value
        unfit = unplayable if isinstance(given, HostMechanism) else untraceable
        if (problem := guarded("the pair", lambda: unfit(pair))) is not None:
            raise CellError(f"a proposed pair, {shown(pair)}: {problem}")
        if guarded("the pair", lambda: equal(pair)):
            return None
        mechanism: Any = guarded("resolve", lambda: given.resolve(pair))
        claim = guarded("claim", lambda: mechanism.claim(pair))
        if not isinstance(mechanism, type(given)) or not isinstance(claim, Claim | None):
            raise CellError("resolve or claim gave something else for a proposed pair")
        if self._mechanism not in (None, mechanism):
            raise CellError(DIFFERENT)
        self._mechanism = mechanism
        points = self._points(claim)
        if isinstance(mechanism, HostMechanism):
            return self._box_arm(pair, mechanism, claim, points)
        settings = self.settings
        common = (settings.run, settings.prng, settings.store, self._tried, settings.executor)
        return Arm(self._pass(pair, mechanism), claim, points, self._scale(points), *common)

    def of(self, pair: Pair, mechanism: Any, attack: int) -> Cell:
        """The cell as one with a pair and an attack of its own."""
        kind: Any = type(pair)
        chosen = Choice(kind.name, kind.name, self.cell.pair.distribution, "", pair)
        return dataclasses.replace(
            self.cell,
            pair=chosen,
            mechanism=dataclasses.replace(self.search.mechanism, value=mechanism),
            attack=self.search.attacks[attack],
        )

    def group(self, of: Sequence[str]) -> str:
        """Draws of a search are its own: those of an audit of the same pair confirm it."""
        mechanism = self.search.mechanism
        own = [mechanism.distribution, mechanism.use, mechanism.value.params()]
        return digest(["search", *(of or own)])

    def _box_arm(
        self, pair: Pair, mechanism: HostMechanism, claim: Claim | None, points: tuple[Point, ...]
    ) -> BoxArm:
        cell, settings = self.of(pair, mechanism, 0), self.settings
        attacks = [choice.value for choice in self.search.attacks]
        for attack in attacks:
            if (reason := mismatch(mechanism, attack.gives)) is not None:
                raise CellError(reason)
            learns(attack)
        made = guarded("the pair", lambda: both_as_made(pair))
        data = guarded("the pair", lambda: data_digest(made))
        rows = settings.run.chunk or declared_rows(mechanism)
        # Chunks that grow have no number of rows.
        group = draw_group(cell, data=data, precision="", prng=settings.prng, rows=rows or 0)
        stream = Stream(cell.seed, self.group([group]), cell.repeat, EVAL)
        asking = asking_of(cell)
        assert asking is not None
        draws = BoxDraws(
            mechanism, for_a_box(made), stream, asking, settings.source, rows, self.clock
        )
        draws.shelf = self._shelves.of(stream, [self.cell.id, box_key(self.search.mechanism)])
        views = Views(
            self.search.attacks, mechanism, pair, settings.run, stream, settings.prng, self._tried
        )
        scale = self._scale(points)
        arm = BoxArm(pair, mechanism, claim, points, scale, draws, views, data, self._room)
        if not self._tried_addresses:
            self._tried_addresses = True
            draws.check_addresses()
        return arm

    def _pass(self, pair: Pair, mechanism: Any) -> Pass:
        """The draws of a pair, and what is counted on them."""
        cell = self.of(pair, mechanism, 0)
        shape = self._tracer.output_shape(cell)
        target = Target(mechanism, pair, shape.dims)
        scorers, places = [], []
        for number, attack in enumerate(self.search.attacks):
            if (reason := unsuited(attack.value, target)) is not None:
                raise CellError(f"{attack.label}: {reason}")
            if (reason := mismatch(mechanism, attack.value.gives)) is not None:
                raise CellError(reason)
            learns(attack.value)
            decides = attack.value.gives == "decision"
            scorers.append(Scorer((attack.value,), DecisionCounts() if decides else Cuts()))
            of_attack = self.of(pair, mechanism, number)
            places.append((dataclasses.replace(of_attack, id=str(number)), Place(0, number, 0)))
        made = guarded("the pair", lambda: both_as_made(pair))
        data = guarded("the pair", lambda: data_digest(made))
        run = self.settings.run
        few = 1 << max(4, int(SHARE * self.cell.trials / 3).bit_length() - 1)
        usual = declared_rows(mechanism) or rows_per_chunk(shape.dims, on_host=False)
        rows = run.chunk or min(ROWS, few, usual)
        group = draw_group(
            cell, data=data, precision=run.precision, prng=self.settings.prng, rows=rows
        )
        nan_allowed(mechanism)
        return Pass(
            stream=Stream(self.cell.seed, self.group([group]), self.cell.repeat, EVAL),
            trials=self.cell.trials,
            rows=rows,
            shape=shape,
            pair=pair,
            data=data,
            mechanisms=(mechanism,),
            scorers=tuple(scorers),
            cells=tuple(places),
        )

    def _points(self, claim: Claim | None) -> tuple[Point, ...]:
        """What a claim says at the δ that tell most, with what the sampler cannot resolve."""
        if claim is None:
            return ()
        found = {}
        for delta in claim.telling_deltas:
            epsilon: float = guarded("claim", partial(claim.epsilon_at, delta))
            if epsilon <= LARGEST:
                raised = delta + self.settings.resolution_of(self.cell) * (1 + math.exp(epsilon))
                found[epsilon] = Point(epsilon, raised)
        return tuple(found.values())

    def _scale(self, points: Sequence[Point]) -> float:
        """The loss that is claimed for a pair, as a multiple of the first one's."""
        claimed = points[0].epsilon if points else None
        if claimed is None or claimed <= 0:
            return 1.0
        if self._unit is None:
            self._unit = claimed
        return claimed / self._unit
