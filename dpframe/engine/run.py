"""Run a plan from the first draw to the last estimate."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import jax

from dpframe.common.machine import StuckError, available_cores, with_timeout
from dpframe.common.text import error_message
from dpframe.engine.anytime import Loudest, Watches
from dpframe.engine.checkpoint import Store, Uneven
from dpframe.engine.estimate import estimate_cell
from dpframe.engine.fingerprint import drawn_with
from dpframe.engine.ledger import Inquiry, Ledger, resolution_of, share_of_error
from dpframe.engine.passes import DeviceWork
from dpframe.engine.schedule import Counted, Finished, GaveUpError, Paused, Schedule
from dpframe.errors import CellError, SampleError, WorthlessError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.results.build import CellResult
from dpframe.sampling.address import EVAL, SEGMENT_ELEMENTS, Stream, digest
from dpframe.workers.scheduling import source_of
from dpframe.workers.tasks import HERE, ThisProcess

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dpframe.engine.estimate import Extremes
    from dpframe.engine.passes import Work
    from dpframe.engine.plan import Pass, Plan
    from dpframe.engine.schedule import Event
    from dpframe.interfaces.executor import Executor
    from dpframe.results.build import Exactly
    from dpframe.results.verdict import Looks
    from dpframe.sampling.address import Shard
    from dpframe.spec.audit import Cell
    from dpframe.workers.scheduling import Source


# Runs a plan from the first draw to the last estimate.


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
    executor: Executor | None = None,
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
        executor: does the tasks of the run; default: this process and its workers.

    Returns:
        One result per planned cell, in the order of the spec.

    Raises:
        OutputError: the ledger cannot be written.
    """
    ledger = ledger or Ledger()
    waiting: Sequence[Pass] = plan.passes
    with contextlib.ExitStack() as stack:
        if source is None:
            source = stack.enter_context(source_of(plan.audit.cells, plan.audit.interpreters))
        if executor is None:
            executor = ThisProcess(threads_here())
        elif not executor.is_local:
            from dpframe.workers.remote import RemoteBoxes, end

            source = RemoteBoxes(executor, source, plan.audit.environments)
            stack.callback(end, executor.run)
        threads = threads or executor.under_way
        runner = Runner(plan, progress, store or Store(), threads, ledger, source)
        runner.executor = executor
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

    executor: Executor = HERE
    """Counts, and draws what takes long."""

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
        """Size of segments, in multiples of the usual one."""
        elements = sum(the_pass.coordinates for the_pass in self.plan.passes)
        return self.executor.scale(elements / SEGMENT_ELEMENTS)

    def _stop(self) -> None:
        """Ends what threads wait for, or are long at."""
        self.leaving.set()
        self.source.stop()
        self.executor.stop()

    def search(self, cells: Sequence[Cell]) -> None:
        """Runs the cells that are searched."""
        if not cells:
            return
        from dpframe.search.runner import Drawn, SearchRunner, Settings

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
            self.executor,
        )
        searches = SearchRunner(cells, settings, self.threads)
        try:
            with contextlib.closing(searches.events(HEARTBEAT)) as events:
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
                from dpframe.workers.sensitivity import SensitivityCheck

                check = SensitivityCheck(mechanism, self.source, self.plan.audit.run)
                try:
                    with_timeout(partial(check.look, [pair]), self.plan.audit.run.seconds)
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
        from dpframe.search.search import asked_of_draws

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
        about = (the_pass, self.plan.audit.run, self.plan.prng, self.store, self.tried)
        work: Work
        if isinstance(the_pass.mechanisms[0], HostMechanism):
            from dpframe.engine.host import HostWork

            work = HostWork(*about)
            work.source = self.source
        else:
            work = DeviceWork(*about)
            work.executor, work.times = self.executor, self._times
        work.leaving = self.leaving
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
                if not work.on_host:  # black boxes: every call counts
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
                result = with_timeout(estimate, self.plan.audit.run.seconds)
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
            reason = error_message(error)
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


# Counts one shard of a plan, and judges nothing.


def count(
    plan: Plan,
    shard: Shard,
    store: Store,
    progress: Progress = quiet,
    source: Source | None = None,
) -> dict[str, str]:
    """Counts a shard; however it ends, what was counted is in the store.

    Nobody is shown anything of the draws, so that this is no look at them.

    Args:
        plan: of the whole run.
        shard: which part of it.
        store: counts to go on from, and where to keep new ones.
        progress: called from this thread as the work goes on.
        source: where outputs of black boxes come from; default: worker processes that end with it.

    Returns:
        Why cells could not be counted, by id.
    """
    with contextlib.ExitStack() as stack:
        if source is None:
            source = stack.enter_context(source_of(plan.audit.cells, plan.audit.interpreters))
        counter = _Counter(plan, progress, store, threads_here(), Ledger(), source)
        counter.shard = shard
        waiting: Sequence[Pass] = owned(plan, shard)
        while waiting:
            waiting = counter.run(waiting)
        counter.search([cell for n, cell in enumerate(plan.searches) if shard.owns(n)])
    return {
        cell: result.reason for cell, result in counter.results.items() if result.reason is not None
    }


def owned(plan: Plan, shard: Shard) -> list[Pass]:
    """The passes of which a shard has a part."""
    bets = [the_pass for the_pass in plan.passes if the_pass.anytime]
    whole = [the_pass for n, the_pass in enumerate(bets) if shard.owns(n)]
    divided = [the_pass for the_pass in plan.passes if not the_pass.anytime]
    return whole + [one for one in divided if shard.chunks(one.trials, one.rows)]


class _Counter(Runner):
    shard: Shard

    def _work(self, the_pass: Pass) -> Work:
        work = super()._work(the_pass)
        if not the_pass.anytime:
            work.window = self.shard.chunks(the_pass.trials, the_pass.rows)
        return work

    def _estimate(self, work: Work) -> None:
        for cell, _ in work.the_pass.cells:
            self.results[cell.id] = CellResult(cell=cell)
