"""Outputs of whole streams: what learners and pilots see before anything is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.engine import programs
from dpframe.engine.address import EVAL, FIT, PILOT, chunk_keys
from dpframe.engine.budgets import resolved
from dpframe.engine.guard import guarded
from dpframe.engine.here import Here
from dpframe.engine.lanes import unstacked
from dpframe.engine.lending import Load, Request
from dpframe.engine.precision import as_scored, for_a_box, for_jax, on_device
from dpframe.engine.rounds import ends
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.engine.plan import Pass
    from dpframe.spec.audit import RunSettings
    from dpframe.types import HostArray

Outputs = tuple[Any, Any]


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
    """

    def __init__(self, the_pass: Pass, run: RunSettings, prng: str, made: tuple[Any, Any]) -> None:
        run = resolved(run, the_pass.mechanisms[0], the_pass.trials)
        self.the_pass, self.prng, self.made = the_pass, prng, made
        self.dtype = np.dtype(run.precision)
        self.wanted = {FIT: run.fit or 0, PILOT: run.pilot or 0, EVAL: the_pass.trials}
        self._kept: dict[str, tuple[int, Outputs]] = {}
        self._first: tuple[int, Outputs] | None = None
        self._box: Load | None = None

    def outputs(self, stream: str, lane: int) -> Outputs:
        """Outputs on D and on D′, each [n, *output dims]."""
        if stream not in self._kept or self._kept[stream][0] != lane:
            pair = (self.draw(stream, lane, 0), self.draw(stream, lane, 1))
            self._kept[stream] = (lane, pair)
        return self._kept[stream][1]

    def first_round(self, lane: int) -> Outputs:
        """Outputs of the first round of the counted stream, each [n, *output dims]."""
        if self._first is None or self._first[0] != lane:
            wanted = first_end(self.the_pass)
            chunks = range(-(-wanted // self.the_pass.rows))
            d0, d1 = (self.of_chunks(EVAL, lane, index, chunks)[:wanted] for index in (0, 1))
            self._first = (lane, (d0, d1))
        return self._first[1]

    def nothing(self) -> Outputs:
        """No outputs at all, for an attack that does not learn."""
        shape = self.the_pass.shape
        empty = np.zeros((0, *shape.dims), on_device(shape.dtype, self.dtype))
        return empty, empty

    def draw(self, stream: str, lane: int, index: int) -> HostArray:
        """Outputs of a stream on one dataset, shape [n, *output dims]."""
        wanted = self.wanted[stream]
        return self.of_chunks(stream, lane, index, range(-(-wanted // self.the_pass.rows)))[:wanted]

    def of_chunks(self, stream: str, lane: int, index: int, chunks: range) -> HostArray:
        """Outputs of some chunks of a stream on one dataset, shape [n, *output dims]."""
        on_host = isinstance(self.the_pass.mechanisms[lane], HostMechanism)
        draw = self.from_box if on_host else self.traced
        return np.concatenate(draw(stream, lane, index, chunks))

    def traced(self, stream: str, lane: int, index: int, chunks: range) -> list[HostArray]:
        """Outputs of a mechanism that JAX traces, chunk by chunk."""
        the_pass = self.the_pass
        where = the_pass.stream.of(stream), self.prng, index, chunks.start, chunks.stop
        data = for_jax(self.made, self.dtype)[index]
        leaves = unstacked(the_pass.mechanisms[lane], self.dtype)

        def draw(key: HostArray) -> HostArray:
            origin = programs.Origin(key, data, np.int32(index))
            how = {"rows": the_pass.rows, "prng": self.prng}
            return np.asarray(programs.draw_chunk(leaves, origin, **how))

        keys = chunk_keys(*where)
        found: list[HostArray] = guarded("sample", lambda: [draw(key) for key in keys])
        return found

    def from_box(self, stream: str, lane: int, index: int, chunks: range) -> list[HostArray]:
        """Outputs of a black box, in the order of their chunks; drawn in this process."""
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
