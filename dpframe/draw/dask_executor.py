"""The executor that sends tasks to the workers of a Dask scheduler."""

import contextlib
import dataclasses
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from dpframe.common import trees
from dpframe.common.arrays import jax
from dpframe.common.text import error_message
from dpframe.draw import dask_worker as work, requests
from dpframe.draw.dask_worker import Sent, UnableError
from dpframe.errors import CellError, DpframeError
from dpframe.interfaces.executor import Executor, RefusedError, Task

CONNECT_SECONDS = 30.0  # seconds to wait for the scheduler and a first worker

ABSENCE_SECONDS = 600.0
"""Seconds to wait for a scheduler, or a last worker, that went away."""

MOST_FAILURES = 5
"""Times that a task may end workers, or raise an unknown error, before it is given up."""

MOST_UNABLE = 3  # workers that may be unable to do a task before it is given up
POLL_SECONDS = 0.5  # seconds between two looks at the cluster while a task is done
CACHE_SECONDS = 2.0  # seconds for which the list of workers is cached

SHARED_ONCE_BYTES = 1 << 16
"""Bytes from which a shared part is sent as a task of Dask, once for all calls."""

TASKS_PER_THREAD = 2
"""Tasks in flight per thread of the cluster, so that no thread waits for the driver."""

TASK_SECONDS = 1.4e-3
"""Seconds that the scheduler needs for one task, see `tests/benchmarks/scale.py`; a segment of
usual size takes about a second."""

SCHEDULER_SHARE = 0.1  # largest share of its time that a scheduler should be busy
MOST_TASKS = 512  # tasks in flight: for each, a thread of the driver waits
MOST_PACKED = 64  # shared parts that are kept packed: a search makes one after the other


class _GoneError(Exception):
    """All workers that were allowed to do a task are gone."""


class DaskExecutor(Executor):
    """Submits tasks to the workers of a Dask scheduler, at an address such as tcp://host:8786.

    Workers hold no state that is needed later: a task is a pure function of its arguments, and its
    result is fetched once. So a lost task is repeated, and if the scheduler comes back, the
    executor connects again.

    Raises:
        DpframeError: Dask is not installed, no scheduler answers, or every worker has other
            versions than this machine.
    """

    schemes = ("tcp", "tls", "ws", "wss", "ucx")

    def __init__(self, address: str, warn: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(address, warn)
        if address.startswith("local:"):
            raise DpframeError(
                f"--cluster {address}: leave it out, because a run uses all cores of this machine "
                "already (`dpframe verify RUN` checks a result)"
            )
        try:
            import distributed
        except ImportError:
            raise DpframeError("--cluster needs Dask: pip install 'dpframe[dask]'") from None
        self._dask: Any = distributed
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._known: tuple[float, dict[str, Any]] = (0.0, {})
        self._sent: OrderedDict[int, tuple[Any, Sent, bool]] = OrderedDict()
        """Packed shared parts, by identity, and True if they contain code."""
        self._refused: dict[str, str] = {}  # why workers get no tasks, by address
        self._warned: set[str] = set()
        self.client = self._connected(CONNECT_SECONDS)
        self._compare_versions()
        self._waiting = ThreadPoolExecutor(MOST_TASKS, thread_name_prefix="dpframe-away")

    def close(self) -> None:
        self.stop()
        self._waiting.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(Exception):
            self.client.close(timeout=2)

    def stop(self) -> None:
        self._stopped.set()

    @property
    def capacity(self) -> int:
        return max(1, int(sum(one["nthreads"] for one in self._workers().values())))

    @property
    def under_way(self) -> int:
        return max(1, min(MOST_TASKS, TASKS_PER_THREAD * self.capacity))

    def scale(self, segments: float) -> int:
        """See `Executor`; larger segments spare the scheduler."""
        return enlarged(segments, self.capacity)

    def submit(self, task: Task) -> Future[Any]:
        return self._waiting.submit(self.do, task)

    def do(self, task: Task) -> Any:
        """Return the result of a task.

        Raises:
            RefusedError: no worker is able to do it.
            CellError: the task fails, or ends one worker after the other.
            DeadlinePassed: its time has passed.
            RunCancelled: the run ends.
        """
        sent, unshared = self._packed(task), dataclasses.replace(task, shared=None)
        unable, failed, limit = dict(self._refused), 0, time.monotonic() + ABSENCE_SECONDS
        while True:
            client, future = self.client, None
            allowed = [*(self._workers().keys() - unable)] if unable else None
            try:
                argument: Any = sent
                if len(sent.content) > SHARED_ONCE_BYTES:
                    argument = client.submit(work.same, sent, key=f"dpframe-{sent.digest}")
                future = client.submit(
                    work.done, argument, unshared, pure=False, workers=allowed or None
                )
                return self._waited(future, allowed, task.until)
            except (requests.RunCancelled, requests.DeadlinePassed, CellError):
                raise
            except _GoneError:
                continue
            except UnableError as error:
                worker, reason, always = error.args
                unable[worker] = reason
                self._refuse(worker, reason, always=always)
                tried = len(unable) - len(self._refused)
                if tried >= MOST_UNABLE or not self._workers().keys() - unable:
                    raise RefusedError(f"no worker can do this task: {reason}") from None
            except (ImportError, AttributeError) as error:
                if not sent.code:
                    reason = error_message(error)
                    raise CellError(f"a worker cannot load its task: {reason}") from None
                sent = self._packed(task, as_code=True)
            except Exception as error:  # a broken connection raises errors of any class
                failed += future is not None and future.status == "error"
                if failed >= MOST_FAILURES:
                    raise CellError(f"workers cannot do a task: {error_message(error)}") from None
                if time.monotonic() > limit:
                    raise CellError(f"the scheduler has disappeared: {error}") from None
                self._reconnect(client, limit)

    def _waited(self, future: Any, allowed: list[str] | None, until: float | None) -> Any:
        """Return the result of a task; raise _GoneError if the workers it may go to are gone."""
        alone = None
        try:
            while not self._stopped.is_set():
                left = (
                    POLL_SECONDS if until is None else min(POLL_SECONDS, until - time.monotonic())
                )
                with contextlib.suppress(self._dask.TimeoutError):
                    return future.result(timeout=max(0.0, left))
                if until is not None and time.monotonic() >= until:
                    raise requests.DeadlinePassed
                there = self._workers()
                if allowed and there and not there.keys() & {*allowed}:
                    raise _GoneError  # it would wait forever
                alone = None if there else alone or time.monotonic()
                if alone is not None and time.monotonic() > alone + ABSENCE_SECONDS:
                    raise CellError("all workers are gone")
            raise requests.RunCancelled
        finally:
            if not future.done():
                with contextlib.suppress(Exception):
                    future.cancel()

    def _workers(self) -> dict[str, Any]:
        """Return the scheduler's information on workers, by address; {} if it does not answer."""
        since, workers = self._known
        if time.monotonic() - since > CACHE_SECONDS or not workers:
            with contextlib.suppress(Exception):  # it may be away
                workers = self.client.scheduler_info(n_workers=-1)["workers"]
                self._known = time.monotonic(), workers
        return workers

    def _connected(self, timeout: float) -> Any:
        try:
            client = self._dask.Client(self.address, timeout=timeout, set_as_default=False)
            client.wait_for_workers(1, timeout=timeout)
        except ValueError as error:
            raise DpframeError(f"--cluster {self.address}: {error}") from None
        except (OSError, self._dask.TimeoutError):
            raise DpframeError(
                f"--cluster {self.address}: no scheduler with a worker answers there"
            ) from None
        return client

    def _reconnect(self, old: Any, limit: float) -> None:
        """Connect again, once for all threads; if that fails, the next attempt tries again."""
        self._stopped.wait(POLL_SECONDS)
        with self._lock:
            if self._stopped.is_set():
                raise requests.RunCancelled
            if self.client is not old or old.status == "running":
                return
            with contextlib.suppress(Exception):
                old.close(timeout=1)
            with contextlib.suppress(DpframeError):
                self.client = self._connected(
                    min(CONNECT_SECONDS, max(1.0, limit - time.monotonic()))
                )

    def _compare_versions(self) -> None:
        """Leave out workers with other versions; raise DpframeError if all have.

        Workers that join later compare them at their first task.
        """
        differences = self.client.run(work.differences, work.versions(), on_error="return")
        for worker, difference in differences.items():
            if isinstance(difference, str) and difference:
                self._refuse(worker, f"it has {difference}", always=True)
        if self._refused and not self._workers().keys() - self._refused:
            self.client.close(timeout=2)
            raise DpframeError(
                f"--cluster {self.address}: no worker would give the same results: "
                f"{next(iter(self._refused.values()))}"
            )

    def _refuse(self, worker: str, reason: str, *, always: bool) -> None:
        """Warn once that a worker cannot do a task, or that it gets none any more."""
        warning = f"{worker} {'gets no tasks' if always else 'cannot do a task'}: {reason}"
        with self._lock:
            if always:
                self._refused[worker] = reason
            if warning in self._warned:
                return
            self._warned.add(warning)
        self.warn(warning)

    def _packed(self, task: Task, *, as_code: bool = False) -> Sent:
        with self._lock:
            _, sent, has_code = self._sent.get(id(task.shared), (None, None, False))
            if sent is None or (as_code and not has_code):
                plain = trees.map(_plain, task.shared)
                sent = work.pack(plain, task.plugins, as_code=as_code)
                self._sent[id(task.shared)] = task.shared, sent, as_code
                while len(self._sent) > MOST_PACKED:
                    self._sent.popitem(last=False)
            self._sent.move_to_end(id(task.shared))
            return sent


def enlarged(segments: float, cores: int) -> int:
    """Return the size of segments on a cluster of `cores`, in multiples of the usual size.

    The run has `segments` of usual size, about a second each.
    """
    if not segments:  # a search alone
        return 1
    tasks = (
        SCHEDULER_SHARE * segments / cores / TASK_SECONDS
    )  # these keep the scheduler busy for SCHEDULER_SHARE of its time
    if tasks < cores:  # too large a cluster: handing out takes as long as counting
        tasks = min(cores, math.sqrt(segments / TASK_SECONDS))
    return max(1, math.floor(segments / tasks + 1e-9))


def _plain(leaf: Any) -> Any:
    return jax.device_get(leaf) if isinstance(leaf, jax.Array) else leaf
