"""A Dask cluster as the engine sees it: segments go out, counts come back, whatever happens."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import jax

from dpframe.engine.cluster import work
from dpframe.engine.cluster.parts import pack, plugin_classes, versions
from dpframe.engine.lending import Stopped
from dpframe.errors import CellError, DpframeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.engine.chunks import Segment
    from dpframe.engine.cluster.parts import Sent
    from dpframe.engine.parcel import Parcel
    from dpframe.types import Tree

LOCAL = "local:"
"""Before a number of worker processes on this machine, in place of an address."""

TO_CONNECT = 30.0
"""Seconds in which the scheduler, and a first worker, have to be there."""

TO_COME_BACK = 600.0
"""Seconds for which a scheduler that went away is waited for."""

LOST = 20
"""Workers that may end over one task before it is given up: it may be the task that ends them."""

PAUSE = 0.5
"""Seconds between two attempts to reach a scheduler."""

AHEAD = 2
"""Tasks per thread of the cluster that are under way, so that none waits for the driver."""

COST = 1.4e-3
"""Seconds of the scheduler for one task, of which a usual segment takes a second or less:
`tests/benchmarks/scale.py`."""

SHARE = 0.1
"""Of its time that a scheduler should be busy at most."""

MOST_TASKS = 512
"""Under way at once: each has a thread of the driver that waits for it."""

LARGE = 1 << 16
"""Bytes from which a parcel is a task of its own, sent once and not with each segment."""


class Cluster:
    """Counts on the workers of a Dask scheduler.

    Nothing of what a worker holds is needed again if it is lost: a task is a pure function of what
    is sent with it, and its counts are taken once, here.

    Args:
        address: of a scheduler, such as tcp://host:8786; or local:N for N processes here.
        warn: told what goes wrong without ending the run.

    Raises:
        DpframeError: Dask is not installed, nobody answers, or a worker would count otherwise.
    """

    def __init__(self, address: str, warn: Callable[[str], None] = lambda _: None) -> None:
        self.address, self._warn = address, warn
        self._closing = contextlib.ExitStack()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._sent: dict[int, tuple[Any, Sent, bool]] = {}
        """What was packed, by identity, with whether its code went along."""
        self._refusing: dict[str, str] = {}
        """Workers that would not count the same, and why."""
        try:
            import distributed
        except ImportError:
            raise DpframeError("--cluster needs Dask: pip install 'dpframe[dask]'") from None
        self._dask: Any = distributed
        self._at = self._started(address)
        self._client = self._connected(TO_CONNECT)
        self._check()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)
        self._closing.close()

    @property
    def tasks(self) -> int:
        """Segments that are under way at once."""
        return max(1, min(MOST_TASKS, AHEAD * self._threads()))

    def times(self, segments: float) -> int:
        """How many times as large as on one machine a segment is, to spare the scheduler.

        Args:
            segments: of usual size, in the whole run.
        """
        return enlarged(segments, self._threads())

    def _threads(self) -> int:
        return int(sum(one["nthreads"] for one in self._workers().values()))

    def count(
        self, parcel: Parcel, lanes: Sequence[int], index: int, segment: Segment
    ) -> tuple[Tree, ...]:
        """Counts of a segment, as `count_segment` gives them.

        Raises:
            CellError: no worker can count it.
            Stopped: the run ends.
        """
        sent = self._packed(parcel)
        while True:
            told, found = self._asked(sent, tuple(lanes), index, segment)
            if told == "counted":
                return found  # type: ignore[no-any-return]
            if told != "missing":
                raise CellError(found)
            sent = self._packed(parcel, as_code=True)

    def stop(self) -> None:
        """Whoever waits gets Stopped."""
        self._stopped.set()

    def _asked(self, sent: Sent, *rest: Any) -> Any:
        """What the first worker says that would count the same."""
        while True:
            told, found, worker = self._called(sent, *rest)
            if told == "missing" and not sent.code:
                raise CellError(f"a worker cannot load what it is to count: {found}")
            if told != "refused":
                return told, found
            with self._lock:
                if worker not in self._refusing:
                    self._refusing[worker] = found
                    self._warn(f"{worker} counts nothing: {found}")
            if not self._workers().keys() - self._refusing.keys():
                raise CellError(f"no worker would count the same: {found}")

    def _called(self, *args: Any) -> Any:
        """The answer of one task, however often workers and schedulers go away."""
        lost, patience = 0, time.monotonic() + TO_COME_BACK
        while True:
            client = self._client
            try:
                return self._waited(self._submitted(client, *args))
            except Stopped:
                raise
            except self._dask.scheduler.KilledWorker:
                lost += 1
                if lost >= LOST:
                    raise CellError(
                        f"{LOST} workers ended while they counted: memory, or the mechanism itself"
                    ) from None
            except Exception as error:  # whatever a connection that breaks is called
                if time.monotonic() > patience:
                    raise CellError(f"the scheduler is gone: {error}") from None
                self._reconnect(client, patience)

    def _submitted(self, client: Any, sent: Sent, *rest: Any) -> Any:
        allowed = None
        if self._refusing:
            allowed = [name for name in self._workers() if name not in self._refusing] or None
        argument: Any = sent
        if len(sent.content) > LARGE:
            argument = client.submit(work.same, sent, key=f"dpframe-{sent.digest}")
        return client.submit(work.answer, argument, *rest, pure=False, workers=allowed)

    def _waited(self, future: Any) -> Any:
        while not self._stopped.is_set():
            with contextlib.suppress(self._dask.TimeoutError):
                return future.result(timeout=PAUSE)
        with contextlib.suppress(Exception):
            future.cancel()
        raise Stopped

    def _packed(self, parcel: Parcel, *, as_code: bool = False) -> Sent:
        with self._lock:
            _, sent, has_code = self._sent.get(id(parcel), (None, None, False))
            if sent is None or (as_code and not has_code):
                plugins = [parcel.padded[0], *parcel.attacks, *parcel.statistics]
                classes = [*plugin_classes(plugins), *map(type, parcel.statistics)]
                plain = jax.tree.map(_plain, parcel)
                sent = pack(plain, dict.fromkeys(classes), as_code=as_code)
                self._sent[id(parcel)] = parcel, sent, as_code
            return sent

    def _workers(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return found

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
                silence_logs="ERROR",
            )
        ).scheduler_address

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
        time.sleep(PAUSE)
        if self._stopped.is_set():
            raise Stopped
        with self._lock:
            if self._client is not old or old.status == "running":
                return
            with contextlib.suppress(Exception):
                old.close(timeout=1)
            left = max(1.0, min(TO_CONNECT, patience - time.monotonic()))
            with contextlib.suppress(DpframeError):
                self._client = self._connected(left)

    def _check(self) -> None:
        """Refuses to begin where all workers would count otherwise."""
        wanted = versions()
        told = self._client.run(work.versions_there, on_error="return")
        for worker, found in told.items():
            # One that ended meanwhile says nothing; others may come, and every task looks again.
            if isinstance(found, dict) and found != wanted:
                names = [name for name in wanted if found.get(name) != wanted[name]]
                self._refusing[worker] = ", ".join(
                    f"{name} {found.get(name)} where the run has {wanted[name]}" for name in names
                )
        if self._refusing and not self._workers().keys() - self._refusing.keys():
            raise DpframeError(
                f"--cluster {self.address}: no worker would count the same: "
                + next(iter(self._refusing.values()))
            )
        for worker, why in self._refusing.items():
            self._warn(f"{worker} counts nothing: it has {why}")


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
