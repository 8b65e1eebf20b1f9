"""Runs a plan from the first draw to the last estimate."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import jax

from dpframe.engine.estimate import CellResult, estimate_cell
from dpframe.engine.host import HostWork
from dpframe.engine.schedule import Counted, Finished, Schedule
from dpframe.engine.work import TracedWork
from dpframe.errors import CellError
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


def run(plan: Plan, progress: Progress = quiet, threads: int | None = None) -> list[CellResult]:
    """Runs every pass of a plan.

    A mistake of a plugin fails its cells and nothing else: a pass that fails is run again cell by
    cell, so that only the cells to blame are lost.

    Args:
        plan: what to do.
        progress: called from this thread as the work goes on.
        threads: segments at once; default: the cores of a CPU, one on an accelerator.

    Returns:
        One result per planned cell, in the order of the spec.
    """
    threads = threads or (available_cores() if jax.default_backend() == "cpu" else 1)
    results = {cell.id: CellResult(cell=cell, reason=reason) for cell, reason in plan.failed}
    draws = 0
    waiting: Sequence[Pass] = plan.passes
    while waiting:
        runner = _Runner(plan, progress, results, draws)
        runner.run(waiting, threads)
        draws, waiting = runner.draws, runner.again
    return [results[cell.id] for cell in plan.audit.cells if cell.id in results]


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Runner:
    """One sweep over passes: collects results, and the cells of failed passes to try alone."""

    def __init__(
        self, plan: Plan, progress: Progress, results: dict[str, CellResult], draws: int
    ) -> None:
        self.plan, self.progress, self.results, self.draws = plan, progress, results, draws
        self.again: list[Pass] = []

    def run(self, passes: Iterable[Pass], threads: int) -> None:
        longest_first = sorted(passes, key=lambda p: -p.draws * len(p.mechanisms))
        works = [self._work(the_pass) for the_pass in longest_first]
        label = ""
        for event in Schedule(works, threads).events(HEARTBEAT):
            match event:
                case Counted(work=work, segment=segment, counts=counts, seconds=seconds):
                    work.add(counts, seconds)
                    label = work.the_pass.cells[0][0].mechanism.label
                    self.draws += work.draws_of(segment)
                case Finished(work=work, error=None):
                    self._estimate(work)
                case Finished(work=work, error=error):
                    self._fail(work.the_pass, error)
            self.progress(cells_done=len(self.results), draws_done=self.draws, label=label)

    def _work(self, the_pass: Pass) -> Work:
        kind = HostWork if isinstance(the_pass.mechanisms[0], HostMechanism) else TracedWork
        return kind(the_pass, self.plan.audit.run, self.plan.prng)

    def _estimate(self, work: Work) -> None:
        share = work.seconds / len(work.the_pass.cells)
        for cell, place in work.the_pass.cells:
            self.results[cell.id] = estimate_cell(cell, place, work, self.plan, share)

    def _fail(self, the_pass: Pass, error: BaseException | None) -> None:
        if len(the_pass.cells) > 1:
            self.again.extend(the_pass.alone())
            return
        ((cell, _),) = the_pass.cells
        reason = str(error) if isinstance(error, CellError) else f"{type(error).__name__}: {error}"
        self.results[cell.id] = CellResult(cell=cell, reason=reason)
