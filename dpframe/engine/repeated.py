"""All repeats of all rehearsals, block by block, put together in their order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpframe.engine.crew import Task, play
from dpframe.engine.rehearsal import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dpframe.engine.rehearsal import Rehearsal

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
    tasks.sort(key=lambda task: -rehearsals[task.rehearsal].trials)  # long ones first
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
    chunks = -(-max(rehearsal.trials, rehearsal.pilot, rehearsal.fit) // rehearsal.rows)
    return chunks * rehearsal.rows * max(1, math.prod(rehearsal.shape.dims))


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
