"""Run a plan from the first draw to the last estimate, or count one shard of it.

`commands.audit.recorded` is the whole audit: it plans a loaded spec, calls `run` and makes the
record. Here, for each pass,

1. `PassWork.prepare` lets attacks learn and checks the plugins,
2. `Schedule` hands segments to threads, and `PassWork.count` draws, scores and counts one,
3. `PassWork.add` adds the counts up, and
4. `estimate_cell` gets the look from the ledger and the bound from the estimator.

A search is one piece of work of the same schedule: `SearchRun` draws by the engine's passes and
samplers, and bets round by round.
"""

import contextlib
import dataclasses
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from dpframe.common import machine, text
from dpframe.common.arrays import jax
from dpframe.common.types import HostArray
from dpframe.count import checkpoint, fingerprint
from dpframe.count.plan import Pass, PassPosition, Plan
from dpframe.count.work import PassWork, TracedPass
from dpframe.draw.local_executor import LOCAL_EXECUTOR, LocalExecutor, source_of
from dpframe.draw.requests import DeadlinePassed, RunCancelled, WorkerSource
from dpframe.draw.streams import EVAL, SEGMENT_ELEMENTS, Shard, Stream, digest, precision_of
from dpframe.engine import power
from dpframe.engine.estimate import estimate_cell
from dpframe.engine.ledger import Ledger, LookCounter, Question, question_digest, rounds_in
from dpframe.engine.schedule import CountedSegment, Event, Finished, GaveUpError, Paused, Schedule
from dpframe.errors import CellError, SampleError, WorthlessError
from dpframe.interfaces.executor import Executor
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.results.build import cell_record
from dpframe.results.model import CellRecord, WitnessRecord
from dpframe.results.verdict import Looks
from dpframe.spec.audit import Cell

PROGRESS_SECONDS = 0.1  # seconds between two calls of the progress display
STOPPED = "the workers of the run were stopped before the search had ended"


class Progress(Protocol):
    """A progress display."""

    def __call__(self, *, cells_done: int, draws_done: int, label: str) -> None:
        """Show the state of the run."""


def quiet(*, cells_done: int, draws_done: int, label: str) -> None:
    """Show nothing."""


def run(
    plan: Plan,
    progress: Progress = quiet,
    store: checkpoint.Store | None = None,
    threads: int | None = None,
    ledger: Ledger | None = None,
    source: WorkerSource | None = None,
    executor: Executor | None = None,
    timings: dict[str, float] | None = None,
) -> list[CellRecord]:
    """Run every pass and search of a plan.

    A failing plugin fails its own cells only: a pass that fails is run again cell by cell.
    However the run ends, its counts are in the store. When it returns, the ledger holds its looks.

    Args:
        plan: the plan.
        progress: called from this thread during the run.
        store: holds stored counts and takes new ones; default: one in memory.
        threads: segments counted at once; default: one per core, or per accelerator.
        ledger: earlier looks at the same draws; default: none.
        source: runs black boxes; default: worker processes that end with the run.
        executor: runs the tasks; default: this process and its workers.
        timings: takes the seconds that each estimator needed, by the cell's id.

    Returns:
        A record of every planned cell, in the order of the spec, without verdicts.

    Raises:
        OutputError: the ledger cannot be written.
    """
    ledger = ledger or Ledger()
    with contextlib.ExitStack() as stack:
        if source is None:
            source = stack.enter_context(source_of(plan.audit.cells, plan.audit.interpreters))
        if executor is None:
            executor = LocalExecutor(threads_here(plan))
        elif not executor.is_local:
            from dpframe.draw.remote import RemoteBlackBoxes, end

            source = RemoteBlackBoxes(executor, source, plan.audit.environments)
            stack.callback(end, executor.run)
        threads, store = threads or executor.under_way, store or checkpoint.Store()
        settings = plan, progress, store, threads, ledger, source, executor
        runner = Runner(*settings, timings=timings)
        runner.run_all(plan.passes)
        if plan.searches:
            runner.search(plan.searches)
        runner.check_without_draws()
        if plan.audit.run.power is not None:
            runner.results |= power.with_power(plan, runner.results)
    ledger.write()  # before the caller sees a result
    return [runner.results[cell.id] for cell in plan.audit.cells if cell.id in runner.results]


def count(
    plan: Plan,
    shard: Shard,
    store: checkpoint.Store,
    progress: Progress = quiet,
    source: WorkerSource | None = None,
) -> dict[str, str]:
    """Count a shard; however the call ends, its counts are in the store.

    Nothing is estimated, so this is not a look at the draws. Arguments are as for `run`.

    Returns:
        The reason for each cell that could not be counted, by its id.
    """
    with contextlib.ExitStack() as stack:
        source = source or stack.enter_context(source_of(plan.audit.cells, plan.audit.interpreters))
        runner = Runner(plan, progress, store, threads_here(plan), Ledger(), source, shard=shard)
        runner.run_all(owned(plan, shard))
        if own := [cell for n, cell in enumerate(plan.searches) if shard.owns(n)]:
            runner.search(own)
    results = runner.results.items()
    return {cell: result.reason for cell, result in results if result.reason is not None}


def threads_here(plan: Plan) -> int:
    """Return the number of segments to count at once: one per core, or per accelerator."""
    if all(isinstance(cell.mechanism.value, HostMechanism) for cell in plan.audit.cells):
        return machine.available_cores()  # without JAX
    devices = len(jax.devices())
    return max(devices, machine.available_cores()) if jax.default_backend() == "cpu" else devices


def owned(plan: Plan, shard: Shard) -> list[Pass]:
    """Return the passes that a shard counts, whole or in part."""
    bets = [the_pass for the_pass in plan.passes if the_pass.anytime]
    whole = [the_pass for n, the_pass in enumerate(bets) if shard.owns(n)]
    divided = [the_pass for the_pass in plan.passes if not the_pass.anytime]
    return whole + [one for one in divided if shard.chunks(one.trials, one.rows)]


@dataclasses.dataclass(eq=False)
class Runner:
    """Runs passes and searches, and collects a cell of the record for each planned cell."""

    plan: Plan
    progress: Progress
    store: checkpoint.Store
    threads: int
    ledger: Ledger
    source: WorkerSource
    executor: Executor = LOCAL_EXECUTOR  # counts, and draws what takes long
    shard: Shard | None = None  # part of the plan that is counted; nothing is estimated then
    timings: dict[str, float] | None = None

    def __post_init__(self) -> None:
        elements = sum(the_pass.coordinates for the_pass in self.plan.passes)
        self.segment_scale = self.executor.scale(elements / SEGMENT_ELEMENTS)
        """Size of segments, in multiples of the usual one."""
        failed = self.plan.failed
        self.results = {cell.id: cell_record(cell, reason=reason) for cell, reason in failed}
        self.draws = 0
        self.stored_releases = self.store.calls
        """Releases that an interrupted run had requested."""
        self.releases_before = self.source.calls  # releases that the plan has requested already
        self.label = ""
        self.extremes: dict[Any, Any] = {}
        self.failed_parts: list[Pass] = []  # parts of passes that failed as a whole
        self.cancelled = threading.Event()
        self.tried: set[Any] = set()

    def run_all(self, passes: Sequence[Pass]) -> None:
        """Run passes, and the parts of those that fail, until nothing is left."""
        while passes:
            self.failed_parts = []
            longest_first = sorted(passes, key=lambda p: -p.coordinates * len(p.mechanisms))
            self._serve([self.work_on(the_pass) for the_pass in longest_first])
            passes = self.failed_parts

    def _serve(self, works: Sequence[Any]) -> None:
        """Run passes or searches on threads, and take their results as they come."""
        devices, beside = [None], 0
        if not all(work.on_host for work in works):
            devices = jax.devices()
            black_boxes = any(work.on_host for work in works) and jax.default_backend() != "cpu"
            beside = machine.available_cores() if black_boxes else 0
        self.schedule = Schedule(works, self.threads, devices, beside, self._stop)
        try:
            with contextlib.closing(self.schedule.events(PROGRESS_SECONDS)) as events:
                for event in events:
                    self._take(event)
                    if self.store.due:
                        self._save(works)
                    done = self.draws + self.source.calls - self.releases_before
                    progress = {"cells_done": len(self.results), "draws_done": done}
                    self.progress(**progress, label=self.label)
        finally:
            for event in self.schedule.rest():
                if isinstance(event, CountedSegment):
                    self._take(event)
            self._save(works)

    def _stop(self) -> None:
        """Stop everything that the threads wait for."""
        self.cancelled.set()
        self.source.stop()
        self.executor.stop()

    def work_on(self, the_pass: Pass) -> PassWork:
        """Return the work on a pass, not prepared yet."""
        settings = the_pass, self.plan.audit.run, self.plan.prng, self.store, self.tried
        work: PassWork
        if the_pass.on_host:
            from dpframe.count.black_box_pass import BlackBoxPass

            work = BlackBoxPass(*settings)
            work.source = self.source
        else:
            work = TracedPass(*settings)
            work.executor, work.segment_scale = self.executor, self.segment_scale
        work.cancelled = self.cancelled
        if the_pass.anytime:
            from dpframe.engine.anytime import AnytimePass

            stops = self.plan.audit.run.stop == "decided"
            look_counter = LookCounter(the_pass, self.plan, self.ledger)
            work.anytime = AnytimePass(the_pass, look_counter.before, self.extremes, stops=stops)
        elif self.shard is not None:
            work.window = self.shard.chunks(the_pass.trials, the_pass.rows)
        return work

    def _take(self, event: Event | None) -> None:
        match event:
            case CountedSegment(work=work, dataset=dataset, segment=segment):
                work.add(dataset, segment, event.counts, event.seconds)
                self.label = work.the_pass.cells[0][0].mechanism.label
                if not work.on_host:  # every call of a black box counts, including earlier ones
                    self.draws += work.draws_of(segment)
            case Paused(work=work):
                if work.anytime is not None:
                    work.anytime.advance()
                self.schedule.go_on(work)
            case Finished(work=work, error=error) if work.the_pass is None:
                if not isinstance(error, RunCancelled | None):
                    raise error
                record = work.record or cell_record(work.cell, reason=STOPPED)
                self.results[work.cell.id] = record
            case Finished(work=work, error=error):
                self._finish(work, error)

    def _finish(self, work: PassWork, error: BaseException | None) -> None:
        """Estimate a pass, or fail it."""
        # What was counted before the time was over stands.
        if error is not None and not (isinstance(error, GaveUpError) and work.has_counted):
            self._fail(work, error)
            return
        try:
            if work.anytime is not None:
                work.anytime.advance()
            work.conclude()
        except CellError as problem:
            self._fail(work, problem)
        else:
            self.estimate(work)

    def estimate(self, work: PassWork) -> None:
        """Estimate the cells of a counted pass."""
        share = work.seconds / len(work.the_pass.cells)
        shared = work, self.plan, self.ledger, share, self.timings
        for cell, place in work.the_pass.cells:
            if self.shard is not None:
                self.results[cell.id] = cell_record(cell)
                continue
            try:
                estimate = partial(estimate_cell, cell, place, *shared)
                result = machine.with_timeout(estimate, self.plan.audit.run.seconds)
                self.results[cell.id] = self._with_event(work, cell, place, result)
            except machine.StuckError as stuck:
                self.results[cell.id] = cell_record(cell, reason=str(stuck))

    def _with_event(
        self, work: PassWork, cell: Cell, place: PassPosition, result: CellRecord
    ) -> CellRecord:
        """Add the event that shows the leak of a cell; leave it out if the attack fails."""
        if result.basis is None or result.basis.p_resolved > 1 - result.basis.confidence:
            return result
        from dpframe.count.events import event_of

        def event() -> WitnessRecord | None:
            with precision_of(work.run, on_host=work.on_host):
                return event_of(work, cell, place, result)

        with contextlib.suppress(CellError, DeadlinePassed, RunCancelled, machine.StuckError):
            event_record = machine.with_timeout(event, self.plan.audit.run.seconds)
            return result.model_copy(update={"event": event_record})
        return result

    def _fail(self, work: PassWork, error: BaseException) -> None:
        """Queue the parts of a failed pass to run separately; a pass of one part fails."""
        the_pass = work.the_pass
        if isinstance(error, WorthlessError):
            work.forget()
        parts = _parts(the_pass, error)
        if len(parts) > 1:
            self.failed_parts.extend(the_pass.only(part) for part in parts)
            return
        reason = str(error) if isinstance(error, CellError) else text.error_message(error)
        for cell, _ in the_pass.cells:
            self.results[cell.id] = cell_record(cell, reason=reason)

    def _save(self, works: Iterable[PassWork]) -> None:
        for work in works:
            work.save()
        if self.shard is None:  # merging adds up shards, which share the first calls
            self.store.note_calls(self.stored_releases + self.source.calls)
        self.store.flush()

    def search(self, cells: Sequence[Cell]) -> None:
        """Run the cells that are searched, each in a thread; all count on the same threads."""
        from dpframe.search.findings import SearchWork
        from dpframe.search.search import Settings

        pool, shared = ThreadPoolExecutor(self.threads, "dpframe-count"), threading.Lock()

        def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
            if self.cancelled.is_set():
                raise RunCancelled
            return [future.result() for future in [pool.submit(call) for call in calls]]

        def drew(cell: Cell, draws: int) -> None:
            with shared:
                self.draws, self.label = self.draws + draws, cell.mechanism.label
            self.schedule.wake()

        def look(cell: Cell, question: str, rounds: Any, before: Looks | None) -> Looks:
            with shared:
                return self._look_of(cell, question, rounds, before)

        works = []
        for cell in cells:
            try:
                question = question_digest(fingerprint.question_of_search, cell, self.plan)
            except CellError as error:
                self.results[cell.id] = cell_record(cell, reason=str(error))
                continue
            settings = self.plan, self.plan.audit.run, self.store, self.source, self.executor
            calls = partial(look, cell, question), at_once, partial(drew, cell)
            works.append(SearchWork(cell, Settings(*settings, question, *calls)))
        try:
            self._serve(works)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _look_of(
        self, cell: Cell, about: str, rounds: Sequence[HostArray], before: Looks | None = None
    ) -> Looks:
        """Number the look of a search at its draws.

        Searches of one kind of mechanism may share draws, whatever they look for. A search with
        other settings, such as more trials, is another search. Unseeded draws cannot be repeated,
        so every search of them is a new look. With a seed, a search is a new look if its counts
        differ from those of the earlier ones.

        `about` is the digest of its question, `rounds` has the counts of each round, and `before`
        is the look before anything was drawn.
        """
        assert cell.search is not None
        mechanism = cell.search.mechanism
        group = digest(["search", mechanism.distribution, mechanism.use])
        seeded = getattr(mechanism.value, "seedable", True)
        stream = Stream(cell.seed if seeded else 0, group, cell.repeat, EVAL)
        if before is not None and not seeded:
            return before
        about = about if seeded else digest([about, secrets.token_hex(16)])
        trials = cell.trials, cell.trials
        return self.ledger.look(Question(stream[:3], about, trials, rounds_in(rounds)), stream[:3])

    def check_without_draws(self) -> None:
        """Compare queries with their sensitivity, and stated distributions with the claim.

        On fixed pairs; a search compares the pairs that it proposes.
        """
        from dpframe.draw.sensitivity import SensitivityCheck
        from dpframe.draw.stated import StatedCheck

        run, done = self.plan.audit.run, dict[Any, Any]()
        for cell in self.plan.audit.cells:
            mechanism, pair = cell.mechanism.value, cell.pair.value
            stream = Stream(
                cell.seed, digest([cell.mechanism.distribution, cell.mechanism.use]), 0, EVAL
            )
            for field, given in (("exact", mechanism.has_query), ("stated", mechanism.has_choices)):
                result = self.results.get(cell.id)
                if result is None or cell.search is not None or not given():
                    continue
                if (key := (field, mechanism, pair)) not in done:
                    check: SensitivityCheck | StatedCheck = (
                        SensitivityCheck(mechanism, self.source, run)
                        if field == "exact"
                        else StatedCheck(mechanism, self.source, run, stream)
                    )
                    try:
                        done[key] = machine.with_timeout(partial(check.compare, pair), run.seconds)
                    except (CellError, machine.StuckError) as error:
                        done[key] = str(error)
                if not isinstance(done[key], str):
                    self.results[cell.id] = result.model_copy(update={field: done[key]})
                elif result.reason is None:
                    self.results[cell.id] = cell_record(cell, reason=done[key])


def _parts(the_pass: Pass, error: BaseException) -> list[list[Cell]]:
    """Divide the cells of a failed pass into groups that can fail independently."""
    if isinstance(error, checkpoint.MixedProgress):
        return error.groups
    if not isinstance(error, SampleError):
        return [[cell] for cell, _ in the_pass.cells]
    variants: dict[int, list[Cell]] = {}
    for cell, place in the_pass.cells:
        variants.setdefault(place.variant, []).append(cell)
    return list(variants.values())
