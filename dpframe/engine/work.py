"""One pass at work: prepared once, then counted segment by segment."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine import traced
from dpframe.engine.chunks import segments
from dpframe.engine.keys import base_key, host_generator
from dpframe.engine.lanes import stack
from dpframe.engine.learn import learn
from dpframe.engine.shapes import dataset, guarded, on_device
from dpframe.errors import CellError
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.engine.chunks import Segment
    from dpframe.engine.plan import Pass
    from dpframe.spec.audit import RunSettings
    from dpframe.types import Tree


class Work:
    """Counts of one pass.

    `prepare` comes first and may take long (it compiles and learns); then `count` may be called
    from several threads, and `add` from one at a time.
    """

    def __init__(self, the_pass: Pass, run: RunSettings, prng: str) -> None:
        self.the_pass = the_pass
        self.run = run
        self.prng = prng
        self.dtype = np.dtype(run.precision)
        self.counts: tuple[Tree, ...] = ()
        """Per scorer, every leaf [lanes, attacks, …] int64 on the host."""
        self.bounds: tuple[Tree, ...] = ()
        self.seconds = 0.0
        """Time spent on it, by all threads together."""

    def units(self) -> list[tuple[int, Segment]]:
        """(dataset, segment) for everything that has to be counted; D and D′ in turn."""
        elements = int(np.prod(self.the_pass.shape.dims))
        cut = list(segments(self.the_pass.trials, self.the_pass.rows, elements))
        return [(index, segment) for segment in cut for index in (0, 1)]

    def prepare(self) -> None:
        """Checks and learns; raises CellError with the author's mistake."""
        started = time.perf_counter()
        with jax.enable_x64(self.dtype == np.float64):
            the_pass = self.the_pass
            self.base = base_key(the_pass.stream, self.prng)
            self.data = tuple(dataset(the_pass.pair, index, self.dtype) for index in (0, 1))
            self.statistics = tuple(scorer.statistic for scorer in the_pass.scorers)
            self.attacks = tuple(stack(s.attacks, self.dtype) for s in the_pass.scorers)
            self.mechanisms = (
                None if self.on_host else stack(the_pass.mechanisms, self.dtype)
            )
            self.states, self.bounds = learn(the_pass, self.run, self.prng)
            self.zeros = tuple(
                _zeros(scorer.statistic, bound, len(the_pass.mechanisms), len(scorer.attacks))
                for scorer, bound in zip(the_pass.scorers, self.bounds, strict=True)
            )
            self.counts = jax.tree.map(lambda leaf: leaf.astype(np.int64), self.zeros)
            self._look_for_nan()
        self.seconds = time.perf_counter() - started

    def count(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        """Counts of one segment of one dataset; every leaf [lanes, attacks, …] int64."""
        with jax.enable_x64(self.dtype == np.float64):
            counted = self._count_host(index, segment) if self.on_host else self._count_traced(
                index, segment
            )
            return jax.tree.map(lambda leaf: np.asarray(leaf, np.int64), counted)

    def add(self, counted: tuple[Tree, ...], seconds: float) -> None:
        """Adds the counts of a segment, and the time they took, to the totals."""
        self.counts = jax.tree.map(np.add, self.counts, counted)
        self.seconds += seconds

    def draws_of(self, segment: Segment) -> int:
        """Coordinates of a segment that count."""
        rows = (segment.stop - segment.first) * segment.limit
        return rows * max(1, int(np.prod(self.the_pass.shape.dims)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the record of every cell of the pass."""
        mechanism = self.the_pass.mechanisms[0]
        notes = [self.looked_at]
        if isinstance(mechanism, HostMechanism) and not mechanism.seedable:
            notes.append("not replayable: the mechanism does not take its randomness from the seed")
        return tuple(notes)

    @property
    def on_host(self) -> bool:
        """Whether the mechanism is plain Python."""
        return isinstance(self.the_pass.mechanisms[0], HostMechanism)

    @property
    def looked_at(self) -> str:
        """Which outputs were looked at for NaN."""
        if self.the_pass.mechanisms[0].may_be_nan:
            return "NaN is a legitimate output of this mechanism"
        if not np.issubdtype(self.the_pass.shape.dtype, np.inexact):
            return "outputs are integers, none can be NaN"
        seen = "all outputs" if self.on_host else f"the first {self.the_pass.rows} outputs"
        return f"{seen} on each dataset were looked at for NaN"

    @property
    def _checks_nan(self) -> bool:
        return self.looked_at.endswith("looked at for NaN")

    def _count_traced(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        return traced.count_chunks(
            self.zeros,
            self.mechanisms,
            self.attacks,
            self.states,
            self.bounds,
            self.base,
            self.data[index],
            *(np.int32(number) for number in (index, *segment)),
            statistics=self.statistics,
            rows=self.the_pass.rows,
        )

    def _count_host(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        lanes = []
        for lane in range(len(self.the_pass.mechanisms)):
            counts, states, bounds = jax.tree.map(
                lambda leaf, lane=lane: leaf[lane], (self.zeros, self.states, self.bounds)
            )
            for chunk in range(segment.first, segment.stop):
                counts = traced.count_given(
                    counts,
                    self.attacks,
                    states,
                    bounds,
                    self._host_outputs(lane, chunk, index),
                    np.int32(index),
                    np.int32(segment.limit),
                    statistics=self.statistics,
                )
            lanes.append(counts)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *lanes)

    def _host_outputs(self, lane: int, chunk: int, index: int) -> Any:
        the_pass = self.the_pass
        mechanism = the_pass.mechanisms[lane]
        rng = host_generator(the_pass.stream, chunk, index)
        outputs = guarded(
            "sample", lambda: np.asarray(mechanism.sample(rng, self.data[index], the_pass.rows))
        )
        expected = (the_pass.rows, *the_pass.shape.dims)
        if outputs.shape != expected:
            raise CellError(f"sample returned shape {outputs.shape}, not {expected}")
        if self._checks_nan and np.isnan(outputs).any():
            raise CellError(_NAN)
        return outputs.astype(on_device(outputs.dtype, self.dtype))

    def _look_for_nan(self) -> None:
        if self.on_host or not self._checks_nan:
            return
        for index in (0, 1):
            found = guarded(
                "sample",
                lambda index=index: traced.nan_lanes(
                    self.mechanisms, self.base, self.data[index], np.int32(index),
                    rows=self.the_pass.rows,
                ),
            )
            if np.any(found):
                raise CellError(_NAN)


_NAN = "sample returned NaN; if that is meant, the mechanism says may_be_nan = True"


def _zeros(statistic: Any, bound: Tree, lanes: int, attacks: int) -> Tree:
    first = jax.tree.map(lambda leaf: leaf[0, 0], bound)
    zero = statistic.zero(first)
    return jax.tree.map(
        lambda leaf: np.zeros((lanes, attacks, *leaf.shape), np.asarray(leaf).dtype), zero
    )
