"""Estimators and attacks beside each other, on the same draws: the input of `dpframe compare`."""

from __future__ import annotations

import math
import statistics
import time
from typing import TYPE_CHECKING, Any

from dpframe.commands.audit import load, make_plan, make_record
from dpframe.record.file import number

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from dpframe.engine.estimate import CellResult
    from dpframe.engine.run import Progress
    from dpframe.plugin import Plugin
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

    started = time.perf_counter()
    plan = make_plan(loaded)
    if display is None:
        results = run_plan(plan, quiet)
    else:
        with display(len(loaded.cells), sum(p.draws for p in plan.passes)) as progress:
            results = run_plan(plan, progress)
    record = make_record(plan, results, time.perf_counter() - started)
    together: dict[Any, list[tuple[CellResult, dict[str, Any]]]] = {}
    for result, cell in zip(results, record["cells"], strict=True):
        together.setdefault(_line(result), []).append((result, cell))
    rows = [_row(repeats, loaded.run) for repeats in together.values()]
    kept = ("schema", "spec", "audit", "environment", "seed", "plugins")
    return {
        **{key: record[key] for key in kept},
        "kind": "comparison",
        "rows": rows,
        "skipped": record["skipped"],
        "summary": {key: record["summary"][key] for key in ("seconds", "draws", "peak_rss_bytes")},
    }


def _line(result: CellResult) -> Any:
    """What the repeats of a cell share."""
    cell = result.cell
    labels = (cell.mechanism.label, cell.attack.label, cell.estimator.label)
    return labels, repr(cell.swept)


def _row(repeats: list[tuple[CellResult, dict[str, Any]]], run: RunSettings) -> dict[str, Any]:
    """One row: means over the repeats."""
    first, shown = repeats[0]
    estimates = [cell["estimate"] for _, cell in repeats if cell["estimate"]]
    failed = [cell["reason"] for result, cell in repeats if result.estimate is None]
    bounds = [e["epsilon_lower"] for e in estimates if e["epsilon_lower"] is not None]
    intervals = [e["interval"] for e in estimates if e["interval"] is not None]
    truth = shown["truth"]
    drawn = _draws(first, run)
    return {
        "mechanism": shown["mechanism"],
        "pair": shown["pair"],
        "attack": shown["attack"],
        "estimator": shown["estimator"],
        "swept": shown["swept"],
        "status": "ok" if estimates else "failed",
        "reason": failed[0] if failed else None,
        "repeats": len(estimates),
        "certified": first.certified,
        "assumption": first.cell.estimator.value.assumption,
        "truth": truth,
        "delta": first.cell.delta,
        "confidence": first.cell.confidence,
        "trials": list(first.trials),
        "epsilon": _mean([e["epsilon"] for e in estimates]),
        "epsilon_lower": _mean(bounds),
        "deviation": statistics.stdev(bounds) if len(bounds) > 1 else None,
        "interval": [_mean(list(side)) for side in zip(*intervals, strict=True)] or None,
        "share": _share(_mean(bounds), truth),
        "draws": {**drawn, "total": sum(drawn.values())},
        "seconds": _mean([result.seconds + result.estimate_seconds for result, _ in repeats]),
        "estimate_seconds": _mean([result.estimate_seconds for result, _ in repeats]),
    }


def _draws(result: CellResult, run: RunSettings) -> dict[str, int]:
    """Outputs of the mechanism behind a row, on both datasets, by what they are for."""
    learns = result.cell.attack.value.learns()
    chooses = result.cell.estimator.value.statistic().needs_pilot()
    return {
        "fit": 2 * run.fit if learns else 0,
        "pilot": 2 * run.pilot if chooses else 0,
        "eval": sum(result.trials),
    }


def _mean(values: list[Any]) -> float | None:
    numbers = [number(value) for value in values]
    return sum(numbers) / len(numbers) if numbers else None


def _share(bound: float | None, truth: dict[str, Any] | None) -> float | None:
    """Bound over true ε, where there is something to divide by."""
    epsilon = number(truth["epsilon"]) if truth else math.nan
    return bound / epsilon if bound is not None and 0 < epsilon < math.inf else None
