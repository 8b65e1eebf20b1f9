"""A pass over a mechanism that JAX traces: a segment is one call of the device."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.engine.addresses.address import EVAL
from dpframe.engine.addresses.chunks import Segment
from dpframe.engine.checks.guard import guarded
from dpframe.engine.checks.independence import Independence
from dpframe.engine.checks.sanity import NAN_FOUND, check_outputs_vary
from dpframe.engine.counts.rounds import Rounds
from dpframe.engine.passes.work import FIRST_PATIENCE, Work
from dpframe.engine.planning.lanes import pad, stack
from dpframe.engine.programs.draws import Draws
from dpframe.engine.programs.parcel import Parcel, count_segment
from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.engine.programs.recipe import Away
    from dpframe.types import HostArray, Tree

CHUNKS = 4
"""Chunks of each dataset that are looked at; of D′ only one where releases are slow."""


class DeviceWork(Work):
    """A pass over a mechanism that JAX traces."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (self.nan_note(f"the first {self.the_pass.rows} outputs"),)

    away: Away | None = None
    """Who counts segments elsewhere, and draws what is dear; None: all is done here."""

    def learning(self) -> Draws:
        self.draws = Draws(self.the_pass, self.run, self.prng, self.made, self.away)
        self.draws.leaving = self.leaving
        if (left := self.time_left()) is not None:
            self.draws.until = time.monotonic() + left + FIRST_PATIENCE
        return self.draws

    def ready(self) -> None:
        the_pass = self.the_pass
        mechanisms = stack(the_pass.mechanisms, self.dtype)
        zeros, *padded = pad((self.zeros, mechanisms, self.states, self.layouts), self.lanes)
        self.parcel = Parcel(
            zeros,
            (padded[0], padded[1], padded[2]),
            self.attacks,
            self.statistics,
            self.draws.data,
            the_pass.stream,
            self.prng,
            self.run.precision,
            self.lanes,
            the_pass.rows,
            max(1, the_pass.elements),
            isinstance(getattr(self, "tally", None), Rounds),  # a search keeps its counts itself
        )

    def first_outputs(self, lane: int) -> tuple[HostArray, HostArray]:
        value, rows = self.the_pass.mechanisms[lane], self.the_pass.rows
        known = (self.the_pass.stream.group, value)
        is_known = lane not in (0, self.lanes - 1) or known in self.tried
        number = 1 if is_known else CHUNKS
        others = 1 if self.the_pass.slow else number
        x, y = self.draws.of_chunks(EVAL, lane, [(0, range(number)), (1, range(others))])
        if self.nan_matters and any(np.isnan(side[:rows]).any() for side in (x, y)):
            raise CellError(NAN_FOUND)
        if not is_known:
            check_outputs_vary(np.split(x, number))
            seen = Independence(rows, 1)
            seen.see(0, 0, 0, x, counted=True)
            seen.see(0, 1, 0, y, counted=True)
            seen.conclude()
            self.tried.add(known)
        return x[:rows], y[:rows]

    def compile(self) -> None:
        if self.away is None and not self.the_pass.slow:  # or else counting is what takes time
            self.draw_and_count(0, Segment(0, 0, self.the_pass.rows))  # no chunk at all

    def draw_and_count(self, index: int, segment: Segment) -> tuple[Segment, tuple[Tree, ...]]:
        count = count_segment if self.away is None else self.away.count
        return self.counted_by(count, index, segment)

    def counted_by(
        self, count: Callable[..., Any], index: int, segment: Segment
    ) -> tuple[Segment, tuple[Tree, ...]]:
        """What `draw_and_count` gives, by this process or by others."""
        call = partial(count, self.parcel, tuple(self.active), index, segment)
        counted: tuple[Tree, ...] = guarded("counting", call)
        return segment, counted
