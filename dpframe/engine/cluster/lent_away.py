"""A process of some worker, lent as if it were here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from dpframe.engine.boxes.lending import Overdue, RaisedError, Told
from dpframe.engine.boxes.workers import TO_LOAD
from dpframe.engine.cluster import drawing
from dpframe.engine.cluster.client import NoWorkerError
from dpframe.engine.cluster.surroundings import kind_of
from dpframe.errors import CellError, SampleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dpframe.engine.addresses.shape import Shape
    from dpframe.engine.boxes.lending import Load, Request, Source
    from dpframe.engine.boxes.worker.querying import Queried
    from dpframe.engine.cluster.asking import Asking
    from dpframe.engine.cluster.client import Cluster
    from dpframe.engine.cluster.drawing import Drawn
    from dpframe.engine.cluster.samples import Samples
    from dpframe.types import HostArray

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
            _, drawn, worker = means.cluster.ask(drawing.draw, job, asked, avoid=avoid, until=until)
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
