"""Estimate the memory and the calls that a plan takes."""

import math
from functools import partial
from typing import Any

import numpy as np

from dpframe.common import trees
from dpframe.common.arrays import jax
from dpframe.common.machine import at_work, free_bytes
from dpframe.common.text import cut
from dpframe.common.types import Tree
from dpframe.count.plan import Pass, Plan
from dpframe.draw import trace
from dpframe.errors import DpframeError
from dpframe.interfaces.mechanism import HostMechanism
from dpframe.interfaces.pair import Pair
from dpframe.interfaces.plugin import Plugin
from dpframe.interfaces.statistic import Statistic
from dpframe.spec.audit import Audit, Cell, RunSettings

BASE_BYTES = 480 << 20  # memory of Python, JAX and its compiler before the first draw

CELL_BYTES = 8_000
"""Memory of a cell besides its counts: in the spec, the plan and the record."""

COUNT_BYTES = 160  # memory of a count in the record, as a Python number among others
MOST_CHUNKS = 2**31 - 1  # chunks of a dataset; the device numbers them with 32 bits
IDEAL_PILOT = 1000  # scores per dataset of an imagined pilot that separates D from D′ perfectly


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


def check_memory(plan: Plan, threads: int) -> None:
    """Raise DpframeError if the run needs more than this machine has."""
    for the_pass in plan.passes:
        if the_pass.trials / the_pass.rows > MOST_CHUNKS and not the_pass.on_host:
            raise DpframeError(
                f"audit.trials = {the_pass.trials}: {_names(the_pass)} makes {the_pass.rows} "
                f"at a time, and can make {MOST_CHUNKS * the_pass.rows:,} in all"
            )
    free, needs = free_bytes(), memory_of(plan, threads)
    needed = sum(needs.values())
    if free is not None and needed > free:
        raise DpframeError(_too_large(f"takes {_size(needed)}", free, [*needs.items()]))


def memory_of(plan: Plan, threads: int) -> dict[str, int]:
    """Return the bytes that a run holds at its peak, by purpose; calls plugins for their counts.

    `threads` segments are counted at the same time.
    """
    data = {pair: data_bytes(pair) for pair in {the_pass.pair for the_pass in plan.passes}}
    counters: dict[Statistic, int] = {}  # counts of one cell on both datasets
    passes = [_memory_of_pass(each, plan, threads, data, counters) for each in plan.passes]
    largest = max(passes, key=lambda sizes: sum(sizes.values()), default={})
    counted = [
        (counters[the_pass.scorers[place.scorer].statistic], cell.estimator.label)
        for the_pass in plan.passes
        for cell, place in the_pass.cells
    ]
    count, label = max(counted, default=(0, ""))
    up_to = f", up to {count:,} counts each (estimator {label!r})" if count else ""
    results = sum(CELL_BYTES + COUNT_BYTES * number for number, _ in counted)
    cells = f"results of {len(plan.audit.cells):,} cells{up_to}"
    return {"dpframe itself, with JAX": BASE_BYTES, **largest, cells: results}


def _memory_of_pass(
    the_pass: Pass, plan: Plan, threads: int, data: dict[Pair, int], counters: dict[Statistic, int]
) -> dict[str, int]:
    """Return the bytes that a pass holds at once, by purpose; adds to `counters`."""
    run = trace.resolved(plan.audit.run, the_pass.mechanisms[0], the_pass.trials)
    variants, names = len(the_pass.mechanisms), _names(the_pass)
    row = max(1, the_pass.elements) * np.dtype(run.precision).itemsize
    chunk = f"run.chunk = {run.chunk}" if run.chunk else f"{the_pass.rows} at a time"
    memory = {
        # The pair's copy, and one on the device.
        f"D and D′ of {_pair_of(the_pass)}": 2 * data[the_pass.pair],
        # Random bits, noise, outputs and scores of one variant at a time.
        f"outputs of {names}, {chunk}, on {threads} cores": the_pass.rows * threads * 4 * row,
    }
    if any(attack.learns() for scorer in the_pass.scorers for attack in scorer.attacks):
        memory[f"run.fit = {run.fit} outputs of {names}"] = 4 * (run.fit or 0) * row
    if the_pass.pilots and not the_pass.by_chunks:  # else only scores are kept
        memory[f"run.pilot = {run.pilot} outputs of {names}"] = 4 * (run.pilot or 0) * row
    padded = max(trace.SMALLEST_BATCH, 1 << (variants - 1).bit_length())
    for cell, place in the_pass.cells:
        scorer = the_pass.scorers[place.scorer]
        if scorer.statistic not in counters:
            counters[scorer.statistic] = _count(scorer.statistic, cell, the_pass)
        if place.variant == place.attack == 0:
            counts = counters[scorer.statistic] * len(scorer.attacks)
            words = f"counts of {_estimator(cell)}"
            memory[words] = memory.get(words, 0) + counts * (12 * variants + 4 * padded * threads)
    return memory


def _count(statistic: Statistic, cell: Cell, the_pass: Pass) -> int:
    """Return the number of counts of a cell on both datasets; 0 if the statistic raises."""
    try:
        with at_work("the statistic"):
            layout = ideal_layout(statistic, the_pass.shape.dims)
            zero_of = (
                statistic.zero if statistic.portable else partial(jax.eval_shape, statistic.zero)
            )
            zero = zero_of(layout)
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
