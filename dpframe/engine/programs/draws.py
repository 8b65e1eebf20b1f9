"""Outputs of whole streams: what learners and pilots see before anything is counted."""

from __future__ import annotations

import threading
import time
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine.addresses.address import EVAL, FIT, PILOT
from dpframe.engine.addresses.precision import as_scored, for_a_box, for_jax, on_device
from dpframe.engine.boxes.handing_out import Daemons, handed_out
from dpframe.engine.boxes.here import Here
from dpframe.engine.boxes.lending import Load, Overdue, Request, Stopped
from dpframe.engine.boxes.pace import Pace
from dpframe.engine.boxes.processes import available_cores
from dpframe.engine.boxes.seeing import seen
from dpframe.engine.checks.guard import guarded
from dpframe.engine.counts.rounds import ends
from dpframe.engine.planning.budgets import resolved
from dpframe.engine.planning.lanes import unstacked
from dpframe.engine.programs import programs
from dpframe.engine.programs.recipe import Place, Recipe, drawn
from dpframe.mechanism import HostMechanism
from dpframe.patience import at_work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpframe.attack import Attack
    from dpframe.engine.boxes.handing_out import Which
    from dpframe.engine.planning.plan import Pass
    from dpframe.engine.programs.recipe import Away
    from dpframe.spec.audit import RunSettings
    from dpframe.types import HostArray, Tree

Outputs = tuple[Any, Any]

LONG = 1.0
"""Seconds of drawing that are worth sending to others; by then they have compiled it."""

RATE = 5e7
"""Bytes a second that come back from others: what is drawn faster than it travels stays here."""


def first_end(the_pass: Pass) -> int:
    """Draws of the first round on each dataset."""
    return ends(the_pass.trials, the_pass.rows, whole=the_pass.dear)[0]


class Draws:
    """Outputs of the streams of a pass, drawn when first asked for, kept for one lane.

    Args:
        the_pass: whose draws.
        run: how many draws the fit and pilot streams have.
        prng: name of the generator.
        made: the two datasets, as the pair made them.
        away: who draws elsewhere what takes long; None: all is drawn here.
    """

    def __init__(
        self,
        the_pass: Pass,
        run: RunSettings,
        prng: str,
        made: tuple[Any, Any],
        away: Away | None = None,
    ) -> None:
        run = resolved(run, the_pass.mechanisms[0], the_pass.trials)
        self.the_pass, self.prng, self.made, self.away = the_pass, prng, made, away
        self.until: float | None = None
        """When nobody waits any longer for what is drawn, on the monotonic clock."""
        self.leaving = threading.Event()
        """Set when the run ends early: what takes long is drawn no further."""
        self.dtype = np.dtype(run.precision)
        self.wanted = {FIT: run.fit or 0, PILOT: run.pilot or 0, EVAL: the_pass.trials}
        self._kept: dict[str, tuple[int, Outputs]] = {}
        self._first: tuple[int, Outputs] | None = None
        self._box: Load | None = None

    @cached_property
    def data(self) -> tuple[Tree, Tree]:
        """D and D′ as a mechanism gets them that JAX traces."""
        return for_jax(self.made, self.dtype)

    @property
    def on_host(self) -> bool:
        """Whether the mechanism is a black box."""
        return isinstance(self.the_pass.mechanisms[0], HostMechanism)

    @property
    def by_chunks(self) -> bool:
        """Whether scores are all that is kept of a pilot, see `Pass`."""
        return self.the_pass.by_chunks

    def outputs(self, stream: str, lane: int) -> Outputs:
        """Outputs on D and on D′, each [n, *output dims]."""
        if stream not in self._kept or self._kept[stream][0] != lane:
            self._kept[stream] = (lane, self.both(stream, lane))
        return self._kept[stream][1]

    def both(self, stream: str, lane: int) -> Outputs:
        """Outputs of a stream on D and on D′, each [n, *output dims]; drawn whenever asked for."""
        wanted = self.wanted[stream]
        chunks = range(-(-wanted // self.the_pass.rows))
        d0, d1 = self.of_chunks(stream, lane, [(0, chunks), (1, chunks)])
        return d0[:wanted], d1[:wanted]

    def first_round(self, lane: int) -> Outputs:
        """Outputs of the first round of the counted stream, each [n, *output dims]."""
        if self._first is None or self._first[0] != lane:
            wanted = first_end(self.the_pass)
            d0, d1 = self.first_chunks(lane, range(-(-wanted // self.the_pass.rows)))
            self._first = (lane, (d0[:wanted], d1[:wanted]))
        return self._first[1]

    def first_chunks(self, lane: int, chunks: range) -> list[HostArray]:
        """Outputs of the first chunks of the counted stream on D and on D′."""
        return self.of_chunks(EVAL, lane, [(0, chunks), (1, chunks)])

    def nothing(self) -> Outputs:
        """No outputs at all, for an attack that does not learn."""
        shape = self.the_pass.shape
        empty = np.zeros((0, *shape.dims), on_device(shape.dtype, self.dtype))
        return empty, empty

    def scores(self, scoring: Sequence[Sequence[tuple[Attack, Tree]]]) -> Iterator[list[Outputs]]:
        """Scores of the draws by which layouts are chosen: of the pilot, or of the first round.

        Args:
            scoring: for every lane attacks, with what they learned.

        Yields:
            Lane by lane, for each attack the scores on D and on D′, shape [n, …].
        """
        own = [[(unstacked(attack, self.dtype), state) for attack, state in s] for s in scoring]
        if self.by_chunks:
            yield from self._scores_by_chunks(own)
            return
        for lane, pairs in enumerate(own):
            found: list[Outputs] = []
            for (attack, _), (leaves, state) in zip(scoring[lane], pairs, strict=True):
                anytime = self.the_pass.anytime
                outputs = self.first_round(lane) if anytime else self.outputs(PILOT, lane)
                both = [seen(attack, part, self.the_pass.shape, self.dtype) for part in outputs]
                calls = [partial(programs.score_given, leaves, state, part) for part in both]
                d0, d1 = (np.asarray(guarded("score", call)) for call in calls)
                found.append((d0, d1))
            yield found

    def of_chunks(self, stream: str, lane: int, which: Sequence[Which]) -> list[HostArray]:
        """Outputs of some chunks of a stream, for each part of `which` [n, *output dims]."""
        if self.on_host:
            return [np.concatenate(parts) for parts in self.from_box(stream, lane, which)]
        where = [((lane, index), chunks) for index, chunks in which]
        return [outputs for (outputs,) in self._made(self._recipe, stream, where)]

    def from_box(self, stream: str, lane: int, which: Sequence[Which]) -> list[list[HostArray]]:
        """Outputs of a black box, in the order of their chunks; drawn in this process."""
        return [self._by_this_process(stream, lane, *one) for one in which]

    def _by_this_process(
        self, stream: str, lane: int, index: int, chunks: range
    ) -> list[HostArray]:
        the_pass: Any = self.the_pass
        if self._box is None:
            self._box = Load(the_pass.mechanisms, for_a_box(self.made))
        where = the_pass.stream.of(stream), index, chunks.start, chunks.stop, the_pass.rows
        request = Request(lane, index, *where)
        with Here().lend(self._box) as (worker, *_):
            return [
                as_scored(outputs, self.dtype)
                for outputs in worker.draw(request, the_pass.shape, None)
            ]

    @cached_property
    def _recipe(self) -> Recipe:
        the_pass = self.the_pass
        mechanisms = tuple(unstacked(one, self.dtype) for one in the_pass.mechanisms)
        where = self.data, the_pass.stream, self.prng, self.dtype.name, the_pass.rows
        return Recipe(mechanisms, *where)

    def _scores_by_chunks(self, own: Any) -> Iterator[list[Outputs]]:
        the_pass = self.the_pass
        recipe = self._recipe._replace(scoring=tuple(tuple(pairs) for pairs in own))
        stream, wanted = PILOT, self.wanted[PILOT]
        if the_pass.anytime:
            stream, wanted = EVAL, first_end(the_pass)
        chunks = range(-(-wanted // the_pass.rows))
        lanes = [lane for lane, pairs in enumerate(own) if pairs]
        where = [((lane, index), chunks) for lane in lanes for index in (0, 1)]
        found = iter(self._made(recipe, stream, where))
        for pairs in own:
            both = (next(found), next(found)) if pairs else ([], [])
            yield [(d0[:wanted], d1[:wanted]) for d0, d1 in zip(*both, strict=True)]

    def _made(self, recipe: Recipe, stream: str, which: Sequence[Which]) -> list[list[HostArray]]:
        """For some chunks of lanes and datasets what the recipe gives, by whoever is soonest."""

        def place(of: tuple[int, int], chunks: range) -> Place:
            return Place(stream, *of, chunks.start, chunks.stop)

        def here(of: tuple[int, int], chunks: range) -> list[HostArray]:
            if self.leaving.is_set():
                raise Stopped
            if self.until is not None and time.monotonic() > self.until:
                raise Overdue  # and nobody waits
            return drawn(recipe, place(of, chunks))

        away, pace = self.away, Pace(self._nbytes)
        if away is not None and self._pays(which):
            draw, until = away.draw, self.until
            with at_work("sample"):
                tasks = handed_out(
                    which,
                    pace,
                    lambda *one: draw(recipe, place(*one), until),
                    away.pool,
                    away.tasks,
                )
        elif self.the_pass.slow and jax.default_backend() == "cpu":
            # One model after the other would keep one core busy.
            with at_work("sample"):
                tasks = handed_out(which, pace, here, Daemons(), available_cores())
        else:
            tasks = [[here(*one)] for one in which]
        return [[np.concatenate(each) for each in zip(*parts, strict=True)] for parts in tasks]

    def _pays(self, which: Sequence[Which]) -> bool:
        """Whether others are asked. A mechanism that did not say that it is slow is tried out."""
        if self.the_pass.slow:
            return True
        number = sum(len(chunks) for _, chunks in which)
        return number > 2 and self.seconds > max(LONG / number, self._nbytes / RATE)

    @cached_property
    def seconds(self) -> float:
        """What a chunk takes here, once the program is compiled."""
        place = Place(FIT, 0, 0, 0, 1)
        drawn(self._recipe, place)
        started = time.monotonic()
        drawn(self._recipe, place)
        return time.monotonic() - started

    @property
    def _nbytes(self) -> int:
        """Of the outputs of a chunk."""
        row = max(1, self.the_pass.elements) * self.the_pass.shape.dtype.itemsize
        return self.the_pass.rows * row
