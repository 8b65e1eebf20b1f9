"""All repeats of all rehearsals, block by block on all cores, put together in their order."""

from __future__ import annotations

from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.calibration.rehearsal import Outcome, rehearse
from dpframe.engine.boxes.processes import available_cores, begin, from_bytes, in_bytes, spawned
from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import ProcessPoolExecutor

    from dpframe.calibration.rehearsal import Outcome, Rehearsal


ELEMENTS = 1 << 22
"""Output coordinates drawn at once; so much for each worker fits into any memory."""

REPEATS = 256
"""At most so many repeats in a block: progress is smooth, and cores get equal shares."""


def repeated(
    rehearsals: Sequence[Rehearsal],
    repeats: int,
    *,
    workers: int | None = None,
    block: int = REPEATS,
    told: Callable[[int, int], None] = lambda rehearsal, estimates: None,
) -> list[list[Outcome]]:
    """Plays every rehearsal.

    Args:
        rehearsals: what to play.
        repeats: how often.
        workers: processes, see `play`.
        block: repeats in a block, at most; changes no outcome.
        told: called after each block with the rehearsal's position and the estimates made.

    Returns:
        Per rehearsal and part, the outcomes of all repeats.
    """
    tasks = [
        task
        for number, rehearsal in enumerate(rehearsals)
        for task in _blocks(number, rehearsal, repeats, block)
    ]
    tasks.sort(key=lambda task: -rehearsals[task.rehearsal].the_pass.trials)  # long ones first
    pieces: list[dict[int, list[Outcome]]] = [{} for _ in rehearsals]
    for task, outcomes in play(rehearsals, tasks, workers):
        pieces[task.rehearsal][task.first] = outcomes
        told(task.rehearsal, task.wanted * len(outcomes))
    return [_joined([found[first] for first in sorted(found)]) for found in pieces]


def _blocks(number: int, rehearsal: Rehearsal, repeats: int, block: int) -> list[Task]:
    """Blocks of one size, so that one program serves all of them; the last estimates the rest."""
    size = min(block, max(1, ELEMENTS // _elements(rehearsal)), 1 << (repeats - 1).bit_length())
    return [
        Task(number, first, size, min(size, repeats - first)) for first in range(0, repeats, size)
    ]


def _elements(rehearsal: Rehearsal) -> int:
    """Coordinates of the largest stream of one repeat."""
    the_pass, run = rehearsal.the_pass, rehearsal.run
    chunks = -(-max(the_pass.trials, run.pilot or 0, run.fit or 0) // the_pass.rows)
    return chunks * the_pass.rows * max(1, the_pass.elements)


def _joined(pieces: list[list[Outcome]]) -> list[Outcome]:
    """The outcomes of all blocks, per part; one that failed anywhere failed."""
    return [
        Outcome(
            np.concatenate([outcome.points for outcome in of_part]),
            np.concatenate([outcome.lows for outcome in of_part]),
            next((outcome.reason for outcome in of_part if outcome.reason is not None), None),
        )
        for of_part in zip(*pieces, strict=True)
    ]


FEW = 4_000
"""Fewer estimates than this are done before other processes have started."""


class Task(NamedTuple):
    """A block of repeats to play."""

    rehearsal: int
    """Which one."""
    first: int
    size: int
    """Repeats drawn."""
    wanted: int
    """Repeats estimated."""


def play(
    rehearsals: Sequence[Rehearsal], tasks: Sequence[Task], workers: int | None = None
) -> Iterator[tuple[Task, list[Outcome]]]:
    """Plays blocks, in any order, on the CPU; who plays one changes nothing.

    Args:
        rehearsals: what the tasks refer to.
        tasks: what to play.
        workers: processes; default: one per core, none where the work is small. Without effect
            where it cannot be handed to another process.

    Yields:
        Each task with its outcomes, as they come.
    """
    estimates = sum(task.wanted * len(rehearsals[task.rehearsal].parts) for task in tasks)
    number = workers if workers is not None else available_cores() if estimates > FEW else 1
    pickled = in_bytes(rehearsals)[0] if number > 1 else None
    if pickled is None:
        yield from _here(rehearsals, tasks)
        return
    executor = spawned(number, _start, pickled)
    try:
        if not _ready(executor):
            yield from _here(rehearsals, tasks)
            return
        futures = {executor.submit(_work, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    except BrokenProcessPool:
        raise DpframeError("a worker process died while it calibrated") from None
    finally:
        executor.shutdown(cancel_futures=True)


def _ready(executor: ProcessPoolExecutor) -> bool:
    """Whether processes start and can import what they are to play."""
    try:
        return executor.submit(_problem).result() is None
    except BrokenProcessPool:
        return False


def _here(
    rehearsals: Sequence[Rehearsal], tasks: Sequence[Task]
) -> Iterator[tuple[Task, list[Outcome]]]:
    for task in tasks:
        with jax.default_device(jax.devices("cpu")[0]):
            outcomes = rehearse(rehearsals[task.rehearsal], *task[1:])
        yield task, outcomes


_held: dict[str, Any] = {}
"""What this worker process plays, or the problem with it."""


def _start(pickled: bytes) -> None:
    begin()
    from dpframe.engine.compiling.cache import keep_compiled_programs

    keep_compiled_programs()
    _held["rehearsals"], _held["problem"] = from_bytes(pickled)


def _problem() -> str | None:
    problem: str | None = _held["problem"]
    return problem


def _work(task: Task) -> list[Outcome]:
    return rehearse(_held["rehearsals"][task.rehearsal], *task[1:])
