"""Plan a run: share draws among cells, leave out what cannot run, fix the number of tests."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe.common import trees
from dpframe.common.machine import StuckError, with_timeout
from dpframe.common.types import Tree
from dpframe.draw import requests
from dpframe.draw.local_executor import source_of
from dpframe.draw.streams import EVAL, Shape, Stream, draw_group, precision_of, rows_per_chunk
from dpframe.draw.trace import Tracer, declared_rows, resolved, seen_shape
from dpframe.draw.value_digest import made_by
from dpframe.errors import CellError
from dpframe.interfaces import plugin_calls
from dpframe.interfaces.attack import Attack, Target, in_words
from dpframe.interfaces.mechanism import HostMechanism, Mechanism
from dpframe.interfaces.pair import Pair
from dpframe.interfaces.statistic import Statistic
from dpframe.spec.audit import Audit, Cell, Skip


@dataclasses.dataclass(frozen=True)
class Scorer:
    """Attacks of one structure whose scores go into one statistic."""

    attacks: tuple[Attack, ...]
    statistic: Statistic


class PassPosition(NamedTuple):
    """Position of a cell's counts in its pass."""

    variant: int
    scorer: int
    attack: int

    def own(self, of_scorers: Sequence[Tree]) -> Tree:
        """Return the cell's part of trees with leaves [variants, attacks, …], one per scorer."""
        return trees.map(lambda leaf: leaf[self.variant, self.attack], of_scorers[self.scorer])


@dataclasses.dataclass(eq=False)
class Pass:
    """A set of draws and everything that is counted on it."""

    stream: Stream
    trials: int
    rows: int
    shape: Shape
    pair: Pair
    data: str  # digest of D and D′
    mechanisms: tuple[Mechanism | HostMechanism, ...]  # one per variant
    scorers: tuple[Scorer, ...]
    cells: tuple[tuple[Cell, PassPosition], ...]

    def __post_init__(self) -> None:
        first = self.mechanisms[0]
        self.on_host = isinstance(first, HostMechanism)  # it is a black box
        self.slow = first.rows is not None  # the mechanism asks to be drawn chunk by chunk
        self.costly = self.slow or self.on_host  # no chunk may be drawn twice
        self.by_chunks = self.slow and not self.on_host  # scores of a pilot are kept, draws are not
        self.may_be_nan = first.may_be_nan  # NaN is a legitimate output
        # Estimators of one pass are fed round by round, or all of them at the end.
        self.anytime = type(self.cells[0][0].estimator.value).anytime
        needed = any(scorer.statistic.needs_pilot() for scorer in self.scorers)
        self.pilots = needed and not self.anytime  # some draws only choose thresholds or edges
        self.elements = math.prod(self.shape.dims)  # coordinates of one output
        self.draws = 2 * self.trials  # releases, on both datasets together
        self.coordinates = self.draws * max(1, self.elements)  # the work is proportional to it

    def only(self, cells: Sequence[Cell]) -> Pass:
        """Return a pass with some of the cells, on the same draws and with the same counts."""
        return arrange(self.stream, self.trials, self.rows, self.shape, self.data, cells)


def arrange(
    stream: Stream, trials: int, rows: int, shape: Shape, data: str, cells: Sequence[Cell]
) -> Pass:
    """Put cells that share their draws into one pass; `data` is the digest of D and D′."""
    variants: dict[Any, int] = {}
    scorers: dict[tuple[Any, Any, Statistic], dict[Any, int]] = {}
    placed = []
    for cell in cells:
        variant = variants.setdefault(cell.mechanism.value, len(variants))
        own = cell.attack.value if type(cell.attack.value).see is not Attack.see else None
        key = (trees.structure(cell.attack.value), own, cell.estimator.value.statistic())
        attacks = scorers.setdefault(key, {})
        attack = attacks.setdefault(cell.attack.value, len(attacks))
        placed.append((cell, PassPosition(variant, list(scorers).index(key), attack)))
    return Pass(
        stream=stream,
        trials=trials,
        rows=rows,
        shape=shape,
        pair=cells[0].pair.value,
        data=data,
        mechanisms=tuple(variants),
        scorers=tuple(Scorer(tuple(attacks), stat) for (*_, stat), attacks in scorers.items()),
        cells=tuple(placed),
    )


@dataclasses.dataclass(frozen=True)
class Plan:
    """All decisions that are made before the first draw."""

    audit: Audit
    passes: tuple[Pass, ...]
    failed: tuple[tuple[Cell, str], ...]
    """Cells whose mechanism or attack cannot even be traced, with the reason."""
    skipped: tuple[Skip, ...]
    m: int  # cells with a claim and a certifying estimator, failed ones included
    certifying_cells: int
    """Cells that certify a bound, claimed or not; their bounds must hold together."""
    prng: str  # name of the generator
    searches: tuple[Cell, ...] = ()  # cells that are searched, each with draws of its own


def plan(audit: Audit, prng: str, source: requests.WorkerSource | None = None) -> Plan:
    """Arrange the cells of an audit into passes over shared draws.

    `source` makes trial calls of black boxes; default: worker processes that this call ends.
    """
    with contextlib.ExitStack() as stack:
        source = source or stack.enter_context(source_of(audit.cells, audit.interpreters))
        planner = _Planner(audit, prng, source)
        while planner.left:
            try:
                with_timeout(planner.go_on, audit.run.seconds)
            except StuckError as stuck:
                planner.give_up(str(stuck))
        return planner.plan()


_Shared = tuple["Stream", int, int, "Shape", str, bool, bool]


class _Look(NamedTuple):
    """The result of examining a cell."""

    certified: bool
    problem: str  # reason why it cannot be run
    searched: bool = False  # True if a search draws for it
    shared: _Shared | None = None  # key of the pass that it belongs to, if it can be run


class _Planner:
    """Examines one cell after the other, in a thread that may be abandoned.

    If a plugin does not return, its cell fails, a new thread continues, and the result of the old
    thread is ignored.
    """

    def __init__(self, audit: Audit, prng: str, source: requests.WorkerSource) -> None:
        self.audit, self.prng = audit, prng
        self.left = deque(audit.cells)
        self._tracer = Tracer(audit.run, prng, source)
        self._skipped = list(audit.skipped)
        self._failed: list[tuple[Cell, str]] = []
        self._searches: list[Cell] = []
        self._together: dict[_Shared, list[Cell]] = {}
        self._digests: dict[Any, str] = {}
        self._unusable = {one.name: one.problem for one in audit.environments if one.problem}
        self._m = self._certifying = 0
        self._turn = object()
        self._change = threading.Lock()  # one thread at a time takes the current cell

    def go_on(self) -> None:
        """Examine the cells that are left."""
        turn = self._turn = object()
        black_boxes = all(isinstance(cell.mechanism.value, HostMechanism) for cell in self.left)
        with precision_of(self.audit.run, on_host=black_boxes):
            while self.left:
                cell = self.left[0]
                look = self._look(cell)
                with self._change:
                    if self._turn is not turn:
                        return
                    self._take(self.left.popleft(), look)

    def give_up(self, reason: str) -> None:
        """Fail the current cell; it counts among the tests."""
        with self._change:
            self._turn = object()
            if self.left:  # else the call returned at the last moment
                cell = self.left.popleft()
                self._take(cell, _Look(type(cell.estimator.value).certifies, reason))

    def plan(self) -> Plan:
        """Return the plan."""
        passes = tuple(arrange(*shared[:5], cells) for shared, cells in self._together.items())
        left_out = tuple(self._failed), tuple(self._skipped)
        counted = self._m, self._certifying
        return Plan(self.audit, passes, *left_out, *counted, self.prng, tuple(self._searches))

    def _take(self, cell: Cell, look: Skip | _Look) -> None:
        if isinstance(look, Skip):
            self._skipped.append(look)
            return
        self._certifying += look.certified
        self._m += look.certified and cell.claim is not None
        if look.searched:
            self._searches.append(cell)
        elif look.shared is None:
            self._failed.append((cell, look.problem))
        else:
            self._together.setdefault(look.shared, []).append(cell)

    def _look(self, cell: Cell) -> Skip | _Look:
        attack, certified, tracer, run = cell.attack.value, False, self._tracer, self.audit.run
        problem = self._unusable.get(getattr(cell.mechanism.value, "environment", None) or "", "")
        if problem or cell.search is not None:
            certified = type(cell.estimator.value).certifies
            return _Look(certified, problem, searched=not problem)
        try:
            accepts = plugin_calls.statistic_of(cell.estimator.value).accepts
            certified = plugin_calls.certifies(cell.estimator.value, cell.claim)
            if (pair := cell.pair.value) not in self._digests:
                _, self._digests[pair] = made_by(pair)
            data = self._digests[pair]
            shape, value = tracer.output_shape(cell), cell.mechanism.value
            declared = declared_rows(cell.mechanism.value)
            dtype = np.dtype(resolved(run, value, cell.trials).precision)
            dims = seen_shape(attack, shape, dtype).dims
            target = Target(value, cell.pair.value, dims)
            may_be_nan = plugin_calls.nan_allowed(cell.mechanism.value)
            if (reason := plugin_calls.unsuited(attack, target)) is not None:
                return _skip(cell, f"{cell.attack.label}: {reason}")
            plugin_calls.learns(attack)
            if attack.gives not in accepts:
                taken = f"{cell.estimator.label} takes {in_words(accepts)}"
                gives = f"{cell.attack.label} gives {in_words([attack.gives])}"
                return _skip(cell, f"{gives}, {taken}")
            if (reason := plugin_calls.mismatch(cell.mechanism.value, attack.gives)) is not None:
                return _skip(cell, f"{cell.mechanism.label}: {reason}")
            tracer.check_attack(cell, shape)
        except CellError as error:
            return _Look(certified, str(error))
        on_host = isinstance(cell.mechanism.value, HostMechanism)
        rows = run.chunk or declared or rows_per_chunk(shape.dims, on_host=on_host)
        group = draw_group(cell, data=data, precision=run.precision, prng=self.prng, rows=rows)
        stream = Stream(cell.seed, group, cell.repeat, EVAL)
        anytime = type(cell.estimator.value).anytime  # in a pass of their own, in rounds
        shared = (stream, cell.trials, rows, shape, data, may_be_nan, anytime)
        return _Look(certified, "", shared=shared)


def _skip(cell: Cell, reason: str) -> Skip:
    labels = (cell.mechanism.label, cell.pair.label, cell.attack.label, cell.estimator.label)
    return Skip(*labels, swept=cell.swept, reason=reason, expected=cell.expected)
