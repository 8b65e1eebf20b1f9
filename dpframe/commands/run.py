"""A run in a directory: the body of `dpframe run`."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import tomli

from dpframe.commands.audit import (
    environment,
    make_plan,
    make_record,
    plugin_records,
    uses_jax,
)
from dpframe.common import files
from dpframe.common.arrays import jax
from dpframe.errors import DpframeError, RecordError
from dpframe.interfaces import registry
from dpframe.results import store as records
from dpframe.results.build import first_seed, installed_records, spec_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpframe.commands.audit import Display
    from dpframe.count.plan import Plan
    from dpframe.results.model import Record
    from dpframe.spec.audit import Audit


# Annotations and a summary, if the run is part of a job of GitHub Actions.


MOST_SUMMARY = 1 << 20  # bytes of a step's summary; a longer summary is not shown at all


def announce(record: Record, environment: Mapping[str, str], emit: Callable[[str], None]) -> None:
    """Print annotations for GitHub Actions and add the report to the summary of the step.

    Do nothing if the environment variables are not those of GitHub Actions. `emit` prints a line
    that the runner reads.
    """
    if environment.get("GITHUB_ACTIONS") == "true":
        from dpframe.report import delivery as github

        file = _from_checkout(record.spec.path, environment.get("GITHUB_WORKSPACE"))
        for line in github.alarms(record, file, lines_of(record).get):
            emit(line)
    if summary := environment.get("GITHUB_STEP_SUMMARY"):
        from dpframe.report import markdown

        page = Path(summary)
        try:
            size = page.stat().st_size if page.exists() else 0
            text = markdown.document(record, most=MOST_SUMMARY - size - 1).encode()
            with page.open("ab") as out:
                out.write(b"\n" * bool(size) + text)
        except OSError as error:
            emit(f"cannot write the step summary: {error.strerror or error}")


def lines_of(record: Record) -> dict[str, int]:
    """Find the line of each mechanism in the spec, by label."""
    from dpframe.spec.document import Locator

    try:
        spec: dict[str, Any] = tomli.loads(record.spec.text)
    except ValueError:
        return {}
    mechanisms = spec.get("mechanism")
    locator = Locator(record.spec.text.replace("\r\n", "\n"))
    lines = {}
    for index, table in enumerate(mechanisms if isinstance(mechanisms, list) else []):
        label = table.get("label", table.get("use")) if isinstance(table, dict) else None
        line = locator.line(("mechanism", index))
        if isinstance(label, str) and line:
            lines[label] = line
    return lines


def _from_checkout(path: str, checkout: str | None) -> str:
    """Return a path relative to the root of the checkout, if it lies inside."""
    if not path or not checkout:
        return path
    full, root = os.path.abspath(path), os.path.abspath(checkout)  # noqa: PTH100  # no link
    try:
        inside = os.path.commonpath([full, root]) == root
    except ValueError:  # on different drives
        inside = False
    return Path(os.path.relpath(full, root)).as_posix() if inside else path


# A run in a directory.


def outcome(record: Record, loaded: Audit, invocation: Invocation) -> dict[str, Any]:
    """Return what a notification says about a run: its name, its record and the verdicts."""
    place = (invocation.out or Path("runs") / loaded.name) / records.NAME
    verdicts = ("violated", "consistent", "inconclusive", "failed")
    counts = {name: getattr(record.summary, name) for name in verdicts}
    return {"name": loaded.name, "record": str(place.resolve()), **counts}


CHECKPOINT = "checkpoint"


class Invocation(NamedTuple):
    """Settings of a run that are not in its spec."""

    out: Path | None = None  # directory of the run; default: runs/<audit name>
    device: str | None = None  # "cpu" or "gpu"; default: the fastest there is
    resume: bool = True  # continue from the counts in the directory, instead of discarding them
    cluster: str | None = None
    """Address of an executor, such as that of a Dask scheduler; default: this machine."""
    plugins: tuple[Path, ...] = ()  # files of the run that may bring the executor
    blocks: int = 0  # parts of the draws whose counts are kept for `dpframe verify`


def run(
    loaded: Audit, invocation: Invocation, display: Display, warn: Callable[[str], None] = print
) -> Record:
    """Run an audit and write its record; a complete identical run is read, not repeated.

    The latter is said by `warn`, because the record may have been put there.
    The counts stay in the directory even if the run is interrupted, and the next run continues from
    them. `display` opens a progress display for a number of cells and of draws; `warn` prints
    problems that do not end the run. Raises OutputError if the directory cannot be written to or is
    in use by another run, DpframeError if there is no such device.
    """
    directory = files.made(invocation.out or Path("runs") / loaded.name)
    select_device(invocation.device or loaded.run.device)
    from dpframe.count.checkpoint import BLOCKS, Store, is_own
    from dpframe.draw.compile_cache import keep_compiled_programs
    from dpframe.draw.local_executor import source_of
    from dpframe.engine.ledger import Ledger
    from dpframe.engine.resources import planned_draws
    from dpframe.engine.run import run as run_plan

    with files.locked(directory / CHECKPOINT):
        if uses_jax(loaded):
            keep_compiled_programs(warn)
        store = Store(directory / CHECKPOINT, invocation.blocks)
        earlier = _earlier(directory, warn)
        ledger = Ledger(directory, _looks(earlier))
        with contextlib.ExitStack() as stack:
            workers = stack.enter_context(source_of(loaded.cells, loaded.interpreters))
            plan = make_plan(loaded, workers)
            if not invocation.resume or (store.blocks and not (directory / BLOCKS).is_dir()):
                store.clear()
            elif earlier is not None and _complete(earlier, plan):
                place = directory / records.NAME
                notice = f"from the record of {_date(place)}, nothing was drawn"
                warn(f"{place}: {notice}; --fresh draws again")
                return earlier
            elif kept := [file for file in (directory / CHECKPOINT).glob("*-*") if is_own(file)]:
                newest = max(kept, key=lambda file: file.stat().st_mtime)
                notice = f"continues with the counts of {_date(newest)}"
                warn(f"{directory / CHECKPOINT}: {notice}, if they fit; --fresh discards them")
            executor = None
            if invocation.cluster is not None:
                executor = stack.enter_context(
                    registry.load(files=invocation.plugins).executor(invocation.cluster, warn)
                )
            started, before = time.perf_counter(), store.calls
            try:
                with display(len(loaded.cells), planned_draws(plan)) as progress:
                    cells = run_plan(plan, progress, store, None, ledger, workers, executor)
            finally:
                if store.problem:
                    warn(store.problem)
            seconds, calls = time.perf_counter() - started, before + workers.calls
            record = make_record(plan, cells, seconds, calls, ledger.latest)
        records.write(record, directory)
        store.forget_calls()
        store.drop_answers()
    return record


def _date(file: Path) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(file.stat().st_mtime))


def _earlier(directory: Path, warn: Callable[[str], None]) -> Record | None:
    """Return the record of an earlier run in the directory; None if it is missing or damaged."""
    if not (directory / records.NAME).exists():
        return None
    try:
        return records.load(directory)
    except RecordError as error:
        if kept := records.set_aside(directory):
            warn(f"{directory / records.NAME}: not written by dpframe; kept as {kept.name}")
            return None
        warn(f"{error}; it is ignored, and its results are computed again")
        return None


def _looks(earlier: Record | None) -> dict[Any, list[Any]]:
    """Read the looks from a record, in case the ledger was lost."""
    looks: dict[Any, list[Any]] = {}
    for cell in earlier.cells if earlier else ():
        draws = (cell.seed, cell.draw_group, cell.repeat)
        looks[draws] = max(
            looks.get(draws, []), [tuple(o.trials) for o in cell.looks or ()], key=len
        )
    return looks


def _complete(earlier: Record, plan: Plan) -> bool:
    """True if this run would repeat the earlier one."""
    audit = plan.audit
    drawn = {cell.id: (p.stream.group, p.data) for p in plan.passes for cell, _ in p.cells}
    # Cells that stop once decided have enough trials, however few.
    stops = audit.run.stop == "decided" and audit.run.seconds is None
    planned = [
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
        done == planned
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
    """Make JAX use one kind of device; call it before JAX has started a device."""
    if device is None:
        return

    platforms = {"gpu": "cuda,rocm"}.get(device, device)
    jax.config.update("jax_platforms", platforms)  # type: ignore[no-untyped-call]
    try:
        jax.devices()
    except RuntimeError as error:
        reason = (str(error).splitlines() or ["unknown"])[0]
        raise DpframeError(f"--device {device}: JAX has no such device here ({reason})") from None
