"""A run in a directory: what the command line does around an audit."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpframe.commands.audit import make_plan, make_record
from dpframe.commands.provenance import environment, plugin_records
from dpframe.errors import DpframeError, RecordError
from dpframe.record import file as records
from dpframe.record import folder
from dpframe.record.build import first_seed, installed_records, spec_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from dpframe.engine.boxes.workers import Workers
    from dpframe.engine.cluster.client import Cluster
    from dpframe.engine.counts.checkpoint import Store
    from dpframe.engine.counts.ledger import Ledger
    from dpframe.engine.planning.plan import Plan
    from dpframe.engine.run import Progress
    from dpframe.record.model import Record
    from dpframe.spec.audit import Audit

    Display = Callable[[int, int], AbstractContextManager[Progress]]

CHECKPOINT = "checkpoint"


class Invocation(NamedTuple):
    """What the caller decides about a run beside its spec."""

    out: Path | None = None
    """Directory of the run; default: runs/<audit name>."""
    device: str | None = None
    """"cpu" or "gpu"; default: the fastest there is."""
    resume: bool = True
    """Go on with what the directory holds, instead of discarding it."""
    cluster: str | None = None
    """Address of a Dask scheduler, or local:N; default: this machine."""


def run(
    loaded: Audit, invocation: Invocation, display: Display, warn: Callable[[str], None] = print
) -> Record:
    """Runs an audit and writes its record; a complete identical run is read, not repeated.

    However the run ends, what was counted stays in the directory, and the next run goes on there.

    Args:
        loaded: the audit.
        invocation: where, and what to do with an earlier run.
        display: opens a progress display for a number of cells and of draws.
        warn: told what went wrong without ending the run.

    Raises:
        OutputError: the directory cannot be written to, or another run is using it.
        DpframeError: the device is not there.
    """
    directory = folder.made(invocation.out or Path("runs") / loaded.name)
    select_device(invocation.device or loaded.run.device)
    from dpframe.engine.boxes.workers import Workers
    from dpframe.engine.compiling.cache import keep_compiled_programs
    from dpframe.engine.counts.checkpoint import Store
    from dpframe.engine.counts.ledger import Ledger

    with folder.locked(directory / CHECKPOINT):
        keep_compiled_programs(warn)
        store = Store(directory / CHECKPOINT)
        earlier = _earlier(directory, warn)
        ledger = Ledger((directory, directory / CHECKPOINT), _looks(earlier))
        with contextlib.ExitStack() as stack:
            workers = stack.enter_context(Workers(interpreters=loaded.interpreters))
            plan = make_plan(loaded, workers)
            if not invocation.resume:
                store.clear()
            elif earlier is not None and _complete(earlier, plan):
                return earlier
            cluster = None
            if invocation.cluster is not None:
                from dpframe.engine.cluster.client import Cluster

                cluster = stack.enter_context(Cluster(invocation.cluster, warn))
            try:
                record = _run(plan, store, ledger, display, workers, cluster)
            finally:
                if store.problem:
                    warn(store.problem)
        records.write(record, directory)
        store.drop_answers()
    return record


def _run(
    plan: Plan,
    store: Store,
    ledger: Ledger,
    display: Display,
    workers: Workers,
    cluster: Cluster | None,
) -> Record:
    from dpframe.engine.passes.calls import planned_draws
    from dpframe.engine.run import run as run_plan

    started = time.perf_counter()
    with display(len(plan.audit.cells), planned_draws(plan)) as progress:
        results = run_plan(plan, progress, store, None, ledger, workers, cluster)
    return make_record(plan, results, time.perf_counter() - started, workers.calls)


def _earlier(directory: Path, warn: Callable[[str], None]) -> Record | None:
    """The record of an earlier run in the same place; one that is damaged is not trusted."""
    if not (directory / records.NAME).exists():
        return None
    try:
        return records.read(directory)
    except RecordError as error:
        if kept := records.set_aside(directory):
            warn(f"{directory / records.NAME}: not of dpframe's making; kept as {kept.name}")
            return None
        warn(f"{error}; it is not used, and what it said is worked out anew")
        return None


def _looks(earlier: Record | None) -> dict[Any, list[Any]]:
    """What a record knows of the looks at its draws; the ledger may have been lost."""
    looks: dict[Any, list[Any]] = {}
    for cell in earlier.cells if earlier else ():
        draws = (cell.seed, cell.draw_group, cell.repeat)
        looks[draws] = max(
            looks.get(draws, []), [tuple(o.trials) for o in cell.looks or ()], key=len
        )
    return looks


def _complete(earlier: Record, plan: Plan) -> bool:
    """Whether this run would come out as the earlier one did."""
    audit = plan.audit
    drawn = {cell.id: (p.stream.group, p.data) for p in plan.passes for cell, _ in p.cells}
    # Cells that stop on their own have what they need, however few.
    stops = audit.run.stop == "decided" and audit.run.seconds is None
    wanted = [
        (cell.id, "ok", None if stops else [cell.trials] * 2, *drawn[cell.id])
        for cell in audit.cells
        if cell.id in drawn
    ]
    done = [
        (c.id, c.status, None if stops else c.trials, c.draw_group, c.pair.digest)
        for c in earlier.cells
    ]
    source = spec_record(audit.source)
    return (
        done == wanted
        and not plan.failed
        and len(earlier.skipped) == len(plan.skipped)
        and earlier.spec.sha256 == source.sha256
        and earlier.spec.overrides == source.overrides
        and earlier.environment == environment(plan.prng)
        and earlier.seed == first_seed(audit)
        and earlier.plugins == plugin_records(audit)
        and earlier.environments == installed_records(audit)
    )


def select_device(device: str | None) -> None:
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
