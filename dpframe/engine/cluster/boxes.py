"""Black boxes on a cluster: whoever asks for outputs asks as if the processes were here."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.answers import SECONDS
from dpframe.engine.address import digest
from dpframe.engine.cluster import drawing
from dpframe.engine.cluster.client import Job, NoWorkerError
from dpframe.engine.cluster.drawing import Asked
from dpframe.engine.cluster.parts import plugin_classes
from dpframe.engine.cluster.surroundings import needed
from dpframe.engine.lending import Overdue, RaisedError, Stopped, Told
from dpframe.engine.workers import TO_LOAD
from dpframe.errors import CellError, SampleError
from dpframe.foreign import ForeignMechanism

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpframe.engine.cluster.client import Cluster
    from dpframe.engine.cluster.drawing import Drawn
    from dpframe.engine.cluster.surroundings import Needed
    from dpframe.engine.lending import Lent, Load, Request, Source
    from dpframe.engine.shape import Shape
    from dpframe.engine.worker.querying import Queried
    from dpframe.environments.model import Environment
    from dpframe.types import HostArray

TRIES = 3
"""Workers on which the process of a box may end before it is the box that ends it."""

LATE = 5.0
"""Seconds after its time is over in which a worker has to say so."""

LEFT = ("unlent", "lost")
"""Ends after which nothing that was drawn counts."""

OTHERWISE = (
    "at the same address the box draws something else there than here: another version of a "
    "library, or a processor that rounds differently"
)


class Sample(NamedTuple):
    """What this machine has drawn of a kind of box, which others have to draw too."""

    load: Load
    request: Request
    shape: Shape | None
    digest: str


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
        self.environments = tuple(environments)
        self.samples: dict[str, Sample] = {}
        """By the kind of box."""
        self._proved: set[tuple[str, str]] = set()
        """Processes that were seen to draw the same, and which kind of box."""
        self._needed: dict[str, Needed] = {}
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
                yield [_Watched(self, worker, load) for worker in workers]
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
            yield [_Away(self, load)]
        finally:
            with self._change:
                self._busy -= 1
                self._change.notify()

    def tell(self, what: str) -> None:
        """Says something once."""
        with self._change:
            known = what in self._told
            self._told.add(what)
        if not known:
            self.cluster.warn(what)

    def job(self, load: Load) -> Job:
        """A load as it travels."""
        classes = (*plugin_classes(load.content[0]), *map(type, load.content[0]))
        return Job(load, lambda: load.content, tuple(dict.fromkeys(classes)), kind_of(load))

    def asking(
        self, load: Load, request: Request, shape: Shape | None, seconds: float | None
    ) -> Asked:
        """A task for one worker."""
        kind = kind_of(load)
        if kind not in self._needed:
            self._needed[kind] = needed(load.content[0], self.environments)
        return Asked(self.cluster.run, request, shape, seconds, self._needed[kind])

    def proves(self, load: Load, worker: str, place: str, until: float | None) -> bool:
        """Whether a worker draws what was drawn here; one that does not is asked no more."""
        kind = kind_of(load)
        sample = self.samples.get(kind)
        if sample is None or (place, kind) in self._proved:
            return True
        asked = self.asking(sample.load, sample.request, sample.shape, None)
        job = self.job(sample.load)
        drawn = self.cluster.ask_one(worker, drawing.draw, job, asked, until=until)
        if drawn is None or drawn.ending is not None or drawn.place != place:
            return False  # it may be gone; who comes next proves it
        self.asked(drawn.releases)
        if _digest(drawn.outputs) != sample.digest:
            self.cluster.refuse(worker, OTHERWISE, kind)
            return False
        self._proved.add((place, kind))
        return True


class _Watched:
    """A process of this machine; the first that it draws is what others have to draw, too."""

    def __init__(self, boxes: Boxes, lent: Lent, load: Load) -> None:
        self.boxes, self.lent, self.load = boxes, lent, load

    @property
    def told(self) -> Told:
        """See `Lent`."""
        return self.lent.told

    def draw(
        self, request: Request, shape: Shape | None, deadline: float | None
    ) -> Iterator[HostArray]:
        """See `Lent`."""
        found: list[tuple[HostArray, Told]] = []
        for outputs in self.lent.draw(request, shape, deadline):
            found.append((outputs, self.lent.told))
            yield outputs
        asking = request.asking if shape is None else shape.asking
        timed = asking is not None and asking.limit is not None
        if self.load.content[0][request.lane].seedable and not timed:
            sample = Sample(self.load, request, shape, _digest(found))
            self.boxes.samples.setdefault(kind_of(self.load), sample)

    def query(self, data: int, deadline: float | None) -> Queried:
        """See `Lent`."""
        return self.lent.query(data, deadline)


class _Away:
    """A process of some worker, whichever is free."""

    def __init__(self, boxes: Boxes, load: Load) -> None:
        self.boxes, self.load, self.told = boxes, load, Told()
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
            self.boxes.note(told)
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
        with self.boxes.local.lend(self.load) as (worker, *_):
            return worker.query(data, deadline)

    def _drawn(self, request: Request, shape: Shape | None, deadline: float | None) -> Drawn:
        boxes, job = self.boxes, self.boxes.job(self.load)
        avoid: set[str] = set()
        while True:
            now = time.monotonic()
            seconds = None if deadline is None else max(0.0, deadline - now)
            until = None if deadline is None else max(deadline, now) + self._late
            asked = boxes.asking(self.load, request, shape, seconds)
            _, drawn, worker = boxes.cluster.ask(drawing.draw, job, asked, avoid=avoid, until=until)
            boxes.asked(drawn.releases)
            ending = drawn.ending and drawn.ending[0]
            if ending == "stopped":
                continue
            self._late = LATE
            if self._is_the_workers(ending, request) and len(avoid) + 1 < TRIES:
                avoid.add(worker)
            elif ending in LEFT or boxes.proves(self.load, worker, drawn.place, until):
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
        boxes = self.boxes
        boxes.tell(f"{kind_of(self.load).partition('#')[0]} is drawn on this machine: {why}")
        with boxes.local.lend(self.load) as (worker, *_):
            for outputs in worker.draw(request, shape, deadline):
                self.told = worker.told
                yield outputs


def kind_of(load: Load) -> str:
    """What boxes have in common that the same workers can draw; to be read up to a #."""
    first: Any = load.content[0][0]
    own: list[Any] = [type(first).__module__, type(first).__qualname__, id(type(first))]
    where = ""
    if isinstance(first, ForeignMechanism):
        own.append(str(first.program().path))
        where = f" in {first.environment}" if first.environment else ""
    return f"{type(first).name}{where}#{digest(own)}"


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
