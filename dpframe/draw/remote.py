"""Draw from black boxes through an executor: the task, and the source that submits it."""

import contextlib
import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dpframe import environments as places
from dpframe.draw import pool, requests
from dpframe.draw.local_executor import plugin_classes, result
from dpframe.draw.streams import chunks_in_words
from dpframe.draw.worker.frames import Frame
from dpframe.environments import Environment
from dpframe.errors import CellError, SampleError, WrongResultError
from dpframe.interfaces.executor import Executor, RefusedError, Task, wanted
from dpframe.interfaces.mechanism import ForeignMechanism, consent

MOST_LOST = 3  # processes that a black box may lose before it fails
LATE_SECONDS = 5.0  # seconds after the deadline in which a process must reply
WATCH_SECONDS = 0.5  # seconds between two checks that a task is still wanted
IDLE_SECONDS = 60.0  # seconds after which unused processes are ended: their run may be over


class SharedBlackBox(NamedTuple):
    """The shared part of all tasks for one load."""

    run: str
    load: requests.BlackBoxPayload
    program: tuple[str, str] | None = None  # path and digest of the program that it runs
    environment: Environment | None = None


class BlackBoxOutputs(NamedTuple):
    """The result of a task."""

    outputs: tuple[requests.Drawn, ...]
    ending: Exception | None  # the reason, if outputs are missing
    releases: int  # that were requested
    words: Mapping[int, str]  # texts of codes; an earlier result with them may be lost


@dataclasses.dataclass(frozen=True)
class DrawBlackBox(Task):
    """Draw chunks of a black box by worker processes of the machine that runs the task."""

    shared: SharedBlackBox
    request: requests.Request
    seconds: float | None  # time that the black box has once it is loaded; None for no limit

    def run(self, shared: SharedBlackBox) -> BlackBoxOutputs:
        """Return the outputs, and the reason if some are missing."""
        workers = _pools.take(shared.run, _interpreters(shared), wanted.get())
        before, outputs, ending = workers.calls, list[requests.Drawn](), None
        try:
            with workers.lend(shared.load) as (lent, *_):
                until = None if self.seconds is None else time.monotonic() + self.seconds
                for drawn in lent.draw(self.request, until):
                    outputs.append(drawn)
        except (SampleError, requests.DeadlinePassed, requests.RunCancelled) as error:
            ending = error
        finally:
            _pools.give_back(shared.run, workers)
        return BlackBoxOutputs(tuple(outputs), ending, workers.calls - before, dict(workers.words))

    def checked(self, result: Any) -> BlackBoxOutputs:
        """Return a result if it has all chunks in the right type, or a reason for missing ones."""
        if not isinstance(result, BlackBoxOutputs):
            raise WrongResultError("no outputs")
        request, done = self.request, 0
        for outputs, *_ in result.outputs:
            shape = request.shape
            if shape and (outputs.dtype, outputs.shape[1:]) != (shape.dtype, shape.dims):
                what = f"{outputs.dtype} of shape {outputs.shape[1:]}"
                raise WrongResultError(f"{what} in place of {shape}")
            done += len(outputs)
        due = (request.stop - request.first) * request.rows
        if done > due or done % request.rows or (done < due and result.ending is None):
            raise WrongResultError(f"{done} releases in place of {due}")
        return result

    def __str__(self) -> str:
        request = self.request
        words = chunks_in_words(request.first, request.stop, request.dataset)
        return f"{words} of {type(self.shared.load.content[0][0]).name}"

    @property
    def plugins(self) -> tuple[type, ...]:
        return plugin_classes(self.shared.load.content[0])


def _interpreters(black_box: SharedBlackBox) -> dict[str, str]:
    """Return the interpreters that a black box needs on this machine, by the names of environments.

    Raises RefusedError if the program or the environment is missing here, or differs.
    """
    if black_box.program is not None:
        path, digest = black_box.program
        consent(Path(path))  # the user who started the run has named the program
        try:
            first: Any = black_box.load.content[0][0]
            same = first.code() == digest
        except (OSError, ValueError):
            same = False
        if not same:
            raise RefusedError(f"a worker does not have the program {path} of the run")
    environment = black_box.environment
    return {} if environment is None else {environment.name: _interpreter(environment)}


@functools.cache
def _interpreter(run: Environment) -> str:
    """Return the path of the Python of this machine that has the packages of the run."""
    candidates = (*places.every(), places.named(run.name, run.interpreter))
    for one in candidates:
        if not one.problem and (one.python, one.installed) == (run.python, run.installed):
            return one.interpreter
    raise RefusedError(
        f"a worker has no environment {run.name!r} with Python {run.python} and the packages of "
        "the run (dpframe environments build makes it)"
    )


class _Pools:
    """Worker processes of this machine: one pool for each task under way, kept for its run."""

    def __init__(self) -> None:
        self._idle: list[tuple[str, pool.Workers, float]] = []
        self._busy: dict[pool.Workers, tuple[str, Callable[[], bool]]] = {}
        self._lock = threading.Lock()
        self._watch: threading.Thread | None = None

    def take(
        self, run: str, interpreters: Mapping[str, str], is_wanted: Callable[[], bool]
    ) -> pool.Workers:
        """Return workers that served the same run before, or new ones."""
        with self._lock:
            at = next((n for n, (own, _, _) in enumerate(self._idle) if own == run), None)
            workers = pool.Workers(1) if at is None else self._idle.pop(at)[1]
            workers.interpreters = {**workers.interpreters, **interpreters}
            self._busy[workers] = run, is_wanted
            if self._watch is None:
                self._watch = threading.Thread(target=self._look, name="boxes", daemon=True)
                self._watch.start()
        return workers

    def give_back(self, run: str, workers: pool.Workers) -> None:
        with self._lock:
            del self._busy[workers]
            if not workers.stopped:
                self._idle.append((run, workers, time.monotonic()))

    def end(self, run: str | None, before: float) -> None:
        """End workers of a run, workers idle since before a time, and workers no longer wanted."""
        with self._lock:
            ended = [one for own, one, since in self._idle if own == run or since < before]
            self._idle = [each for each in self._idle if each[1] not in ended]
            busy = self._busy.items()
            ended += [one for one, (own, is_wanted) in busy if own == run or not is_wanted()]
        for workers in ended:
            workers.stop()

    def _look(self) -> None:
        while True:
            time.sleep(WATCH_SECONDS)
            self.end(None, time.monotonic() - IDLE_SECONDS)


_pools = _Pools()


def end(run: str) -> None:
    """End the processes of this machine that serve a run."""
    _pools.end(run, -math.inf)


class RemoteBlackBoxes(requests.WorkerSource):
    """A source of workers that draw through an executor.

    Draws that test a black box (its first calls, its addresses) are made on this machine by
    `local`, and so are draws that the executor refuses. `local` also counts the releases of the
    run.
    """

    def __init__(
        self,
        executor: Executor,
        local: requests.WorkerSource,
        environments: Iterable[Environment] = (),
    ) -> None:
        super().__init__()
        self.executor, self.local = executor, local
        self.words, self.count_releases = local.words, local.count_releases  # type: ignore[method-assign]
        self._environments = {one.name: one for one in environments}
        self._free = threading.Semaphore(self.most)
        self.warned: set[str] = set()
        self.stopped = False

    @property
    def calls(self) -> int:
        return self.local.calls

    @property
    def most(self) -> int:
        return max(2, self.executor.capacity)

    def stop(self) -> None:
        self.stopped = True
        self.local.stop()
        self.executor.stop()
        end(self.executor.run)  # of an executor that does tasks in this process

    @contextlib.contextmanager
    def lend(
        self, load: requests.BlackBoxPayload, number: int = 1
    ) -> Iterator[list[requests.WorkerLease]]:
        """See `WorkerSource`; several workers are lent to be compared, so they run here."""
        if number > 1:
            with self.local.lend(load, number) as workers:
                yield workers
            return
        load.message()  # raises before anything is sent
        with self._free:
            yield [_Remote(self, load)]

    def shared(self, load: requests.BlackBoxPayload) -> SharedBlackBox:
        """Return the shared part of tasks for a load; always the same object."""
        if load.sent is None or load.sent.run != self.executor.run:
            first, program, environment = load.content[0][0], None, None
            if isinstance(first, ForeignMechanism):
                program = str(first.program().path), first.code()
                environment = self._environments.get(first.environment or "")
            load.sent = SharedBlackBox(self.executor.run, load, program, environment)
        black_box: SharedBlackBox = load.sent
        return black_box


class _Remote(requests.WorkerLease):
    """A worker in any free process of the executor."""

    def __init__(self, source: RemoteBlackBoxes, load: requests.BlackBoxPayload) -> None:
        self._source, self._load = source, load
        # Seconds beyond the deadline: at first a process has to load the black box.
        self._late = pool.LOAD_SECONDS

    def draw(self, request: requests.Request, deadline: float | None) -> Iterator[requests.Drawn]:
        source = self._source
        try:
            drawn = self._drawn(request, deadline)
        except RefusedError as error:
            what = f"{type(self._load.content[0][0]).name} is drawn on this machine: {error}"
            if what not in source.warned:
                source.warned.add(what)
                source.executor.warn(what)
            with source.local.lend(self._load) as (worker, *_):
                yield from worker.draw(request, deadline)
            return
        except SampleError:
            raise
        except CellError as error:
            raise SampleError(str(error)) from None
        source.note(drawn.words)
        yield from drawn.outputs
        if drawn.ending is not None:
            raise drawn.ending

    def reply(self, question: Mapping[str, Any], deadline: float | None) -> Frame:
        with self._source.local.lend(self._load) as (worker, *_):  # a question is not a draw
            return worker.reply(question, deadline)

    def _drawn(self, request: requests.Request, deadline: float | None) -> BlackBoxOutputs:
        """Return the result of a task; try again if its machine ended it.

        A black box without a seed is not tried again: leaving out the draws during which its
        process ended would bias the counts.
        """
        source, lost = self._source, 0
        while not source.stopped:
            now = time.monotonic()
            seconds = None if deadline is None else max(0.0, deadline - now)
            until = None if deadline is None else max(deadline, now) + self._late
            task = DrawBlackBox(source.shared(self._load), request, seconds, until=until)
            drawn: BlackBoxOutputs = result(source.executor, task, until)
            self._late = LATE_SECONDS
            source.count_releases(drawn.releases)
            lost += isinstance(drawn.ending, requests.LostError)
            seedable = self._load.content[0][request.variant].seedable
            is_lost = isinstance(drawn.ending, requests.LostError) and seedable and lost < MOST_LOST
            if not (is_lost or isinstance(drawn.ending, requests.RunCancelled)):
                return drawn
        raise requests.RunCancelled
