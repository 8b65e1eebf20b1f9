"""One pass: prepared once, then counted segment by segment."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.common import trees
from dpframe.count import checkpoint, fingerprint
from dpframe.count.draws import Draws, learn
from dpframe.count.kernel import CountSegment, CountTask, count_segment
from dpframe.count.rounds import PrefixCounts, Rounds, no_counts
from dpframe.count.scoring import scores_of
from dpframe.draw import independence, programs, row_checks, trace
from dpframe.draw.local_executor import LOCAL_EXECUTOR, result
from dpframe.draw.streams import EVAL, Segment, can_be_nan, precision_of, segments, windowed
from dpframe.draw.value_digest import made_by
from dpframe.errors import CellError
from dpframe.interfaces.plugin_calls import call_plugin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpframe.common.types import HostArray, Tree
    from dpframe.count.plan import Pass, PassPosition
    from dpframe.engine.anytime import AnytimePass
    from dpframe.interfaces.attack import Attack
    from dpframe.interfaces.executor import Executor
    from dpframe.spec.audit import Cell, RunSettings


CHANGED = (
    "D or D′ has changed since the run began: a pair must make the same data each time, and the "
    "files that it reads must not change"
)
OVERTIME_SECONDS = 5.0  # seconds beyond its time budget for the segments that a pass has begun
FIRST_OVERTIME_SECONDS = 30.0
"""The same for a pass that has counted nothing yet: it may be compiling."""

CHUNKS = 4, 4  # chunks of D and of D′ that are checked
SLOW_CHUNKS = 3, 1  # the same if releases are slow: the fewest that reveal 8 frozen rows


class PassWork(ABC):
    """The work on one pass.

    `prepare` comes first and may take long, because attacks learn. Then several threads may call
    `count` at a time, and one may call `add`.
    """

    on_host = False

    def __init__(
        self, the_pass: Pass, run: RunSettings, prng: str, store: checkpoint.Store, tried: set[Any]
    ) -> None:
        self.the_pass = the_pass
        self.run = run = trace.resolved(run, the_pass.mechanisms[0], the_pass.trials)
        self.prng = prng
        self.store = store
        self.tried = tried
        """Mechanisms and attacks that were checked already; shared by all passes of a run."""
        self.dtype = np.dtype(run.precision)
        self.variants = len(the_pass.mechanisms)
        self.statistics = tuple(scorer.statistic for scorer in the_pass.scorers)
        self.layouts: tuple[Tree, ...] = ()
        self.nan_matters = can_be_nan(the_pass.shape.dtype) and not the_pass.may_be_nan
        """True if a NaN would fail the cell."""
        self.upto = the_pass.trials  # trials of each dataset at which counting ends
        self.in_steps = False
        """True if the estimators decide after each round if another follows."""
        self.tally: PrefixCounts | Rounds
        self.anytime: AnytimePass | None = None
        """Feeds anytime estimators round by round; None for others."""
        self.seconds = 0.0  # time spent on the pass, by all threads together
        self.keys: dict[str, str] = {}
        self.segment_scale = 1  # size of segments, as a multiple of the usual size
        self._apart: dict[range, tuple[Tree, ...]] = {}  # windows counted on one dataset only
        self.window: range | None = None
        """Whole chunks of each dataset that are counted here; None: all, and the tail."""
        self._until: float | None = None
        """End of the time budget: first of preparing, then of counting."""
        self.cancelled = threading.Event()  # set when the run ends early
        self.begun = False  # True once counting has begun
        self._changed = False

    def prepare(self) -> None:
        """Let attacks learn, check the plugins, and find the stored counts.

        Raises CellError for a mistake of a plugin, and MixedProgress if some cells have more stored
        counts than others and must continue separately.
        """
        started = time.perf_counter()
        self._until = None if self.run.seconds is None else started + self.run.seconds
        with precision_of(self.run, on_host=self.on_host):
            the_pass = self.the_pass
            self._make_data()
            self.states, self.layouts = learn(self.learning())
            self.attacks = tuple(trace.stack(s.attacks, self.dtype) for s in the_pass.scorers)
            self.zeros = no_counts(the_pass, self.layouts)
            self.keys = fingerprint.entry_keys(the_pass, self.states, self.layouts)
            self._find_counts()
            if next(self.units(), None) is not None:
                self.ready()
                self._check_first_outputs()
                self.compile()
        self.seconds = time.perf_counter() - started

    def _make_data(self) -> None:
        # Made once, so that draws use the data that was compared.
        self.made, digest = made_by(self.the_pass.pair)
        if digest != self.the_pass.data:
            raise CellError(CHANGED)

    def _find_counts(self) -> None:
        the_pass = self.the_pass
        window = self.window
        self.upto = the_pass.trials if window is None else window.stop * the_pass.rows
        self.in_steps = self.anytime is not None and self.anytime.stops
        if self.anytime is None:
            if self.window is not None:
                self.keys = {cell: windowed(key, self.window) for cell, key in self.keys.items()}
            prefix, done = checkpoint.resume(
                the_pass, self.zeros, self.keys, self.store, self.window
            )
            self.tally = PrefixCounts(prefix, done, the_pass.rows)
            return
        size = the_pass.trials, the_pass.rows, the_pass.elements
        self.tally = Rounds(self.zeros, *size, whole=the_pass.costly)
        self.anytime.begin(self.tally, self.layouts, self.keys, self.store)

    def units(self) -> Iterator[tuple[int, Segment]]:
        """Yield (dataset, segment) for everything still to be counted, D and D′ in turn.

        The first segment of each dataset comes first. There may be billions of segments.
        """
        the_pass = self.the_pass
        if isinstance(self.tally, Rounds):
            yield from self.tally.units(self.tally.step() if self.in_steps else None)
            return
        size = (self.upto, the_pass.rows, the_pass.elements)
        settings: Any = {
            "slow": the_pass.slow,
            "times": self.segment_scale,
            "parts": self.store.parts or 1,
        }
        both = [iter(segments(*size, done, **settings)) for done in self.tally.done]
        for index, of_one in enumerate(both):
            if (segment := next(of_one, None)) is not None:
                yield index, segment
        later = [zip(of_one, itertools.repeat(index)) for index, of_one in enumerate(both)]
        for segment, index in heapq.merge(*later):
            yield index, segment

    def count(self, index: int, segment: Segment) -> tuple[Segment, tuple[Tree, ...]]:
        """Count one segment of a dataset; return it, cut if time ran out, and its counts.

        Leaves are int64 [variants, attacks, …], with slices [slices, variants, attacks, …].
        """
        with precision_of(self.run, on_host=self.on_host):
            variants = self.active
            segment, counted = self.draw_and_count(index, segment)

            def placed(leaf: Any, zero: HostArray) -> HostArray:
                lead = (len(segment.slices),) if segment.slices else ()
                segment_counts = np.zeros((*lead, *zero.shape), np.int64)
                by_variant = segment_counts.swapaxes(0, len(lead))  # a view
                by_variant[list(variants)] = np.asarray(leaf).swapaxes(0, len(lead))[
                    : len(variants)
                ]
                return segment_counts

            segment_counts: tuple[Tree, ...] = trees.map(placed, tuple(counted), self.zeros)
            return segment, segment_counts

    def add(self, index: int, segment: Segment, counted: tuple[Tree, ...], seconds: float) -> None:
        """Add the counts of a segment, and the seconds that they took."""
        self.tally.add(index, segment, counted)
        self.seconds += seconds
        self._changed = True
        if self.store.blocks and self.anytime is None and segment.limit == self.the_pass.rows:
            window = range(segment.first, segment.stop)
            if (other := self._apart.pop(window, None)) is None:
                self._apart[window] = counted
                return
            both = trees.map(np.add, other, counted)
            for cell, place in self.the_pass.cells if window else ():
                key = windowed(self.keys[cell.id], window)
                entry = checkpoint.saved(both, (window.stop, window.stop), place)
                self.store.blocks.save(self.the_pass.stream, key, entry)

    @property
    def active(self) -> Sequence[int]:
        """Variants that are counted now."""
        return range(self.variants) if self.anytime is None else self.anytime.rounds.active

    def save(self) -> None:
        """Hand the counts to the store."""
        if self._changed and self.anytime is not None:
            self.anytime.save()
        elif self._changed and isinstance(self.tally, PrefixCounts):
            for cell, place in self.the_pass.cells:
                entry = checkpoint.saved(self.tally.prefix, self.tally.done, place)
                self.store.save(self.the_pass.stream, self.keys[cell.id], entry)
        self._changed = False

    def forget(self) -> None:
        """Remove the counts from the store."""
        self._changed = False
        if self.anytime is not None:
            self.anytime.forget()
            return
        for key in self.keys.values():
            self.store.forget(self.the_pass.stream, key)

    def begin(self) -> None:
        """Start the time budget of the spec, just before the first segment."""
        if self.run.seconds is not None and not self.begun:
            self._until = time.perf_counter() + self.run.seconds
        self.begun = True

    def time_left(self) -> float | None:
        """Return the seconds left of the time budget, negative afterwards; None without one."""
        return None if self._until is None else self._until - time.perf_counter()

    def exceptions_of(self, variant: int) -> list[float] | None:
        """Return the shares of exceptions among the answers on D and on D′; None for arrays."""
        return None

    def untested(self, cell: Cell, variant: int) -> str | None:
        """Return why nothing was tested if a black box gave one answer in all calls; else None."""
        return None

    def gives_equal_scores(self, cell: Cell, place: PassPosition) -> bool:
        """True if the attack of a cell gives all of the first outputs the same score.

        False if the first outputs are too expensive to draw again.
        """
        state = place.own(self.states)
        leaves = trace.unstacked(cell.attack.value, self.dtype)
        scores = []
        with precision_of(self.run, on_host=self.on_host):
            for outputs in self.examples(place.variant):
                first_scores = np.asarray(
                    call_plugin("score", programs.score_given, leaves, state, outputs)
                )
                # Of canaries, scores come before memberships.
                scores.append(
                    first_scores if first_scores.ndim == 1 else first_scores[:, 0].ravel()
                )
        return len(scores) > 0 and len(np.unique(np.concatenate(scores))) == 1

    def out_of_time(self) -> bool:
        """True if the time budget of the spec is spent."""
        left = self.time_left()
        return left is not None and left < 0

    def overdue(self) -> bool:
        """True if the pass stops waiting for running segments."""
        left = self.time_left()
        return left is not None and left < -(
            OVERTIME_SECONDS if self.has_counted else FIRST_OVERTIME_SECONDS
        )

    @property
    def has_counted(self) -> bool:
        """True if both datasets have trials, so that a bound is possible."""
        return self.begun and all(self.tally.trials)

    def draws_of(self, segment: Segment) -> int:
        """Return the counted releases of a segment."""
        if segment.slices:
            return sum(end - start for start, end in segment.slices)
        return (segment.stop - segment.first) * segment.limit

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Notes for the record of every cell of the pass."""

    @abstractmethod
    def learning(self) -> Draws:
        """Return the draws for attacks and pilots."""

    @abstractmethod
    def first_outputs(self, variant: int) -> tuple[HostArray, HostArray]:
        """Return the first outputs of a variant on D and on D′, checked, as attacks see them."""

    @abstractmethod
    def draw_and_count(self, index: int, segment: Segment) -> tuple[Segment, tuple[Tree, ...]]:
        """Do the work of `count`; every leaf [variants or more, attacks, …]."""

    def ready(self) -> None:  # noqa: B027  # a black box has no counting task
        """Make the counting task, once attacks have learned."""

    def compile(self) -> None:  # noqa: B027  # a black box has no program
        """Compile the counting program, while other passes compile and count."""

    def conclude(self) -> None:  # noqa: B027  # most have nothing to check
        """Check all counted outputs at the end; raises WorthlessError if they are dependent."""

    def _check_first_outputs(self) -> None:
        """Check the first outputs of every variant, and the attacks on some.

        Code treats keys and rows alike for all values of its floats and in all repeats. So only the
        ends of a sweep are checked, and only once.
        """
        for variant in range(self.variants):
            outputs = self.first_outputs(variant)
            if variant in (0, self.variants - 1):
                self._try_attacks(variant, outputs)

    def examples(self, variant: int) -> Sequence[HostArray]:
        """Draw the first outputs of a variant on D and on D′ again; none if draws are expensive.

        They depend only on their addresses, so a resumed run shows the same outputs.
        """
        return ()

    def _try_attacks(self, variant: int, outputs: tuple[HostArray, HostArray]) -> None:
        draws = self.the_pass.stream.group, self.the_pass.mechanisms[variant]
        for scorer, states in zip(self.the_pass.scorers, self.states, strict=True):
            for place in {0, len(scorer.attacks) - 1}:
                attack = scorer.attacks[place]
                if (*draws, attack) not in self.tried:
                    state = trees.map(lambda leaf, at=place: leaf[variant, at], states)
                    rows = outputs
                    if self.the_pass.shape.asking is not None:
                        rows = self._as_seen(attack, outputs)
                    row_checks.check_rows_alone(partial(self._score, attack, state), rows)
                    self.tried.add((*draws, attack))

    def _as_seen(
        self, attack: Attack, outputs: tuple[HostArray, HostArray]
    ) -> tuple[HostArray, HostArray]:
        """Return answers of any kind as an attack sees them, each alone."""
        form = self.the_pass.shape, self.dtype
        trace.check_seen_alone(attack, outputs[0], *form)
        return trace.seen(attack, outputs[0], *form), trace.seen(attack, outputs[1], *form)

    def _score(self, attack: Attack, state: Tree, outputs: HostArray) -> HostArray:
        if self.on_host:
            scores = scores_of(attack, state, outputs)
        else:
            leaves = trace.unstacked(attack, self.dtype)
            scores = np.asarray(call_plugin("score", programs.score_given, leaves, state, outputs))
        return scores if scores.ndim == 1 else row_checks.one_number(scores)

    def nan_note(self, extent: str) -> str:
        """Return the note about the check for NaN, given the extent of the check."""
        if self.the_pass.shape.asking is not None:
            return "NaN is an answer like any other"
        if self.the_pass.may_be_nan:
            return "NaN is a valid output of this mechanism"
        if not self.nan_matters:
            return "outputs are integers, so none can be NaN"
        return f"{extent} on each dataset were checked for NaN"


class TracedPass(PassWork):
    """A pass over a mechanism that JAX traces; a segment is one call of the device."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.nan_note(f"the first {self.the_pass.rows:,} outputs"),)

    executor: Executor = LOCAL_EXECUTOR  # counts segments, and draws what takes long

    def learning(self) -> Draws:
        self.draws = Draws(self.the_pass, self.run, self.prng, self.made, self.executor)
        self.draws.cancelled = self.cancelled
        if (left := self.time_left()) is not None:
            self.draws.until = time.monotonic() + left + FIRST_OVERTIME_SECONDS
        return self.draws

    def ready(self) -> None:
        the_pass = self.the_pass
        mechanisms = trace.stack(the_pass.mechanisms, self.dtype)
        zeros, *padded = trace.pad(
            (self.zeros, mechanisms, self.states, self.layouts), self.variants
        )
        self.count_task = CountTask(
            zeros,
            (padded[0], padded[1], padded[2]),
            self.attacks,
            self.statistics,
            self.draws.data,
            the_pass.stream,
            self.prng,
            self.run.precision,
            self.variants,
            the_pass.rows,
            max(1, the_pass.elements),
            isinstance(getattr(self, "tally", None), Rounds),  # a search keeps its counts itself
        )

    def first_outputs(self, variant: int) -> tuple[HostArray, HostArray]:
        value, rows = self.the_pass.mechanisms[variant], self.the_pass.rows
        check_key = (self.the_pass.stream.group, value)
        is_known = variant not in (0, self.variants - 1) or check_key in self.tried
        number, others = SLOW_CHUNKS if self.the_pass.slow else CHUNKS
        number, others = (1, 1) if is_known else (number, others)
        x, y = self.draws.of_chunks(EVAL, variant, [(0, range(number)), (1, range(others))])
        if self.nan_matters and any(np.isnan(side[:rows]).any() for side in (x, y)):
            raise CellError(row_checks.NAN_FOUND)
        if not is_known:
            row_checks.check_outputs_vary(np.split(x, number))
            seen = independence.Independence(rows, 1)
            seen.see(0, 0, 0, x, counted=True)
            seen.see(0, 1, 0, y, counted=True)
            seen.conclude()
            self.tried.add(check_key)
        return x[:rows], y[:rows]

    def examples(self, variant: int) -> Sequence[HostArray]:
        if self.the_pass.slow:
            return ()
        return self.draws.of_chunks(EVAL, variant, [(0, range(1)), (1, range(1))])

    def compile(self) -> None:
        if self.executor.is_local and not self.the_pass.slow:  # else compiling early saves no time
            self.draw_and_count(0, Segment(0, 0, self.the_pass.rows))  # no chunk at all

    def draw_and_count(
        self, index: int, segment: Segment, executor: Executor | None = None
    ) -> tuple[Segment, tuple[Tree, ...]]:
        executor, variants = executor or self.executor, tuple(self.active)
        task = CountSegment(self.count_task, variants, index, segment)
        counted: tuple[Tree, ...]
        if executor.is_local:
            counted = call_plugin(
                "counting", count_segment, self.count_task, variants, index, segment
            )
            return segment, task.checked(counted)
        counted = call_plugin("counting", result, executor, task)
        return segment, counted
