"""A run in a directory: what the command line does around an audit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.audit import identity, make_plan, make_record
from dpframe.errors import DpframeError, OutputError, RecordError
from dpframe.report import record as records

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from dpframe.engine.run import Progress
    from dpframe.spec.audit import Audit

    Display = Callable[[int, int], AbstractContextManager[Progress]]


class Choice(NamedTuple):
    """What the caller decides about a run beside its spec."""

    out: Path | None = None
    """Directory of the run; default: runs/<audit name>."""
    device: str | None = None
    """"cpu", "gpu", or JAX's choice."""
    resume: bool = True
    """Go on with what the directory holds, instead of discarding it."""


def run(loaded: Audit, choice: Choice, display: Display) -> dict[str, Any]:
    """Runs an audit and writes its record; a complete identical run is read, not repeated.

    Args:
        loaded: the audit.
        choice: where, and what to do with an earlier run.
        display: opens a progress display for a number of cells and of draws.

    Raises:
        OutputError: the directory cannot be written to.
        DpframeError: the device is not there.
    """
    directory = output_directory(loaded, choice.out)
    _select_device(choice.device or loaded.run.device)
    if choice.resume and (earlier := _complete(loaded, directory)):
        return earlier
    from dpframe.engine.run import run as run_plan

    started = time.perf_counter()
    plan = make_plan(loaded)
    draws = sum(the_pass.draws for the_pass in plan.passes)
    with display(len(loaded.cells), draws) as progress:
        results = run_plan(plan, progress)
    record = make_record(plan, results, time.perf_counter() - started)
    records.write(record, directory)
    return record


def output_directory(loaded: Audit, given: Path | None) -> Path:
    """Makes the directory of a run now, so that the run does not end with nowhere to write.

    Raises:
        OutputError: it cannot be made or written to.
    """
    directory = given or Path("runs") / loaded.name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OutputError(f"{directory}: cannot write there: {error.strerror}") from error
    return directory


def _complete(loaded: Audit, directory: Path) -> dict[str, Any] | None:
    """The record of an earlier run that would come out the same, unless a cell failed in it."""
    try:
        record = records.read(directory)
    except RecordError:
        return None
    same = identity(record) == identity(make_record(make_plan(loaded), [], 0.0))
    return record if same and not record["summary"]["failed"] else None


def _select_device(device: str | None) -> None:
    """Makes JAX use one kind of device, before anything has started it."""
    if device is None:
        return
    import jax

    platforms = {"gpu": "cuda,rocm"}.get(device, device)
    jax.config.update("jax_platforms", platforms)  # type: ignore[no-untyped-call]
    try:
        jax.devices()
    except RuntimeError as error:
        reason = (str(error).splitlines() or ["unknown"])[0]
        raise DpframeError(f"--device {device}: JAX has no such device here ({reason})") from None
