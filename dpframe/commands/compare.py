"""Estimators and attacks beside each other, on the same draws: the input of `dpframe compare`."""

from __future__ import annotations

import math
import statistics
import time
from typing import TYPE_CHECKING, Any

from dpframe.commands.audit import load, make_plan, make_record
from dpframe.engine.trace import resolved

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from dpframe.engine.run import Progress
    from dpframe.interfaces.plugin import Plugin
    from dpframe.results.build import CellResult
    from dpframe.results.model import CellRecord, TruthRecord
    from dpframe.spec.audit import Audit, RunSettings

    Display = Callable[[int, int], AbstractContextManager[Progress]]

ALONE = 'audit.multiplicity="none"'
"""A comparison picks nothing, so every bound stands for itself."""


def compare(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
    plugins: Iterable[type[Plugin]] = (),
) -> dict[str, Any]:
    """Runs an audit and lays its estimators and attacks beside each other; writes nothing.

    Every bound holds alone at the spec's confidence, whatever multiplicity the spec asks for.

    Args:
        spec: path of a TOML file, or the same content as a mapping.
        overrides: "KEY=VALUE" as `dpframe run --set` takes them.
        trials: draws per dataset, instead of the spec's.
        seed: instead of the spec's.
        plugins: classes to make available beside the installed ones.

    Returns:
        What `dpframe compare --json` prints: a row per mechanism, pair, attack, estimator and
        combination of swept values.

    Raises:
        SpecError: the spec cannot be run; lists every mistake.
        PluginError: one of `plugins` is not a plugin class.
    """
    return comparison(load(spec, [*overrides, ALONE], trials, seed, plugins))


def comparison(loaded: Audit, display: Display | None = None) -> dict[str, Any]:
    """Runs an audit that was loaded with `ALONE` and compares.

    Args:
        loaded: the audit.
        display: opens a progress display for a number of cells and of draws.
    """
    from dpframe.engine.run import quiet
    from dpframe.engine.run import run as run_plan
    from dpframe.workers.pool import Workers

    started = time.perf_counter()
    with Workers(interpreters=loaded.interpreters) as workers:
        plan = make_plan(loaded, source=workers)
        if display is None:
            results = run_plan(plan, quiet, source=workers)
        else:
            with display(len(loaded.cells), sum(p.draws for p in plan.passes)) as progress:
                results = run_plan(plan, progress, source=workers)
    record = make_record(plan, results, time.perf_counter() - started)
    together: dict[Any, list[tuple[CellResult, CellRecord]]] = {}
    for result, cell in zip(results, record.cells, strict=True):
        together.setdefault(_line(result), []).append((result, cell))
    rows = [_row(repeats, loaded.run) for repeats in together.values()]
    shared = record.model_copy(update={"cells": []}).as_dict()
    kept = ("schema", "spec", "audit", "environment", "seed", "plugins", "skipped")
    return {
        **{key: shared[key] for key in kept},
        "kind": "comparison",
        "rows": rows,
        "summary": {key: shared["summary"][key] for key in ("seconds", "draws", "peak_rss_bytes")},
    }


def _line(result: CellResult) -> Any:
    """The fields that the repeats of a cell share."""
    cell = result.cell
    labels = (cell.mechanism.label, cell.attack.label, cell.estimator.label)
    return labels, repr(cell.swept)


_CHOICES = ("mechanism", "pair", "attack", "estimator", "swept")


def _row(repeats: list[tuple[CellResult, CellRecord]], run: RunSettings) -> dict[str, Any]:
    """One row: means over the repeats."""
    first, shown = repeats[0]
    estimates = [cell.estimate for _, cell in repeats if cell.estimate]
    failed = [cell.reason for _, cell in repeats if cell.estimate is None]
    bounds = [e.epsilon_lower for e in estimates if e.epsilon_lower is not None]
    intervals = [e.interval for e in estimates if e.interval is not None]
    choices = shown.model_dump(include=set(_CHOICES))
    truth = shown.truth.model_dump(include={"kind", "epsilon"}) if shown.truth else None
    drawn = _draws(first, run)
    return {
        **{name: choices[name] for name in _CHOICES},
        "status": "ok" if estimates else "failed",
        "reason": failed[0] if failed else None,
        "repeats": len(estimates),
        "certified": first.certified,
        "assumption": first.cell.estimator.value.assumption,
        "truth": truth,
        "delta": first.cell.delta,
        "confidence": first.cell.confidence,
        "trials": list(first.trials),
        "epsilon": _mean([e.epsilon for e in estimates]),
        "epsilon_lower": _mean(bounds),
        "deviation": statistics.stdev(bounds) if len(bounds) > 1 else None,
        "interval": [_mean(list(side)) for side in zip(*intervals, strict=True)] or None,
        "share": _share(_mean(bounds), shown.truth),
        "draws": {**drawn, "total": sum(drawn.values())},
        "seconds": _mean([result.seconds + result.estimate_seconds for result, _ in repeats]),
        "estimate_seconds": _mean([result.estimate_seconds for result, _ in repeats]),
    }


def _draws(result: CellResult, run: RunSettings) -> dict[str, int]:
    """Outputs of the mechanism behind a row, on both datasets, by what they are for."""
    learns = result.cell.attack.value.learns()
    run = resolved(run, result.cell.mechanism.value, result.cell.trials)
    estimator = result.cell.estimator.value
    chooses = estimator.statistic().needs_pilot() and not estimator.anytime
    return {
        "fit": 2 * (run.fit or 0) if learns else 0,
        "pilot": 2 * (run.pilot or 0) if chooses else 0,
        "eval": sum(result.trials),
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _share(bound: float | None, truth: TruthRecord | None) -> float | None:
    """Bound over true ε, where there is something to divide by."""
    epsilon = truth.epsilon if truth else math.nan
    return bound / epsilon if bound is not None and 0 < epsilon < math.inf else None
