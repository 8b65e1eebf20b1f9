"""Draw rows of a mechanism: from a black box, by its workers, or traced, by device programs.

Passes and searches draw alike: a task is some consecutive chunks of one dataset, one worker or
thread does it, and the tasks of a draw are handed out until all are done.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import numpy as np

from dpframe.common.arrays import jax
from dpframe.common.machine import at_work, available_cores
from dpframe.common.types import HostArray
from dpframe.draw.independence import Independence, check_addresses
from dpframe.draw.local_executor import result
from dpframe.draw.programs import DrawChunks, DrawTask
from dpframe.draw.requests import (
    BlackBoxPayload,
    DeadlinePassed,
    Drawn,
    Request,
    RunCancelled,
    WorkerLease,
    WorkerSource,
)
from dpframe.draw.scheduling import Clock, TaskSize, Which, run_in_daemon, run_tasks
from dpframe.draw.streams import EVAL, Asking, Shape, Stream
from dpframe.interfaces.attack import ABSENT, BEFORE, SECONDS
from dpframe.interfaces.executor import Executor
from dpframe.interfaces.mechanism import HostMechanism


class Sampler(Protocol):
    """Draws one stream of one mechanism by address: traced, remote, or from a black box."""

    def draw(self, dataset: int, first: int, stop: int) -> HostArray:
        """Return the rows of the chunks first … stop − 1 of a dataset: one task."""

    def draw_at_once(self, which: Sequence[Which]) -> list[HostArray]:
        """Return the rows of chunks of datasets, drawn in tasks by all threads or workers."""


SEND_SECONDS = 1.0  # seconds of drawing worth sending to other processes, which must compile first

TRANSFER_RATE = 5e7
"""Bytes per second that other processes send back; faster mechanisms are drawn in this one."""


@dataclasses.dataclass(frozen=True)
class TracedSampler(Sampler):
    """Draws one stream of a traced mechanism in this process, or by an executor if it takes long.

    A row is an output. If the task has attacks, there are columns instead: their scores.
    """

    task: DrawTask
    stream: str
    variant: int
    executor: Executor
    slow: bool  # the mechanism has declared it
    nbytes: int  # of the outputs of a chunk
    seconds: Callable[[], float]  # times a chunk
    until: float | None  # end of the time for drawing, on the monotonic clock
    cancelled: threading.Event  # set when the run ends early

    def draw(self, dataset: int, first: int, stop: int) -> HostArray:
        (outputs,) = self._here(dataset, range(first, stop))
        return outputs

    def draw_at_once(self, which: Sequence[Which]) -> list[HostArray]:
        return [outputs for (outputs,) in self.columns_at_once(which)]

    def columns_at_once(self, which: Sequence[Which]) -> list[list[HostArray]]:
        """Return the outputs, or the scores of each attack, for each part of `which`."""
        is_away = not self.executor.is_local and self._is_worth_sending(which)
        # In sequence, slow releases would keep only one core busy.
        if is_away or (self.slow and jax.default_backend() == "cpu"):
            task_size = TaskSize(self.nbytes)
            draw = task_size.timed(self._by_executor if is_away else self._here)
            threads = self.executor.under_way if is_away else available_cores()
            with at_work("sample"):
                tasks = run_tasks(which, lambda _: task_size.chunks, draw, run_in_daemon, threads)
        else:
            tasks = [[self._here(*one)] for one in which]
        return [[np.concatenate(each) for each in zip(*parts, strict=True)] for parts in tasks]

    def _here(self, dataset: int, chunks: range) -> list[HostArray]:
        if self.cancelled.is_set():
            raise RunCancelled
        if self.until is not None and time.monotonic() > self.until:
            raise DeadlinePassed
        return self._task(dataset, chunks).run(self.task)

    def _by_executor(self, dataset: int, chunks: range) -> list[HostArray]:
        arrays: list[HostArray] = result(self.executor, self._task(dataset, chunks), self.until)
        return arrays

    def _task(self, dataset: int, chunks: range) -> DrawChunks:
        address = self.stream, self.variant, dataset, chunks.start, chunks.stop
        return DrawChunks(self.task, *address, until=self.until)

    def _is_worth_sending(self, which: Sequence[Which]) -> bool:
        """True if drawing by the executor saves time; if not declared slow, a chunk is timed."""
        if self.slow:
            return True
        number = sum(len(chunks) for _, chunks in which)
        return number > 2 and self.seconds() > max(
            SEND_SECONDS / number, self.nbytes / TRANSFER_RATE
        )


class SeesDraws(Protocol):
    """Tests draws for dependence, as they come."""

    def see(
        self, variant: int, index: int, first: int, outputs: HostArray, *, counted: bool
    ) -> None:
        """Take in some chunks; raises WorthlessError."""


# The first chunks of a pair in a search are small, so that a slow black box shows early leaks
# early; later chunks are large, because small ones would slow down a fast black box. Sizes depend
# on the number of the chunk and not on the speed of the machine, so an answer has the same address
# everywhere.

FIRST_ROWS = 8  # answers of each of the first chunks
CHUNKS_PER_SIZE = 32  # consecutive chunks of one size
SIZE_FACTOR = 4  # growth from one size to the next
MOST_GROWTHS = 6
LARGEST_ROWS = 1 << 12  # answers of a chunk, at most
CHUNK_BYTES = 1 << 23  # bytes of a chunk, at most, once the width of an answer is known


class ChunkSizes:
    """Sizes of the chunks of one stream: always `rows`, or growing if that is None."""

    def __init__(self, rows: int | None) -> None:
        self._rows = rows
        self.grow = rows is None
        self.widest: int | None = None  # bytes of an answer, known once the first chunks are drawn

    def rows_of(self, chunk: int) -> int:
        """Return the number of answers of a chunk, for each dataset."""
        if self._rows is not None:
            return self._rows
        rows: int = FIRST_ROWS * SIZE_FACTOR ** min(chunk // CHUNKS_PER_SIZE, MOST_GROWTHS)
        fits = LARGEST_ROWS if self.widest is None else max(FIRST_ROWS, CHUNK_BYTES // self.widest)
        return min(rows, LARGEST_ROWS, 1 << (fits.bit_length() - 1))

    def until(self, first: int, draws: int, most_draws: int) -> int:
        """Return the end of a round that has at least `draws` answers and begins with `first`.

        The end is the number of the chunk after the last; it is `first` if no chunk fits.
        """
        stop, rows = first, 0
        while rows < draws and rows + self.rows_of(stop) <= most_draws:
            rows += self.rows_of(stop)
            stop += 1
        return stop

    def draws(self, first: int, stop: int) -> int:
        """Return the number of answers of some chunks, for each dataset."""
        return sum(map(self.rows_of, range(first, stop)))

    def spans(self, chunks: range) -> list[range]:
        """Group some chunks by size."""
        if self._rows is not None:
            return [chunks]
        groups = [list(group) for _, group in itertools.groupby(chunks, self.rows_of)]
        return [range(group[0], group[-1] + 1) for group in groups]


class BlackBoxSampler(Sampler):
    """Draws one stream of a black box by its workers, as many at once as there are tasks for.

    Rows are outputs in the `form` of a shape or, as long as that is unknown, answers of any kind,
    requested in these terms. The clock runs while workers draw. `deadline` returns the end of a
    task of a dataset that starts now; default: that of the clock.
    """

    def __init__(
        self,
        load: BlackBoxPayload,
        variant: int,
        stream: Stream,
        form: Shape | Asking,
        sizes: ChunkSizes,
        source: WorkerSource,
        independence: SeesDraws | None,
        clock: Clock,
        deadline: Callable[[int], float | None] | None = None,
    ) -> None:
        self.load, self.variant, self.stream, self.form = load, variant, stream, form
        self.sizes, self.source, self.clock = sizes, source, clock
        self.independence, self._deadline = independence, deadline or (lambda _: clock.deadline())
        nbytes = form.dtype.itemsize * math.prod(form.dims) if isinstance(form, Shape) else 1
        self._task_size = TaskSize(nbytes)  # of rows
        self.natives: set[tuple[int, ...] | None] = set()
        """Shapes of the numbers in answers so far; None for one that is no array of numbers."""
        self.durations: tuple[list[float], list[float]] = [], []
        """Seconds per answer on D and on D′, each averaged over a few, by the workers' clocks."""
        self._lock = threading.Lock()

    def draw(self, dataset: int, first: int, stop: int) -> HostArray:
        """Return the rows of some chunks of one size."""
        return self._joined(list(self.parts(dataset, first, stop)))

    def parts(self, dataset: int, first: int, stop: int) -> Iterator[HostArray]:
        """Yield the rows of some chunks of one size as they come, one or several chunks at a time.

        Raises:
            DeadlinePassed: the deadline has passed.
            SampleError: the black box failed to answer.
            WorthlessError: the rows cannot be independent.
        """
        with self.source.lend(self.load) as (worker, *_), self.clock.running():
            deadline, rows = self._deadline(dataset), self.sizes.rows_of(first)
            for outputs in self._outputs(worker, self._request(dataset, first, stop), deadline):
                self.see(dataset, first, outputs, counted=self.stream.stream == EVAL)
                first += len(outputs) // rows
                yield outputs

    def draw_at_once(self, which: Sequence[Which]) -> list[HostArray]:
        spans = [[(of, span) for span in self.sizes.spans(chunks)] for of, chunks in which]

        def size(of: tuple[int, int]) -> int:
            if self._task_size.seconds is None:  # the first chunks that grow are a task together
                return CHUNKS_PER_SIZE if self.sizes.grow else 1
            return max(1, self._task_size.chunks // of[1])

        def draw(of: tuple[int, int], chunks: range) -> HostArray:
            started = time.monotonic()
            outputs = self.draw(of[0], chunks.start, chunks.stop)
            self._task_size.measured(len(outputs), time.monotonic() - started)
            return outputs

        tasks = [((of, self.sizes.rows_of(s.start)), s) for one in spans for of, s in one]
        most_workers = max(1, min(sum(len(chunks) for _, chunks in which), self.source.most))
        with ThreadPoolExecutor(most_workers) as threads:
            drawn = iter(run_tasks(tasks, size, draw, threads.submit, most_workers))
        return [self._joined([part for _ in one for part in next(drawn)]) for one in spans]

    def check_addresses(self, columns: int | None = None) -> None:
        """Compare chunks at equal and different addresses; see `independence.check_addresses`."""
        mechanism: Any = self.load.content[0][self.variant]
        seedable, stream = mechanism.seedable, self.stream.of("addresses")

        def draw(worker: WorkerLease, dataset: int) -> HostArray:
            request = self._request(0, 0, 1)._replace(stream=stream, dataset=dataset)
            return self._untimed(
                self._joined(self._outputs(worker, request, self.clock.deadline()))
            )

        see = partial(self.see, 0, 0, counted=False)
        with self.source.lend(self.load, 2) as workers, self.clock.running():
            most_workers = self.source.most
            check_addresses(workers, draw, see, most_workers, seedable=seedable, columns=columns)

    def is_repeated(self, first: HostArray) -> bool:
        """Draw the first chunk of D again, in another worker if there is one, and compare it."""
        with self.source.lend(self.load, 2) as workers, self.clock.running():
            again = self._outputs(workers[-1], self._request(0, 0, 1), self.clock.deadline())
            return self._untimed(self._joined(again)).tobytes() == self._untimed(first).tobytes()

    def see(self, dataset: int, first: int, outputs: HostArray, *, counted: bool) -> None:
        """Test rows for dependence; raises WorthlessError."""
        if self.independence is not None:
            rows = self._untimed(outputs)
            self.independence.see(self.variant, dataset, first, rows, counted=counted)

    def _request(self, dataset: int, first: int, stop: int) -> Request:
        rows = self.sizes.rows_of(first)
        address = self.variant, dataset, self.stream, dataset, first, stop, rows
        if isinstance(self.form, Shape):
            return Request(*address, shape=self.form)
        return Request(*address, self.form)

    def _outputs(
        self, worker: WorkerLease, request: Request, deadline: float | None
    ) -> Iterator[HostArray]:
        if deadline is not None and time.monotonic() >= deadline:
            raise DeadlinePassed
        for drawn in worker.draw(request, deadline):
            if not isinstance(self.form, Shape):
                self._note(drawn, request.data)
            yield drawn.outputs

    def _note(self, drawn: Drawn, dataset: int) -> None:
        with self._lock:
            self.natives |= drawn.natives
            self.durations[dataset].extend(drawn.durations)

    def _joined(self, parts: Iterator[HostArray] | Sequence[HostArray]) -> HostArray:
        parts = list(parts)
        if not isinstance(self.form, Shape):
            widest = max(part.shape[1] for part in parts)
            parts = [padded(part, widest) for part in parts]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _untimed(self, outputs: HostArray) -> HostArray:
        """Return rows without their times, which never repeat."""
        asking = self.form.asking if isinstance(self.form, Shape) else self.form
        if asking is None or not asking.time:
            return outputs
        untimed = outputs.copy()
        untimed[:, SECONDS] = 0
        return untimed


def padded(rows: HostArray, columns: int) -> HostArray:
    """Fill answers up to a number of columns; wider ones stay as they are."""
    if rows.shape[1] >= columns:
        return rows
    padding = (0, 0), (0, columns - rows.shape[1])
    filled: HostArray = np.pad(rows, padding, constant_values=np.uint64(ABSENT))
    return filled


MOST_PAIRS = 256  # pairs of one search, each with answers in memory
COMPARED_NUMBERS = 8  # numbers of an answer that are tested for dependence


class PairIndependence:
    """Tests all answers of a pair of a search for dependence, in chunks of any size.

    Without `drift`, answers may change over time, because slow ones become timeouts.
    """

    def __init__(self, sizes: ChunkSizes, drift: bool, black_box: HostMechanism) -> None:
        self._sizes, self._drift, self._black_boxes = sizes, drift, (black_box,)
        self._by_rows: dict[int, Independence] = {}
        self._lock = threading.Lock()

    def see(
        self, variant: int, index: int, first: int, outputs: HostArray, *, counted: bool
    ) -> None:
        """Take in answers, as rows of 64-bit words; raises WorthlessError."""
        rows = self._sizes.rows_of(first)
        with self._lock:
            if rows not in self._by_rows:
                tests = (MOST_GROWTHS + 1) * MOST_PAIRS  # all of these share the error probability
                self._by_rows[rows] = Independence(
                    rows, tests, answers=True, drift=self._drift, black_boxes=self._black_boxes
                )
            independence = self._by_rows[rows]
        compared = padded(outputs[:, : BEFORE + COMPARED_NUMBERS], BEFORE + COMPARED_NUMBERS).copy()
        compared[:, SECONDS] = 0  # the time of an answer may repeat
        independence.see(variant, index, first, compared, counted=counted)

    def conclude(self) -> None:
        """Check the answers once more; raises WorthlessError."""
        for independence in self._by_rows.values():
            independence.conclude()
