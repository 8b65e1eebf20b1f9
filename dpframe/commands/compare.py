"""Compare estimators and attacks on the same draws: the body of `dpframe compare`."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

from dpframe.commands.audit import load, recorded, silent
from dpframe.draw.trace import resolved

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from dpframe.commands.audit import Display
    from dpframe.interfaces.plugin import Plugin
    from dpframe.results.model import CellRecord, TruthRecord
    from dpframe.spec.audit import Audit, Cell, RunSettings

UNADJUSTED = 'audit.multiplicity="none"'  # a comparison chooses no bound, so it adjusts none


def compare(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    trials: int | None = None,
    seed: int | None = None,
    plugins: Iterable[type[Plugin]] = (),
) -> dict[str, Any]:
    """Run an audit and compare its estimators and attacks; write nothing.

    Every bound holds alone at the spec's confidence; the multiplicity of the spec is ignored.

    Args:
        spec: path of a TOML file, or the same content as a mapping.
        overrides: "KEY=VALUE" as `dpframe run --set` takes them.
        trials: draws per dataset, instead of the spec's.
        seed: instead of the spec's.
        plugins: plugin classes in addition to the installed plugins.

    Returns:
        The content of `dpframe compare --json`: a row for each mechanism, pair, attack, estimator
        and combination of swept values.

    Raises:
        SpecError: the spec cannot be run; lists every mistake.
        PluginError: one of `plugins` is not a plugin class.
    """
    return comparison(load(spec, [*overrides, UNADJUSTED], trials, seed, plugins))


def comparison(loaded: Audit, display: Display = silent) -> dict[str, Any]:
    """Run an audit that was loaded with the override `UNADJUSTED`, and compare."""
    timings: dict[str, float] = {}
    record = recorded(loaded, display, timings=timings)
    planned = {cell.id: cell for cell in loaded.cells}
    together: dict[Any, list[CellRecord]] = {}
    for cell in record.cells:
        labels = (cell.mechanism.label, cell.attack.label, cell.estimator.label)
        together.setdefault((labels, repr(planned[cell.id].swept)), []).append(cell)
    rows = [
        _row(repeats, planned[repeats[0].id], timings, loaded.run) for repeats in together.values()
    ]
    shared = record.model_copy(update={"cells": []}).as_dict()
    kept = ("schema", "spec", "audit", "environment", "seed", "plugins", "skipped")
    return {
        **{key: shared[key] for key in kept},
        "kind": "comparison",
        "rows": rows,
        "summary": {key: shared["summary"][key] for key in ("seconds", "draws", "peak_rss_bytes")},
    }


_CHOICES = ("mechanism", "pair", "attack", "estimator", "swept")


def _row(
    repeats: list[CellRecord], planned: Cell, timings: dict[str, float], run: RunSettings
) -> dict[str, Any]:
    """Return one row: means over the repeats."""
    shown = repeats[0]
    estimates = [cell.estimate for cell in repeats if cell.estimate]
    failed = [cell.reason for cell in repeats if cell.estimate is None]
    bounds = [e.epsilon_lower for e in estimates if e.epsilon_lower is not None]
    intervals = [e.interval for e in estimates if e.interval is not None]
    choices = shown.model_dump(include=set(_CHOICES))
    truth = shown.truth.model_dump(include={"kind", "epsilon"}) if shown.truth else None
    drawn = _draws(shown, planned, run)
    estimate_seconds = [timings.get(cell.id, 0.0) for cell in repeats]
    return {
        **{name: choices[name] for name in _CHOICES},
        "status": "ok" if estimates else "failed",
        "reason": failed[0] if failed else None,
        "repeats": len(estimates),
        "certified": shown.estimate is not None and shown.estimate.certified,
        "assumption": planned.estimator.value.assumption,
        "truth": truth,
        "delta": planned.delta,
        "confidence": planned.confidence,
        "trials": shown.trials,
        "epsilon": _mean([e.epsilon for e in estimates]),
        "epsilon_lower": _mean(bounds),
        "deviation": statistics.stdev(bounds) if len(bounds) > 1 else None,
        "interval": [_mean(list(side)) for side in zip(*intervals, strict=True)] or None,
        "share": _share(_mean(bounds), shown.truth),
        "draws": {**drawn, "total": sum(drawn.values())},
        "seconds": _mean(
            [cell.seconds + own for cell, own in zip(repeats, estimate_seconds, strict=True)]
        ),
        "estimate_seconds": _mean(estimate_seconds),
    }


def _draws(shown: CellRecord, planned: Cell, run: RunSettings) -> dict[str, int]:
    """Return the number of outputs on both datasets for a row, by their purpose."""
    learns = planned.attack.value.learns()
    run = resolved(run, planned.mechanism.value, planned.trials)
    estimator = planned.estimator.value
    chooses = estimator.statistic().needs_pilot() and not estimator.anytime
    return {
        "fit": 2 * (run.fit or 0) if learns else 0,
        "pilot": 2 * (run.pilot or 0) if chooses else 0,
        "eval": sum(shown.trials),
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _share(bound: float | None, truth: TruthRecord | None) -> float | None:
    """Return bound ÷ true ε, if that is positive and finite."""
    epsilon = truth.epsilon if truth else math.nan
    return bound / epsilon if bound is not None and 0 < epsilon < math.inf else None
