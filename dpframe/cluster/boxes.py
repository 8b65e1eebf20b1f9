"""Black boxes on a cluster."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from dpframe.cluster import worker as drawing
from dpframe.cluster.client import Job, NoWorkerError
from dpframe.cluster.worker import Asked, kind_of, needed, plugin_classes
from dpframe.errors import CellError, SampleError
from dpframe.interfaces.attack import SECONDS
from dpframe.workers.pool import TO_LOAD
from dpframe.workers.scheduling import Overdue, RaisedError, Stopped, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dpframe.cluster.client import Cluster
    from dpframe.cluster.worker import Drawn, Needed
    from dpframe.common.types import HostArray
    from dpframe.environments.places import Environment
    from dpframe.sampling.address import Shape
    from dpframe.workers.program.query import Queried
    from dpframe.workers.scheduling import Lent, Load, Request, Source


# What is sent to a worker so that it draws from a box.


class Asking:
    """Makes tasks of one run.

    Args:
        run: by which workers know it.
        environments: of the run.
    """

    def __init__(self, run: str, environments: Iterable[Environment]) -> None:
        self._run, self._environments = run, tuple(environments)
        self._needed: dict[str, Needed] = {}

    def job(self, load: Load) -> Job:
        """A load as it travels."""
        classes = (*plugin_classes(load.content[0]), *map(type, load.content[0]))
        return Job(load, lambda: load.content, tuple(dict.fromkeys(classes)), kind_of(load))

    def asked(
        self, load: Load, request: Request, shape: Shape | None, seconds: float | None
    ) -> Asked:
        """What of it is drawn, and what a worker has to have for that."""
        kind = kind_of(load)
        if kind not in self._needed:
            self._needed[kind] = needed(load.content[0], self._environments)
        return Asked(self._run, request, shape, seconds, self._needed[kind])


# What this machine has drawn of boxes, which every worker has to draw too before it counts.
#
# Versions and digests cannot say that a library of a library, or a processor, does the same.


OTHERWISE = (
    "at the same address the box draws something else there than here: another version of a "
    "library, or a processor that rounds differently"
)


class Sample(NamedTuple):
    """What this machine has drawn of a kind of box."""

    load: Load
    request: Request
    shape: Shape | None
    digest: str


class Samples:
    """One of every kind of box, and who was seen to draw the same.

    Args:
        cluster: whose workers are tried.
        asking: makes their tasks.
        count: told how many releases a trial was.
    """

    def __init__(self, cluster: Cluster, asking: Asking, count: Callable[[int], None]) -> None:
        self._cluster, self._asking, self._count = cluster, asking, count
        self.kept: dict[str, Sample] = {}
        """By the kind of box."""
        self._proved: set[tuple[str, str]] = set()
        """Processes that were seen to draw the same, and which kind of box."""

    def watched(self, lent: Lent, load: Load) -> Lent:
        """A process of this machine, of which the first that it draws is kept."""
        return _Watched(self, lent, load)

    def keep(
        self,
        load: Load,
        request: Request,
        shape: Shape | None,
        found: Iterable[tuple[HostArray, Told]],
    ) -> None:
        """Takes a sample, if it can be drawn again and there is none."""
        asking = request.asking if shape is None else shape.asking
        timed = asking is not None and asking.limit is not None
        if load.content[0][request.lane].seedable and not timed:
            sample = Sample(load, request, shape, _digest(found))
            self.kept.setdefault(kind_of(load), sample)

    def proves(self, load: Load, worker: str, place: str, until: float | None) -> bool:
        """Whether a worker draws what was drawn here; one that does not is asked no more.

        Args:
            load: of the kind of box.
            worker: its address.
            place: which process it is.
            until: when it is too late, on the monotonic clock.
        """
        kind = kind_of(load)
        sample = self.kept.get(kind)
        if sample is None or (place, kind) in self._proved:
            return True
        asked = self._asking.asked(sample.load, sample.request, sample.shape, None)
        job = self._asking.job(sample.load)
        drawn = self._cluster.ask_one(worker, drawing.draw_drawing, job, asked, until=until)
        if drawn is None or drawn.ending is not None or drawn.place != place:
            return False  # it may be gone; who comes next proves it
        self._count(drawn.releases)
        if _digest(drawn.outputs) != sample.digest:
            self._cluster.refuse(worker, OTHERWISE, kind)
            return False
        self._proved.add((place, kind))
        return True


class _Watched:
    """A process of this machine."""

    def __init__(self, samples: Samples, lent: Lent, load: Load) -> None:
        self._samples, self._lent, self._load = samples, lent, load

    @property
    def told(self) -> Told:
        """See `Lent`."""
        return self._lent.told

    def draw(
        self, request: Request, shape: Shape | None, deadline: float | None
    ) -> Iterator[HostArray]:
        """See `Lent`."""
        found: list[tuple[HostArray, Told]] = []
        for outputs in self._lent.draw(request, shape, deadline):
            found.append((outputs, self._lent.told))
            yield outputs
        self._samples.keep(self._load, request, shape, found)

    def query(self, data: int, deadline: float | None) -> Queried:
        """See `Lent`."""
        return self._lent.query(data, deadline)


def _digest(outputs: Iterable[tuple[HostArray, Told]]) -> str:
    """Of outputs, without the time that they took."""
    hasher = hashlib.blake2b(digest_size=16)
    for found, told in outputs:
        kept = found.copy()
        if told.answering:
            kept[:, SECONDS] = 0
        hasher.update(f"{kept.dtype}{kept.shape}".encode())
        hasher.update(kept.tobytes())
    return hasher.hexdigest()


# A process of some worker, lent as if it were here.


TRIES = 3
"""Workers on which the process of a box may end before it is the box that ends it."""

LATE = 5.0
"""Seconds after its time is over in which a worker has to say so."""

LEFT = ("unlent", "lost")
"""Ends after which nothing that was drawn counts."""


class Means(NamedTuple):
    """What boxes on a cluster are drawn with."""

    cluster: Cluster
    local: Source
    """Who draws here, and keeps the accounts of the run."""
    asking: Asking
    samples: Samples
    tell: Callable[[str], None]
    """Says something once."""


class LentAway:
    """Whichever worker is free.

    Args:
        means: what it is asked with.
        load: what it holds.
    """

    def __init__(self, means: Means, load: Load) -> None:
        self.means, self.load, self.told = means, load, Told()
        self._late = TO_LOAD
        """Seconds that a worker gets beyond the deadline; the first time it has to load."""

    def draw(
        self, request: Request, shape: Shape | None, deadline: float | None
    ) -> Iterator[HostArray]:
        """See `Lent`."""
        try:
            drawn = self._drawn(request, shape, deadline)
        except NoWorkerError as error:
            yield from self._here(str(error), request, shape, deadline)
            return
        except SampleError:
            raise
        except CellError as error:
            raise SampleError(str(error)) from None
        for outputs, told in drawn.outputs:
            self.told = told
            self.means.local.note(told)
            yield outputs
        match drawn.ending:
            case ("overdue", _):
                raise Overdue
            case ("raised", words):
                raise RaisedError(words)
            case (_, words):
                raise SampleError(words)

    def query(self, data: int, deadline: float | None) -> Queried:
        """See `Lent`; it is no draw, and asked for here."""
        with self.means.local.lend(self.load) as (worker, *_):
            return worker.query(data, deadline)

    def _drawn(self, request: Request, shape: Shape | None, deadline: float | None) -> Drawn:
        means, job = self.means, self.means.asking.job(self.load)
        avoid: set[str] = set()
        while True:
            now = time.monotonic()
            seconds = None if deadline is None else max(0.0, deadline - now)
            until = None if deadline is None else max(deadline, now) + self._late
            asked = means.asking.asked(self.load, request, shape, seconds)
            _, drawn, worker = means.cluster.ask(
                drawing.draw_drawing, job, asked, avoid=avoid, until=until
            )
            means.local.asked(drawn.releases)
            ending = drawn.ending and drawn.ending[0]
            if ending == "stopped":
                continue
            self._late = LATE
            if self._is_the_workers(ending, request) and len(avoid) + 1 < TRIES:
                avoid.add(worker)
            elif ending in LEFT or means.samples.proves(self.load, worker, drawn.place, until):
                return drawn  # type: ignore[no-any-return]

    def _is_the_workers(self, ending: str | None, request: Request) -> bool:
        """Whether an end may be the machine's and not the box's.

        What is drawn again has to be the same again: a box without a seed would draw something
        else, and what ended its process would be left out.
        """
        seedable: bool = self.load.content[0][request.lane].seedable
        return ending == "unlent" or (ending == "lost" and seedable)

    def _here(
        self, why: str, request: Request, shape: Shape | None, deadline: float | None
    ) -> Iterator[HostArray]:
        means = self.means
        means.tell(f"{kind_of(self.load).partition('#')[0]} is drawn on this machine: {why}")
        with means.local.lend(self.load) as (worker, *_):
            for outputs in worker.draw(request, shape, deadline):
                self.told = worker.told
                yield outputs


# Black boxes on a cluster: whoever asks for outputs asks as if the processes were here.


class Boxes:
    """A source of outputs whose processes are those of a cluster's workers.

    What shows how a box behaves (its first calls, whether it keeps to addresses) is drawn here,
    by processes of this machine; so is what no worker can draw.

    Args:
        cluster: whose workers draw.
        local: who draws here, and keeps the accounts of the run.
        environments: of the run.
    """

    def __init__(
        self, cluster: Cluster, local: Source, environments: Iterable[Environment] = ()
    ) -> None:
        self.cluster, self.local = cluster, local
        asking = Asking(cluster.run, environments)
        self.samples = Samples(cluster, asking, local.asked)
        self._means = Means(cluster, local, asking, self.samples, self._tell)
        self._told: set[str] = set()
        self._busy = 0
        self._change = threading.Condition()
        self._stopped = False

    @property
    def calls(self) -> int:
        """See `Source`."""
        return self.local.calls

    @property
    def words(self) -> dict[int, str]:
        """See `Source`."""
        return self.local.words

    @property
    def most(self) -> int:
        """See `Source`."""
        return max(2, self.cluster.threads)

    @property
    def released(self) -> int:
        """See `Source`."""
        return self.local.released

    def asked(self, releases: int) -> None:
        """See `Source`."""
        self.local.asked(releases)

    def note(self, told: Told) -> None:
        """See `Source`."""
        self.local.note(told)

    def stop(self) -> None:
        """See `Source`."""
        with self._change:
            self._stopped = True
            self._change.notify_all()
        self.local.stop()
        self.cluster.stop()

    @contextlib.contextmanager
    def lend(self, load: Load, number: int = 1) -> Iterator[list[Lent]]:
        """See `Source`; several at once are asked for to compare them, and are of this machine."""
        if number > 1:
            with self.local.lend(load, number) as workers:
                yield [self.samples.watched(worker, load) for worker in workers]
            return
        load.message()  # a mistake is met before anything travels
        most = self.most
        with self._change:
            while self._busy >= most and not self._stopped:
                self._change.wait()
            if self._stopped:
                raise Stopped
            self._busy += 1
        try:
            yield [LentAway(self._means, load)]
        finally:
            with self._change:
                self._busy -= 1
                self._change.notify()

    def _tell(self, what: str) -> None:
        """Says something once."""
        with self._change:
            known = what in self._told
            self._told.add(what)
        if not known:
            self.cluster.warn(what)
