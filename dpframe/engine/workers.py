"""Worker processes: they sample black boxes, each pass in processes of its own."""

from __future__ import annotations

import signal
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.blame import blame
from dpframe.engine.address import Stream, host_generator
from dpframe.engine.guard import guarded
from dpframe.engine.processes import (
    UNGUARDED,
    available_cores,
    begin,
    from_bytes,
    in_bytes,
    spawned,
)
from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ProcessPoolExecutor

    from dpframe.engine.address import Stream
    from dpframe.mechanism import HostMechanism
    from dpframe.types import HostArray


_held: dict[str, Any] = {}
"""What this worker process serves: the mechanisms and the data, or the problem with them."""


def start(pickled: bytes) -> None:
    """Prepares a worker process."""
    begin()
    held, _held["problem"] = from_bytes(pickled)
    _held["mechanisms"], _held["data"] = held or ((), ())


def problem() -> str | None:
    """Why this worker cannot sample, if it cannot."""
    return _held.get("problem")


def sample_here(lane: int, stream: Stream, chunk: int, index: int, rows: int) -> HostArray:
    """Samples one chunk in a worker process.

    Ctrl-C reaches the workers too. It may end the author's code and nothing else: a worker that
    dies while it hands over a result would leave the run waiting for the rest of it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        mechanism, data = _held["mechanisms"][lane], _held["data"][index]
        # Where it was raised is known here and lost on the way to the parent.
        sampled: HostArray = guarded(
            "sample", lambda: sample(mechanism, data, stream, chunk, index, rows)
        )
        return sampled
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def sample(
    mechanism: Any, data: HostArray, stream: Stream, chunk: int, index: int, rows: int
) -> HostArray:
    """Samples one chunk; whichever process does it, the outputs are the same."""
    rng = host_generator(stream, chunk, index)
    return np.asarray(mechanism.sample(rng, data, rows))


class Pool:
    """Samples chunks of the mechanisms of one pass, each in a process of its own.

    A pass has its own processes, so that one that dies takes nobody along.

    Args:
        mechanisms: one per lane.
        data: the two datasets.
        stream: the address of the draws.
        rows: rows per chunk.
    """

    def __init__(
        self,
        mechanisms: tuple[HostMechanism, ...],
        data: tuple[Any, ...],
        stream: Stream,
        rows: int,
    ) -> None:
        self.mechanisms, self.data, self.stream, self.rows = mechanisms, data, stream, rows
        self.in_process: str | None = None
        """Why there are no worker processes, if there are none."""
        self.depth = 0
        """How many chunks to ask for ahead."""
        self._executor: ProcessPoolExecutor | None = None
        pickled = self._pickled()
        if pickled is not None:
            self._start(pickled, available_cores())

    def submit(self, lane: int, chunk: int, index: int) -> Callable[[], HostArray]:
        """Asks for a chunk; the answer, when called, waits for it."""
        where = (self.stream, chunk, index, self.rows)
        if self._executor is None:
            return lambda: _tell(lambda: sample(self.mechanisms[lane], self.data[index], *where))
        try:
            future = self._executor.submit(sample_here, lane, *where)
        except (BrokenProcessPool, RuntimeError) as error:
            raise _died() from error
        return lambda: _tell(future.result)

    def close(self) -> None:
        """Ends the processes once they are through with what they do; the rest is not needed."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def _start(self, pickled: bytes, workers: int) -> None:
        executor = spawned(workers, start, pickled)
        try:
            trouble = executor.submit(problem).result()
        except BrokenProcessPool as error:
            raise CellError(UNGUARDED) from error
        if trouble is not None:
            executor.shutdown(wait=False)
            self.in_process = f"a worker could not load the mechanism ({trouble})"
            return
        self._executor, self.depth = executor, 2 * workers

    def _pickled(self) -> bytes | None:
        modules = {type(mechanism).__module__ for mechanism in self.mechanisms}
        if "__main__" in modules:
            self.in_process = "a worker could not import the mechanism from __main__"
            return None
        pickled, refusal = in_bytes((self.mechanisms, self.data))
        if refusal is not None:
            self.in_process = f"the mechanism cannot be pickled ({refusal})"
        return pickled


def _tell(result: Callable[[], HostArray]) -> HostArray:
    try:
        return result()
    except BrokenProcessPool as error:
        raise _died() from error
    except CellError:
        raise
    except (Exception, SystemExit) as error:
        raise CellError(f"sample raised {blame(error)}") from error


def _died() -> CellError:
    return CellError("a worker process died while it sampled")
