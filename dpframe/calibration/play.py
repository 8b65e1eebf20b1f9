"""Play all repeats and summarise them in rows."""

from __future__ import annotations

from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from dpframe.calibration.exact import TRIALS, at_corner
from dpframe.calibration.rehearsal import Outcome, rehearse
from dpframe.calibration.whole import AUDITS, together
from dpframe.common.machine import available_cores
from dpframe.errors import CellError, DpframeError
from dpframe.stats.binomial import exceedance
from dpframe.workers.spawned import begin, from_bytes, in_bytes, spawned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import ProcessPoolExecutor

    from dpframe.calibration.rehearsal import Line, Part, Rehearsal
    from dpframe.common.types import Floats
    from dpframe.spec.audit import Cell, Choice, RunSettings


# All repeats of all rehearsals, block by block on all cores, put together in their order.


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
    from dpframe.sampling.compile_cache import keep_compiled_programs

    keep_compiled_programs()
    _held["rehearsals"], _held["problem"] = from_bytes(pickled)


def _problem() -> str | None:
    problem: str | None = _held["problem"]
    return problem


def _work(task: Task) -> list[Outcome]:
    return rehearse(_held["rehearsals"][task.rehearsal], *task[1:])


# Rows of a calibration: what the repeats of one estimator amount to.


ROUNDING = 1e-9
"""Relative error of a known truth: a bound above it by less is not above it."""

KEPT, BROKEN = "kept", "broken"


def certifies(cell: Cell) -> bool:
    """Whether the estimator of a cell promises anything."""
    return cell.estimator.value.certifies_against(cell.claim)


def calibrated(rehearsal: Rehearsal, line: Line, outcome: Outcome, error: float) -> dict[str, Any]:
    """One row.

    Args:
        rehearsal: what was repeated.
        line: the cell, and its true ε.
        outcome: what the estimator said each time.
        error: 1 − confidence of the interval around the rate of exceedances.
    """
    cell, truth = line.cell, line.epsilon
    certified = certifies(cell)
    row = {
        **_named(cell, line.raw),
        "fit": rehearsal.run.fit or 0 if cell.attack.value.learns() else 0,
        "pilot": 0
        if line.raw or not cell.estimator.value.statistic().needs_pilot()
        else rehearsal.run.pilot or 0,
        "chunk": rehearsal.the_pass.rows,
        "truth": {"kind": line.truth.kind, "epsilon": truth},
        "certified": certified,
    }
    if outcome.reason is not None:
        return {**row, **NOTHING, "status": "failed", "reason": outcome.reason}
    lows = outcome.lows[~np.isnan(outcome.lows)]
    exceeded = int(np.count_nonzero(lows > truth + ROUNDING * max(1.0, truth)))
    row |= {**NOTHING, "status": "ok", "reason": None, "median_epsilon": _median(outcome.points)}
    if not len(lows):  # a point value and nothing else
        return row
    found = exceedance(exceeded, len(lows), 1 - cell.confidence, error)
    mean = _mean(lows)
    return row | {
        "exceeded": exceeded,
        "repeats": len(lows),
        "rate": found.rate,
        "rate_low": found.low,
        "rate_high": found.high,
        "alarm": found.alarm if certified else None,
        "mean_lower": mean,
        "share": mean / truth if mean is not None and truth > 0 else None,
        "promise": None if not certified else BROKEN if found.broken else KEPT,
    }


def corner_row(part: Part, run: RunSettings) -> dict[str, Any] | None:
    """What an estimator does at a corner, computed; None if it does not tell its shares.

    Args:
        part: a certifying estimator that reads counts.
        run: the precision.
    """
    cell, promised = part.cell, 1 - part.cell.confidence
    row = {
        "reads": cell.attack.value.gives,
        "estimator": _choice(cell.estimator),
        "confidence": cell.confidence,
        "trials": TRIALS,
        "promised": promised,
    }
    try:
        corner = at_corner(part, promised, run)
    except CellError as error:
        nothing = dict.fromkeys(("epsilon", "exceedance", "share", "of_share", "promise"))
        return {**row, **nothing, "mistakes": [], "reason": str(error)}
    if corner is None:
        return None
    mistakes = corner.mistakes(promised)
    return {
        **row,
        "epsilon": corner.epsilon,
        "exceedance": corner.exceedance,
        "share": corner.share,
        "of_share": corner.of_share,
        "promise": BROKEN if mistakes else KEPT,
        "mistakes": mistakes,
        "reason": None,
    }


ACCUSED = 1e-6
"""Probability that any of what `together_rows` shows is called broken if nothing is."""


def together_rows(confidence: float, seed: int) -> list[dict[str, Any]]:
    """What the engine does with audits as a whole, beside what it should do.

    Args:
        confidence: of each audit.
        seed: of the counts that are made up.
    """
    tried = list(together(confidence, AUDITS, seed))
    rows = []
    for one in tried:
        found = exceedance(one.happened, one.audits, one.promised, ACCUSED / len(tried))
        right = found.low <= one.expected <= found.high
        rows.append(
            {
                **one._asdict(),
                "rate": found.rate,
                "rate_low": found.low,
                "rate_high": found.high,
                "promise": KEPT if right else BROKEN,
            }
        )
    return rows


def failed(cell: Cell, reason: str) -> dict[str, Any]:
    """The row of a cell that could not even be tried."""
    certified = certifies(cell)
    rest = {"fit": 0, "pilot": 0, "chunk": None, "truth": None, "certified": certified}
    return {**_named(cell, False), **rest, **NOTHING, "status": "failed", "reason": reason}


NOTHING: dict[str, Any] = dict.fromkeys(
    (
        *("exceeded", "repeats", "rate", "rate_low", "rate_high", "alarm"),
        *("median_epsilon", "mean_lower", "share", "promise"),
    )
)


def _named(cell: Cell, raw: bool) -> dict[str, Any]:
    return {
        "mechanism": _choice(cell.mechanism),
        "pair": {"use": cell.pair.use, "params": cell.pair.value.params()},
        "attack": _choice(cell.attack),
        "estimator": _choice(cell.estimator),
        "reads": "scores" if raw else "counts",
        "swept": dict(cell.swept),
        "trials": cell.trials,
        "delta": cell.delta,
        "confidence": cell.confidence,
        "assumption": cell.estimator.value.assumption,
    }


def _choice(choice: Choice[Any]) -> dict[str, Any]:
    return {"use": choice.use, "label": choice.label, "params": choice.value.params()}


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _median(values: Floats) -> float | None:
    """The lower median: point values may be infinite, and half-way to that is nothing."""
    return float(np.sort(values)[(len(values) - 1) // 2]) if len(values) else None
