"""Draws from a black box, on several workers at once, and each looked at as it comes."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.answers import SECONDS
from dpframe.engine.addresses.address import EVAL
from dpframe.engine.addresses.precision import as_scored, for_a_box
from dpframe.engine.boxes.handing_out import handed_out
from dpframe.engine.boxes.lending import Load, Overdue, Request, at_once
from dpframe.engine.boxes.pace import Clock, Pace
from dpframe.engine.checks.independence import NOT_SEEDABLE
from dpframe.engine.programs.draws import Draws
from dpframe.errors import SampleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dpframe.engine.addresses.shape import Shape
    from dpframe.engine.boxes.handing_out import Which
    from dpframe.engine.boxes.lending import Lent, Source
    from dpframe.engine.checks.independence import Independence
    from dpframe.engine.planning.plan import Pass
    from dpframe.spec.audit import RunSettings
    from dpframe.types import HostArray


class HostDraws(Draws):
    """Outputs of the streams of a black box.

    Args:
        the_pass: whose draws.
        run: how many draws the fit and pilot streams have.
        prng: name of the generator.
        made: the two datasets, as the pair made them.
        source: where outputs come from.
        independence: sees all of them.
        limit: seconds that the box has for the fit and pilot streams.
    """

    def __init__(
        self,
        the_pass: Pass,
        run: RunSettings,
        prng: str,
        made: tuple[Any, Any],
        source: Source,
        independence: Independence,
        limit: float | None,
    ) -> None:
        super().__init__(the_pass, run, prng, made)
        mechanisms: Any = the_pass.mechanisms
        self.load = Load(mechanisms, for_a_box(made))
        self.source, self.independence = source, independence
        self._clock = Clock(limit)
        row = max(1, the_pass.elements) * the_pass.shape.dtype.itemsize
        self.kept: dict[tuple[int, int, int], HostArray] = {}
        """Chunks that were drawn and are still to be counted, by lane, dataset and number."""
        self.pace = Pace(the_pass.rows * row * len(mechanisms))

    def first_chunks(self, lane: int, chunks: range) -> list[HostArray]:
        """The first chunks, kept until they are counted: a box is asked for them once."""
        rows, both = self.the_pass.rows, []
        for index in (0, 1):
            outputs = np.concatenate(list(self.chunks(EVAL, lane, index, chunks)))
            for n in chunks:
                self.kept[lane, index, n] = outputs[n * rows : (n + 1) * rows]
            both.append(as_scored(outputs, self.dtype))
        return both

    def from_box(self, stream: str, lane: int, which: Sequence[Which]) -> list[list[HostArray]]:
        """Outputs of consecutive chunks, by as many workers as there are tasks for."""

        def draw(index: int, chunks: range) -> HostArray:
            parts = np.concatenate(list(self.chunks(stream, lane, index, chunks)))
            return as_scored(parts, self.dtype)

        most = max(1, min(sum(len(chunks) for _, chunks in which), self.source.most))
        with ThreadPoolExecutor(most) as threads:
            return handed_out(which, self.pace, draw, threads, most)

    def chunks(
        self,
        stream: str,
        lane: int,
        index: int,
        which: range,
        deadline: Callable[[], float | None] | None = None,
        clock: Clock | None = None,
    ) -> Iterator[HostArray]:
        """Outputs of some chunks, as the box gave them; each array is of one chunk or several.

        Args:
            stream: name of the stream.
            lane: of the pass.
            index: of the dataset.
            which: chunks.
            deadline: until when, asked once a worker is there; default: that of the fit stream.
            clock: runs meanwhile; default: that of the fit stream.
        """
        first, the_shape = which.start, self.the_pass.shape
        with self.source.lend(self.load) as (worker,), (clock or self._clock).running():
            until = (deadline or self._clock.deadline)()
            if until is not None and time.monotonic() >= until:
                raise Overdue
            for outputs in self._drawn(worker, stream, lane, index, index, which, until):
                same = untimed(outputs, the_shape)
                self.independence.see(lane, index, first, same, counted=stream == EVAL)
                first += len(outputs) // self.the_pass.rows
                yield outputs

    def check_addresses(self) -> None:
        """Draws a chunk at its address and at another one, in two processes that are in step.

        Raises:
            SampleError: the same address gave other outputs, or other addresses the same.
        """
        first: Any = self.the_pass.mechanisms[0]
        with self.source.lend(self.load, 2) as workers, self._clock.running():
            two = workers[0], workers[-1]
            here, there = self._chunks(two, (0, 1))
            for outputs in (here, there):
                self.independence.see(0, 0, 0, outputs, counted=False)
            if first.seedable:
                for again in self._chunks(two, (0, 0)):
                    if again.tobytes() != here.tobytes():
                        raise SampleError(NOT_SEEDABLE)

    def check_address(self, lane: int, first: HostArray) -> None:
        """Draws the first chunk of D of another lane once more.

        Raises:
            SampleError: the same address gave other outputs.
        """
        mechanism: Any = self.the_pass.mechanisms[lane]
        if mechanism.seedable:
            with self.source.lend(self.load, 2) as workers, self._clock.running():
                where = (EVAL, lane, 0, 0, range(1), self._clock.deadline())
                (again,) = self._drawn(workers[-1], *where)
                shape = self.the_pass.shape
                if untimed(again, shape).tobytes() != untimed(first, shape).tobytes():
                    raise SampleError(NOT_SEEDABLE)

    def _chunks(self, workers: tuple[Lent, Lent], datasets: tuple[int, int]) -> list[HostArray]:
        """A chunk from each of two workers."""
        calls = [partial(self._chunk, *both) for both in zip(workers, datasets, strict=True)]
        return at_once(calls, self.source.most)

    def _chunk(self, worker: Lent, dataset: int) -> HostArray:
        """A chunk of D, at an address of D or of D′ that nothing else is drawn at."""
        drawn = self._drawn(worker, "addresses", 0, 0, dataset, range(1), self._clock.deadline())
        return untimed(np.concatenate(list(drawn)), self.the_pass.shape)

    def _drawn(
        self,
        worker: Lent,
        stream: str,
        lane: int,
        data: int,
        dataset: int,
        which: range,
        deadline: float | None,
    ) -> Iterator[HostArray]:
        the_pass = self.the_pass
        address = the_pass.stream.of(stream)
        request = Request(lane, data, address, dataset, which.start, which.stop, the_pass.rows)
        return worker.draw(request, the_pass.shape, deadline)


def untimed(outputs: HostArray, shape: Shape) -> HostArray:
    """Outputs without the time that they took, which is never the same twice."""
    if shape.asking is None or not shape.asking.time:
        return outputs
    found = outputs.copy()
    found[:, SECONDS] = 0
    return found
