"""How much memory a plan takes, and whether this machine has it, before anything is made."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.engine.planning.budgets import resolved
from dpframe.engine.planning.lanes import LANES
from dpframe.errors import DpframeError
from dpframe.machine import free_bytes
from dpframe.mechanism import HostMechanism
from dpframe.patience import at_work
from dpframe.suggest import cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe.engine.planning.plan import Pass, Plan
    from dpframe.pair import Pair
    from dpframe.plugin import Plugin
    from dpframe.spec.audit import Audit, Cell
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
