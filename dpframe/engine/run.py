"""Runs a plan from the first draw to the last estimate."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import jax

from dpframe.blame import blame
from dpframe.engine.addresses.address import EVAL, Stream, digest
from dpframe.engine.addresses.chunks import SEGMENT_ELEMENTS
from dpframe.engine.boxes.processes import available_cores
from dpframe.engine.boxes.sensitivity import SensitivityCheck
from dpframe.engine.boxes.workers import Workers
from dpframe.engine.counts.checkpoint import Store, Uneven
from dpframe.engine.counts.ledger import Ledger
from dpframe.engine.passes.device import DeviceWork
from dpframe.engine.passes.estimate import estimate_cell
from dpframe.engine.passes.host import HostWork
from dpframe.engine.passes.inquiry import Inquiry, resolution_of, share_of_error
from dpframe.engine.passes.schedule import Counted, Finished, GaveUpError, Paused, Schedule
from dpframe.engine.passes.watch import Loudest, Watches
from dpframe.engine.planning.fingerprint import drawn_with
from dpframe.engine.search.crew import Crew, Drawn
from dpframe.engine.search.question import asked_of_draws
from dpframe.engine.search.settings import Settings
from dpframe.errors import CellError, SampleError, WorthlessError
from dpframe.mechanism import HostMechanism
from dpframe.patience import StuckError, patiently
from dpframe.record.result import CellResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpframe.engine.boxes.lending import Source
    from dpframe.engine.cluster.client import Cluster
    from dpframe.engine.passes.estimate import Extremes
    from dpframe.engine.passes.schedule import Event
    from dpframe.engine.passes.work import Work
    from dpframe.engine.planning.plan import Pass, Plan
    from dpframe.record.looks import Looks
    from dpframe.record.result import Exactly
    from dpframe.spec.audit import Cell

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
    source: Source | None = None,
    cluster: Cluster | None = None,
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
        source: where outputs of black boxes come from; default: worker processes that end with it.
        cluster: draws in place of this process and its workers.

    Returns:
        One result per planned cell, in the order of the spec.

    Raises:
        OutputError: the ledger cannot be written.
    """
    ledger = ledger or Ledger()
    waiting: Sequence[Pass] = plan.passes
    with contextlib.ExitStack() as stack:
        if source is None:
            source = stack.enter_context(Workers(interpreters=plan.audit.interpreters))
        if cluster is not None:
            from dpframe.engine.cluster.boxes import Boxes

            source = Boxes(cluster, source, plan.audit.environments)
        threads = threads or (cluster.tasks if cluster else threads_here())
        runner = Runner(plan, progress, store or Store(), threads, ledger, source)
        runner.cluster = cluster
        while waiting:
            waiting = runner.run(waiting)
        runner.search(plan.searches)
        runner.check_sensitivities()
    ledger.write()  # before anybody sees a result
    return [runner.results[cell.id] for cell in plan.audit.cells if cell.id in runner.results]


def threads_here() -> int:
    """Segments that are counted at once: one per core, or per accelerator."""
    devices = len(jax.devices())
    return max(devices, available_cores()) if jax.default_backend() == "cpu" else devices


class Runner:
    """Collects the results of passes."""

    cluster: Cluster | None = None
    """Counts in place of this process."""

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        store: Store,
        threads: int,
        ledger: Ledger,
        source: Source,
    ) -> None:
        self.plan, self.progress, self.store = plan, progress, store
        self.threads, self.ledger, self.source = threads, ledger, source
        self.results = {
            cell.id: CellResult(cell=cell, reason=reason) for cell, reason in plan.failed
        }
        self.draws = self.shown = 0
        self.before = source.calls
        """Releases that the plan has asked for already."""
        self.label = ""
        self.extremes: Extremes = {}
        self.loudest: dict[Any, Loudest] = {}
        self.again: list[Pass] = []
        self.leaving = threading.Event()
        self.tried: set[Any] = set()

    def run(self, passes: Iterable[Pass]) -> list[Pass]:
        """Runs passes; returns those to run next: parts of passes that could not go on whole."""
        self.again = []
        longest_first = sorted(passes, key=lambda p: -p.coordinates * len(p.mechanisms))
        works = [self._work(the_pass) for the_pass in longest_first]
        boxes = any(work.on_host for work in works) and jax.default_backend() != "cpu"
        beside = available_cores() if boxes else 0
        schedule = Schedule(works, self.threads, jax.devices(), beside, self._stop)
        self.schedule = schedule
        try:
            with contextlib.closing(schedule.events(HEARTBEAT)) as events:
                for event in events:
                    self._take(event)
                    if self.store.due:
                        self._save(works)
                    self._tell()
        finally:
            for event in schedule.rest():
                if isinstance(event, Counted):
                    self._take(event)
            self._save(works)
        return self.again

    @functools.cached_property
    def _times(self) -> int:
        """How many times as large as here segments are on the cluster."""
        elements = sum(the_pass.coordinates for the_pass in self.plan.passes)
        return 1 if self.cluster is None else self.cluster.times(elements / SEGMENT_ELEMENTS)

    def _stop(self) -> None:
        """Ends what threads wait for, or are long at."""
        self.leaving.set()
        self.source.stop()
        if self.cluster is not None:
            self.cluster.stop()

    def search(self, cells: Sequence[Cell]) -> None:
        """Runs the cells that are searched."""
        if not cells:
            return
        run = self.plan.audit.run
        looks = {cell.id: self._look_of(cell) for cell in cells}
        settings = Settings(
            run,
            self.plan.prng,
            self.store,
            self.source,
            lambda cell: share_of_error(cell, self.plan) / looks[cell.id].price,
            lambda cell: looks[cell.id],
            partial(resolution_of, plan=self.plan),
            run.stop == "decided",
            self.cluster,
        )
        crew = Crew(cells, settings, self.threads)
        try:
            with contextlib.closing(crew.events(HEARTBEAT)) as events:
                for event in events:
                    match event:
                        case Drawn(cell=cell, draws=draws):
                            self.draws += draws
                            self.label = cell.mechanism.label
                        case CellResult() as result:
                            self.results[result.cell.id] = result
                    if self.store.due:
                        self.store.flush()
                    self._tell()
        finally:
            self.store.flush()

    def check_sensitivities(self) -> None:
        """Looks at the queries of mechanisms whose pair is fixed, without a draw."""
        known: dict[Any, Exactly | str | None] = {}
        for name, result in self.results.items():
            mechanism, pair = result.cell.mechanism.value, result.cell.pair.value
            if result.cell.search is not None or not mechanism.has_query():
                continue
            if (mechanism, pair) not in known:
                check = SensitivityCheck(mechanism, self.source, self.plan.audit.run)
                try:
                    patiently(partial(check.look, [pair]), self.plan.audit.run.seconds)
                    known[mechanism, pair] = check.found
                except (CellError, StuckError) as error:
                    known[mechanism, pair] = str(error)
            found = known[mechanism, pair]
            if not isinstance(found, str):
                self.results[name] = dataclasses.replace(result, exact=found)
            elif result.reason is None:
                self.results[name] = CellResult(cell=result.cell, reason=found)

    def _look_of(self, cell: Cell) -> Looks:
        """Searches of one kind of mechanism may share draws, whatever they look for in them.

        What was drawn without a seed cannot be drawn again: every search of it that is shown is
        another try.
        """
        assert cell.search is not None
        mechanism = cell.search.mechanism
        group = digest(["search", mechanism.distribution, mechanism.use])
        error = f"{share_of_error(cell, self.plan):.12g}"
        value: Any = mechanism.value
        seeded = getattr(value, "seedable", True)
        stream = Stream(cell.seed if seeded else 0, group, cell.repeat, EVAL)
        run = self.plan.audit.run
        asked = digest([*asked_of_draws(cell, run.seconds), error, drawn_with(run)])
        if not seeded:
            asked = digest([asked, secrets.token_hex(16)])
        return self.ledger.look(stream, asked, (cell.trials, cell.trials))

    def _tell(self) -> None:
        # How far calls are is guessed; what was shown is not taken back.
        self.shown = max(self.shown, self.draws + self.source.released - self.before)
        self.progress(
            cells_done=len(self.results),
            draws_done=self.shown,
            label=self.label,
        )

    def _work(self, the_pass: Pass) -> Work:
        kind = HostWork if isinstance(the_pass.mechanisms[0], HostMechanism) else DeviceWork
        work = kind(the_pass, self.plan.audit.run, self.plan.prng, self.store, self.tried)
        work.leaving = self.leaving
        if isinstance(work, HostWork):
            work.source = self.source
        elif isinstance(work, DeviceWork) and self.cluster is not None:
            work.away = self.cluster
            work.times = self._times
        if the_pass.anytime:
            stops = self.plan.audit.run.stop == "decided"
            inquiry = Inquiry(the_pass, self.plan, self.ledger)
            work.watches = Watches(the_pass, inquiry.before, self.loudest, stops=stops)
        return work

    def _take(self, event: Event | None) -> None:
        match event:
            case Counted(work=work, dataset=dataset, segment=segment):
                work.add(dataset, segment, event.counts, event.seconds)
                self.label = work.the_pass.cells[0][0].mechanism.label
                if not isinstance(work, HostWork):  # black boxes: every call counts
                    self.draws += work.draws_of(segment)
            case Paused(work=work):
                if work.watches is not None:
                    work.watches.advance()
                self.schedule.go_on(work)
            case Finished(work=work, error=GaveUpError() as error) if not work.has_counted:
                self._fail(work, error)
            case Finished(work=work, error=None | GaveUpError()):
                try:
                    if work.watches is not None:
                        work.watches.advance()
                    work.conclude()
                except CellError as error:
                    self._fail(work, error)
                else:
                    self._estimate(work)
            case Finished(work=work, error=BaseException() as error):
                self._fail(work, error)

    def _save(self, works: Iterable[Work]) -> None:
        for work in works:
            work.save()
        self.store.flush()

    def _estimate(self, work: Work) -> None:
        share = work.seconds / len(work.the_pass.cells)
        for cell, place in work.the_pass.cells:
            shared = (work, self.plan, self.ledger, share, self.extremes)
            estimate = partial(estimate_cell, cell, place, *shared)
            try:
                result = patiently(estimate, self.plan.audit.run.seconds)
            except StuckError as stuck:
                result = CellResult(cell=cell, reason=str(stuck))
            self.results[cell.id] = result

    def _fail(self, work: Work, error: BaseException) -> None:
        """Runs the parts of a pass again, each alone, until those to blame are alone."""
        the_pass = work.the_pass
        if isinstance(error, WorthlessError):
            work.forget()
        parts = _parts(the_pass, error)
        if len(parts) > 1:
            self.again.extend(the_pass.only(part) for part in parts)
            return
        reason = str(error)
        if not isinstance(error, CellError):
            reason = blame(error)
        for cell, _ in the_pass.cells:
            self.results[cell.id] = CellResult(cell=cell, reason=reason)


def _parts(the_pass: Pass, error: BaseException) -> list[list[Cell]]:
    """Cells that an error cannot tell from each other: they stay together."""
    if isinstance(error, Uneven):
        return error.groups
    if not isinstance(error, SampleError):
        return [[cell] for cell, _ in the_pass.cells]
    lanes: dict[int, list[Cell]] = {}
    for cell, place in the_pass.cells:
        lanes.setdefault(place.lane, []).append(cell)
    return list(lanes.values())
