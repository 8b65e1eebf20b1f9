"""The memory, calls and time that a plan takes."""

from __future__ import annotations

import functools
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.common.machine import at_work, free_bytes
from dpframe.common.text import cut
from dpframe.engine.checkpoint import Store
from dpframe.engine.checks import guarded
from dpframe.engine.passes import DeviceWork
from dpframe.engine.trace import LANES, resolved, structure
from dpframe.errors import CellError, DpframeError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.sampling.address import PROBE, Segment, Stream, both_as_made, for_a_box
from dpframe.workers.scheduling import Load, Overdue, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.common.types import Tree
    from dpframe.engine.plan import Pass, Plan
    from dpframe.interfaces.pair import Pair
    from dpframe.interfaces.plugin import Plugin
    from dpframe.interfaces.statistic import Statistic
    from dpframe.spec.audit import Audit, Cell, RunSettings
    from dpframe.workers.scheduling import Lent, Source


# How much memory a plan takes, and whether this machine has it, before anything is made.


BASE_BYTES = 480 << 20
"""What Python, JAX and its compiler take before the first draw."""

CELL_BYTES = 8_000
"""Of a cell beside its counts: in the spec, in the plan, in the record."""

COUNT_BYTES = 160
"""Of a count in the result and in the record, where it is a Python number among others."""

MOST_CHUNKS = 2**31 - 1
"""Of a dataset; the device numbers them with 32 bits."""

IDEAL_PILOT = 1000
"""Scores per dataset of an imagined pilot that tells D from D′ perfectly."""


class Need(NamedTuple):
    """Something large, and what it is large because of."""

    what: str
    size: int


def ideal_layout(statistic: Statistic, dims: tuple[int, ...] = ()) -> Tree:
    """The layout of a statistic whose pilot saw a perfect attack.

    Args:
        statistic: of an estimator.
        dims: shape of one score, or of one output that holds canaries.
    """
    if "canaries" in statistic.accepts:
        members = np.arange(dims[-1] if dims else 2, dtype=np.float32) % 2
        run = np.stack([members, members])
        return (
            statistic.bind(run[None], run[None])
            if statistic.needs_pilot()
            else (statistic.lay_out(run.shape))
        )
    if not statistic.needs_pilot():
        return statistic.lay_out(())
    kind = np.bool_ if "score" not in statistic.accepts else np.float32
    return statistic.bind(np.zeros(IDEAL_PILOT, kind), np.ones(IDEAL_PILOT, kind))


def data_bytes(pair: Any) -> int:
    """Bytes of both datasets of a pair, as arrays that are not shared."""
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves((pair.d0, pair.d1)))


def check_data(audit: Audit) -> None:
    """Raises DpframeError where the datasets alone are more than the machine has."""
    pairs = {cell.pair.value: cell.pair.use for cell in audit.cells}
    free = free_bytes()
    for pair, use in pairs.items():
        try:
            size = data_bytes(pair)
        except MemoryError as error:
            raise DpframeError(_too_large(str(error), free, [Need(_pair(use, pair), 0)])) from None
        except Exception:  # whoever uses the datasets says what is wrong with them
            continue
        need = Need(f"D and D′ of {_pair(use, pair)}", 2 * size)
        if free is not None and need.size > free:
            raise DpframeError(_too_large(f"takes {_size(need.size)}", free, [need]))


class Footprint:
    """What a run takes.

    Args:
        plan: of the run.
        threads: how many count at the same time.
    """

    def __init__(self, plan: Plan, threads: int) -> None:
        self._plan, self._threads = plan, threads
        self._sizes: dict[Statistic, int] = {}
        self._data: dict[Pair, int] = {}

    @functools.cached_property
    def bytes(self) -> int:
        """About how much at its peak."""
        return BASE_BYTES + max(map(self._of, self._plan.passes), default=0) + self._results.size

    def check(self) -> None:
        """Raises DpframeError where it is more than this machine has."""
        for the_pass in self._plan.passes:
            on_host = isinstance(the_pass.mechanisms[0], HostMechanism)
            if the_pass.trials / the_pass.rows > MOST_CHUNKS and not on_host:
                raise DpframeError(
                    f"audit.trials = {the_pass.trials}: {_names(the_pass)} makes {the_pass.rows} "
                    f"at a time, and can make {MOST_CHUNKS * the_pass.rows:,} in all"
                )
        free = free_bytes()
        if free is not None and self.bytes > free:
            # Searches draw in rounds, and have no passes.
            largest = max(self._plan.passes, key=self._of, default=None)
            own = () if largest is None else self._needs(largest)
            needs = [Need("dpframe itself, with JAX", BASE_BYTES), *own, self._results]
            raise DpframeError(_too_large(f"takes {_size(self.bytes)}", free, needs))

    def _of(self, the_pass: Pass) -> int:
        return sum(need.size for need in self._needs(the_pass))

    def _needs(self, the_pass: Pass) -> Iterator[Need]:
        """What one pass holds at the same time."""
        threads = self._threads
        run = resolved(self._plan.audit.run, the_pass.mechanisms[0], the_pass.trials)
        item = np.dtype(run.precision).itemsize
        lanes, row = len(the_pass.mechanisms), max(1, the_pass.elements) * item
        name = _names(the_pass)
        if the_pass.pair not in self._data:
            self._data[the_pass.pair] = data_bytes(the_pass.pair)
        # One copy of the pair's, and one on the device.
        yield Need(f"D and D′ of {_pair_of(the_pass)}", 2 * self._data[the_pass.pair])
        rows = the_pass.rows * threads * 4  # random bits, noise, outputs, scores: lane after lane
        chunk = f"run.chunk = {run.chunk}" if run.chunk else f"{the_pass.rows} at a time"
        yield Need(f"outputs of {name}, {chunk}, on {threads} cores", rows * row)
        attacks = [attack for scorer in the_pass.scorers for attack in scorer.attacks]
        if any(attack.learns() for attack in attacks):
            yield Need(f"run.fit = {run.fit} outputs of {name}", 4 * (run.fit or 0) * row)
        if the_pass.pilots and not the_pass.by_chunks:  # or else nothing but scores is kept
            yield Need(f"run.pilot = {run.pilot} outputs of {name}", 4 * (run.pilot or 0) * row)
        padded = max(LANES, 1 << (lanes - 1).bit_length())
        for cell, place in the_pass.cells:
            if place.lane == place.attack == 0:
                scorer = the_pass.scorers[place.scorer]
                counts = self._counters(scorer.statistic, cell, the_pass) * len(scorer.attacks)
                size = counts * (12 * lanes + 4 * padded * threads)
                yield Need(f"counts of {_estimator(cell)}", size)

    @functools.cached_property
    def _results(self) -> Need:
        """What is kept of all cells until the record is written."""
        total, largest = 0, (0, "")
        for the_pass in self._plan.passes:
            for cell, place in the_pass.cells:
                count = self._counters(the_pass.scorers[place.scorer].statistic, cell, the_pass)
                total += CELL_BYTES + COUNT_BYTES * count
                largest = max(largest, (count, cell.estimator.label))
        count, label = largest
        most = f", up to {count:,} counts each (estimator {label!r})" if count else ""
        return Need(f"results of {len(self._plan.audit.cells):,} cells{most}", total)

    def _counters(self, statistic: Statistic, cell: Cell, the_pass: Pass) -> int:
        """Counts of one cell, on both datasets; 0 if its statistic will not say."""
        if statistic not in self._sizes:
            self._sizes[statistic] = _count(statistic, cell, the_pass.shape.dims)
        return self._sizes[statistic]


def _count(statistic: Statistic, cell: Cell, dims: tuple[int, ...]) -> int:
    try:
        with at_work("the statistic"):
            zero = jax.eval_shape(statistic.zero, ideal_layout(statistic, dims))
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(zero))
    except MemoryError as error:
        message = _too_large(str(error), free_bytes(), [Need(f"counts of {_estimator(cell)}", 0)])
        raise DpframeError(message) from None
    except Exception:  # an author's; the run will say what is wrong with it
        return 0


def _too_large(needed: str, free: int | None, needs: list[Need]) -> str:
    there_is = "" if free is None else f"; {_size(free)} is free"
    lines = [f"does not fit into the memory of this machine: {needed}{there_is}"]
    largest = max((need.size for need in needs), default=0)
    telling = (need for need in needs if need.size >= largest / 100)
    in_order = sorted(telling, key=lambda need: -need.size)
    lines += [f"{n.what}: {_size(n.size)}" if n.size else n.what for n in in_order]
    return "\n   ".join(lines)


def _names(the_pass: Pass) -> str:
    mechanism = the_pass.cells[0][0].mechanism.label
    return f"mechanism {mechanism!r} with {_pair_of(the_pass)}"


def _pair_of(the_pass: Pass) -> str:
    return _pair(the_pass.cells[0][0].pair.use, the_pass.pair)


def _pair(use: str, pair: Plugin) -> str:
    return _described("pair", use, pair)


def _estimator(cell: Cell) -> str:
    return _described("estimator", cell.estimator.label, cell.estimator.value)


def _described(kind: str, name: str, plugin: Plugin) -> str:
    params = ", ".join(f"{kind}.{key} = {value!r}" for key, value in plugin.params().items())
    return f"{kind} {name!r}" + (f" ({cut(params)})" if params else "")


def _size(count: int) -> str:
    return f"{count / 2**30:,.3g} GiB" if count >= 2**30 else f"{count / 2**20:,.3g} MiB"


# How many releases a black box is asked for, before it is asked.


def planned_draws(plan: Plan) -> int:
    """Releases that a run makes, both datasets together: at most, where it searches."""
    run = plan.audit.run
    passes = sum(planned_calls(each, run) or each.draws for each in plan.passes)
    return passes + sum(2 * cell.trials for cell in plan.searches)


def planned_calls(the_pass: Pass, run: RunSettings) -> int:
    """Releases that a pass will ask a black box for, from the first to the last; else 0.

    Args:
        the_pass: of any mechanism.
        run: the settings of the audit.
    """
    if not isinstance(the_pass.mechanisms[0], HostMechanism):
        return 0
    run = resolved(run, the_pass.mechanisms[0], the_pass.trials)
    streams = [the_pass.trials]
    attacks = [attack for scorer in the_pass.scorers for attack in scorer.attacks]
    if any(attack.has_fit() and attack.learns() for attack in attacks):
        streams.append(run.fit or 0)
    if the_pass.pilots:
        streams.append(run.pilot or 0)
    whole = sum(-(-wanted // the_pass.rows) for wanted in streams)  # a tail is drawn whole
    return (2 * len(the_pass.mechanisms) * whole + extra_chunks(the_pass)) * the_pass.rows


def extra_chunks(the_pass: Pass) -> int:
    """Chunks that only show whether draws depend on their address, and on nothing else."""
    first = the_pass.mechanisms[0]
    if isinstance(first, HostMechanism) and first.seedable:
        return 4 + len(the_pass.mechanisms) - 1
    return 2


# How long the releases of black boxes take, from a rehearsal of each box in a worker.


REHEARSAL = 2.0
"""Seconds that a box gets to show how fast it is."""

MOST = 8
"""Boxes that are rehearsed; more are taken to be as fast as these on average."""


class Pace(NamedTuple):
    """How long a release takes."""

    seconds: float
    known: bool = True
    """False: it did not come back in time, and takes that long at least."""


def box_seconds(plan: Plan, source: Source, threads: int) -> Pace | None:
    """How long all releases of black boxes take together.

    Args:
        plan: of the run.
        source: calls them.
        threads: how many may be at work at the same time.

    Returns:
        None if none of them can be called; 0 if there are none.
    """
    boxes = [p for p in plan.passes if isinstance(p.mechanisms[0], HostMechanism)]
    if not boxes:
        return Pace(0.0)
    one_of_each = {structure(p.mechanisms[0]): p for p in boxes}
    paces: dict[Any, Pace] = {}
    for key, the_pass in list(one_of_each.items())[:MOST]:
        found = rehearsed(the_pass, source)
        if found is not None:
            paces[key] = found
    if not paces:
        return None
    mean = Pace(sum(pace.seconds for pace in paces.values()) / len(paces))
    run, workers = plan.audit.run, max(1, min(threads, source.most))
    longest = together = 0.0
    for the_pass in boxes:
        pace = paces.get(structure(the_pass.mechanisms[0]), mean)
        work = planned_calls(the_pass, run) * pace.seconds
        alone = waves(the_pass, run, workers) * the_pass.rows * pace.seconds
        if run.seconds is not None:
            work, alone = min(work, run.seconds * workers), min(alone, run.seconds)
        longest, together = max(longest, alone), together + work
    known = all(pace.known for pace in paces.values())
    return Pace(max(longest, together / workers), known)


def waves(the_pass: Pass, run: RunSettings, workers: int) -> int:
    """How many chunks a pass makes one after the other, if it has all workers for itself.

    Two at a time where addresses are compared and the first outputs of each lane are looked at.
    """
    in_pairs = extra_chunks(the_pass) + 2 * len(the_pass.mechanisms)
    rest = planned_calls(the_pass, run) // the_pass.rows - in_pairs
    return in_pairs // 2 + math.ceil(max(0, rest) / workers)


def rehearsed(the_pass: Pass, source: Source) -> Pace | None:
    """How long a release of one box takes; None if it fails, which the run will tell."""
    mechanism: Any = the_pass.mechanisms[0]
    try:
        data = guarded("the pair", lambda: both_as_made(the_pass.pair))
        with source.lend(Load((mechanism,), for_a_box(data))) as (worker, *_):
            return _pace(worker, the_pass, time.monotonic() + REHEARSAL)
    except CellError:
        return None


def _pace(worker: Lent, the_pass: Pass, deadline: float) -> Pace:
    """One release, then whole chunks, as far as there is time; the last one counts."""
    pace = Pace(REHEARSAL, known=False)
    rows, asking = the_pass.rows, the_pass.shape.asking
    for chunk, number in enumerate((1, rows, rows)):
        started = time.monotonic()
        if pace.known and started + 2 * number * pace.seconds > deadline:
            break
        address = Stream(0, "rehearsal", 0, PROBE), 0, chunk, chunk + 1, number
        request = Request(0, 0, *address, asking)
        try:
            for _ in worker.draw(request, None, deadline):
                pass
        except Overdue:
            break
        pace = Pace((time.monotonic() - started) / number)
    return pace


# How long a run will take, from a rehearsal of a few of its passes.


REHEARSED = 3
"""Passes that are prepared and draw a little: the one with the most draws among them."""

LONG_ENOUGH = 0.1
"""Seconds of drawing from which the rest is extrapolated."""

ESTIMATE_SECONDS = 0.002
"""Of one cell: about what it takes to estimate, judge and write it."""


class Expected(NamedTuple):
    """About how long a run takes."""

    seconds: float
    at_least: bool
    """Whether it may be much more: a black box took longer than its rehearsal."""


def expected_seconds(plan: Plan, threads: int, source: Source) -> Expected | None:
    """About how long a run takes; draws a little, and what it draws is not kept.

    Args:
        plan: of the run.
        threads: how many count at the same time.
        source: calls black boxes.

    Returns:
        None if that cannot be said, because what fails is told by the run.
    """
    boxes = box_seconds(plan, source, threads)
    traced = _traced_seconds(plan, threads)
    if not plan.passes or boxes is None or traced is None:
        return None
    rest = ESTIMATE_SECONDS * len(plan.audit.cells)
    return Expected(boxes.seconds + traced + rest, not boxes.known)


def _traced_seconds(plan: Plan, threads: int) -> float | None:
    """What JAX traces, without what is done for each cell."""
    traced = [p for p in plan.passes if not isinstance(p.mechanisms[0], HostMechanism)]
    if not traced:
        return 0.0
    passes = sorted(traced, key=_duration_size)
    middle = len(passes) // 2
    chosen = list(dict.fromkeys([passes[-1].stream, passes[0].stream, passes[middle].stream]))
    by_stream = {p.stream: p for p in passes}
    try:
        measured = {s: _measured(by_stream[s], plan) for s in chosen[:REHEARSED]}
    except Exception:  # an author's mistake, which fails its cells
        return None
    first_use = max(setup for setup, _ in measured.values())
    setup = min(setup for setup, _ in measured.values())
    rate = min(rate for _, rate in measured.values())
    seconds = sum(_duration_size(p) / measured.get(p.stream, (0.0, rate))[1] for p in passes)
    shapes = len({(p.shape, len(p.mechanisms) > 1) for p in passes})
    waiting = first_use * shapes + setup * (len(passes) - shapes)
    return (seconds + waiting) / threads


def _duration_size(the_pass: Pass) -> int:
    """Coordinates, once for every lane."""
    return 2 * the_pass.trials * max(1, the_pass.elements) * len(the_pass.mechanisms)


def _measured(the_pass: Pass, plan: Plan) -> tuple[float, float]:
    """Seconds until a pass draws, and how many coordinates a second it then counts."""
    work = DeviceWork(the_pass, plan.audit.run, plan.prng, Store(), set())
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
