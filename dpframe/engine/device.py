"""A pass over a mechanism that JAX traces: a segment is one call of the device."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from dpframe.engine import programs
from dpframe.engine.address import base_key
from dpframe.engine.draws import Draws
from dpframe.engine.guard import guarded
from dpframe.engine.independence import Independence
from dpframe.engine.lanes import pad, stack, unstacked
from dpframe.engine.precision import for_jax
from dpframe.engine.sanity import NAN_FOUND, check_outputs_vary
from dpframe.engine.work import Work
from dpframe.errors import CellError

if TYPE_CHECKING:
    from dpframe.engine.chunks import Segment
    from dpframe.types import HostArray, Tree

CHUNKS = 4
"""Chunks of each dataset that are looked at; of D′ only one where releases are slow."""


class DeviceWork(Work):
    """A pass over a mechanism that JAX traces."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.nan_note(f"the first {self.the_pass.rows} outputs"),)

    def learning(self) -> Draws:
        return Draws(self.the_pass, self.run, self.prng, self.made)

    def ready(self) -> None:
        self.data = for_jax(self.made, self.dtype)
        self.base = base_key(self.the_pass.stream, self.prng)
        mechanisms = stack(self.the_pass.mechanisms, self.dtype)
        padded = (self.zeros, mechanisms, self.states, self.layouts)
        self.padded: list[Tree]
        self.counts, *self.padded = pad(padded, self.lanes)

    def first_outputs(self, lane: int) -> tuple[HostArray, HostArray]:
        value = self.the_pass.mechanisms[lane]
        mechanism = unstacked(value, self.dtype)

        def draw(index: int, chunk: int) -> HostArray:
            call = partial(
                programs.draw_chunk,
                mechanism,
                self._origin(index),
                np.int32(chunk),
                rows=self.the_pass.rows,
            )
            return np.asarray(guarded("sample", call))

        outputs = draw(0, 0), draw(1, 0)
        if self.nan_matters and any(np.isnan(chunk).any() for chunk in outputs):
            raise CellError(NAN_FOUND)
        known = (self.the_pass.stream.group, value)
        if lane in (0, self.lanes - 1) and known not in self.tried:
            more = [draw(0, chunk) for chunk in range(1, CHUNKS)]
            check_outputs_vary([outputs[0], *more])
            seen = Independence(self.the_pass.rows, 1)
            seen.see(0, 0, 0, np.concatenate([outputs[0], *more]), counted=True)
            others = [] if self.the_pass.slow else [draw(1, chunk) for chunk in range(1, CHUNKS)]
            seen.see(0, 1, 0, np.concatenate([outputs[1], *others]), counted=True)
            seen.conclude()
            self.tried.add(known)
        return outputs

    def draw_and_count(self, index: int, segment: Segment) -> tuple[Segment, tuple[Tree, ...]]:
        mechanisms, states, layouts = self._of(tuple(self.active))
        call = partial(
            programs.count_chunks,
            self.counts,
            mechanisms,
            np.int32(len(self.active)),
            programs.Scoring(self.attacks, states, layouts),
            self._origin(index),
            programs.Span(*(np.int32(number) for number in segment)),
            statistics=self.statistics,
            rows=self.the_pass.rows,
            width=programs.chunks_at_once(self.the_pass.rows * max(1, self.the_pass.elements)),
        )
        counted: tuple[Tree, ...] = guarded("counting", call)
        return segment, counted

    def _of(self, lanes: tuple[int, ...]) -> list[Tree]:
        """Mechanisms, states and layouts, those of some lanes first; one program serves all."""
        if len(lanes) == self.lanes:
            return list(self.padded)
        order = np.resize(np.array(lanes), len(jax.tree.leaves(self.counts)[0]))
        found: list[Tree] = jax.tree.map(lambda leaf: leaf[order], self.padded)
        return found

    def _origin(self, index: int) -> programs.Origin:
        """Where the draws of a dataset come from."""
        return programs.Origin(self.base, self.data[index], np.int32(index))
