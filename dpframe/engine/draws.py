"""Outputs of whole streams: what learners and pilots see before anything is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.engine import programs
from dpframe.engine.address import EVAL, FIT, PILOT, base_key, host_generator
from dpframe.engine.guard import guarded
from dpframe.engine.lanes import unstacked
from dpframe.engine.precision import dataset, on_device
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.engine.plan import Pass
    from dpframe.spec.audit import RunSettings
    from dpframe.types import HostArray

Outputs = tuple[Any, Any]


class Draws:
    """Outputs of the streams of a pass, drawn when first asked for, kept for one lane.

    Args:
        the_pass: whose draws.
        run: how many draws the fit and pilot streams have.
        prng: name of the generator.
    """

    def __init__(self, the_pass: Pass, run: RunSettings, prng: str) -> None:
        self.the_pass, self.prng = the_pass, prng
        self.dtype = np.dtype(run.precision)
        self.wanted = {FIT: run.fit, PILOT: run.pilot, EVAL: the_pass.trials}
        self._kept: dict[str, tuple[int, Outputs]] = {}

    def outputs(self, stream: str, lane: int) -> Outputs:
        """Outputs on D and on D′, each [n, *output dims]."""
        if stream not in self._kept or self._kept[stream][0] != lane:
            pair = (self.draw(stream, lane, 0), self.draw(stream, lane, 1))
            self._kept[stream] = (lane, pair)
        return self._kept[stream][1]

    def nothing(self) -> Outputs:
        """No outputs at all, for an attack that does not learn."""
        shape = self.the_pass.shape
        empty = np.zeros((0, *shape.dims), on_device(shape.dtype, self.dtype))
        return empty, empty

    def draw(self, stream: str, lane: int, index: int) -> HostArray:
        """Outputs of a stream on one dataset, shape [n, *output dims]."""
        the_pass, wanted = self.the_pass, self.wanted[stream]
        mechanism = the_pass.mechanisms[lane]
        address = the_pass.stream.of(stream)
        data = dataset(the_pass.pair, index, self.dtype)
        chunks = range(-(-wanted // the_pass.rows))

        def draw(chunk: int) -> HostArray:
            if isinstance(mechanism, HostMechanism):
                rng = host_generator(address, chunk, index)
                outputs = np.asarray(mechanism.sample(rng, data, the_pass.rows))
                return outputs.astype(on_device(outputs.dtype, self.dtype))
            return np.asarray(
                programs.draw_chunk(
                    unstacked(mechanism, self.dtype),
                    programs.Origin(base_key(address, self.prng), data, np.int32(index)),
                    np.int32(chunk),
                    rows=the_pass.rows,
                )
            )

        drawn = guarded("sample", lambda: [draw(chunk) for chunk in chunks])
        return np.concatenate(drawn)[:wanted]
