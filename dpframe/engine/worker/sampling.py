"""Draws chunks from a black box, and refuses what is no independent output per row."""

from __future__ import annotations

import os
import random
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.engine.address import Stream, host_generator, host_seeds
from dpframe.engine.worker.handout import CHANGED, Handout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.types import HostArray

SECONDS = 0.1
"""What is drawn leaves at least so often; what a process holds when it is ended is lost."""

NBYTES = 1 << 20
"""And before it gets larger than this."""


MOST = 1 << 30
"""Bytes that one call may return."""


class Refused(Exception):  # noqa: N818  # said to the run, raised nowhere else
    """What the box did cannot be counted."""


class Drawn(NamedTuple):
    """Outputs of a few chunks."""

    chunks: int
    outputs: HostArray
    """Shape [chunks × rows, *output dims]."""


class Sampler:
    """A black box with its pair.

    Args:
        mechanisms: one per lane.
        data: the two datasets.
    """

    def __init__(self, mechanisms: tuple[Any, ...], data: tuple[Any, ...]) -> None:
        self.mechanisms = mechanisms
        self.handouts = tuple(map(Handout, data))
        self.process = os.getpid()

    def draw(self, wanted: dict[str, Any]) -> Iterator[Drawn]:
        """Draws chunks in their order.

        Args:
            wanted: `lane`, `data` (which dataset is the input), `stream` and `dataset` (the address
                with the chunk), `first` and `stop` of the chunks, `rows` of each, and `dims` and
                `dtype` of one output, null if not known yet.

        Raises:
            Refused: the outputs cannot be counted; those before were handed out.
        """
        handout = self.handouts[wanted["data"]]
        mechanism, rows = self.mechanisms[wanted["lane"]], wanted["rows"]
        stream = Stream(*wanted["stream"])
        ready: list[HostArray] = []
        since = monotonic()
        for chunk in range(wanted["first"], wanted["stop"]):
            copy = handout.copy()
            try:
                outputs = self._sample(mechanism, stream, chunk, wanted["dataset"], copy, rows)
                _check(outputs, wanted)
                if not handout.shared and handout.changed(copy):
                    raise Refused(CHANGED)
            except BaseException:
                if ready and not _touched(handout):
                    yield Drawn(len(ready), np.concatenate(ready))
                raise
            ready.append(outputs)
            due = monotonic() - since > max(SECONDS, 10 * handout.seconds)
            if due or len(ready) * outputs.nbytes > NBYTES or chunk + 1 == wanted["stop"]:
                if _touched(handout):
                    raise Refused(CHANGED)
                yield Drawn(len(ready), np.concatenate(ready))
                ready, since = [], monotonic()

    def _sample(
        self, mechanism: Any, stream: Stream, chunk: int, dataset: int, data: Any, rows: int
    ) -> HostArray:
        _seed_global_generators(stream, chunk, dataset)
        try:
            outputs = mechanism.sample(host_generator(stream, chunk, dataset), data, rows)
            return np.asarray(outputs) if _is_array_like(outputs) else _no_array(outputs)
        finally:
            if os.getpid() != self.process:  # a fork of the box came back too
                os._exit(0)


def _touched(handout: Handout) -> bool:
    return handout.shared and handout.changed(None)


def _seed_global_generators(stream: Stream, chunk: int, dataset: int) -> None:
    """Gives the generators that whole processes share an address too.

    Other processes would start with the same state, or with one that nobody can replay.
    """
    seeds = host_seeds(stream, chunk, dataset)
    random.seed(seeds.tobytes())
    np.random.seed(seeds)  # that is the one


def _is_array_like(outputs: Any) -> bool:
    return isinstance(outputs, np.ndarray | np.generic | list | tuple | int | float) or hasattr(
        outputs, "__array__"
    )


def _no_array(outputs: Any) -> HostArray:
    raise Refused(f"sample returned {type(outputs).__name__}, not an array with one row per run")


def _check(outputs: HostArray, wanted: dict[str, Any]) -> None:
    """Raises Refused unless there is an output per row, as before, that can be handed on."""
    rows, dims, dtype = wanted["rows"], wanted["dims"], wanted["dtype"]
    if outputs.dtype.kind not in "biufc" and not _is_extended(outputs.dtype):
        raise Refused(f"sample gave {outputs.dtype} values; outputs are numbers")
    if outputs.nbytes > MOST:
        raise Refused(
            f"sample(…, n={rows}) gave {outputs.nbytes / MOST:.3g} GiB at once, more than 1 GiB: "
            "smaller outputs are needed, or fewer rows"
        )
    if outputs.shape[:1] != (rows,):
        raise Refused(f"sample(…, n={rows}) gave shape {outputs.shape}; the first axis must be n")
    if dims is not None and outputs.shape != (rows, *dims):
        raise Refused(f"sample gave shape {outputs.shape}, not {(rows, *dims)} as before")
    if dtype is not None and outputs.dtype.name != dtype:
        raise Refused(f"sample gave {outputs.dtype}, and {dtype} before")


def _is_extended(dtype: np.dtype[Any]) -> bool:
    """Whether it is one of the small types that JAX adds to NumPy's, such as bfloat16."""
    return dtype.kind == "V" and dtype.names is None and dtype.name != f"void{8 * dtype.itemsize}"
