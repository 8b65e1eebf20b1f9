"""Worker processes for one black box; without them where it cannot be pickled."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from dpframe.engine import sampling
from dpframe.engine.cores import available_cores
from dpframe.errors import CellError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpframe.engine.address import Stream
    from dpframe.mechanism import HostMechanism
    from dpframe.types import HostArray


class Pool:
    """Samples chunks of the mechanisms of one pass, each in a process of its own.

    Processes are spawned, because forking after JAX has started would not be safe. A pass has its
    own, so that one that dies takes nobody along.

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
            return lambda: _tell(
                lambda: sampling.sample(self.mechanisms[lane], self.data[index], *where)
            )
        try:
            future = self._executor.submit(sampling.sample_here, lane, *where)
        except (BrokenProcessPool, RuntimeError) as error:
            raise _died() from error
        return lambda: _tell(future.result)

    def close(self) -> None:
        """Ends the processes once they are through with what they do; the rest is not needed."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def _start(self, pickled: bytes, workers: int) -> None:
        executor = ProcessPoolExecutor(
            workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=sampling.start,
            initargs=(pickled,),
        )
        try:
            problem = executor.submit(sampling.problem).result()
        except BrokenProcessPool as error:
            raise _died() from error
        if problem is not None:
            executor.shutdown(wait=False)
            self.in_process = f"a worker could not load the mechanism ({problem})"
            return
        self._executor, self.depth = executor, 2 * workers

    def _pickled(self) -> bytes | None:
        modules = {type(mechanism).__module__ for mechanism in self.mechanisms}
        if "__main__" in modules:
            self.in_process = "a worker could not import the mechanism from __main__"
            return None
        try:
            return pickle.dumps((self.mechanisms, self.data))
        except Exception as error:  # pickle raises whatever the object's code raises
            self.in_process = f"the mechanism cannot be pickled ({type(error).__name__})"
            return None


def _tell(result: Callable[[], HostArray]) -> HostArray:
    try:
        return result()
    except BrokenProcessPool as error:
        raise _died() from error
    except Exception as error:
        line = (str(error).strip().splitlines() or ["no message"])[0]
        raise CellError(f"sample raised {type(error).__name__}: {line}") from error


def _died() -> CellError:
    return CellError("a worker process died while it sampled")
