"""A Dask cluster as the engine sees it."""

from __future__ import annotations

import contextlib
import math
import secrets
import threading
import time
from collections import OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import jax

from dpframe.cluster import worker as drawing
from dpframe.cluster import worker as work
from dpframe.cluster.worker import pack, plugin_classes, versions
from dpframe.common.text import error_message
from dpframe.errors import CellError, DpframeError
from dpframe.workers.scheduling import Overdue, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from dpframe.cluster.worker import Sent
    from dpframe.common.types import HostArray, Tree
    from dpframe.sampling.address import Segment
    from dpframe.sampling.programs import CountTask, DrawTask, Place


# Calls of functions on the workers of a Dask scheduler, whatever happens to either.


LOCAL = "local:"
"""Before a number of worker processes on this machine, in place of an address."""

TO_CONNECT = 30.0
"""Seconds in which the scheduler, and a first worker, have to be there."""

TO_COME_BACK = 600.0
"""Seconds for which a scheduler, or the last worker, that went away is waited for."""

LOST = 20
"""Workers that may end over one task before it is given up: it may be the task that ends them."""

FAILED = 3
"""Times that a task may raise something, which is no answer of ours, before it is given up."""

PAUSE = 0.5
"""Seconds between two attempts to reach a scheduler."""

TO_ANSWER = 15.0
"""Seconds in which workers say what they have; who says it later says it with the first task."""

TO_PART = 2.0
"""Seconds in which workers are told that a run has ended."""

FRESH = 2.0
"""Seconds for which it is taken as known who the workers are."""

LARGE = 1 << 16
"""Bytes from which what is sent is a task of its own, sent once and not with each call."""


class GoneError(Exception):
    """The workers that might have answered are not there any more."""


class Connection:
    """A client of a scheduler that comes back when the scheduler does.

    Args:
        address: of a scheduler, such as tcp://host:8786; or local:N for N processes here.
        warn: told what goes wrong without ending the run.

    Raises:
        DpframeError: Dask is not installed, or nobody answers.
    """

    def __init__(self, address: str, warn: Callable[[str], None]) -> None:
        self.address, self._warn = address, warn
        self._closing = contextlib.ExitStack()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._known: tuple[float, dict[str, Any]] = (0.0, {})
        try:
            import distributed
        except ImportError:
            raise DpframeError("--cluster needs Dask: pip install 'dpframe[dask]'") from None
        self._dask: Any = distributed
        self._at = self._started(address)
        self.client = self._connected(TO_CONNECT)
        if address.startswith(LOCAL):
            self._share_cores(int(address.removeprefix(LOCAL)))

    def close(self) -> None:
        """Whoever waits gets Stopped, and the connection ends."""
        self.stop()
        with contextlib.suppress(Exception):
            self.client.close(timeout=2)
        self._closing.close()

    def stop(self) -> None:
        """Whoever waits gets Stopped."""
        self._stopped.set()

    def workers(self) -> dict[str, Any]:
        """What the scheduler says of its workers, by their addresses; {} if it does not answer."""
        since, known = self._known
        if time.monotonic() - since > FRESH or not known:
            with contextlib.suppress(Exception):  # it may be away
                known = self.client.scheduler_info(n_workers=-1)["workers"]
                self._known = time.monotonic(), known
        return known

    def everywhere(
        self, function: Callable[..., Any], *args: Any, patience: float
    ) -> dict[str, Any]:
        """What every worker answers at once, whatever it is doing.

        Args:
            function: what they do.
            args: its arguments.
            patience: seconds after which nobody waits for answers any more: Dask tries for half a
                minute to reach a worker that has just died.
        """
        found: dict[str, Any] = {}

        def ask() -> None:
            with contextlib.suppress(Exception):  # the connection ends meanwhile
                found.update(self.client.run(function, *args, on_error="return"))

        asking = threading.Thread(target=ask, name="dpframe-everywhere", daemon=True)
        asking.start()
        asking.join(patience)
        return dict(found)

    def call(
        self,
        function: Callable[..., Any],
        sent: Sent,
        *rest: Any,
        workers: Collection[str] | None = None,
        until: float | None = None,
    ) -> Any:
        """The answer of one task, however often workers and schedulers go away.

        Args:
            function: what a worker does; of this package, so that every worker has it.
            sent: its first argument.
            rest: the others, which are small.
            workers: addresses of those that may do it; None for all.
            until: when not to wait any longer, on the monotonic clock.

        Raises:
            CellError: it ends one worker after the other, or nobody comes back to do it.
            GoneError: none of these workers is there any more.
            Overdue: it is too late.
            Stopped: the run ends.
        """
        lost, failed, patience = 0, 0, time.monotonic() + TO_COME_BACK
        while True:
            client, future = self.client, None
            try:
                future = self._submitted(client, function, sent, rest, workers)
                return self._waited(future, workers, until)
            except (Stopped, Overdue, GoneError, CellError):
                raise
            except self._dask.scheduler.KilledWorker:
                lost += 1
                if lost >= LOST:
                    raise CellError(
                        f"{LOST} workers ended while they counted: memory, or the mechanism itself"
                    ) from None
            except Exception as error:  # whatever a connection that breaks is called
                failed += future is not None and future.status == "error"
                if failed >= FAILED:
                    raise CellError(
                        f"workers cannot take a task in: {error_message(error)}"
                    ) from None
                if time.monotonic() > patience:
                    raise CellError(f"the scheduler is gone: {error}") from None
                self._reconnect(client, patience)

    def _submitted(
        self,
        client: Any,
        function: Callable[..., Any],
        sent: Sent,
        rest: tuple[Any, ...],
        workers: Collection[str] | None,
    ) -> Any:
        argument: Any = sent
        if len(sent.content) > LARGE:
            argument = client.submit(work.same, sent, key=f"dpframe-{sent.digest}")
        allowed = None if workers is None else list(workers)
        return client.submit(function, argument, *rest, pure=False, workers=allowed)

    def _waited(self, future: Any, workers: Collection[str] | None, until: float | None) -> Any:
        alone = None
        try:
            while not self._stopped.is_set():
                left = PAUSE if until is None else min(PAUSE, until - time.monotonic())
                with contextlib.suppress(self._dask.TimeoutError):
                    return future.result(timeout=max(0.0, left))
                if until is not None and time.monotonic() >= until:
                    raise Overdue
                here = self.workers()
                # A task for workers that are gone would wait for ever.
                if workers is not None and here and not here.keys() & {*workers}:
                    raise GoneError
                alone = None if here else alone or time.monotonic()
                if alone is not None and time.monotonic() > alone + TO_COME_BACK:
                    raise CellError("all workers are gone")
            raise Stopped
        except (Stopped, Overdue, GoneError, CellError):
            with contextlib.suppress(Exception):
                future.cancel()
            raise

    def _started(self, address: str) -> Any:
        """What a client connects to: an address, or a cluster of our own."""
        if not address.startswith(LOCAL):
            return address
        try:
            number = int(address.removeprefix(LOCAL))
        except ValueError:
            number = 0
        if number < 1:
            raise DpframeError(f"--cluster {address}: local:N starts N processes, such as local:4")
        return self._closing.enter_context(
            self._dask.LocalCluster(
                n_workers=number,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                # It listens all the same, else where every other cluster of the machine wants to.
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                silence_logs="ERROR",
            )
        ).scheduler_address

    def _share_cores(self, number: int) -> None:
        """Gives each of our own workers cores of its own.

        XLA starts a thread for every core that a process may use, and workers that compete with
        each other's threads lose a third of their time.
        """
        with contextlib.suppress(Exception):  # slower is no harm
            self.client.wait_for_workers(number, timeout=TO_CONNECT)
            self.client.run(work.keep_apart, sorted(self.workers()))

    def _connected(self, patience: float) -> Any:
        try:
            client = self._dask.Client(self._at, timeout=patience, set_as_default=False)
            client.wait_for_workers(1, timeout=patience)
        except ValueError as error:
            raise DpframeError(f"--cluster {self.address}: {error}") from None
        except (OSError, self._dask.TimeoutError):
            raise DpframeError(
                f"--cluster {self.address}: no scheduler with a worker answers there"
            ) from None
        return client

    def _reconnect(self, old: Any, patience: float) -> None:
        """Connects again, once for everybody; leaves it to the next attempt if that fails."""
        self._stopped.wait(PAUSE)
        if self._stopped.is_set():
            raise Stopped
        with self._lock:
            if self.client is not old or old.status == "running":
                return
            with contextlib.suppress(Exception):
                old.close(timeout=1)
            left = max(1.0, min(TO_CONNECT, patience - time.monotonic()))
            with contextlib.suppress(DpframeError):
                self.client = self._connected(left)


# A Dask cluster as the engine sees it: tasks go out, counts and outputs come back.


AHEAD = 2
"""Tasks per thread of the cluster that are under way, so that none waits for the driver."""

COST = 1.4e-3
"""Seconds of the scheduler for one task, of which a usual segment takes a second or less:
`tests/benchmarks/scale.py`."""

SHARE = 0.1
"""Of its time that a scheduler should be busy at most."""

MOST_TASKS = 512
"""Under way at once: each has a thread of the driver that waits for it."""

KEPT = 64
"""Values that are kept packed: a search makes one after the other."""

BROKEN = 3
"""Workers on which one task may fail for reasons of their own."""

ALL = ""
"""What a worker is refused for that does nothing at all."""


class NoWorkerError(CellError):
    """All workers would do something else than the run."""


class Job(NamedTuple):
    """What is sent along with many tasks."""

    of: Any
    """By which it is known again."""
    content: Callable[[], Any]
    """What travels."""
    classes: tuple[type, ...]
    """Of the plugins in it."""
    kind: str = ALL
    """What workers can be unfit for, each kind on its own."""


class Cluster:
    """Has things done by the workers of a Dask scheduler.

    Nothing of what a worker holds is needed again if it is lost: a task is a pure function of what
    is sent with it, and what comes back is taken once, here.

    Args:
        address: of a scheduler, such as tcp://host:8786; or local:N for N processes here.
        warn: told what goes wrong without ending the run.

    Raises:
        DpframeError: Dask is not installed, nobody answers, or a worker would count otherwise.
    """

    def __init__(self, address: str, warn: Callable[[str], None] = lambda _: None) -> None:
        self.address, self.warn = address, warn
        self.run = secrets.token_hex(8)
        """By which workers know this run."""
        self._lock = threading.Lock()
        self._sent: OrderedDict[int, tuple[Any, Sent, bool]] = OrderedDict()
        """What was packed, by identity, with whether its code went along."""
        self._refusing: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """Workers that would not do the same, by the kind of work, and why."""
        self.pool = ThreadPoolExecutor(MOST_TASKS, thread_name_prefix="dpframe-away")
        """Threads that wait for draws, of all passes together."""
        self._connection = Connection(address, warn)
        self._check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.pool.shutdown(wait=False, cancel_futures=True)
        with contextlib.suppress(Exception):
            self._connection.everywhere(drawing.end, self.run, patience=TO_PART)
        self._connection.close()

    @property
    def tasks(self) -> int:
        """Segments that are under way at once."""
        return max(1, min(MOST_TASKS, AHEAD * self.threads))

    @property
    def threads(self) -> int:
        """What can be done at once."""
        workers = self._connection.workers().values()
        return max(1, int(sum(one["nthreads"] for one in workers)))

    def times(self, segments: float) -> int:
        """How many times as large as on one machine a segment is, to spare the scheduler.

        Args:
            segments: of usual size, in the whole run.
        """
        return enlarged(segments, self.threads)

    def count(
        self, task: CountTask, lanes: Sequence[int], index: int, segment: Segment
    ) -> tuple[Tree, ...]:
        """Counts of a segment, as `count_segment` gives them.

        Raises:
            CellError: no worker can count it.
            Stopped: the run ends.
        """
        classes = plugin_classes([task.padded[0], *task.attacks])
        classes += map(type, task.statistics)
        job = Job(task, lambda: jax.tree.map(_plain, task), tuple(dict.fromkeys(classes)))
        told, found, _ = self.ask(work.answer_counted, job, tuple(lanes), index, segment)
        if told != "counted":
            raise CellError(found)
        return found  # type: ignore[no-any-return]

    def draw(self, task: DrawTask, place: Place, until: float | None) -> list[HostArray]:
        """Outputs or scores, as `drawn` gives them.

        Raises:
            CellError: no worker can draw them.
            Overdue: it is too late.
            Stopped: the run ends.
        """
        attacks = [attack for of_lane in task.scoring for attack, _ in of_lane]
        classes = tuple(plugin_classes([*task.mechanisms, *attacks]))
        job = Job(task, lambda: jax.tree.map(_plain, task), classes)
        told, found, _ = self.ask(work.answer_drawn, job, place, until=until)
        if told != "drawn":
            raise CellError(found)
        return found  # type: ignore[no-any-return]

    def ask(
        self,
        do: Callable[..., Any],
        job: Job,
        *rest: Any,
        avoid: Collection[str] = (),
        until: float | None = None,
    ) -> tuple[str, Any, str]:
        """What the first worker says that would do the same, and which one that is.

        Args:
            do: what it does with the job and the rest.
            job: what travels, once.
            rest: what is small.
            avoid: workers that should not do it, if there are others.
            until: when not to wait any longer, on the monotonic clock.

        Raises:
            NoWorkerError: all would do something else.
            CellError: nobody can do it.
            Overdue: it is too late.
            Stopped: the run ends.
        """
        sent, broken = self._packed(job), set(avoid)
        while True:
            able = self._able(job.kind)
            able = None if not broken and able is None else {*(able or self._there())} - broken
            try:
                told, found, worker = self._connection.call(
                    do, sent, *rest, workers=able or None, until=until
                )
            except GoneError:
                continue
            if told == "missing":
                if not sent.code:
                    raise CellError(f"a worker cannot load what it is to count: {found}")
                sent = self._packed(job, as_code=True)
            elif told == "refused":
                self.refuse(worker, found, job.kind)
            elif told == "broken":
                self.warn(f"{worker} could not do a task: {found}")
                broken.add(worker)
                if len(broken) - len(avoid) >= BROKEN or not self._there() - broken:
                    raise CellError(f"no worker can do it: {found}")
            else:
                return told, found, worker

    def ask_one(
        self,
        worker: str,
        do: Callable[..., Any],
        job: Job,
        *rest: Any,
        until: float | None = None,
    ) -> Any:
        """What one worker says; None where it is gone, or cannot do it; raises as `ask` does."""
        for as_code in (False, True):
            sent = self._packed(job, as_code=as_code)
            try:
                told, found, _ = self._connection.call(
                    do, sent, *rest, workers=[worker], until=until
                )
            except GoneError:
                return None
            if told != "missing":
                return None if told in ("refused", "broken") else found
        return None

    def refuse(self, worker: str, why: str, kind: str = ALL) -> None:
        """A worker would do something else than the run.

        Raises:
            NoWorkerError: as all the others.
        """
        with self._lock:
            if worker not in self._refusing[kind]:
                self._refusing[kind][worker] = why
                of = kind.partition("#")[0]
                self.warn(f"{worker} does nothing{of and f' of {of}'}: {why}")
        self._able(kind)

    def stop(self) -> None:
        """Whoever waits gets Stopped."""
        self._connection.stop()

    def _there(self) -> set[str]:
        return {*self._connection.workers()}

    def _able(self, kind: str) -> set[str] | None:
        """Workers that are not known to do something else; None where that is all."""
        with self._lock:
            refusing = {**self._refusing[ALL], **self._refusing[kind]}
        if not refusing:
            return None
        there = self._there()
        if there and not there - refusing.keys():
            raise NoWorkerError(
                f"no worker would do the same: {next(iter(refusing[one] for one in there))}"
            )
        return there - refusing.keys()

    def _packed(self, job: Job, *, as_code: bool = False) -> Sent:
        with self._lock:
            _, sent, has_code = self._sent.get(id(job.of), (None, None, False))
            if sent is None or (as_code and not has_code):
                sent = pack(job.content(), job.classes, as_code=as_code)
                self._sent[id(job.of)] = job.of, sent, as_code
                while len(self._sent) > KEPT:
                    self._sent.popitem(last=False)
            self._sent.move_to_end(id(job.of))
            return sent

    def _check(self) -> None:
        """Refuses to begin where all workers would count otherwise."""
        wanted = versions()
        # One that ended meanwhile says nothing; others may come, and every task looks again.
        told = self._connection.everywhere(work.versions_there, patience=TO_ANSWER)
        for worker, found in told.items():
            if isinstance(found, dict) and found != wanted:
                names = [name for name in wanted if found.get(name) != wanted[name]]
                why = ", ".join(
                    f"{name} {found.get(name)} where the run has {wanted[name]}" for name in names
                )
                try:
                    self.refuse(worker, f"it has {why}")
                except NoWorkerError as error:
                    raise DpframeError(f"--cluster {self.address}: {error}") from None


def enlarged(segments: float, cores: int) -> int:
    """How many times as large as usual segments are.

    Args:
        segments: of usual size, about a second each, in the whole run.
        cores: of the cluster.
    """
    tasks = SHARE * segments / cores / COST  # of which the scheduler is busy for its share
    if tasks < cores:  # the cluster is too large for this: as long to hand out as to count
        tasks = min(cores, math.sqrt(segments / COST))
    return max(1, math.floor(segments / tasks + 1e-9))


def _plain(leaf: Any) -> Any:
    return jax.device_get(leaf) if isinstance(leaf, jax.Array) else leaf
