"""How long the releases of black boxes take, from a rehearsal of each box in a worker."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.engine.addresses.address import PROBE, Stream
from dpframe.engine.addresses.precision import both_as_made, for_a_box
from dpframe.engine.boxes.lending import Load, Overdue, Request
from dpframe.engine.checks.guard import guarded
from dpframe.engine.passes.calls import extra_chunks, planned_calls
from dpframe.engine.planning.lanes import structure
from dpframe.errors import CellError
from dpframe.mechanism import HostMechanism

if TYPE_CHECKING:
    from dpframe.engine.boxes.lending import Lent, Source
    from dpframe.engine.planning.plan import Pass, Plan
    from dpframe.spec.audit import RunSettings

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
