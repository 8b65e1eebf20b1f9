"""What this machine has drawn of boxes, which every worker has to draw too before it counts.

Versions and digests cannot say that a library of a library, or a processor, does the same.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from dpframe.answers import SECONDS
from dpframe.engine.cluster import drawing
from dpframe.engine.cluster.surroundings import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dpframe.engine.addresses.shape import Shape
    from dpframe.engine.boxes.lending import Lent, Load, Request, Told
    from dpframe.engine.boxes.worker.querying import Queried
    from dpframe.engine.cluster.asking import Asking
    from dpframe.engine.cluster.client import Cluster
    from dpframe.types import HostArray

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
        drawn = self._cluster.ask_one(worker, drawing.draw, job, asked, until=until)
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
