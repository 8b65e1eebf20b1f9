"""One pass at work: prepared once, then counted segment by segment."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine import traced
from dpframe.engine.chunks import segments
from dpframe.engine.keys import base_key
from dpframe.engine.lanes import pad, stack
from dpframe.engine.learn import learn
from dpframe.engine.shapes import dataset, guarded
from dpframe.errors import CellError

if TYPE_CHECKING:
    from dpframe.engine.chunks import Segment
    from dpframe.engine.plan import Pass
    from dpframe.spec.audit import RunSettings
    from dpframe.types import Tree

NAN_FOUND = "sample returned NaN; if that is meant, the mechanism says may_be_nan = True"


class Work(ABC):
    """Counts of one pass.

    `prepare` comes first and may take long (it learns); then `count` may be called from several
    threads, and `add` from one at a time.
    """

    def __init__(self, the_pass: Pass, run: RunSettings, prng: str) -> None:
        self.the_pass = the_pass
        self.run = run
        self.prng = prng
        self.dtype = np.dtype(run.precision)
        self.lanes = len(the_pass.mechanisms)
        self.statistics = tuple(scorer.statistic for scorer in the_pass.scorers)
        self.counts: tuple[Tree, ...] = ()
        """Per scorer, every leaf [lanes, attacks, …] int64 on the host."""
        self.bounds: tuple[Tree, ...] = ()
        self.seconds = 0.0
        """Time spent on it, by all threads together."""

    def units(self) -> list[tuple[int, Segment]]:
        """(dataset, segment) for everything that has to be counted; D and D′ in turn."""
        cut = list(segments(self.the_pass.trials, self.the_pass.rows, self.the_pass.elements))
        return [(index, segment) for segment in cut for index in (0, 1)]

    def prepare(self) -> None:
        """Learns and checks; raises CellError with the author's mistake."""
        started = time.perf_counter()
        with self.precision():
            the_pass = self.the_pass
            self.data = tuple(dataset(the_pass.pair, index, self.dtype) for index in (0, 1))
            self.states, self.bounds = learn(the_pass, self.run, self.prng)
            self.attacks = tuple(stack(s.attacks, self.dtype) for s in the_pass.scorers)
            self.zeros = tuple(
                _zeros(scorer.statistic, bound, self.lanes, len(scorer.attacks))
                for scorer, bound in zip(the_pass.scorers, self.bounds, strict=True)
            )
            self.counts = jax.tree.map(lambda leaf: leaf.astype(np.int64), self.zeros)
            self.ready()
        self.seconds = time.perf_counter() - started

    def count(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        """Counts of one segment of one dataset; every leaf [lanes, attacks, …] int64."""
        with self.precision():
            counted = self.draw_and_count(index, segment)
            return tuple(
                jax.tree.map(lambda leaf: np.asarray(leaf[: self.lanes], np.int64), tree)
                for tree in counted
            )

    def add(self, counted: tuple[Tree, ...], seconds: float) -> None:
        """Adds the counts of a segment, and the time they took, to the totals."""
        self.counts = jax.tree.map(np.add, self.counts, counted)
        self.seconds += seconds

    def draws_of(self, segment: Segment) -> int:
        """Coordinates of a segment that count."""
        return (segment.stop - segment.first) * segment.limit * max(1, self.the_pass.elements)

    def precision(self) -> Any:
        """Context in which JAX has the run's precision; it belongs to a thread."""
        return jax.enable_x64(self.dtype == np.float64)

    def nan_check(self, extent: str) -> str:
        """Which outputs are looked at for NaN, given how many are if any."""
        if self.the_pass.mechanisms[0].may_be_nan:
            return "NaN is a legitimate output of this mechanism"
        if not np.issubdtype(self.the_pass.shape.dtype, np.inexact):
            return "outputs are integers, none can be NaN"
        return f"{extent} on each dataset were looked at for NaN"

    @property
    def nan_matters(self) -> bool:
        """Whether a NaN would fail the cell."""
        floating = np.issubdtype(self.the_pass.shape.dtype, np.inexact)
        return bool(floating) and not self.the_pass.mechanisms[0].may_be_nan

    @property
    @abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Remarks for the record of every cell of the pass."""

    @abstractmethod
    def ready(self) -> None:
        """The last step of preparing."""

    @abstractmethod
    def draw_and_count(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        """Counts of one segment; every leaf [lanes or more, attacks, …]."""


class TracedWork(Work):
    """A pass over a mechanism that JAX traces: one call of the device per segment."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.nan_check(f"the first {self.the_pass.rows} outputs"),)

    def ready(self) -> None:
        self.base = base_key(self.the_pass.stream, self.prng)
        padded = (self.zeros, stack(self.the_pass.mechanisms, self.dtype), self.states, self.bounds)
        self.zeros, self.mechanisms, states, bounds = pad(padded, self.lanes)
        self.scoring = traced.Scoring(self.attacks, states, bounds)
        if self.nan_matters:
            self._look_for_nan()

    def draw_and_count(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        counted: tuple[Tree, ...] = guarded(
            "counting",
            partial(
                traced.count_chunks,
                self.zeros,
                self.mechanisms,
                np.int32(self.lanes),
                self.scoring,
                self._origin(index),
                traced.Span(*(np.int32(number) for number in segment)),
                statistics=self.statistics,
                rows=self.the_pass.rows,
            ),
        )
        return counted

    def _origin(self, index: int) -> traced.Origin:
        return traced.Origin(self.base, self.data[index], np.int32(index))

    def _look_for_nan(self) -> None:
        found = pad(np.zeros(self.lanes, bool), self.lanes)
        lanes, rows = np.int32(self.lanes), self.the_pass.rows
        for index in (0, 1):
            look = partial(
                traced.nan_lanes, found, self.mechanisms, lanes, self._origin(index), rows=rows
            )
            if np.any(guarded("sample", look)):
                raise CellError(NAN_FOUND)


def _zeros(statistic: Any, bound: Tree, lanes: int, attacks: int) -> Tree:
    first = jax.tree.map(lambda leaf: leaf[0, 0], bound)
    zero = statistic.zero(first)
    return jax.tree.map(
        lambda leaf: np.zeros((lanes, attacks, *leaf.shape), np.asarray(leaf).dtype), zero
    )
