"""Draw from black boxes through an executor: the part on the machine that runs the audit."""

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator

from dpframe.environments import Environment
from dpframe.errors import CellError, SampleError, UntrustedError
from dpframe.interfaces.executor import Executor, RefusedError
from dpframe.workers import pool, requests
from dpframe.workers.box_tasks import Box, BoxOutputs, DrawBox, Sample, end, kind_of, outputs_digest
from dpframe.workers.executor import OTHER, Checked, result
from dpframe.workers.program.query import Queried
from dpframe.workers.requirements import Requirements, requirements

TRIES = 3  # processes that a box may lose before it fails
LATE = 5.0  # seconds after the deadline in which a process must answer


class RemoteBoxes(requests.WorkerSource):
    """A source of workers that draw through an executor.

    Draws that test a box (its first calls, its addresses) are made on this machine by `local`, and
    so are draws that the executor refuses. `local` also counts the releases of the run.
    """

    def __init__(
        self,
        executor: Executor,
        local: requests.WorkerSource,
        environments: Iterable[Environment] = (),
    ) -> None:
        super().__init__()
        self.executor, self.local = executor, local
        self.words = local.words
        self.samples: dict[str, Sample] = {}  # by the kind of box
        self._environments = tuple(environments)
        self._required: dict[str, Requirements] = {}
        self._warned: set[str] = set()
        self._busy = 0
        self._change = threading.Condition()
        self.stopped = False

    @property
    def calls(self) -> int:
        return self.local.calls

    @property
    def released(self) -> int:
        return self.local.released

    def asked(self, releases: int) -> None:
        self.local.asked(releases)

    @property
    def most(self) -> int:
        return max(2, self.executor.capacity)

    def stop(self) -> None:
        with self._change:
            self.stopped = True
            self._change.notify_all()
        self.local.stop()
        self.executor.stop()
        end(self.executor.run)  # of an executor that does tasks in this process

    @contextlib.contextmanager
    def lend(self, load: requests.Load, number: int = 1) -> Iterator[list[requests.Lent]]:
        """See `WorkerSource`; several workers are lent to be compared, so they run here."""
        if number > 1:
            with self.local.lend(load, number) as workers:
                yield [_Watched(self, worker, load) for worker in workers]
            return
        load.message()  # raises before anything is sent
        most = self.most
        with self._change:
            self._change.wait_for(lambda: self._busy < most or self.stopped)
            if self.stopped:
                raise requests.Stopped
            self._busy += 1
        try:
            yield [_Remote(self, load)]
        finally:
            with self._change:
                self._busy -= 1
                self._change.notify()

    def shared(self, load: requests.Load) -> Box:
        """Return the shared part of tasks for a load; the same object until it changes."""
        kind = kind_of(load)
        sample = self.samples.get(kind)
        found: Box | None = load.sent
        if found is None or found.run != self.executor.run or found.sample is not sample:
            if kind not in self._required:
                self._required[kind] = requirements(load.content[0], self._environments)
            found = Box(self.executor.run, load, self._required[kind], sample)
            load.sent = found
        return found

    def warn_once(self, text: str) -> None:
        """Warn the user, once."""
        with self._change:
            known = text in self._warned
            self._warned.add(text)
        if not known:
            self.executor.warn(text)


class _Watched(requests.Lent):
    """A worker of this machine; its first draws of a kind of box are kept as a sample."""

    def __init__(self, boxes: RemoteBoxes, lent: requests.Lent, load: requests.Load) -> None:
        self._boxes, self._lent, self._load = boxes, lent, load

    def draw(self, request: requests.Request, deadline: float | None) -> Iterator[requests.Drawn]:
        found: list[requests.Drawn] = []
        for drawn in self._lent.draw(request, deadline):
            found.append(drawn)
            yield drawn
        if _repeats(self._load, request):
            sample = Sample(self._load, request, outputs_digest(found))
            self._boxes.samples.setdefault(kind_of(self._load), sample)

    def query(self, data: int, deadline: float | None) -> Queried:
        return self._lent.query(data, deadline)


def _repeats(load: requests.Load, request: requests.Request) -> bool:
    """True if the outputs of a request depend only on their address."""
    asking = request.terms
    is_timed = asking is not None and asking.limit is not None
    return load.content[0][request.lane].seedable and not is_timed


class _Remote(requests.Lent):
    """A worker in any free process of the executor."""

    def __init__(self, boxes: RemoteBoxes, load: requests.Load) -> None:
        self._boxes, self._load = boxes, load
        self._late = pool.TO_LOAD  # beyond the deadline: at first a process has to load the box

    def draw(self, request: requests.Request, deadline: float | None) -> Iterator[requests.Drawn]:
        try:
            drawn = self._drawn(request, deadline)
        except RefusedError as error:
            yield from self._here(str(error), request, deadline)
            return
        except (SampleError, UntrustedError):
            raise
        except CellError as error:
            raise SampleError(str(error)) from None
        for part in drawn.outputs:
            self._boxes.note(part.told)
            yield part
        match drawn.ending:
            case ("overdue", _):
                raise requests.Overdue
            case ("raised", words):
                raise requests.RaisedError(words)
            case (_, words):
                raise SampleError(words)

    def query(self, data: int, deadline: float | None) -> Queried:
        with self._boxes.local.lend(self._load) as (worker, *_):  # a query is not a draw
            return worker.query(data, deadline)

    def _drawn(self, request: requests.Request, deadline: float | None) -> BoxOutputs:
        boxes, avoid = self._boxes, frozenset[str]()
        while not boxes.stopped:
            now = time.monotonic()
            seconds = None if deadline is None else max(0.0, deadline - now)
            until = None if deadline is None else max(deadline, now) + self._late
            shared = boxes.shared(self._load)
            task = DrawBox(shared, request, seconds, until=until, avoid=avoid)
            drawn: BoxOutputs = result(boxes.executor, task, until)
            boxes.asked(drawn.releases)
            self._verify(task, drawn)
            ending = drawn.ending and drawn.ending[0]
            if ending == "stopped":
                continue
            self._late = LATE
            # The machine may have ended it. A box without a seed is not tried again: leaving out
            # the draws during which its process ended would bias the counts.
            seedable = self._load.content[0][request.lane].seedable
            may_retry = ending == "unlent" or (ending == "lost" and seedable)
            if not may_retry or len(avoid) + 1 >= TRIES:
                return drawn
            avoid |= {drawn.place or f"attempt {len(avoid)}"}
        raise requests.Stopped

    def _verify(self, task: DrawBox, drawn: BoxOutputs) -> None:
        """Repeat a chosen task here, and raise UntrustedError if its outputs differ."""
        boxes, request = self._boxes, task.request
        executor = boxes.executor
        if not (drawn.outputs and _repeats(self._load, request)):
            return
        if not (isinstance(executor, Checked) and executor.chosen(task.kind)):
            return
        rows = sum(len(outputs) for outputs, _ in drawn.outputs)
        upto = request._replace(stop=request.first + rows // request.rows)
        with boxes.local.lend(self._load) as (worker, *_):
            again = outputs_digest(worker.draw(upto, None))
        if again != outputs_digest(drawn.outputs):
            raise executor.untrusted(task, OTHER)

    def _here(
        self, why: str, request: requests.Request, deadline: float | None
    ) -> Iterator[requests.Drawn]:
        name = kind_of(self._load).partition("#")[0]
        self._boxes.warn_once(f"{name} is drawn on this machine: {why}")
        with self._boxes.local.lend(self._load) as (worker, *_):
            yield from worker.draw(request, deadline)
