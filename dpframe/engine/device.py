"""A pass over a mechanism that JAX traces: a segment is one call of the device."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpframe.engine import programs
from dpframe.engine.address import chunk_keys
from dpframe.engine.chunks import Segment
from dpframe.engine.draws import Draws
from dpframe.engine.guard import guarded
from dpframe.engine.independence import Independence
from dpframe.engine.lanes import pad, stack, unstacked
from dpframe.engine.parcel import Parcel, count_segment
from dpframe.engine.precision import for_jax
from dpframe.engine.rounds import Rounds
from dpframe.engine.sanity import NAN_FOUND, check_outputs_vary
from dpframe.engine.work import Work
from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe.types import HostArray, Tree

CHUNKS = 4
"""Chunks of each dataset that are looked at; of D′ only one where releases are slow."""


class Away(Protocol):
    """Counts segments elsewhere."""

    def __call__(
        self, parcel: Parcel, lanes: Sequence[int], index: int, segment: Segment
    ) -> tuple[Tree, ...]:
        """What `count_segment` gives."""


class DeviceWork(Work):
    """A pass over a mechanism that JAX traces."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.nan_note(f"the first {self.the_pass.rows} outputs"),)

    def learning(self) -> Draws:
        return Draws(self.the_pass, self.run, self.prng, self.made)

    away: Away | None = None
    """Who counts segments elsewhere; None: they are counted here."""

    def ready(self) -> None:
        the_pass = self.the_pass
        self.data = for_jax(self.made, self.dtype)
        mechanisms = stack(the_pass.mechanisms, self.dtype)
        zeros, *padded = pad((self.zeros, mechanisms, self.states, self.layouts), self.lanes)
        self.parcel = Parcel(
            zeros,
            (padded[0], padded[1], padded[2]),
            self.attacks,
            self.statistics,
            self.data,
            the_pass.stream,
            self.prng,
            self.run.precision,
            self.lanes,
            the_pass.rows,
            max(1, the_pass.elements),
            isinstance(getattr(self, "tally", None), Rounds),  # a search keeps its counts itself
        )

    def first_outputs(self, lane: int) -> tuple[HostArray, HostArray]:
        value = self.the_pass.mechanisms[lane]
        mechanism = unstacked(value, self.dtype)
        keys = [chunk_keys(self.the_pass.stream, self.prng, index, 0, CHUNKS) for index in (0, 1)]

        def draw(index: int, chunk: int) -> HostArray:
            call = partial(
                programs.draw_chunk,
                mechanism,
                programs.Origin(keys[index][chunk], self.data[index], np.int32(index)),
                rows=self.the_pass.rows,
                prng=self.prng,
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

    def compile(self) -> None:
        if self.away is None and not self.the_pass.slow:  # or else counting is what takes time
            self.draw_and_count(0, Segment(0, 0, self.the_pass.rows))  # no chunk at all

    def draw_and_count(self, index: int, segment: Segment) -> tuple[Segment, tuple[Tree, ...]]:
        call = partial(self.away or count_segment, self.parcel, tuple(self.active), index, segment)
        counted: tuple[Tree, ...] = guarded("counting", call)
        return segment, counted
