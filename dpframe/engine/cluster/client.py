"""A Dask cluster as the engine sees it: tasks go out, counts and outputs come back."""

from __future__ import annotations

import contextlib
import math
import secrets
import threading
from collections import OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import jax

from dpframe.engine.cluster import drawing, work
from dpframe.engine.cluster.connection import TO_ANSWER, TO_PART, Connection, GoneError
from dpframe.engine.cluster.parts import pack, plugin_classes, versions
from dpframe.errors import CellError, DpframeError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from dpframe.engine.addresses.chunks import Segment
    from dpframe.engine.cluster.parts import Sent
    from dpframe.engine.programs.parcel import Parcel
    from dpframe.engine.programs.recipe import Place, Recipe
    from dpframe.types import HostArray, Tree

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
        self, parcel: Parcel, lanes: Sequence[int], index: int, segment: Segment
    ) -> tuple[Tree, ...]:
        """Counts of a segment, as `count_segment` gives them.

        Raises:
            CellError: no worker can count it.
            Stopped: the run ends.
        """
        classes = plugin_classes([parcel.padded[0], *parcel.attacks])
        classes += map(type, parcel.statistics)
        job = Job(parcel, lambda: jax.tree.map(_plain, parcel), tuple(dict.fromkeys(classes)))
        told, found, _ = self.ask(work.answer_counted, job, tuple(lanes), index, segment)
        if told != "counted":
            raise CellError(found)
        return found  # type: ignore[no-any-return]

    def draw(self, recipe: Recipe, place: Place, until: float | None) -> list[HostArray]:
        """Outputs or scores, as `drawn` gives them.

        Raises:
            CellError: no worker can draw them.
            Overdue: it is too late.
            Stopped: the run ends.
        """
        attacks = [attack for of_lane in recipe.scoring for attack, _ in of_lane]
        classes = tuple(plugin_classes([*recipe.mechanisms, *attacks]))
        job = Job(recipe, lambda: jax.tree.map(_plain, recipe), classes)
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
