"""Calls of functions on the workers of a Dask scheduler, whatever happens to either."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from dpframe.blame import blame
from dpframe.engine.boxes.lending import Overdue, Stopped
from dpframe.engine.cluster import work
from dpframe.errors import CellError, DpframeError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dpframe.engine.cluster.parts import Sent

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
                    raise CellError(f"workers cannot take a task in: {blame(error)}") from None
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
