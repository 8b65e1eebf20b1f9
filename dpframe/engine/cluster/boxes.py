"""Black boxes on a cluster: whoever asks for outputs asks as if the processes were here."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from dpframe.engine.boxes.lending import Stopped
from dpframe.engine.cluster.asking import Asking
from dpframe.engine.cluster.lent_away import LentAway, Means
from dpframe.engine.cluster.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpframe.engine.boxes.lending import Lent, Load, Source, Told
    from dpframe.engine.cluster.client import Cluster
    from dpframe.environments.model import Environment


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
