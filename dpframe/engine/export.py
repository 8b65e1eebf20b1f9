"""Results as the record holds them: plain values, without verdicts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from dpframe.engine.claimed import claim_record

if TYPE_CHECKING:
    from dpframe.engine.estimate import CellResult
    from dpframe.estimator import Estimate, Query
    from dpframe.spec.audit import Choice, Skip


def cell_record(result: CellResult) -> dict[str, Any]:
    """One cell of the record; the verdict and the adjusted p-value are added by the report."""
    cell = result.cell
    return {
        "id": cell.id,
        "status": "ok" if result.reason is None else "failed",
        "repeat": cell.repeat,
        "seed": cell.seed,
        "mechanism": _choice(cell.mechanism),
        "pair": {"use": cell.pair.use, "params": cell.pair.value.params()},
        "attack": _choice(cell.attack),
        "estimator": _choice(cell.estimator),
        "swept": dict(cell.swept),
        "claim": claim_record(cell.claim, cell.delta),
        "truth": None
        if result.truth is None
        else {"kind": result.truth.kind, "epsilon": result.truth.epsilon_at(cell.delta)},
        "trials": list(result.trials),
        "counts": result.counts,
        "statistic": result.statistic,
        "estimate": _estimate(result),
        "verdict": None,
        "p_value": result.estimate.p_value if result.estimate and result.certified else None,
        "p_adjusted": None,
        "reason": result.reason,
        "expected": cell.expected,
        "seconds": result.seconds,
        "draws": result.draws,
        "draw_group": result.draw_group,
        "looks": result.looks.listed(result.trials) if result.estimate else [],
    }


def skip_record(skip: Skip) -> dict[str, Any]:
    """One entry of the record's `skipped`."""
    return {**dataclasses.asdict(skip), "swept": dict(skip.swept)}


def _choice(choice: Choice[Any]) -> dict[str, Any]:
    return {"use": choice.use, "label": choice.label, "params": choice.value.params()}


def _estimate(result: CellResult) -> dict[str, Any] | None:
    if result.estimate is None or result.query is None:
        return None
    assumption = result.cell.estimator.value.assumption
    return estimate_record(
        result.estimate, result.query, result.certified, assumption, result.notes
    )


def estimate_record(
    estimate: Estimate, query: Query, certified: bool, assumption: str, notes: tuple[str, ...] = ()
) -> dict[str, Any]:
    """An estimate as the record holds it; a bound that is not certified is none."""
    return {
        "epsilon": estimate.epsilon,
        "epsilon_lower": estimate.epsilon_lower if certified else None,
        "epsilon_upper": estimate.epsilon_upper,
        "interval": None if estimate.interval is None else list(estimate.interval),
        "delta": query.delta,
        "confidence": query.confidence,
        "certified": certified,
        "assumption": assumption,
        "tradeoff": [list(point) for point in estimate.tradeoff],
        "profile": [list(point) for point in estimate.profile],
        "notes": [*estimate.notes, *notes],
    }
