"""Audit from Python: the body of `dpframe.audit`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpframe import __version__
from dpframe.common.arrays import jax
from dpframe.common.machine import StuckError, free_bytes, with_timeout, within
from dpframe.common.text import shown
from dpframe.errors import PluginError, SpecError
from dpframe.interfaces import registry
from dpframe.interfaces.estimator import Estimator
from dpframe.results.build import build
from dpframe.results.model import CellRecord, EnvironmentRecord, PluginRecord, Record
from dpframe.results.strict_json import text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dpframe.count.plan import Plan
    from dpframe.draw.requests import WorkerSource
    from dpframe.engine.run import Progress
    from dpframe.interfaces.plugin import Plugin
    from dpframe.interfaces.registry import Registry
    from dpframe.spec.audit import Audit

    Display = Callable[[int, int], AbstractContextManager[Progress]]


# Provenance: versions, devices and plugins.


def environment(prng: str) -> EnvironmentRecord:
    """Return versions and devices that a run depends on, and the name of its generator."""
    devices = ["cpu"]
    if "jax" in sys.modules:  # else only black boxes were audited, without it
        devices = [device.device_kind for device in jax.devices()]
    return EnvironmentRecord(**versions(), devices=devices, prng=prng)


def versions() -> dict[str, str]:
    """Return versions of dpframe, its numeric libraries, Python and the system; start no device."""
    import numpy as np
    import scipy

    return {
        "dpframe": __version__,
        "jax": importlib.metadata.version("jax"),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def peak_rss_bytes() -> int | None:
    """Return the peak resident memory of this process; None if the system does not report it."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def plugin_records(loaded: Audit) -> list[PluginRecord]:
    """Return every plugin of an audit once."""
    from dpframe.count.fingerprint import program_code

    choices: set[Any] = {
        (c.use, c.distribution, c.version, type(c.value), *program_code(c.value))
        for cell in loaded.cells
        for c in (cell.mechanism, cell.pair, cell.attack, cell.estimator)
    }
    described = [plugin_record(*choice) for choice in choices]
    return sorted(described, key=attrgetter("kind", "name", "distribution", "version", "code"))


def plugin_record(
    use: str, distribution: str, version: str, cls: type[Plugin], program: str | None = None
) -> PluginRecord:
    """Return the record of a plugin; `program` is the digest of the program that it runs."""
    from dpframe.draw.value_digest import code_digest

    reference = str(cls.reference) if issubclass(cls, Estimator) else ""
    return PluginRecord(
        kind=cls.kind,
        name=use,
        distribution=distribution,
        version=version,
        code=code_digest(cls) if program is None else f"{code_digest(cls)}+{program}",
        reference=text(reference) or None,
    )


# One audit from spec to record, for the command line, notebooks and tests alike.


def _in_notebook(record: Record) -> str:
    from dpframe.report.delivery import brief

    return brief(record)


Record.in_notebooks = _in_notebook


def audit(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
    plugins: Iterable[type[Plugin] | str | os.PathLike[str]] = (),
    pythons: Mapping[str, str] | None = None,
    allow_command: bool = False,
) -> Record:
    """Run an audit and return its record; write nothing.

    A notebook shows the verdict and the worst cell of each mechanism. Fields of the record can be
    read as attributes, `record.cells[0].verdict`, or by their keys in JSON,
    `record["cells"][0]["verdict"]`.

    Args:
        spec: path of a TOML file, or the same content as a mapping.
        overrides: "KEY=VALUE" as `dpframe run --set` takes them.
        trials: draws per dataset, instead of the spec's.
        seed: instead of the spec's.
        plugins: plugin classes and paths of Python files with plugin classes, in addition to the
            installed plugins.
        pythons: paths of interpreters by names of environments.
        allow_command: True if the spec may run the commands that it names.

    Raises:
        SpecError: the spec cannot be run; lists every mistake.
        PluginError: one of `plugins` is not a plugin class.
    """
    return recorded(load(spec, overrides, trials, seed, plugins, pythons, allow_command))


def silent(cells: int, draws: int) -> AbstractContextManager[Progress]:
    """Return a display that shows nothing."""
    from dpframe.engine.run import quiet

    return contextlib.nullcontext(quiet)


def recorded(
    loaded: Audit,
    display: Display = silent,
    source: WorkerSource | None = None,
    timings: dict[str, float] | None = None,
) -> Record:
    """Run a loaded audit; write nothing.

    `source` makes the outputs of black boxes; default: worker processes that end with the run.
    `timings` takes the seconds that each estimator needed, by the cell's id.
    """
    from dpframe.draw.local_executor import source_of
    from dpframe.engine.resources import planned_draws
    from dpframe.engine.run import run

    started = time.perf_counter()
    with contextlib.ExitStack() as stack:
        workers = source or stack.enter_context(source_of(loaded.cells, loaded.interpreters))
        the_plan = make_plan(loaded, source=workers)
        with display(len(loaded.cells), planned_draws(the_plan)) as progress:
            results = run(the_plan, progress, source=workers, timings=timings)
    seconds = time.perf_counter() - started
    return make_record(the_plan, results, seconds, workers.calls)


def load(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
    plugins: Iterable[type[Plugin] | str | os.PathLike[str]] = (),
    pythons: Mapping[str, str] | None = None,
    allow_command: bool = False,
) -> Audit:
    """Read a spec; arguments and exceptions are those of `audit`."""
    from dpframe.spec import load_audit

    if not isinstance(spec, str | os.PathLike | Mapping):
        raise SpecError([f"spec: {shown(spec)} is neither a path nor a mapping"])
    if isinstance(overrides, str) or not all(isinstance(one, str) for one in overrides):
        raise SpecError([f'overrides: {shown(overrides)} is not a list of texts "KEY=VALUE"'])
    if not isinstance(pythons, Mapping | None):
        raise SpecError([f"pythons: {shown(pythons)} is not a mapping of names to paths"])
    more: Any = {"overrides": overrides, "trials": trials, "seed": seed, "pythons": pythons}
    return load_audit(spec, registry=load_plugins(plugins), allow_command=allow_command, **more)


def load_plugins(plugins: Iterable[type[Plugin] | str | os.PathLike[str]] = ()) -> Registry:
    """Return the installed plugins together with further classes, or the classes of files.

    Raises PluginError if one is not a plugin class, or a file cannot be used.
    """
    if isinstance(plugins, str | type) or not isinstance(plugins, Iterable):
        raise PluginError(f"plugins: {shown(plugins)} is not a list of classes and paths")
    given = list(plugins)
    files = [Path(one) for one in given if isinstance(one, str | os.PathLike)]
    classes: Any = [one for one in given if not isinstance(one, str | os.PathLike)]
    return registry.load(classes, files)


def uses_jax(loaded: Audit) -> bool:
    """True if a mechanism of an audit is traced, or an attack scores in JAX."""
    from dpframe.interfaces.mechanism import HostMechanism

    return any(
        not isinstance(cell.mechanism.value, HostMechanism)
        or not all(
            one.value.portable for one in (cell.search.attacks if cell.search else [cell.attack])
        )
        for cell in loaded.cells
    )


def make_plan(loaded: Audit, source: WorkerSource | None = None) -> Plan:
    """Arrange an audit for the engine.

    `source` makes the first calls of black boxes; default: separate worker processes. Raises
    DpframeError if this machine has too little memory.
    """
    from dpframe.common.machine import available_cores
    from dpframe.count.plan import plan
    from dpframe.draw.streams import generator_name
    from dpframe.engine.resources import check_data, check_memory

    with within(free_bytes()):
        check_data(loaded)
        arranged = plan(loaded, generator_name(loaded.run.prng), source)
        with contextlib.suppress(StuckError):  # the run will name the plugin that hangs
            with_timeout(lambda: check_memory(arranged, available_cores()), loaded.run.seconds)
    return arranged


def make_record(
    the_plan: Plan, cells: Sequence[CellRecord], seconds: float, calls: int = 0, looks: int = 1
) -> Record:
    """Return the record of a run.

    `cells` has one cell for each planned cell, without verdicts. `calls` is the number of releases
    requested from black boxes, `looks` the largest number of looks at any cell's draws.
    """
    from dpframe.interfaces.mechanism import HostMechanism

    boxes = any(isinstance(c.mechanism.value, HostMechanism) for c in the_plan.audit.cells)
    return build(
        the_plan.audit,
        cells,
        m=the_plan.m,
        skipped=the_plan.skipped,
        environment=environment(the_plan.prng),
        plugins=plugin_records(the_plan.audit),
        seconds=seconds,
        peak_rss_bytes=peak_rss_bytes(),
        looks=looks,
        calls=calls if boxes else None,
    )
