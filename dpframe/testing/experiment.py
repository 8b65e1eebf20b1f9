"""Small audits of a known truth, repeated many times with the engine's own programs."""

import contextlib
import dataclasses
import math
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpframe.claims import Claim
from dpframe.common import trees
from dpframe.common.arrays import jax
from dpframe.common.machine import available_cores
from dpframe.common.types import Floats, Tree
from dpframe.count import kernel, rounds
from dpframe.count.black_box_pass import BlackBoxDraws
from dpframe.count.draws import Draws, learn
from dpframe.count.plan import Pass, Plan, arrange
from dpframe.draw import programs, streams, trace
from dpframe.draw.in_process import InProcessWorkers
from dpframe.engine import ledger
from dpframe.errors import CellError, DpframeError
from dpframe.interfaces.estimator import Estimator, Query
from dpframe.interfaces.plugin_calls import call_plugin
from dpframe.spec.audit import Cell, RunSettings, Skip


class CalibratedCell(NamedTuple):
    """One estimator behind one attack."""

    cell: Cell
    query: Query
    certifies: bool
    raw: bool  # reads raw scores instead of counts
    truth: Claim
    epsilon: float  # the true ε at the cell's δ


@dataclasses.dataclass(frozen=True)
class Experiment:
    """An audit of one mechanism on one pair, and the estimators that are tried on it."""

    the_pass: Pass  # one parameter batch; its repeat is replaced
    run: RunSettings
    prng: str
    parts: tuple[CalibratedCell, ...]  # in the order of the pass; raw scores after counts

    def draws(self, repeat: int, cells: Sequence[Cell] | None = None) -> Draws:
        """Return the draws of one repeat, which are those of `dpframe run`."""
        the_pass = self.the_pass if cells is None else self.the_pass.only(list(cells))
        stream = the_pass.stream._replace(repeat=repeat)
        repeated = dataclasses.replace(the_pass, stream=stream)
        given = repeated, self.run, self.prng, streams.both_as_made(the_pass.pair)
        return BlackBoxDraws(*given, InProcessWorkers()) if the_pass.on_host else Draws(*given)


class Experiments(NamedTuple):
    """The experiments to repeat, and the cells that cannot be repeated."""

    experiments: list[Experiment]
    skipped: list[Skip]
    failed: list[tuple[Cell, str]]

    def certifying(self) -> Iterator[tuple[CalibratedCell, RunSettings]]:
        """Yield each estimator that certifies from counts, once per kind of scores it reads."""
        seen = set()
        for experiment in self.experiments:
            for part in experiment.parts:
                cell, precision = part.cell, experiment.run.precision
                key = (cell.estimator.value, cell.attack.value.gives, cell.confidence, precision)
                if part.certifies and not part.raw and key not in seen:
                    seen.add(key)
                    yield part, experiment.run


def experiments_of(plans: Sequence[Plan]) -> Experiments:
    """Arrange the cells of plans; cells that share draws become one experiment.

    The fit and pilot streams are as long as in the spec, but at most as long as the audit's trials.
    A chunk is as small as the number of trials allows, unless the spec gives its size.
    """
    experiments = Experiments([], [], [])
    for plan in plans:
        experiments.skipped.extend(plan.skipped)
        experiments.failed.extend(plan.failed)
        for the_pass in plan.passes:
            variants: dict[int, list[Cell]] = {}
            for cell, place in the_pass.cells:
                variants.setdefault(place.variant, []).append(cell)
            for cells in variants.values():
                _add(experiments, the_pass, cells, plan)
    return experiments


def _add(experiments: Experiments, the_pass: Pass, cells: list[Cell], plan: Plan) -> None:
    """Add the experiment of cells that share a parameter batch."""
    mechanism = cells[0].mechanism.value
    try:
        truth = call_plugin("truth", lambda: mechanism.truth(the_pass.pair))
    except CellError as error:
        experiments.failed.extend((cell, str(error)) for cell in cells)
        return
    parts: list[CalibratedCell] = []
    for cell in cells:
        epsilon = None if truth is None else truth.epsilon_at(cell.delta)
        if truth is None or epsilon is None or epsilon == math.inf:
            label = cell.mechanism.label
            reason = (
                f"the true ε of {label} is not known for this pair"
                if epsilon is None
                else f"the true ε of {label} at δ = {cell.delta:g} is infinite, so no bound can "
                "exceed it"
            )
            labels = label, cell.pair.label, cell.attack.label, cell.estimator.label
            experiments.skipped.append(Skip(*labels, cell.swept, reason))
            continue
        estimator = cell.estimator.value
        certifies = estimator.certifies_against(cell.claim)
        # P-values cost more than all else, so the claim is passed only if certifying needs it.
        claim = cell.claim if certifies and not estimator.certifies_against(None) else None
        confidence = 1 - ledger.share_of_error(cell, plan)
        query = Query((cell.trials, cell.trials), cell.delta, confidence, claim)
        parts.append(CalibratedCell(cell, query, certifies, False, truth, epsilon))
        own = type(estimator).estimate_scores is not Estimator.estimate_scores
        if own and cell.attack.value.gives == "score":
            parts.append(parts[-1]._replace(raw=True))
    if parts:
        run = trace.resolved(plan.audit.run, the_pass.mechanisms[0], the_pass.trials)
        fit, pilot = (min(limit or 0, the_pass.trials) for limit in (run.fit, run.pilot))
        small = _small(the_pass, [part.cell for part in parts if not part.raw], plan)
        run = run._replace(fit=fit, pilot=pilot)
        experiments.experiments.append(Experiment(small, run, plan.prng, tuple(parts)))


def _small(the_pass: Pass, cells: list[Cell], plan: Plan) -> Pass:
    """Return the pass with chunks as small as the number of trials allows."""
    run, rows = plan.audit.run, the_pass.rows
    if run.chunk is None and not the_pass.slow:
        rows = min(rows, 1 << (the_pass.trials - 1).bit_length())
    group = streams.draw_group(
        cells[0], data=the_pass.data, precision=run.precision, prng=plan.prng, rows=rows
    )
    stream = the_pass.stream._replace(group=group)
    return arrange(stream, the_pass.trials, rows, the_pass.shape, the_pass.data, cells)


class Estimates(NamedTuple):
    """The answers of one part, repeat by repeat."""

    points: Floats
    lows: Floats  # certified bounds; else lower ends of intervals, NaN without one
    reason: str | None = None  # why the part failed


Answer = tuple[float, float] | str
"""Point value and bound of one part in one repeat, or why there are none."""


def repeat(experiment: Experiment, first: int, number: int) -> list[list[Answer]]:
    """Run the repeats `first` to `first + number − 1`; return the answers of all parts in each.

    The division into blocks does not change an answer. A cell that fails does not affect others.
    """
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu), streams.precision_of(experiment.run):
        return [_repeat(experiment, first + n) for n in range(number)]


def _repeat(experiment: Experiment, number: int) -> list[Answer]:
    try:
        return _answers(experiment.draws(number), experiment.parts)
    except CellError:
        pass  # as the engine does: repeat cell by cell, so that only cells at fault fail
    answers: list[Answer] = []
    for cell, _ in experiment.the_pass.cells:
        own = [part for part in experiment.parts if part.cell.id == cell.id]
        try:
            answers += _answers(experiment.draws(number, [cell]), own)
        except CellError as error:
            answers += [str(error)] * len(own)
    return answers


def _answers(draws: Draws, parts: Sequence[CalibratedCell]) -> list[Answer]:
    """Learn, count and estimate; an exception of an estimator fails only its own parts."""
    states, layouts = learn(draws)
    counts = _count(draws, states, layouts)
    places = {cell.id: place for cell, place in draws.the_pass.cells}

    def answer(part: CalibratedCell) -> tuple[float, float]:
        estimator, place = part.cell.estimator.value, places[part.cell.id]
        if part.raw:
            attack = trace.unstacked(part.cell.attack.value, draws.dtype), place.own(states)
            d0, d1 = (
                np.asarray(call_plugin("score", programs.score_given, *attack, each))
                for each in draws.outputs(streams.EVAL, 0)
            )
            rng = streams.host_generator(draws.the_pass.stream.of(streams.SPLIT))
            call = partial(estimator.estimate_scores, (d0, d1), part.query, rng)
        else:
            own = place.own(layouts), place.own(counts)
            call = partial(estimator.estimate, *own, part.query)
        estimate = call_plugin("estimate", call)
        if not part.certifies:
            return estimate.epsilon, estimate.interval[0] if estimate.interval else math.nan
        bound = estimate.epsilon_lower
        if bound is None or not math.isfinite(bound):
            raise CellError(
                f"estimate gave the bound {bound}; a certifying estimator must give a number"
            )
        return estimate.epsilon, bound

    answers: list[Answer] = []
    for part in parts:
        try:
            answers.append(answer(part))
        except CellError as error:
            answers.append(str(error))
    return answers


def _count(draws: Draws, states: tuple[Tree, ...], layouts: tuple[Tree, ...]) -> tuple[Tree, ...]:
    """Count the eval stream, every leaf [1, attacks, …] in int64."""

    def variant(tree: Any) -> Any:
        return trees.map(lambda leaf: leaf[0], tree)

    scorers = draws.the_pass.scorers
    attacks = tuple(trace.stack(scorer.attacks, draws.dtype) for scorer in scorers)
    scoring = kernel.Scoring(attacks, variant(states), variant(layouts))
    counts = variant(rounds.no_counts(draws.the_pass, layouts))
    for index, outputs in enumerate(draws.outputs(streams.EVAL, 0)):
        arguments = counts, scoring, outputs, np.int32(index), np.int32(len(outputs))
        statistics = tuple(scorer.statistic for scorer in scorers)
        call = partial(kernel.count_given, *arguments, statistics=statistics)
        counts = call_plugin("counting", call)
    widened: tuple[Tree, ...] = trees.map(
        lambda leaf: np.asarray(leaf, np.int64)[None], tuple(counts)
    )
    return widened


REPEATS = 256  # repeats of a block, few enough for smooth progress and equal shares of the cores
FEWEST_ESTIMATES = 4_000  # fewer estimates than this end before other processes would have started


class RepeatBlock(NamedTuple):
    """A block of repeats to run."""

    experiment: int
    first: int
    number: int


def repeated(
    experiments: Sequence[Experiment],
    repeats: int,
    *,
    workers: int | None = None,
    block: int = REPEATS,
    on_block: Callable[[int, int], None] = lambda experiment, estimates: None,
) -> list[list[Estimates]]:
    """Run every experiment; return the outcomes of all repeats by experiment and part.

    `workers` is the number of processes; default: one per core, or none if the work is small or
    cannot be sent to another process. A block has at most `block` repeats, which changes no
    outcome. `on_block` is called after each with the index of its experiment and the number of
    estimates.
    """
    tasks = [
        RepeatBlock(number, first, min(block, repeats - first))
        for number in range(len(experiments))
        for first in range(0, repeats, block)
    ]
    tasks.sort(key=lambda task: -experiments[task.experiment].the_pass.trials)  # long ones first
    blocks: list[dict[int, list[list[Answer]]]] = [{} for _ in experiments]
    for task, answers in _answered(experiments, tasks, workers):
        blocks[task.experiment][task.first] = answers
        on_block(task.experiment, task.number * len(experiments[task.experiment].parts))
    rows = [[row for _, own in sorted(of.items()) for row in own] for of in blocks]
    return [[_estimates(part) for part in zip(*own, strict=True)] for own in rows]


def _estimates(answers: Sequence[Answer]) -> Estimates:
    """Join the answers of a part; it fails if it failed in one repeat."""
    reason = next((answer for answer in answers if isinstance(answer, str)), None)
    numbers = [(math.nan, math.nan)] * len(answers) if reason is not None else answers
    points, lows = np.array(numbers, np.float64).T
    return Estimates(points, lows, reason)


def _answered(
    experiments: Sequence[Experiment], tasks: Sequence[RepeatBlock], workers: int | None
) -> Iterator[tuple[RepeatBlock, list[list[Answer]]]]:
    """Yield each task with its answers, in any order."""
    estimates = sum(task.number * len(experiments[task.experiment].parts) for task in tasks)
    number = (
        workers if workers is not None else available_cores() if estimates > FEWEST_ESTIMATES else 1
    )
    executor = _processes(number, experiments) if number > 1 else None
    if executor is None:
        for task in tasks:
            yield task, repeat(experiments[task.experiment], task.first, task.number)
        return
    try:
        futures = {executor.submit(_work, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    except BrokenProcessPool:
        raise DpframeError("a worker process died during the calibration") from None
    finally:
        executor.shutdown(cancel_futures=True)


def _processes(number: int, experiments: Sequence[Experiment]) -> ProcessPoolExecutor | None:
    """Return processes that hold the experiments; None if they cannot import them."""
    pickled = None
    with contextlib.suppress(Exception):  # pickle raises whatever the object's code raises
        pickled = pickle.dumps(experiments)
    if pickled is None:
        return None
    # The processes start with the first task; forking after JAX started is not safe.
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(number, context, initializer=_start, initargs=(pickled,))
    with contextlib.ExitStack() as stack:
        stack.callback(executor.shutdown, cancel_futures=True)
        with contextlib.suppress(BrokenProcessPool):  # such as of a script without a main guard
            if executor.submit(_has_begun).result():
                stack.pop_all()
                return executor
    return None


_held: list[Experiment] = []  # the experiments of this worker process; none if it cannot load them


def _start(pickled: bytes) -> None:
    """Prepare a spawned process: the parent handles Ctrl-C, and JAX uses the CPU alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["JAX_PLATFORMS"] = "cpu"
    jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]
    from dpframe.draw.compile_cache import keep_compiled_programs

    keep_compiled_programs()
    with contextlib.suppress(Exception):  # such as a module that only the parent can import
        _held.extend(pickle.loads(pickled))


def _has_begun() -> bool:
    return bool(_held)


def _work(task: RepeatBlock) -> list[list[Answer]]:
    return repeat(_held[task.experiment], task.first, task.number)


def _end_with_parent() -> None:
    """End with the parent, because a killed run cannot end its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
