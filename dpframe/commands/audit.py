"""One audit from spec to record, for the command line, notebooks and tests alike."""

from __future__ import annotations

import math
import os
import platform
import sys
import time
from typing import TYPE_CHECKING, Any

from dpframe import __version__, registry
from dpframe.errors import PluginError
from dpframe.record import file as records
from dpframe.record.verdict import VERDICTS, Evidence, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dpframe.engine.estimate import CellResult
    from dpframe.engine.plan import Plan
    from dpframe.plugin import Plugin
    from dpframe.registry import Registry
    from dpframe.spec.audit import Audit


def audit(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
    plugins: Iterable[type[Plugin]] = (),
) -> dict[str, Any]:
    """Runs an audit and returns its record; writes nothing.

    Args:
        spec: path of a TOML file, or the same content as a mapping.
        overrides: "KEY=VALUE" as `dpframe run --set` takes them.
        trials: draws per dataset, instead of the spec's.
        seed: instead of the spec's.
        plugins: classes to make available beside the installed ones.

    Raises:
        SpecError: the spec cannot be run; lists every mistake.
        PluginError: one of `plugins` is not a plugin class.
    """
    from dpframe.engine.run import run

    loaded = load(spec, overrides, trials, seed, plugins)
    started = time.perf_counter()
    the_plan = make_plan(loaded)
    return make_record(the_plan, run(the_plan), time.perf_counter() - started)


def load(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
    plugins: Iterable[type[Plugin]] = (),
) -> Audit:
    """Reads a spec; arguments and exceptions are those of `audit`."""
    from dpframe.spec import audit_from_dict, load_audit

    found = load_plugins(plugins)
    read: Any = load_audit if isinstance(spec, str | os.PathLike) else audit_from_dict
    loaded: Audit = read(spec, overrides=overrides, trials=trials, seed=seed, registry=found)
    return loaded


def load_plugins(plugins: Iterable[type[Plugin]] = ()) -> Registry:
    """The installed plugins and some classes more.

    Raises:
        PluginError: one of the classes is not a plugin class.
    """
    found = registry.load(plugins)
    if refused := [
        broken.error for broken in found.broken if broken.distribution == registry.LOCAL
    ]:
        raise PluginError("\n".join(f"plugins: {error}" for error in refused))
    return found


def make_plan(loaded: Audit, earlier: Mapping[str, Any] | None = None) -> Plan:
    """Arranges an audit for the engine.

    Args:
        loaded: the audit.
        earlier: the record of an earlier run in the same place: what it showed is paid for.
    """
    from dpframe.engine.address import generator_name
    from dpframe.engine.plan import plan

    return plan(loaded, generator_name(loaded.run.prng), earlier)


def make_record(the_plan: Plan, results: Sequence[CellResult], seconds: float) -> dict[str, Any]:
    """Judges the results of a run and puts everything into a record."""
    from dpframe.record.cell import cell_record, skip_record

    loaded = the_plan.audit
    cells = [cell_record(result) for result in results]
    judged = [n for n, result in enumerate(results) if result.extreme is not None]
    evidence = [_evidence(results[n]) for n in judged]
    for n, judgement in zip(judged, judge(evidence, the_plan.m, loaded.multiplicity), strict=True):
        cells[n].update(judgement._asdict())
    return {
        "schema": records.SCHEMA,
        "spec": {**loaded.source._asdict(), "overrides": list(loaded.source.overrides)},
        "audit": {
            "name": loaded.name,
            "confidence": min((cell.confidence for cell in loaded.cells), default=0.95),
            "multiplicity": loaded.multiplicity,
            "looks": max((result.looks.number for result in results), default=1),
        },
        "environment": environment(the_plan.prng),
        "seed": loaded.cells[0].seed if loaded.cells else 0,
        "plugins": plugin_records(loaded),
        "cells": cells,
        "skipped": [skip_record(skip) for skip in the_plan.skipped],
        "summary": {
            "m": the_plan.m,
            **{v: sum(c["verdict"] == v for c in cells) for v in VERDICTS},
            "failed": sum(cell["status"] == "failed" for cell in cells),
            "seconds": seconds,
            "draws": sum(the_pass.draws for the_pass in the_plan.passes),
            "peak_rss_bytes": peak_rss_bytes(),
        },
    }


def identity(record: dict[str, Any]) -> Any:
    """What two records share exactly when they come from the same run of the same programs."""
    spec = {key: record["spec"][key] for key in ("sha256", "overrides")}
    return spec, record["environment"], record["seed"], record["plugins"]


def _evidence(result: CellResult) -> Evidence:
    estimate, extreme, query, cell = result.estimate, result.extreme, result.query, result.cell
    if not (estimate and extreme and query and cell.claim):
        raise ValueError(f"cell {cell.id} has no evidence")
    return Evidence(
        p_value=records.number(estimate.p_value),
        p_resolved=records.number(estimate.p_resolved),
        p_extreme=records.number(extreme.p_value),
        p_extreme_resolved=records.number(extreme.p_resolved),
        error=1 - cell.confidence,
        delta=query.delta,
        lower=records.number(estimate.epsilon_lower),
        upper=records.number(estimate.epsilon_upper),
        contrast=estimate.contrast or (query.delta, math.nan, math.nan),
        trials=min(query.trials),
        price=result.looks.price,
        level=1 - query.confidence,
    )


def environment(prng: str) -> dict[str, Any]:
    """Versions and devices that a run depends on."""
    import jax

    devices = [device.device_kind for device in jax.devices()]
    return {**versions(), "devices": devices, "prng": prng}


def versions() -> dict[str, Any]:
    """Versions of what computes; starts no device."""
    import jax
    import numpy as np
    import scipy

    return {
        "dpframe": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def peak_rss_bytes() -> int | None:
    """Peak resident memory of this process; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def plugin_records(loaded: Audit) -> list[dict[str, str]]:
    """Every plugin that an audit uses, once."""
    choices = {
        (choice.use, choice.distribution, choice.version, type(choice.value))
        for cell in loaded.cells
        for choice in (cell.mechanism, cell.pair, cell.attack, cell.estimator)
    }
    described = [plugin_record(*choice) for choice in choices]
    return sorted(described, key=lambda plugin: tuple(plugin.values()))


def plugin_record(use: str, distribution: str, version: str, cls: type[Plugin]) -> dict[str, str]:
    """One plugin as the record names it."""
    from dpframe.engine.fingerprint import code_digest

    return {
        "kind": cls.kind,
        "name": use,
        "distribution": distribution,
        "version": version,
        "code": code_digest(cls),
    }
