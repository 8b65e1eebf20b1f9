"""Runs a plan from the first draw to the last estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import jax

from dpframe.blame import blame
from dpframe.engine.checkpoint import Store, Uneven
from dpframe.engine.device import DeviceWork
from dpframe.engine.estimate import estimate_cell
from dpframe.engine.host import HostWork
from dpframe.engine.ledger import Ledger
from dpframe.engine.processes import available_cores
from dpframe.engine.schedule import Counted, Finished, Schedule
from dpframe.errors import CellError
from dpframe.mechanism import HostMechanism
from dpframe.record.result import CellResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpframe.engine.estimate import Extremes
    from dpframe.engine.plan import Pass, Plan
    from dpframe.engine.work import Work

HEARTBEAT = 0.1
"""Seconds between two signs of life to the progress display."""


class Progress(Protocol):
    """What a progress display offers; the engine knows no display."""

    def __call__(self, *, cells_done: int, draws_done: int, label: str) -> None:
        """Takes in how far the run is."""


def quiet(*, cells_done: int, draws_done: int, label: str) -> None:
    """Shows nothing."""


def run(
    plan: Plan,
    progress: Progress = quiet,
    store: Store | None = None,
    threads: int | None = None,
    ledger: Ledger | None = None,
) -> list[CellResult]:
    """Runs every pass of a plan.

    A mistake of a plugin fails its cells and nothing else: a pass that fails is run again cell by
    cell, so that only the cells to blame are lost. However it ends, what was counted is in the
    store; and when it returns, the ledger says what was looked at.

    Args:
        plan: what to do.
        progress: called from this thread as the work goes on.
        store: counts to go on from, and where to keep new ones; default: none.
        threads: segments at once; default: one per core, or per accelerator.
        ledger: earlier looks at the same draws; default: none.

    Returns:
        One result per planned cell, in the order of the spec.

    Raises:
        OutputError: the ledger cannot be written.
    """
    ledger = ledger or Ledger()
    runner = _Runner(plan, progress, store or Store(), threads or _threads(), ledger)
    waiting: Sequence[Pass] = plan.passes
    while waiting:
        waiting = runner.run(waiting)
    ledger.write()  # before anybody sees a result
    return [runner.results[cell.id] for cell in plan.audit.cells if cell.id in runner.results]


def _threads() -> int:
    devices = len(jax.devices())
    return max(devices, available_cores()) if jax.default_backend() == "cpu" else devices


class _Runner:
    """Collects the results of passes."""

    def __init__(
        self, plan: Plan, progress: Progress, store: Store, threads: int, ledger: Ledger
    ) -> None:
        self.plan, self.progress, self.store, self.threads = plan, progress, store, threads
        self.ledger = ledger
        self.results = {
            cell.id: CellResult(cell=cell, reason=reason) for cell, reason in plan.failed
        }
        self.draws = 0
        self.label = ""
        self.extremes: Extremes = {}
        self.again: list[Pass] = []
        self.tried: set[Any] = set()

    def run(self, passes: Iterable[Pass]) -> list[Pass]:
        """Runs passes; returns those to run next: parts of passes that could not go on whole."""
        self.again = []
        longest_first = sorted(passes, key=lambda p: -p.coordinates * len(p.mechanisms))
        works = [self._work(the_pass) for the_pass in longest_first]
        schedule = Schedule(works, self.threads, jax.devices())
        try:
            for event in schedule.events(HEARTBEAT):
                self._take(event)
                if self.store.due:
                    self._save(works)
                self.progress(cells_done=len(self.results), draws_done=self.draws, label=self.label)
        finally:
            for event in schedule.rest():
                if isinstance(event, Counted):
                    self._take(event)
            self._save(works)
            for work in works:
                work.close()
        return self.again

    def _work(self, the_pass: Pass) -> Work:
        kind = HostWork if isinstance(the_pass.mechanisms[0], HostMechanism) else DeviceWork
        return kind(the_pass, self.plan.audit.run, self.plan.prng, self.store, self.tried)

    def _take(self, event: Counted | Finished | None) -> None:
        match event:
            case Counted(work=work, dataset=dataset, segment=segment):
                work.add(dataset, segment, event.counts, event.seconds)
                self.label = work.the_pass.cells[0][0].mechanism.label
                self.draws += work.draws_of(segment)
            case Finished(work=work, error=None):
                self._estimate(work)
                work.close()
            case Finished(work=work, error=error):
                self._fail(work.the_pass, error)
                work.close()

    def _save(self, works: Iterable[Work]) -> None:
        for work in works:
            work.save()
        self.store.flush()

    def _estimate(self, work: Work) -> None:
        share = work.seconds / len(work.the_pass.cells)
        for cell, place in work.the_pass.cells:
            self.results[cell.id] = estimate_cell(
                cell, place, work, self.plan, self.ledger, share, self.extremes
            )

    def _fail(self, the_pass: Pass, error: BaseException | None) -> None:
        cells = [cell for cell, _ in the_pass.cells]
        if isinstance(error, Uneven):
            self.again.extend(the_pass.only(group) for group in error.groups)
        elif len(cells) > 1:
            self.again.extend(the_pass.only([cell]) for cell in cells)
        else:
            unknown = error is not None and not isinstance(error, CellError)
            reason = blame(error) if error is not None and unknown else str(error)
            self.results[cells[0].id] = CellResult(cell=cells[0], reason=reason)
