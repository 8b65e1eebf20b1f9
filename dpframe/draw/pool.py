"""A pool of worker processes for black boxes."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from dpframe.common import machine, text
from dpframe.draw import requests
from dpframe.draw.process import WorkerExited, WorkerProcess, WorkerStderr, end
from dpframe.draw.worker.frames import Frame, NoFrameError
from dpframe.errors import SampleError

LOAD_SECONDS = 60.0
"""Seconds in which a process must start and load a black box that another one has loaded."""

FIRST_LOAD_SECONDS = 600.0
"""The same if none has: the trial call of a plan comes first, and the machine may be busy."""

LOAD_FACTOR = 10  # a load may take this multiple of the longest earlier load in any case

MISSING_CODE = ("ModuleNotFoundError", "ImportError", "AttributeError")
"""Exceptions of a process that lacks a module, or a part of one, which this process has."""

EXTRA_SECONDS = 5.0
"""Seconds that a process gets beyond the limits of all requested releases."""

MOST_IDLE = 8
"""Processes that are kept in any case: a plan calls each black box before a run draws from it."""

NO_LOAD = -1  # number of no load


class Workers(requests.WorkerSource):
    """Worker processes of one run, `most` lent at a time; one starts when it is first needed.

    Default: one per core, at least two, because a fault of a black box's randomness may show only
    between processes. `interpreters` has the path of each environment's interpreter by name.
    """

    def __init__(
        self, most: int | None = None, interpreters: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self._most = max(2, most or machine.available_cores())
        self.interpreters = interpreters or {}
        self.stopped = False
        self._slowest: float | None = None
        self._stderr = WorkerStderr()
        self._waiting: deque[object] = deque()
        """Callers that wait for workers, served in this order: else one that needs two at once
        might wait for as long as others need one."""
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._change = threading.Condition()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, number: int) -> None:
        """Start processes before they are needed, so that they import in the meantime."""
        with contextlib.suppress(SampleError), self._change:  # raised again when they are lent
            self._idle += [WorkerProcess(stderr=self._stderr) for _ in range(number)]

    @contextlib.contextmanager
    def lend(
        self, load: requests.BlackBoxPayload, number: int = 1
    ) -> Iterator[list[requests.WorkerLease]]:
        load.message()  # raises before a process starts
        taken = self._take(load, number)
        lent = [_Worker(self, p, load) for p in taken]
        try:
            deadline = time.monotonic() + self.load_seconds
            for worker in lent:  # all load at the same time
                worker.start_loading(deadline)
            for worker in lent:
                worker.finish_loading(deadline)
            yield list(lent)
        finally:
            end(*(worker.process for worker in lent if not worker.is_idle))
            with self._change:
                self._busy.difference_update(worker.process for worker in lent)
                if not self.stopped:
                    self._idle += [worker.process for worker in lent if worker.process.alive]
                self._change.notify_all()

    def stop(self) -> None:
        """See `WorkerSource`; also called when a run ends in order."""
        with self._change:
            self.stopped = True
            processes = [*self._idle, *self._busy]
            self._idle.clear()
            self._change.notify_all()
        end(*processes)

    @property
    def most(self) -> int:
        return self._most

    @property
    def load_seconds(self) -> float:
        """Seconds in which a process must load a black box, judging by earlier ones."""
        return (
            FIRST_LOAD_SECONDS
            if self._slowest is None
            else max(LOAD_SECONDS, LOAD_FACTOR * self._slowest)
        )

    def note_load_seconds(self, seconds: float) -> None:
        """Note the seconds in which a process loaded a black box."""
        with self._change:
            self._slowest = max(self._slowest or 0.0, seconds)

    def _interpreter_of(self, load: requests.BlackBoxPayload) -> str | None:
        """Return the path of a load's interpreter; None for that of this process."""
        if not load.is_external:
            return None
        black_box: Any = load.content[0][0]
        if black_box.environment is None:
            return sys.executable
        if black_box.environment not in self.interpreters:
            raise SampleError(f"there is no environment {black_box.environment!r} to run it in")
        return self.interpreters[black_box.environment]

    def _take(self, load: requests.BlackBoxPayload, number: int) -> list[WorkerProcess]:
        interpreter, caller = self._interpreter_of(load), object()
        with self._change:
            self._waiting.append(caller)
            try:
                self._change.wait_for(
                    lambda: (
                        self.stopped
                        or (self._waiting[0] is caller and self.most - len(self._busy) >= number)
                    )
                )
                if self.stopped:
                    raise requests.RunCancelled
                return self._reserve(load, interpreter, number)
            finally:
                self._waiting.remove(caller)
                self._change.notify_all()  # another caller is next

    def _reserve(
        self, load: requests.BlackBoxPayload, interpreter: str | None, number: int
    ) -> list[WorkerProcess]:
        # A process runs the code of one black box, so no black box finds the state that another has
        # left.
        usable = [
            process
            for process in self._idle
            if process.interpreter == interpreter and process.imported in ("", load.code)
        ]
        usable.sort(key=lambda process: (process.holds != load.number, process.imported == ""))
        taken = usable[:number]
        self._idle = [process for process in self._idle if process not in taken]
        # Processes of other black boxes are kept too, up to a limit: those idle longest end.
        most_idle = max(0, max(MOST_IDLE, 2 * self.most) - len(self._busy) - number)
        surplus = self._idle[: max(0, len(self._idle) - most_idle)]
        self._idle = self._idle[len(surplus) :]
        end(*surplus)
        try:
            while len(taken) < number:
                taken.append(WorkerProcess(interpreter, self._stderr))
        except BaseException:  # nothing would end processes that are neither idle nor busy
            end(*taken)
            raise
        self._busy.update(taken)
        return taken


class _Worker(requests.WorkerLease):
    """One process, lent for one load: see `WorkerLease`."""

    def __init__(
        self, workers: Workers, process: WorkerProcess, load: requests.BlackBoxPayload
    ) -> None:
        self.workers, self.process, self.load = workers, process, load
        self.is_idle = False
        """True if it waits for a task; else it runs the black box, or has ended."""
        self._load_requested = 0.0  # when the process was asked to load the black box
        self._with_code = False  # True if its code was sent too

    def draw(self, request: requests.Request, deadline: float | None) -> Iterator[requests.Drawn]:
        method = requests.called(type(self.load.content[0][request.variant]))
        self.is_idle, left = False, request
        release_end: float | None = None
        limit = None if request.terms is None else request.terms.limit
        try:
            self.process.send({"request": "draw", **request.as_task()})
            while True:
                # The next chunk has begun, even if it never ends.
                begun = min(request.rows, (left.stop - left.first) * request.rows)
                self.workers.count_releases(begun)
                # A release that takes too long raises a TimeoutError, if it can be interrupted.
                if limit is not None:
                    release_end = time.monotonic() + request.rows * limit + EXTRA_SECONDS
                frame = self.process.receive(
                    min(filter(None, (deadline, release_end)), default=None)
                )
                self.is_idle = frame.header["reply"] != "outputs"
                part = requests.drawn(frame, left, method)
                if part is None:
                    return
                self.workers.count_releases(len(part.outputs) - begun)
                self.workers.note(part.words)
                left = left._replace(first=left.first + len(part.outputs) // request.rows)
                yield part
        except NoFrameError as error:
            raise self._ended(self.process.refused(error), "while it sampled") from None
        except requests.DeadlinePassed:
            if release_end is None or (deadline is not None and deadline <= release_end):
                raise
            raise SampleError(
                f"a release took longer than the {limit:g} s allowed, and could not be interrupted"
            ) from None
        except WorkerExited as exited:
            raise self._ended(exited, "while it sampled") from None

    def reply(self, question: Mapping[str, Any], deadline: float | None) -> Frame:
        self.is_idle = False
        try:
            self.process.send(dict(question))
            frame = self.process.receive(deadline)
        except WorkerExited as exited:
            what = question["request"]
            raise self._ended(exited, f"while it computed its {what}") from None
        self.is_idle = True
        if frame.header["reply"] not in ("queried", "choices"):
            raise requests.problem(frame, str(question["request"]))
        return frame

    def start_loading(self, deadline: float) -> None:
        """Send the black box to the process, unless it holds it."""
        if self.process.holds == self.load.number:
            return
        self._load_requested = time.monotonic()
        with self._loading():
            if self.process.holds is None:
                self.process.receive(deadline)  # "ready"
            self.process.topic, self.process.imported = self.load.topic, self.load.code
            self.process.holds, self._with_code = NO_LOAD, self.load.as_code
            self.process.send(*self.load.message())

    def finish_loading(self, deadline: float) -> None:
        """Wait until the process holds the black box; its time budget begins later.

        Raises SampleError if it cannot load it, RunCancelled if the run ends.
        """
        while self.process.holds != self.load.number:
            with self._loading():
                frame = self.process.receive(deadline)
            if frame.header["reply"] == "loaded":
                self.process.holds = self.load.number
                self.workers.note_load_seconds(time.monotonic() - self._load_requested)
            elif self._lacks_code(frame):
                self.load.send_code()
                self.start_loading(deadline)
            else:
                self.is_idle = True
                if frame.header["reply"] == "refused":
                    raise requests.problem(frame, "sample")
                error = text.escape(str(frame.header.get("error")))
                raise SampleError(f"a worker could not load the mechanism ({error})")
        self.is_idle = True

    def _lacks_code(self, frame: Frame) -> bool:
        """True if code is missing that can still be sent."""
        lacks = frame.header.get("type") in MISSING_CODE
        return lacks and not self._with_code and not self.load.is_external

    @contextlib.contextmanager
    def _loading(self) -> Iterator[None]:
        try:
            yield
        except WorkerExited as exited:
            raise self._ended(exited, "before it sampled") from None
        except requests.DeadlinePassed:
            raise requests.LostError(
                "a worker process did not load the mechanism within "
                f"{self.workers.load_seconds:g} s"
            ) from None

    def _ended(self, exited: WorkerExited, when: str) -> Exception:
        if self.workers.stopped:
            return requests.RunCancelled()
        return requests.LostError(f"a worker process {exited} {when}")
