"""Answers of a black box on one pair, by as many workers as there are tasks for."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.answers import ABSENT, BEFORE
from dpframe.engine.addresses.address import EVAL
from dpframe.engine.addresses.shape import of_answers
from dpframe.engine.boxes.lending import Load, Overdue, RaisedError, Request, at_once
from dpframe.engine.boxes.pace import BUNDLE
from dpframe.engine.checks.independence import NOT_SEEDABLE
from dpframe.engine.search.box_independence import BoxIndependence
from dpframe.engine.search.box_parts import Part, Todo
from dpframe.engine.search.box_sizes import Sizes
from dpframe.engine.search.kept_answers import Round, Shelf
from dpframe.errors import SampleError

if TYPE_CHECKING:
    from dpframe.engine.addresses.address import Stream
    from dpframe.engine.addresses.shape import Asking, Shape
    from dpframe.engine.boxes.lending import Lent, Source
    from dpframe.engine.boxes.pace import Clock
    from dpframe.mechanism import HostMechanism
    from dpframe.types import HostArray

SHORT = 0.1
"""Seconds that it may take to hand a box over to a worker that is free; longer is waiting."""


class BoxDraws:
    """Draws of one pair.

    Args:
        mechanism: the box.
        data: D and D′, as a box gets them.
        stream: address of the draws.
        asking: how answers are asked for.
        source: who asks.
        rows: of every chunk, where the spec or the box says so; else they grow.
        clock: the time that the box has had in the search.
    """

    shelf = Shelf()
    """Answers that an earlier try has left."""

    def __init__(
        self,
        mechanism: HostMechanism,
        data: tuple[Any, Any],
        stream: Stream,
        asking: Asking,
        source: Source,
        rows: int | None,
        clock: Clock,
    ) -> None:
        self.mechanism, self.stream, self.asking, self.source = mechanism, stream, asking, source
        self.load = Load((mechanism,), data)
        self.natives: set[tuple[int, ...] | None] = set()
        """Shapes in which numbers came; None for what is no array of numbers."""
        self.width = 0
        """Numbers of the widest answer until now, rounded up to a power of two."""
        self.sizes, self.clock = Sizes(rows), clock
        self._independence = BoxIndependence()
        self.paces: tuple[list[float], list[float]] = [], []
        """Seconds per answer on D and on D′, each of a few of them, by the clocks of workers."""
        self._cost: float | None = None
        """Seconds that an answer cost last, with all that it takes to get it here."""
        self._at_work, self._since = 0, 0.0
        self._lock = threading.Lock()

    @property
    def shape(self) -> Shape:
        """Of the answers until now."""
        native = next(iter(self.natives)) if len(self.natives) == 1 else None
        return of_answers(self.asking, self.width, native)

    def begin(self, stop: int) -> tuple[HostArray, HostArray]:
        """The first chunks; a `sample` that raises is asked for one answer at a time from now on.

        Args:
            stop: number of the chunk after the last one.
        """
        kept = self.shelf.load(0, stop)
        if kept is not None:
            self.asking = self.asking._replace(one=kept.one)
        try:
            return self.draw(0, stop)
        except RaisedError:
            if self.asking.one or not self.asking.raises or self.mechanism.gives_releases():
                raise
            self.asking = self.asking._replace(one=True)
            return self.draw(0, stop)

    def draw(self, first: int, stop: int) -> tuple[HostArray, HostArray]:
        """Answers of some chunks on D and on D′, as rows of 64-bit words.

        Raises:
            Overdue: the time of the search was over first; none of them count.
            SampleError: the box did something else than answer.
            WorthlessError: the answers cannot be independent.
        """
        kept = self.shelf.load(first, stop)
        if kept is not None and kept.one == self.asking.one:
            return self._taken(kept, first, stop)
        before = [len(told) for told in self.paces]
        sides = self._drawn(first, stop)
        new = tuple(told[had:] for told, had in zip(self.paces, before, strict=True))
        kept = Round(sides, self.natives, self.asking.one, {}, new)
        self.shelf.save(first, stop, kept, self.source.words)
        return sides

    def _taken(self, kept: Round, first: int, stop: int) -> tuple[HostArray, HostArray]:
        """Answers of an earlier try, as if they had just been drawn."""
        self.natives |= kept.natives
        self.source.words.update(kept.words)
        for dataset, rows in enumerate(kept.sides):
            at = 0
            for part in self.sizes.parts(dataset, first, stop):
                self._independence.see(part, rows[at : at + part.draws], counted=True)
                at += part.draws
        for told, paces in zip(self.paces, kept.paces, strict=True):
            told.extend(paces)
        self._widen(kept.sides)
        self.sizes.widest = self.sizes.widest or 8 * (BEFORE + self.width)
        return self.fitted(kept.sides[0]), self.fitted(kept.sides[1])

    def _drawn(self, first: int, stop: int) -> tuple[HostArray, HostArray]:
        parts = [part for dataset in (0, 1) for part in self.sizes.parts(dataset, first, stop)]
        todo = Todo(parts, self._at_once)
        found: dict[tuple[int, int], HostArray] = {}

        def work() -> None:
            while (part := todo.take()) is not None:
                try:
                    found[part.dataset, part.first] = self._part(part)
                except BaseException:  # what is asked for after the first would be for nothing
                    todo.stop()
                    raise

        tasks = sum(-(-(part.stop - part.first) // self._at_once(part)) for part in parts)
        workers = max(1, min(self.source.most, tasks))
        with ThreadPoolExecutor(workers) as threads:
            for worker in [threads.submit(work) for _ in range(workers)]:
                try:
                    worker.result()
                except BaseException:
                    todo.stop()
                    raise
        self._widen(found.values())
        sides = [
            np.concatenate([self.fitted(found[key]) for key in sorted(found) if key[0] == dataset])
            for dataset in (0, 1)
        ]
        if self.sizes.widest is None:
            self.sizes.widest = 8 * (BEFORE + self.width)
        return sides[0], sides[1]

    def fitted(self, rows: HostArray) -> HostArray:
        """Rows as wide as the widest until now."""
        more = BEFORE + self.width - rows.shape[1]
        if more <= 0:
            return rows[:, : BEFORE + self.width]
        filled: HostArray = np.pad(rows, ((0, 0), (0, more)), constant_values=np.uint64(ABSENT))
        return filled

    def check_addresses(self) -> None:
        """Draws a chunk at its address and at another one, in two processes that are in step.

        Raises:
            SampleError: the same address gave other answers.
            WorthlessError: other addresses gave the same.
        """
        asked = time.monotonic()
        with self.source.lend(self.load, 2) as workers:
            self.clock.give_back(time.monotonic() - asked)
            pair = workers[0], workers[-1]
            here, there = self._two(pair, (0, 1))
            for rows in (here, there):
                self._independence.see(Part(0, 0, 1, len(rows)), rows, counted=False)
            if self.mechanism.seedable:
                for again in self._two(pair, (0, 0)):
                    if again[:, :2].tobytes() != here[:, :2].tobytes():
                        raise SampleError(NOT_SEEDABLE)

    def conclude(self) -> None:
        """A last look at the answers; raises WorthlessError."""
        self._independence.conclude()

    def _two(self, workers: tuple[Lent, Lent], datasets: tuple[int, int]) -> list[HostArray]:
        def call(worker: Lent, dataset: int) -> HostArray:
            where = (self.stream.of("addresses"), dataset, 0, 1, self.sizes.rows_of(0))
            return self._asked(worker, Request(0, 0, *where, self.asking))

        calls = [lambda w=w, d=d: call(w, d) for w, d in zip(workers, datasets, strict=True)]
        return at_once(calls, self.source.most)

    def _at_once(self, part: Part) -> int:
        """How many chunks of a part make a task."""
        if self._cost is None:
            return max(1, part.stop - part.first)
        return max(1, int(BUNDLE / max(self._cost * part.rows, 1e-9)))

    def _part(self, part: Part) -> HostArray:
        where = (self.stream.of(EVAL), part.dataset, part.first, part.stop, part.rows)
        asked = time.monotonic()
        with self.source.lend(self.load) as (worker, *_):
            started = self._begun(asked)
            try:
                rows = self._asked(worker, Request(0, part.dataset, *where, self.asking))
            finally:
                with self._lock:
                    self._at_work, self._since = self._at_work - 1, time.monotonic()
            with self._lock:
                self._cost = (time.monotonic() - started) / part.draws
        self._independence.see(part, rows, counted=True)
        return rows

    def _begun(self, asked: float) -> float:
        """A worker is there; what was waited for it while none was is not the box's time."""
        now = time.monotonic()
        with self._lock:
            if self._at_work == 0:
                self.clock.give_back(max(0.0, now - max(asked, self._since) - SHORT))
            self._at_work += 1
            return now

    def _asked(self, worker: Lent, request: Request) -> HostArray:
        deadline = self.clock.deadline()
        if deadline is not None and time.monotonic() >= deadline:
            raise Overdue
        parts = []
        for part in worker.draw(request, None, deadline):
            self.natives |= worker.told.natives
            with self._lock:
                self.paces[request.data].extend(worker.told.paces)
            parts.append(part)
        width = max(part.shape[1] for part in parts)
        if len(parts) == 1:
            return parts[0]
        filled = [
            np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=np.uint64(ABSENT))
            for p in parts
        ]
        return np.concatenate(filled)

    def _widen(self, found: Any) -> None:
        numbers = max(rows.shape[1] for rows in found) - BEFORE
        if numbers > self.width:
            self.width = 1 << (numbers - 1).bit_length()
