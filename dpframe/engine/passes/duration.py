"""How long a run will take, from a rehearsal of a few of its passes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from dpframe.engine.addresses.chunks import Segment
from dpframe.engine.counts.checkpoint import Store
from dpframe.engine.passes.box_duration import box_seconds
from dpframe.engine.passes.device import DeviceWork
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.engine.boxes.lending import Source
    from dpframe.engine.planning.plan import Pass, Plan

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
    passes = sorted(traced, key=_size)
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
    seconds = sum(_size(p) / measured.get(p.stream, (0.0, rate))[1] for p in passes)
    shapes = len({(p.shape, len(p.mechanisms) > 1) for p in passes})
    waiting = first_use * shapes + setup * (len(passes) - shapes)
    return (seconds + waiting) / threads


def _size(the_pass: Pass) -> int:
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
    return setup, share * _size(the_pass) / max(took, 1e-6)
