"""Estimate the memory, calls and time that a plan takes."""

import math
import time
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dpframe.common import trees
from dpframe.common.arrays import jax
from dpframe.common.machine import at_work, free_bytes
from dpframe.common.text import cut
from dpframe.common.types import Tree
from dpframe.engine import checkpoint, trace
from dpframe.engine.passes import DeviceWork
from dpframe.engine.plan import Pass, Plan
from dpframe.errors import CellError, DpframeError
from dpframe.interfaces.checks import guarded
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import Pair
from dpframe.interfaces.plugin import Plugin
from dpframe.interfaces.statistic import Statistic
from dpframe.sampling.address import PROBE, Segment, Stream, both_as_made, for_a_box
from dpframe.spec.audit import Audit, Cell, RunSettings
from dpframe.workers.requests import Lent, Load, Overdue, Request, WorkerSource

BASE_BYTES = 480 << 20  # memory of Python, JAX and its compiler before the first draw

CELL_BYTES = 8_000
"""Memory of a cell besides its counts: in the spec, the plan and the record."""

COUNT_BYTES = 160  # memory of a count in the record, as a Python number among others
MOST_CHUNKS = 2**31 - 1  # chunks of a dataset; the device numbers them with 32 bits
IDEAL_PILOT = 1000  # scores per dataset of an imagined pilot that tells D from D′ perfectly


def ideal_layout(statistic: Statistic, dims: tuple[int, ...] = ()) -> Tree:
    """Return the layout of a statistic whose pilot saw a perfect attack.

    `dims` is the shape of one score, or of one output that holds canaries.
    """
    if "canaries" in statistic.accepts:
        members = np.arange(dims[-1] if dims else 2, dtype=np.float32) % 2
        run = np.stack([members, members])
        return (
            statistic.bind(run[None], run[None])
            if statistic.needs_pilot()
            else statistic.lay_out(run.shape)
        )
    if not statistic.needs_pilot():
        return statistic.lay_out(())
    kind = np.bool_ if "score" not in statistic.accepts else np.float32
    return statistic.bind(np.zeros(IDEAL_PILOT, kind), np.ones(IDEAL_PILOT, kind))


def data_bytes(pair: Any) -> int:
    """Return the bytes of both datasets of a pair; arrays that they share count twice."""
    return sum(np.asarray(leaf).nbytes for leaf in trees.leaves((pair.d0, pair.d1)))


def check_data(audit: Audit) -> None:
    """Raise DpframeError if the datasets alone need more memory than the machine has."""
    pairs = {cell.pair.value: cell.pair.use for cell in audit.cells}
    free = free_bytes()
    for pair, use in pairs.items():
        try:
            size = 2 * data_bytes(pair)
        except MemoryError as error:
            name = _described("pair", use, pair)
            raise DpframeError(_too_large(str(error), free, [(name, 0)])) from None
        except Exception:  # a plugin's; the code that uses the datasets reports it
            continue
        if free is not None and size > free:
            name = f"D and D′ of {_described('pair', use, pair)}"
            raise DpframeError(_too_large(f"takes {_size(size)}", free, [(name, size)]))


class Footprint:
    """The memory that a run takes if `threads` segments are counted at the same time."""

    def __init__(self, plan: Plan, threads: int) -> None:
        self._plan, self._threads = plan, threads
        self._data: dict[Pair, int] = {}
        self._counters: dict[Statistic, int] = {}
        """Counts of one cell on both datasets, by statistic; 0 if the statistic raises."""
        self._passes: list[dict[str | int, int]] = []
        self._results = 0  # bytes kept of all cells until the record is written
        self._largest = 0, ""
        """The largest number of counts of one cell, and the label of its estimator."""

    @cached_property
    def bytes(self) -> int:
        """Estimated peak; calls plugins to learn the size of their counts."""
        self._passes = [self._sizes(the_pass) for the_pass in self._plan.passes]
        for the_pass in self._plan.passes:
            for cell, place in the_pass.cells:
                count = self._counters[the_pass.scorers[place.scorer].statistic]
                self._results += CELL_BYTES + COUNT_BYTES * count
                self._largest = max(self._largest, (count, cell.estimator.label))
        largest = max((sum(sizes.values()) for sizes in self._passes), default=0)
        return BASE_BYTES + largest + self._results

    def check(self) -> None:
        """Raise DpframeError if the run needs more than this machine has."""
        for the_pass in self._plan.passes:
            if the_pass.trials / the_pass.rows > MOST_CHUNKS and not the_pass.on_host:
                raise DpframeError(
                    f"audit.trials = {the_pass.trials}: {_names(the_pass)} makes {the_pass.rows} "
                    f"at a time, and can make {MOST_CHUNKS * the_pass.rows:,} in all"
                )
        free = free_bytes()
        if free is not None and self.bytes > free:
            needs = [("dpframe itself, with JAX", BASE_BYTES)]
            if self._passes:  # searches draw in rounds, and have no passes
                place = max(range(len(self._passes)), key=lambda n: sum(self._passes[n].values()))
                the_pass, sizes = self._plan.passes[place], self._passes[place]
                needs += [(self._words(the_pass, what), size) for what, size in sizes.items()]
            count, label = self._largest
            most = f", up to {count:,} counts each (estimator {label!r})" if count else ""
            cells = f"results of {len(self._plan.audit.cells):,} cells{most}"
            needs.append((cells, self._results))
            raise DpframeError(_too_large(f"takes {_size(self.bytes)}", free, needs))

    def _sizes(self, the_pass: Pass) -> dict[str | int, int]:
        """Return the bytes that a pass holds at once, by purpose; counts by number of the cell."""
        run = trace.resolved(self._plan.audit.run, the_pass.mechanisms[0], the_pass.trials)
        lanes, threads = len(the_pass.mechanisms), self._threads
        row = max(1, the_pass.elements) * np.dtype(run.precision).itemsize
        if the_pass.pair not in self._data:
            self._data[the_pass.pair] = data_bytes(the_pass.pair)
        found: dict[str | int, int] = {}
        found["data"] = 2 * self._data[the_pass.pair]  # the pair's copy, and one on the device
        # Random bits, noise, outputs and scores of one lane at a time.
        found["outputs"] = the_pass.rows * threads * 4 * row
        for scorer in the_pass.scorers:
            if any(attack.learns() for attack in scorer.attacks):
                found["fit"] = 4 * (run.fit or 0) * row
        if the_pass.pilots and not the_pass.by_chunks:  # else only scores are kept
            found["pilot"] = 4 * (run.pilot or 0) * row
        padded = max(trace.LANES, 1 << (lanes - 1).bit_length())
        for number, (cell, place) in enumerate(the_pass.cells):
            scorer = the_pass.scorers[place.scorer]
            if scorer.statistic not in self._counters:
                self._counters[scorer.statistic] = _count(scorer.statistic, cell, the_pass)
            if place.lane == place.attack == 0:
                counts = self._counters[scorer.statistic] * len(scorer.attacks)
                found[number] = counts * (12 * lanes + 4 * padded * threads)
        return found

    def _words(self, the_pass: Pass, what: str | int) -> str:
        """Describe one of the sizes of a pass."""
        if isinstance(what, int):
            return f"counts of {_estimator(the_pass.cells[what][0])}"
        run = trace.resolved(self._plan.audit.run, the_pass.mechanisms[0], the_pass.trials)
        if what == "data":
            return f"D and D′ of {_pair_of(the_pass)}"
        if what == "outputs":
            chunk = f"run.chunk = {run.chunk}" if run.chunk else f"{the_pass.rows} at a time"
            return f"outputs of {_names(the_pass)}, {chunk}, on {self._threads} cores"
        return f"run.{what} = {getattr(run, what)} outputs of {_names(the_pass)}"


def _count(statistic: Statistic, cell: Cell, the_pass: Pass) -> int:
    try:
        with at_work("the statistic"):
            zero = jax.eval_shape(statistic.zero, ideal_layout(statistic, the_pass.shape.dims))
        return sum(math.prod(leaf.shape) for leaf in trees.leaves(zero))
    except MemoryError as error:
        needs = [(f"counts of {_estimator(cell)}", 0)]
        raise DpframeError(_too_large(str(error), free_bytes(), needs)) from None
    except Exception:  # a plugin's; the run reports it
        return 0


def _too_large(needed: str, free: int | None, needs: list[tuple[str, int]]) -> str:
    there_is = "" if free is None else f"; {_size(free)} is free"
    lines = [f"does not fit into the memory of this machine: {needed}{there_is}"]
    largest = max((size for _, size in needs), default=0)
    for what, size in sorted(needs, key=lambda need: -need[1]):
        if size >= largest / 100:
            lines.append(f"{what}: {_size(size)}" if size else what)
    return "\n   ".join(lines)


def _names(the_pass: Pass) -> str:
    mechanism = the_pass.cells[0][0].mechanism.label
    return f"mechanism {mechanism!r} with {_pair_of(the_pass)}"


def _pair_of(the_pass: Pass) -> str:
    return _described("pair", the_pass.cells[0][0].pair.use, the_pass.pair)


def _estimator(cell: Cell) -> str:
    return _described("estimator", cell.estimator.label, cell.estimator.value)


def _described(kind: str, name: str, plugin: Plugin) -> str:
    params = ", ".join(f"{kind}.{key} = {value!r}" for key, value in plugin.params().items())
    return f"{kind} {name!r}" + (f" ({cut(params)})" if params else "")


def _size(count: int) -> str:
    return f"{count / 2**30:,.3g} GiB" if count >= 2**30 else f"{count / 2**20:,.3g} MiB"


def planned_draws(plan: Plan) -> int:
    """Return the releases of a run on both datasets together; an upper limit if it searches."""
    run = plan.audit.run
    passes = sum(planned_calls(each, run) or each.draws for each in plan.passes)
    return passes + sum(2 * cell.trials for cell in plan.searches)


def planned_calls(the_pass: Pass, run: RunSettings) -> int:
    """Return the number of releases that a pass needs from a black box; 0 for other mechanisms."""
    if not the_pass.on_host:
        return 0
    run = trace.resolved(run, the_pass.mechanisms[0], the_pass.trials)
    streams = [the_pass.trials]
    attacks = [attack for scorer in the_pass.scorers for attack in scorer.attacks]
    if any(attack.has_fit() and attack.learns() for attack in attacks):
        streams.append(run.fit or 0)
    if the_pass.pilots:
        streams.append(run.pilot or 0)
    whole = sum(-(-wanted // the_pass.rows) for wanted in streams)  # a tail is drawn whole
    return (2 * len(the_pass.mechanisms) * whole + extra_chunks(the_pass)) * the_pass.rows


def extra_chunks(the_pass: Pass) -> int:
    """Return the number of chunks drawn only to check that draws depend on their address alone."""
    first = the_pass.mechanisms[0]
    if isinstance(first, HostMechanism) and first.seedable:
        return 4 + len(the_pass.mechanisms) - 1
    return 2


# Time: a trial call of each black box in a worker, and a few prepared passes of the others.


REHEARSAL = 2.0  # seconds of the trial call of a black box
MOST = 8  # boxes that get a trial call; others count as fast as these on average


class Duration(NamedTuple):
    """Seconds of one release, of all releases of a run, or of a whole run."""

    seconds: float
    known: bool = True  # False if a trial call did not return in time, so that it takes longer


def box_seconds(plan: Plan, source: WorkerSource, threads: int) -> Duration | None:
    """Return the seconds that all releases of black boxes take together, `threads` at a time.

    None if no box can be called; 0 if there is none.
    """
    boxes = [p for p in plan.passes if p.on_host]
    if not boxes:
        return Duration(0.0)
    one_of_each = {trees.structure(p.mechanisms[0]): p for p in boxes}
    paces: dict[Any, Duration] = {}
    for key, the_pass in list(one_of_each.items())[:MOST]:
        found = rehearsed(the_pass, source)
        if found is not None:
            paces[key] = found
    if not paces:
        return None
    mean = Duration(sum(pace.seconds for pace in paces.values()) / len(paces))
    run, workers = plan.audit.run, max(1, min(threads, source.most))
    longest = together = 0.0
    for the_pass in boxes:
        pace = paces.get(trees.structure(the_pass.mechanisms[0]), mean)
        work = planned_calls(the_pass, run) * pace.seconds
        alone = waves(the_pass, run, workers) * the_pass.rows * pace.seconds
        if run.seconds is not None:
            work, alone = min(work, run.seconds * workers), min(alone, run.seconds)
        longest, together = max(longest, alone), together + work
    known = all(pace.known for pace in paces.values())
    return Duration(max(longest, together / workers), known)


def waves(the_pass: Pass, run: RunSettings, workers: int) -> int:
    """Return the number of chunks that a pass draws in sequence if it has all workers.

    Chunks that compare addresses, and the first chunks of each lane, are drawn two at a time.
    """
    in_pairs = extra_chunks(the_pass) + 2 * len(the_pass.mechanisms)
    rest = planned_calls(the_pass, run) // the_pass.rows - in_pairs
    return in_pairs // 2 + math.ceil(max(0, rest) / workers)


def rehearsed(the_pass: Pass, source: WorkerSource) -> Duration | None:
    """Return the pace of one box; None if its trial call fails, which the run reports."""
    mechanism: Any = the_pass.mechanisms[0]
    try:
        data = guarded("the pair", both_as_made, the_pass.pair)
        with source.lend(Load((mechanism,), for_a_box(data))) as (worker, *_):
            return _pace(worker, the_pass, time.monotonic() + REHEARSAL)
    except CellError:
        return None


def _pace(worker: Lent, the_pass: Pass, deadline: float) -> Duration:
    """Time one release, then whole chunks while there is time; return the last measurement."""
    pace = Duration(REHEARSAL, known=False)
    rows, asking = the_pass.rows, the_pass.shape.asking
    for chunk, number in enumerate((1, rows, rows)):
        started = time.monotonic()
        if pace.known and started + 2 * number * pace.seconds > deadline:
            break
        address = Stream(0, "rehearsal", 0, PROBE), 0, chunk, chunk + 1, number
        request = Request(0, 0, *address, asking)
        try:
            for _ in worker.draw(request, deadline):
                pass
        except Overdue:
            break
        pace = Duration((time.monotonic() - started) / number)
    return pace


REHEARSED = 3
"""Passes that are prepared and timed by a few draws, including the one with the most draws."""

LONG_ENOUGH = 0.1  # seconds of drawing from which the rest is extrapolated
ESTIMATE_SECONDS = 0.002  # seconds to estimate, judge and write one cell


def expected_seconds(plan: Plan, threads: int, source: WorkerSource) -> Duration | None:
    """Estimate the duration of a run on `threads` cores, by a few draws that are not kept.

    None if something fails; the run reports it.
    """
    boxes = box_seconds(plan, source, threads)
    traced = _traced_seconds(plan, threads)
    if not plan.passes or boxes is None or traced is None:
        return None
    rest = ESTIMATE_SECONDS * len(plan.audit.cells)
    return Duration(boxes.seconds + traced + rest, boxes.known)


def _traced_seconds(plan: Plan, threads: int) -> float | None:
    """Estimate the seconds of traced passes, without the work for each cell."""
    traced = [p for p in plan.passes if not p.on_host]
    if not traced:
        return 0.0
    passes = sorted(traced, key=_duration_size)
    middle = len(passes) // 2
    chosen = list(dict.fromkeys([passes[-1].stream, passes[0].stream, passes[middle].stream]))
    by_stream = {p.stream: p for p in passes}
    try:
        measured = {s: _measured(by_stream[s], plan) for s in chosen[:REHEARSED]}
    except Exception:  # a plugin's mistake, which fails its cells
        return None
    first_use = max(setup for setup, _ in measured.values())
    setup = min(setup for setup, _ in measured.values())
    rate = min(rate for _, rate in measured.values())
    seconds = sum(_duration_size(p) / measured.get(p.stream, (0.0, rate))[1] for p in passes)
    shapes = len({(p.shape, len(p.mechanisms) > 1) for p in passes})
    waiting = first_use * shapes + setup * (len(passes) - shapes)
    return (seconds + waiting) / threads


def _duration_size(the_pass: Pass) -> int:
    """Return the coordinates that a pass draws, counted once per lane."""
    return 2 * the_pass.trials * max(1, the_pass.elements) * len(the_pass.mechanisms)


def _measured(the_pass: Pass, plan: Plan) -> tuple[float, float]:
    """Return the seconds until a pass draws, and the coordinates that it then counts a second."""
    work = DeviceWork(the_pass, plan.audit.run, plan.prng, checkpoint.Store(), set())
    started = time.perf_counter()
    work.prepare()
    work.count(0, Segment(0, 1, the_pass.rows))
    setup = time.perf_counter() - started
    chunks, took = 1, 0.0
    while took < LONG_ENOUGH and chunks * the_pass.rows < 2 * the_pass.trials:
        chunks *= 4
        started = time.perf_counter()
        work.count(0, Segment(0, chunks, the_pass.rows))
        took = time.perf_counter() - started
    if not took:
        started = time.perf_counter()
        work.count(0, Segment(0, 1, the_pass.rows))
        took = time.perf_counter() - started
    share = chunks * the_pass.rows / (2 * the_pass.trials)
    return setup, share * _duration_size(the_pass) / max(took, 1e-6)
