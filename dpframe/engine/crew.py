"""Blocks of repeats on all cores: processes, because most of the time is spent in Python."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from dpframe.engine.cores import available_cores
from dpframe.engine.rehearsal import rehearse
from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpframe.engine.rehearsal import Outcome, Rehearsal

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
    pickled = _pickled(rehearsals) if number > 1 else None
    if pickled is None:
        yield from _here(rehearsals, tasks)
        return
    executor = ProcessPoolExecutor(
        number,
        mp_context=multiprocessing.get_context("spawn"),  # never fork after JAX has started
        initializer=_start,
        initargs=(pickled,),
    )
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


def _pickled(rehearsals: Sequence[Rehearsal]) -> bytes | None:
    try:
        return pickle.dumps(rehearsals)
    except Exception:  # pickle raises whatever the object's code raises
        return None


_held: dict[str, Any] = {}
"""What this worker process plays, or the problem with it."""


def _start(pickled: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    threading.Thread(target=_end_with_parent, daemon=True).start()
    jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]
    from dpframe.engine.cache import keep_compiled_programs

    keep_compiled_programs()
    try:
        _held["rehearsals"] = pickle.loads(pickled)
    except Exception as error:
        _held["problem"] = error


def _problem() -> str | None:
    return str(_held["problem"]) if "problem" in _held else None


def _work(task: Task) -> list[Outcome]:
    return rehearse(_held["rehearsals"][task.rehearsal], *task[1:])


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
