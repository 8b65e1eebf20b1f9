"""A pass over a mechanism in plain Python: sampled chunk by chunk, scored on the device."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine import programs
from dpframe.engine.guard import guarded
from dpframe.engine.precision import on_device
from dpframe.engine.sanity import NAN_FOUND
from dpframe.engine.work import Work
from dpframe.engine.workers import Pool
from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dpframe.engine.chunks import Segment
    from dpframe.mechanism import HostMechanism
    from dpframe.types import HostArray, Tree


class HostWork(Work):
    """A pass over a black box."""

    on_host = True
    pool: Pool | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [self.nan_note("all outputs")]
        if not self.mechanisms[0].seedable:
            notes.append("not replayable: the mechanism does not take its randomness from the seed")
        if self.the_pass.shape.dtype == np.float64 and self.dtype == np.float32:
            notes.append("float64 outputs were rounded to float32 before they were scored")
        if self.pool is not None and self.pool.in_process:
            notes.append(f"run in this process: {self.pool.in_process}")
        return tuple(notes)

    @property
    def mechanisms(self) -> tuple[HostMechanism, ...]:
        """One per lane."""
        found: Any = self.the_pass.mechanisms
        return tuple(found)

    def ready(self) -> None:
        self._seen: dict[tuple[int, int, int], HostArray] = {}
        self.pool = Pool(self.mechanisms, self.data, self.the_pass.stream, self.the_pass.rows)

    def first_outputs(self, lane: int) -> tuple[HostArray, HostArray]:
        where = [(lane, chunk, index) for index, chunk in enumerate(self.tally.done)]
        asked = [self._ask(*place) for place in where]
        found = [answer() for answer in asked]
        self._seen.update(zip(where, found, strict=True))  # counted too: a release may be dear
        return self._checked(found[0]), self._checked(found[1])

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()

    def draw_and_count(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        lanes = [self._count_lane(lane, index, segment) for lane in range(self.lanes)]
        stacked: tuple[Tree, ...] = jax.tree.map(lambda *leaves: np.stack(leaves), *lanes)
        return stacked

    def _count_lane(self, lane: int, index: int, segment: Segment) -> tuple[Tree, ...]:
        def own(tree: Tree) -> Tree:
            return jax.tree.map(lambda leaf: leaf[lane], tree)

        counts = own(self.zeros)
        scoring = programs.Scoring(self.attacks, own(self.states), own(self.layouts))
        for outputs in self._outputs(lane, index, segment):
            count = partial(
                programs.count_given,
                counts,
                scoring,
                self._checked(outputs),
                np.int32(index),
                np.int32(segment.limit),
                statistics=self.statistics,
            )
            counts = guarded("counting", count)
        return tuple(counts)

    def _outputs(self, lane: int, index: int, segment: Segment) -> Iterator[HostArray]:
        """Outputs of the chunks in their order; the pool works ahead by a few."""
        assert self.pool is not None
        ahead: deque[Any] = deque()
        for chunk in range(segment.first, segment.stop):
            ahead.append(self._ask(lane, chunk, index))
            if len(ahead) > self.pool.depth:
                yield ahead.popleft()()
        while ahead:
            yield ahead.popleft()()

    def _ask(self, lane: int, chunk: int, index: int) -> Callable[[], HostArray]:
        """Asks for a chunk, once; the answer, when called, waits for it."""
        assert self.pool is not None
        if (lane, chunk, index) in self._seen:
            return partial(self._seen.pop, (lane, chunk, index))
        return self.pool.submit(lane, chunk, index)

    def _checked(self, outputs: HostArray) -> HostArray:
        expected = (self.the_pass.rows, *self.the_pass.shape.dims)
        if outputs.shape != expected:
            raise CellError(f"sample gave shape {outputs.shape}, not {expected}")
        if outputs.dtype != self.the_pass.shape.dtype:
            raise CellError(f"sample gave {outputs.dtype}, and {self.the_pass.shape.dtype} before")
        if self.nan_matters and np.isnan(outputs).any():
            raise CellError(NAN_FOUND)
        return outputs.astype(on_device(outputs.dtype, self.dtype))
