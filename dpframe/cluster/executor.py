"""The executor that sends tasks to the workers of a Dask scheduler."""

import contextlib
import dataclasses
import math
import sys
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from dpframe.cluster import worker as work
from dpframe.cluster.worker import Answer, Sent
from dpframe.common import trees
from dpframe.common.arrays import jax
from dpframe.common.text import error_message
from dpframe.errors import CellError, DpframeError
from dpframe.interfaces.executor import Executor, RefusedError, Task
from dpframe.workers import box_tasks, requests
from dpframe.workers.requirements import differences

LOCAL = "local:"  # before a number of worker processes on this machine, instead of an address
TO_CONNECT = 30.0  # seconds to wait for the scheduler and a first worker

TO_COME_BACK = 600.0
"""Seconds to wait for a scheduler, or a last worker, that went away."""

LOST = 20  # workers that may end over one task before it is given up: it may have ended them

FAILED = 3
"""Times that a task may raise an unknown error before it is given up."""

PAUSE = 0.5  # seconds between two attempts to reach a scheduler

TO_ANSWER = 15.0
"""Seconds for workers to report their versions; late ones are checked at their first task."""

TO_PART = 2.0  # seconds for telling workers that a run has ended
FRESH = 2.0  # seconds for which the list of workers is cached

LARGE = 1 << 16
"""Bytes from which a shared part is sent as a task of Dask, once for all calls."""

AHEAD = 2
"""Tasks in flight per thread of the cluster, so that no thread waits for the driver."""

COST = 1.4e-3
"""Seconds that the scheduler needs for one task, see `tests/benchmarks/scale.py`; a segment of
usual size takes about a second."""

SHARE = 0.1  # largest share of its time that a scheduler should be busy
MOST_TASKS = 512  # tasks in flight: for each, a thread of the driver waits
KEPT = 64  # shared parts that are kept packed: a search makes one after the other
BROKEN = 3  # workers on which one task may fail because of the worker
ALL = ""  # the kind of task for a worker that is refused all tasks


class GoneError(Exception):
    """All workers that were allowed to answer are gone."""


class Connection:
    """A client of a scheduler that connects again when the scheduler comes back.

    An address is such as tcp://host:8786, or local:N for N processes here.

    Raises:
        DpframeError: Dask is not installed, or no scheduler answers.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._closing = contextlib.ExitStack()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._known: tuple[float, dict[str, Any]] = (0.0, {})
        try:
            import distributed
        except ImportError:
            raise DpframeError("--cluster needs Dask: pip install 'dpframe[dask]'") from None
        self._dask: Any = distributed
        self._at: Any = address
        number = self._start_workers() if address.startswith(LOCAL) else 0
        self.client = self._connected(TO_CONNECT)
        if number:
            # XLA starts a thread for every core that a process may use, and workers that compete
            # with each other's threads lose a third of their time.
            with contextlib.suppress(Exception):  # slower is no harm
                self.client.wait_for_workers(number, timeout=TO_CONNECT)
                self.client.run(work.keep_apart, sorted(self.workers()))

    def close(self) -> None:
        """Stop, and end the connection."""
        self.stop()
        with contextlib.suppress(Exception):
            self.client.close(timeout=2)
        self._closing.close()

    def stop(self) -> None:
        """Make all calls that wait raise Stopped."""
        self._stopped.set()

    def workers(self) -> dict[str, Any]:
        """Return the scheduler's information on workers, by address; {} if it does not answer."""
        since, known = self._known
        if time.monotonic() - since > FRESH or not known:
            with contextlib.suppress(Exception):  # it may be away
                known = self.client.scheduler_info(n_workers=-1)["workers"]
                self._known = time.monotonic(), known
        return known

    def everywhere(
        self, function: Callable[..., Any], *args: Any, timeout: float
    ) -> dict[str, Any]:
        """Call a function on every worker at once, busy or not.

        Answers that are missing after `timeout` seconds are left out: Dask tries for half a minute
        to reach a worker that has just ended.
        """
        found: dict[str, Any] = {}

        def ask() -> None:
            with contextlib.suppress(Exception):  # the connection ends meanwhile
                found.update(self.client.run(function, *args, on_error="return"))

        asking = threading.Thread(target=ask, name="dpframe-everywhere", daemon=True)
        asking.start()
        asking.join(timeout)
        return dict(found)

    def call(
        self,
        function: Callable[..., Any],
        sent: Sent,
        *rest: Any,
        workers: Collection[str] | None = None,
        until: float | None = None,
    ) -> Any:
        """Return the answer of one call; repeat it if workers or schedulers go away.

        The function belongs to this package, so every worker has it. `sent` is its first argument;
        the others must be small. Only `workers` may do it, given by address; None for all. The call
        gives up at the monotonic time `until`.

        Raises:
            CellError: the call ends one worker after the other, or no worker comes back.
            GoneError: none of these workers is left.
            Overdue: the time `until` has passed.
            Stopped: the run ends.
        """
        lost, failed, limit = 0, 0, time.monotonic() + TO_COME_BACK
        while True:
            client, future = self.client, None
            try:
                argument: Any = sent
                if len(sent.content) > LARGE:
                    argument = client.submit(work.same, sent, key=f"dpframe-{sent.digest}")
                allowed = None if workers is None else list(workers)
                future = client.submit(function, argument, *rest, pure=False, workers=allowed)
                return self._waited(future, workers, until)
            except (requests.Stopped, requests.Overdue, GoneError, CellError):
                raise
            except self._dask.scheduler.KilledWorker:
                lost += 1
                if lost >= LOST:
                    raise CellError(
                        f"{LOST} workers ended while they counted: they ran out of memory, or the "
                        "mechanism ended them"
                    ) from None
            except Exception as error:  # a broken connection raises errors of any class
                failed += future is not None and future.status == "error"
                if failed >= FAILED:
                    raise CellError(f"workers cannot load a task: {error_message(error)}") from None
                if time.monotonic() > limit:
                    raise CellError(f"the scheduler has disappeared: {error}") from None
                self._reconnect(client, limit)

    def _waited(self, future: Any, workers: Collection[str] | None, until: float | None) -> Any:
        alone = None
        try:
            while not self._stopped.is_set():
                left = PAUSE if until is None else min(PAUSE, until - time.monotonic())
                with contextlib.suppress(self._dask.TimeoutError):
                    return future.result(timeout=max(0.0, left))
                if until is not None and time.monotonic() >= until:
                    raise requests.Overdue
                here = self.workers()
                # A task for workers that are gone would wait forever.
                if workers is not None and here and not here.keys() & {*workers}:
                    raise GoneError
                alone = None if here else alone or time.monotonic()
                if alone is not None and time.monotonic() > alone + TO_COME_BACK:
                    raise CellError("all workers are gone")
            raise requests.Stopped
        except (requests.Stopped, requests.Overdue, GoneError, CellError):
            with contextlib.suppress(Exception):
                future.cancel()
            raise

    def _start_workers(self) -> int:
        """Start a cluster of our own; return the number of its workers."""
        wanted = self.address.removeprefix(LOCAL)
        if not (wanted.isdecimal() and int(wanted) > 0):
            raise DpframeError(
                f"--cluster {self.address}: local:N starts N processes, such as local:4"
            )
        import dask

        from dpframe.cluster import local

        # The web pages of Dask would be open to other users, even if they are not needed.
        pages = [f"distributed.{part}.http.routes" for part in ("scheduler", "worker", "nanny")]
        self._closing.enter_context(dask.config.set({page: [] for page in pages}))
        # A run that is interrupted leaves semaphores to Python's tracker, which removes them.
        sys.warnoptions.append("ignore:resource_tracker")
        self._at = self._closing.enter_context(
            self._dask.LocalCluster(
                n_workers=int(wanted),
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                protocol=f"{local.SCHEME}://",
                dashboard_address=None,
                # It listens anyway, by default on the same port as other clusters of the machine.
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                silence_logs="ERROR",
                preload=[local.__name__],
                env=local.environment(),
            )
        ).scheduler_address
        return int(wanted)

    def _connected(self, timeout: float) -> Any:
        try:
            client = self._dask.Client(self._at, timeout=timeout, set_as_default=False)
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
        self._stopped.wait(PAUSE)
        if self._stopped.is_set():
            raise requests.Stopped
        with self._lock:
            if self.client is not old or old.status == "running":
                return
            with contextlib.suppress(Exception):
                old.close(timeout=1)
            left = max(1.0, min(TO_CONNECT, limit - time.monotonic()))
            with contextlib.suppress(DpframeError):
                self.client = self._connected(left)


class DaskExecutor(Executor):
    """Submits tasks to the workers of a Dask scheduler.

    Workers hold no state that is needed later: a task is a pure function of its arguments, and its
    result is fetched once. An address is as for `Connection`.

    Raises:
        DpframeError: Dask is not installed, no scheduler answers, or every worker would count
            something else.
    """

    schemes = ("tcp", "tls", "ws", "wss", "ucx", "local")

    def __init__(self, address: str, warn: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(address, warn)
        self._lock = threading.Lock()
        self._sent: OrderedDict[int, tuple[Any, Sent, bool]] = OrderedDict()
        """Packed shared parts, by identity, and True if they contain code."""
        self._refusing: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """Workers that would give other results, by the kind of task, and why."""
        self._places: dict[str, str] = {}  # names of processes by the addresses of workers
        self._waiting = ThreadPoolExecutor(MOST_TASKS, thread_name_prefix="dpframe-away")
        self._connection = Connection(address)
        self._check()

    def close(self) -> None:
        self.stop()
        self._waiting.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(Exception):
            self._connection.everywhere(box_tasks.end, self.run, timeout=TO_PART)
        self._connection.close()

    @property
    def capacity(self) -> int:
        workers = self._connection.workers().values()
        return max(1, int(sum(one["nthreads"] for one in workers)))

    @property
    def under_way(self) -> int:
        return max(1, min(MOST_TASKS, AHEAD * self.capacity))

    def scale(self, segments: float) -> int:
        """See `Executor`; larger segments spare the scheduler."""
        return enlarged(segments, self.capacity)

    def submit(self, task: Task) -> Future[Any]:
        return self._waiting.submit(self.do, task)

    def stop(self) -> None:
        self._connection.stop()

    def do(self, task: Task) -> Any:
        """Return the result of a task, from a worker that gives the same result as this machine.

        Raises:
            RefusedError: all workers would give other results.
            CellError: no worker can do it.
            Overdue: its time has passed.
            Stopped: the run ends.
        """
        sent, rest = self._packed(task), dataclasses.replace(task, shared=None)
        places = [*self._places.items()]  # other threads add to them
        avoid = {worker for worker, place in places if place in task.avoid}
        broken = set(avoid)
        while True:
            able = self._able(task.kind)
            if broken:
                able = (self._there() if able is None else able) - broken
            try:
                answer: Answer = self._connection.call(
                    work.answered, sent, rest, workers=able or None, until=task.until
                )
            except GoneError:
                continue
            self._places[answer.worker] = answer.place
            match answer.kind:
                case "done":
                    return answer.found
                case "missing":
                    if not sent.code:
                        raise CellError(f"a worker cannot load its task: {answer.found}")
                    sent = self._packed(task, as_code=True)
                case "refused":
                    self._refuse(answer.worker, answer.found, task.kind)
                case "broken":
                    self.warn(f"{answer.worker} could not do a task: {answer.found}")
                    broken.add(answer.worker)
                    if len(broken - avoid) >= BROKEN or not self._there() - broken:
                        raise CellError(f"no worker can do this task: {answer.found}")
                case _:
                    raise CellError(answer.found)

    def _refuse(self, worker: str, why: str, kind: str = ALL) -> None:
        """Send a worker no more tasks of a kind; raises RefusedError if it was the last one."""
        with self._lock:
            if worker not in self._refusing[kind]:
                self._refusing[kind][worker] = why
                of = kind.partition("#")[0]
                self.warn(f"{worker} gets no tasks{of and f' of {of}'}: {why}")
        self._able(kind)

    def _there(self) -> set[str]:
        return {*self._connection.workers()}

    def _able(self, kind: str) -> set[str] | None:
        """Return the workers that are not known to give other results; None for all."""
        with self._lock:
            refusing = {**self._refusing[ALL], **self._refusing[kind]}
        if not refusing:
            return None
        there = self._there()
        if there and not there - refusing.keys():
            raise RefusedError(
                "no worker would give the same results: "
                f"{next(iter(refusing[one] for one in there))}"
            )
        return there - refusing.keys()

    def _packed(self, task: Task, *, as_code: bool = False) -> Sent:
        with self._lock:
            _, sent, has_code = self._sent.get(id(task.shared), (None, None, False))
            if sent is None or (as_code and not has_code):
                plain = trees.map(_plain, task.shared)
                sent = work.pack(plain, task.plugins, as_code=as_code)
                self._sent[id(task.shared)] = task.shared, sent, as_code
                while len(self._sent) > KEPT:
                    self._sent.popitem(last=False)
            self._sent.move_to_end(id(task.shared))
            return sent

    def _check(self) -> None:
        """Raise DpframeError if all workers would give other results."""
        wanted = work.versions()
        # Workers may end and join meanwhile, so every task checks the versions again.
        told = self._connection.everywhere(work.versions, timeout=TO_ANSWER)
        for worker, found in told.items():
            if isinstance(found, dict) and (why := differences(found, wanted)):
                try:
                    self._refuse(worker, f"it has {why}")
                except RefusedError as error:
                    raise DpframeError(f"--cluster {self.address}: {error}") from None


def enlarged(segments: float, cores: int) -> int:
    """Return the size of segments on a cluster of `cores`, in multiples of the usual size.

    The run has `segments` of usual size, about a second each.
    """
    if not segments:  # a search alone
        return 1
    tasks = SHARE * segments / cores / COST  # these keep the scheduler busy for SHARE of its time
    if tasks < cores:  # too large a cluster: handing out takes as long as counting
        tasks = min(cores, math.sqrt(segments / COST))
    return max(1, math.floor(segments / tasks + 1e-9))


def _plain(leaf: Any) -> Any:
    return jax.device_get(leaf) if isinstance(leaf, jax.Array) else leaf
