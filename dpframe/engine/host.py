"""A pass over a mechanism in plain Python: sampled chunk by chunk, scored on the device."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine import traced
from dpframe.engine.keys import host_generator
from dpframe.engine.shapes import guarded, on_device
from dpframe.engine.work import NAN_FOUND, Work
from dpframe.errors import CellError

if TYPE_CHECKING:
    from dpframe.engine.chunks import Segment
    from dpframe.types import HostArray, Tree


class HostWork(Work):
    """A pass over a black box."""

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [self.nan_check("all outputs")]
        if not self.mechanisms[0].seedable:
            notes.append("not replayable: the mechanism does not take its randomness from the seed")
        return tuple(notes)

    @property
    def mechanisms(self) -> tuple[Any, ...]:
        """One per lane."""
        return self.the_pass.mechanisms

    def ready(self) -> None:
        """Nothing is left to do."""

    def draw_and_count(self, index: int, segment: Segment) -> tuple[Tree, ...]:
        lanes = [self._count_lane(lane, index, segment) for lane in range(self.lanes)]
        stacked: tuple[Tree, ...] = jax.tree.map(lambda *leaves: np.stack(leaves), *lanes)
        return stacked

    def _count_lane(self, lane: int, index: int, segment: Segment) -> tuple[Tree, ...]:
        def own(tree: Tree) -> Tree:
            return jax.tree.map(lambda leaf: leaf[lane], tree)

        counts = own(self.zeros)
        scoring = traced.Scoring(self.attacks, own(self.states), own(self.bounds))
        for chunk in range(segment.first, segment.stop):
            outputs = self._outputs(lane, chunk, index)
            count = partial(
                traced.count_given,
                counts,
                scoring,
                outputs,
                np.int32(index),
                np.int32(segment.limit),
                statistics=self.statistics,
            )
            counts = guarded("counting", count)
        return tuple(counts)

    def _outputs(self, lane: int, chunk: int, index: int) -> HostArray:
        the_pass, mechanism = self.the_pass, self.mechanisms[lane]
        rng = host_generator(the_pass.stream, chunk, index)
        outputs: HostArray = guarded(
            "sample", lambda: np.asarray(mechanism.sample(rng, self.data[index], the_pass.rows))
        )
        expected = (the_pass.rows, *the_pass.shape.dims)
        if outputs.shape != expected:
            raise CellError(f"sample gave shape {outputs.shape}, not {expected}")
        if self.nan_matters and np.isnan(outputs).any():
            raise CellError(NAN_FOUND)
        return outputs.astype(on_device(outputs.dtype, self.dtype))
