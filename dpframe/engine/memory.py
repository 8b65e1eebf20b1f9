"""How much memory a plan takes, and whether this machine has it, before anything is made."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.engine.lanes import LANES
from dpframe.errors import DpframeError
from dpframe.machine import free_bytes
from dpframe.mechanism import HostMechanism
from dpframe.suggest import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dpframe.engine.plan import Pass, Plan
    from dpframe.plugin import Plugin
    from dpframe.spec.audit import Audit, Cell, RunSettings
    from dpframe.statistic import Statistic
    from dpframe.types import Tree

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


def ideal_layout(statistic: Statistic) -> Tree:
    """The layout of a statistic whose pilot saw a perfect attack."""
    if not statistic.needs_pilot():
        return ()
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


def check_plan(plan: Plan, threads: int) -> None:
    """Raises DpframeError where a run would take more than the machine has."""
    for the_pass in plan.passes:
        chunks = the_pass.trials / the_pass.rows
        if chunks > MOST_CHUNKS and not isinstance(the_pass.mechanisms[0], HostMechanism):
            raise DpframeError(
                f"audit.trials = {the_pass.trials}: {_names(the_pass)} makes "
                f"{the_pass.rows} at a time, and can make {MOST_CHUNKS * the_pass.rows:,} in all"
            )
    free, total = free_bytes(), plan_bytes(plan, threads)
    if free is not None and total > free:
        passes = sorted(plan.passes, key=lambda p: -_bytes(_needs(p, plan.audit.run, threads)))
        needs = [need for p in passes[:1] for need in _needs(p, plan.audit.run, threads)]
        needs.append(_results(plan))
        raise DpframeError(_too_large(f"takes {_size(total)}", free, needs))


def plan_bytes(plan: Plan, threads: int) -> int:
    """About what a run takes at its peak."""
    of_passes = (_bytes(_needs(p, plan.audit.run, threads)) for p in plan.passes)
    return BASE_BYTES + max(of_passes, default=0) + _results(plan).size


def _bytes(needs: Iterable[Need]) -> int:
    return sum(need.size for need in needs)


def _needs(the_pass: Pass, run: RunSettings, threads: int) -> Iterator[Need]:
    """What one pass holds at the same time."""
    item = np.dtype(run.precision).itemsize
    lanes, row = len(the_pass.mechanisms), max(1, the_pass.elements) * item
    name = _names(the_pass)
    # One copy of the pair's, and one on the device.
    yield Need(f"D and D′ of {_pair_of(the_pass)}", 2 * data_bytes(the_pass.pair))
    rows = the_pass.rows * threads * (2 + lanes)  # the random bits, the noise, and each lane
    chunk = f"run.chunk = {run.chunk}" if run.chunk else f"{the_pass.rows} at a time"
    yield Need(f"outputs of {name}, {chunk}, on {threads} cores", rows * row)
    attacks = [attack for scorer in the_pass.scorers for attack in scorer.attacks]
    if any(attack.learns() for attack in attacks):
        yield Need(f"run.fit = {run.fit} outputs of {name}", 4 * run.fit * row)
    if any(scorer.statistic.needs_pilot() for scorer in the_pass.scorers):
        yield Need(f"run.pilot = {run.pilot} outputs of {name}", 4 * run.pilot * row)
    padded = max(LANES, 1 << (lanes - 1).bit_length())
    for cell, place in the_pass.cells:
        if place.lane == place.attack == 0:
            counts = _counters(cell) * len(the_pass.scorers[place.scorer].attacks)
            yield Need(
                f"counts of {_estimator(cell)}", counts * (12 * lanes + 4 * padded * threads)
            )


def _results(plan: Plan) -> Need:
    """What is kept of all cells until the record is written."""
    sizes: dict[Statistic, int] = {}
    total, largest = 0, (0, "")
    for the_pass in plan.passes:
        for cell, place in the_pass.cells:
            statistic = the_pass.scorers[place.scorer].statistic
            if statistic not in sizes:
                sizes[statistic] = _counters(cell)
            total += CELL_BYTES + COUNT_BYTES * sizes[statistic]
            largest = max(largest, (sizes[statistic], cell.estimator.label))
    what = f"results of {len(plan.audit.cells):,} cells"
    most = f", up to {largest[0]:,} counts each (estimator {largest[1]!r})" if largest[0] else ""
    return Need(what + most, total)


def _counters(cell: Cell) -> int:
    """Counts of one cell, on both datasets; 0 if its statistic will not say."""
    statistic = cell.estimator.value.statistic()
    try:
        zero = jax.eval_shape(statistic.zero, ideal_layout(statistic))
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
