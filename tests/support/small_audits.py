"""Small audits for tests of the engine: many segments, cheap programs, counts that tell draws."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import jax
import jax.numpy as jnp

from dpframe import (
    Attack,
    DecisionCounts,
    Estimate,
    Estimator,
    Gt,
    Mechanism,
    Pair,
    PureDP,
    Statistic,
)
from dpframe.commands.audit import make_plan
from dpframe.count import kernel
from dpframe.draw import streams as chunks
from dpframe.engine.run import quiet, run as run_plan
from dpframe.interfaces import registry
from dpframe.spec import load_audit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    import pytest

    from dpframe.count.checkpoint import Store
    from dpframe.results.model import CellRecord
    from dpframe.spec.audit import Audit

ROWS, PER_SEGMENT = 32, 2
"""Rows per chunk and chunks per segment, at dim 1."""


class Flip(Mechanism, name="flip"):
    """Uniform noise of a scale, with static parameters that matter or only seem to."""

    epsilon: Annotated[float, Gt(0)] = 1.0
    shift: int = 0

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def sample(self, key: Any, data: Any, n: int) -> Any:
        return data + (jax.random.uniform(key, (n, *data.shape)) - 0.5 + self.shift) / self.epsilon


class Above(Attack, name="above"):
    """Decides at a threshold."""

    gives = "decision"

    threshold: float = 0.5

    def score(self, state: Any, outputs: Any) -> Any:
        return outputs.reshape(len(outputs), -1)[:, 0] > self.threshold


@dataclasses.dataclass(frozen=True)
class Sixteenths(Statistic):
    """Decisions by the position of the draw in its chunk, modulo 16: sees every order of draws."""

    accepts: ClassVar[frozenset[str]] = frozenset({"decision"})

    def zero(self, layout: Any) -> Any:
        return jnp.zeros((2, 16), jnp.int32)

    def update(self, layout: Any, counts: Any, dataset: Any, scores: Any, keep: Any) -> Any:
        ones = (scores & keep).reshape(-1, 16).sum(0, dtype=jnp.int32)
        return counts + (jnp.arange(2) == dataset)[:, None] * ones


class Positions(Estimator, name="positions"):
    """Certifies nothing; keeps counts by position."""

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "none"

    def statistic(self) -> Statistic:
        return Sixteenths()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Estimate:
        return Estimate(epsilon=0.0)


class Totals(Estimator, name="totals"):
    """Certifies nothing; shares its statistic with `precision`."""

    certifies: ClassVar[bool] = False
    assumption: ClassVar[str] = "none"

    def statistic(self) -> Statistic:
        return DecisionCounts()

    def estimate(self, layout: Any, counts: Any, query: Any) -> Estimate:
        return Estimate(epsilon=0.0)


PLUGINS: list[Any] = [Flip, Above, Positions, Totals]


def document(**tables: Any) -> dict[str, Any]:
    """A spec with one cell of 8 whole chunks and a tail; tables replace its own."""
    changed = tables.pop("audit", {})
    return {
        "schema": 1,
        "audit": {"name": "t", "trials": 8 * ROWS + 7, "seed": 3, **changed},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": "flip"}],
        "attack": [{"use": "above"}],
        "estimator": [{"use": "precision"}],
        "run": {"chunk": ROWS, **tables.pop("run", {})},
        **tables,
    }


def load(spec: dict[str, Any], plugins: list[Any] = PLUGINS) -> Audit:
    return load_audit(spec, registry=registry.load(plugins))


def results(
    spec: dict[str, Any],
    store: Store | None = None,
    progress: Any = quiet,
    threads: int | None = None,
    plugins: list[Any] = PLUGINS,
) -> list[CellRecord]:
    found = run_plan(make_plan(load(spec, plugins)), progress, store, threads)
    assert [result.reason for result in found] == [None] * len(found)
    return found


def counts(spec: dict[str, Any], *args: Any, **how: Any) -> dict[Any, Any]:
    """Counts by everything that determines them."""
    found = {}
    planned = {cell.id: cell for cell in load(spec, how.get("plugins", PLUGINS)).cells}
    for result in results(spec, *args, **how):
        cell = planned[result.id]
        key = (
            cell.mechanism.use,
            str(cell.mechanism.value.params()),
            str(cell.pair.value.params()),
            cell.attack.use,
            str(cell.attack.value.params()),
            repr(cell.estimator.value.statistic()),
            cell.seed,
            cell.repeat,
            tuple(result.trials),
        )
        assert found.setdefault(key, result.counts) == result.counts
    return found


def small_segments(patch: pytest.MonkeyPatch) -> None:
    """Cuts passes into segments of a few chunks; the cut changes no count."""
    patch.setattr(chunks, "SEGMENT_ELEMENTS", PER_SEGMENT * ROWS)


class Stop:
    """A progress display at which the user presses Ctrl-C when the n-th event has been taken in."""

    def __init__(self, after: int) -> None:
        self.left, self.seen = after, (0, 0)

    def __call__(self, *, cells_done: int, draws_done: int, label: str) -> None:
        if (cells_done, draws_done) == self.seen:
            return  # only a sign of life
        self.seen = cells_done, draws_done
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


class Spy:
    """Records which draws the device makes."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.drawn: list[tuple[int, int, int, int]] = []
        """(dataset, first chunk, stop, rows counted of each)."""
        count = kernel.count_chunks

        def spy(*args: Any, **kwargs: Any) -> Any:
            origin, span = args[4], args[5]
            first, stop, limit = (int(number) for number in span[:3])
            if first < 0:  # slices of the first chunk
                first, stop = 0, 1
            if stop > first:  # a call for no chunk only compiles
                self.drawn.append((int(origin.dataset), first, stop, limit))
            return count(*args, **kwargs)

        patch.setattr(kernel, "count_chunks", spy)

    def whole_chunks(self) -> list[tuple[int, int]]:
        """(dataset, chunk) of everything that was counted whole, sorted."""
        return sorted(
            (dataset, chunk)
            for dataset, first, stop, limit in self.drawn
            if limit == ROWS
            for chunk in range(first, stop)
        )


def interrupted_at(function: Any, moment: int, call: Callable[[], object]) -> bool:
    """Raises KeyboardInterrupt in a function before its n-th line, as a signal may.

    Lines, because Python 3.12 no longer tells of every instruction in a frame that is traced late.

    Returns:
        Whether the function had so many.
    """
    seen = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if frame.f_code is not function.__code__:
            return None
        if event == "line":
            seen += 1
            if seen == moment:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
