"""One pass at work: prepared once, then counted segment by segment."""

from __future__ import annotations

import heapq
import itertools
import time
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from dpframe.engine import programs
from dpframe.engine.address import base_key
from dpframe.engine.checkpoint import resume, saved
from dpframe.engine.chunks import segments
from dpframe.engine.draws import Draws
from dpframe.engine.fingerprint import entry_keys
from dpframe.engine.guard import guarded
from dpframe.engine.lanes import pad, stack, unstacked
from dpframe.engine.learn import learn
from dpframe.engine.precision import can_be_nan, dataset, precision_of
from dpframe.engine.sanity import NAN_FOUND, check_outputs_vary, check_rows_alone
from dpframe.engine.tally import Tally, no_counts
from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dpframe.attack import Attack
    from dpframe.engine.checkpoint import Store
    from dpframe.engine.chunks import Segment
    from dpframe.engine.plan import Pass
    from dpframe.spec.audit import RunSettings
    from dpframe.types import HostArray, Tree


class Work(ABC):
    """Counts of one pass.

    `prepare` comes first and may take long (it learns); then `count` may be called from several
    threads, and `add` from one at a time.
    """

    on_host = False

    def __init__(self, the_pass: Pass, run: RunSettings, prng: str, store: Store) -> None:
        self.the_pass = the_pass
        self.run = run
        self.prng = prng
        self.store = store
        self.dtype = np.dtype(run.precision)
        self.lanes = len(the_pass.mechanisms)
        self.statistics = tuple(scorer.statistic for scorer in the_pass.scorers)
        self.layouts: tuple[Tree, ...] = ()
        self.seconds = 0.0
        """Time spent on it, by all threads together."""
        self._deadline: float | None = None
        self._changed = False

    def prepare(self) -> None:
        """Learns, checks, and finds what is counted already.

        Raises:
            CellError: the author's mistake.
            Uneven: some cells have come further than others and must go on separately.
        """
        started = time.perf_counter()
        with precision_of(self.run):
            the_pass = self.the_pass
            self.data = tuple(dataset(the_pass.pair, index, self.dtype) for index in (0, 1))
            self.states, self.layouts = learn(Draws(the_pass, self.run, self.prng))
            self.attacks = tuple(stack(s.attacks, self.dtype) for s in the_pass.scorers)
            self.zeros = no_counts(the_pass, self.layouts)
            self.keys = entry_keys(the_pass, self.states, self.layouts)
            prefix, done = resume(the_pass, self.zeros, self.keys, self.store)
            self.tally = Tally(prefix, done, the_pass.rows)
            if next(self.units(), None) is not None:
                self.ready()
                for lane in range(self.lanes):
                    self._check_attacks(lane, self.look(lane))
        self.seconds = time.perf_counter() - started

    def units(self) -> Iterator[tuple[int, Segment]]:
        """(dataset, segment) for everything that is still to be counted; D and D′ in turn.

        The first of each dataset come first. Made as they are asked for: there may be billions.
        """
        the_pass = self.the_pass
        size = (the_pass.trials, the_pass.rows, the_pass.elements)
        how = {"on_host": self.on_host, "slow": the_pass.slow}
        both = [segments(*size, self.tally.done[d], **how) for d in (0, 1)]
        for index, of_one in enumerate(both):
            for segment in itertools.islice(of_one, 1):
                yield index, segment
        rest = [zip(of_one, itertools.repeat(index)) for index, of_one in enumerate(both)]
        for segment, index in heapq.merge(*rest):
            yield index, segment

    def count(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        """Counts of one segment of one dataset; every leaf [lanes, attacks, …] int64."""
        with precision_of(self.run):
            counted = self.draw_and_count(index, segment)
            return tuple(
                jax.tree.map(lambda leaf: np.asarray(leaf[: self.lanes], np.int64), tree)
                for tree in counted
            )

    def add(self, index: int, segment: Segment, counted: tuple[Tree, ...], seconds: float) -> None:
        """Takes in the counts of a segment and the time they took."""
        self.tally.add(index, segment, counted)
        self.seconds += seconds
        self._changed = True

    def save(self) -> None:
        """Hands what is counted to the store."""
        if self._changed:
            for cell, place in self.the_pass.cells:
                key = self.keys[cell.id]
                self.store.save(self.the_pass.stream, key, saved(self.tally, place))
            self._changed = False

    def out_of_time(self) -> bool:
        """Whether the time budget of the spec is spent."""
        if self.run.seconds is None:
            return False
        if self._deadline is None:  # the first segment is about to start
            self._deadline = time.perf_counter() + self.run.seconds
        return time.perf_counter() > self._deadline

    def draws_of(self, segment: Segment) -> int:
        """Releases of a segment that count."""
        return (segment.stop - segment.first) * segment.limit

    @property
    def nan_matters(self) -> bool:
        """Whether a NaN would fail the cell."""
        return can_be_nan(self.the_pass.shape.dtype) and not self.the_pass.may_be_nan

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Remarks for the record of every cell of the pass."""

    @abstractmethod
    def ready(self) -> None:
        """The last step of preparing."""

    @abstractmethod
    def look(self, lane: int) -> tuple[HostArray, HostArray]:
        """The first outputs of a lane on D and on D′, as attacks see them, and looked at."""

    @abstractmethod
    def draw_and_count(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        """Counts of one segment; every leaf [lanes or more, attacks, …]."""

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Lets go of whatever the work holds; it counts no more."""

    def _check_attacks(self, lane: int, chunks: tuple[HostArray, HostArray]) -> None:
        """Tries every attack on a lane's outputs; several statistics of one share the trial.

        What has learned nothing does the same in every lane, so the first and the last will do.
        """
        tried = set()
        inner = 0 < lane < self.lanes - 1
        for scorer, states in zip(self.the_pass.scorers, self.states, strict=True):
            for place, attack in enumerate(scorer.attacks):
                if attack not in tried and not (inner and not attack.has_fit()):
                    tried.add(attack)
                    state = jax.tree.map(lambda leaf, at=place: leaf[lane, at], states)
                    check_rows_alone(self._score(attack, state), chunks)

    def _score(self, attack: Attack, state: Tree) -> Callable[[HostArray], HostArray]:
        leaves = unstacked(attack, self.dtype)

        def score(outputs: HostArray) -> HostArray:
            call = partial(programs.score_given, leaves, state, outputs)
            return np.asarray(guarded("score", call))

        return score

    def nan_note(self, extent: str) -> str:
        """Which outputs were looked at for NaN, given how many are if any."""
        if self.the_pass.may_be_nan:
            return "NaN is a legitimate output of this mechanism"
        if not self.nan_matters:
            return "outputs are integers, none can be NaN"
        return f"{extent} on each dataset were looked at for NaN"


CHUNKS = 4
"""Chunks of D that are looked at."""


class TracedWork(Work):
    """A pass over a mechanism that JAX traces: one call of the device per segment."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.nan_note(f"the first {self.the_pass.rows} outputs"),)

    def ready(self) -> None:
        self.base = base_key(self.the_pass.stream, self.prng)
        mechanisms = stack(self.the_pass.mechanisms, self.dtype)
        padded = (self.zeros, mechanisms, self.states, self.layouts)
        self.counts, self.mechanisms, states, layouts = pad(padded, self.lanes)
        self.scoring = programs.Scoring(self.attacks, states, layouts)

    def look(self, lane: int) -> tuple[HostArray, HostArray]:
        mechanism = unstacked(self.the_pass.mechanisms[lane], self.dtype)

        def draw(index: int, chunk: int) -> HostArray:
            call = partial(
                programs.draw_chunk,
                mechanism,
                self._origin(index),
                np.int32(chunk),
                rows=self.the_pass.rows,
            )
            return np.asarray(guarded("sample", call))

        chunks, other = [draw(0, chunk) for chunk in range(CHUNKS)], draw(1, 0)
        if self.nan_matters and (np.isnan(chunks[0]).any() or np.isnan(other).any()):
            raise CellError(NAN_FOUND)
        check_outputs_vary(chunks)
        return chunks[0], other

    def draw_and_count(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        call = partial(
            programs.count_chunks,
            self.counts,
            self.mechanisms,
            np.int32(self.lanes),
            self.scoring,
            self._origin(index),
            programs.Span(*(np.int32(number) for number in segment)),
            statistics=self.statistics,
            rows=self.the_pass.rows,
            width=programs.chunks_at_once(self.the_pass.rows * max(1, self.the_pass.elements)),
        )
        counted: tuple[Tree, ...] = guarded("counting", call)
        return counted

    def _origin(self, index: int) -> programs.Origin:
        """Where the draws of a dataset come from."""
        return programs.Origin(self.base, self.data[index], np.int32(index))
