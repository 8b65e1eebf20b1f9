"""Results as the record holds them: plain values, without verdicts."""

from __future__ import annotations

import dataclasses
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dpframe.claims import Claim
    from dpframe.engine.estimate import CellResult
    from dpframe.estimator import Estimate, Query
    from dpframe.spec.audit import Choice, Skip
    from dpframe.types import Floats


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


FARTHEST = 1e-12
"""The smallest false-positive rate above 0 at which a curve is written down."""


def claim_record(claim: Claim | None, delta: float) -> dict[str, Any] | None:
    """What is claimed, at the δ at which ε is estimated.

    Args:
        claim: None if nothing is claimed.
        delta: of the cell.
    """
    if claim is None:
        return None
    # Of a claim at a single δ, ε and δ are the whole curve.
    is_curve = len(claim.telling_deltas) > 1
    return {
        "kind": claim.kind,
        "epsilon": claim.epsilon_at(delta),
        "delta": delta,
        "parameters": {name: _plain(value) for name, value in claim.parameters().items()},
        "tradeoff": curve_points(claim) if is_curve else None,
    }


def curve_points(claim: Claim) -> list[list[float]]:
    """Points (FPR, FNR) of the claimed curve, from end to end, dense where it bends."""
    fpr = _places(claim)
    return [[float(x), float(y)] for x, y in zip(fpr, claim.tradeoff(fpr), strict=True)]


def _places(claim: Claim) -> Floats:
    """False-positive rates: on a logarithmic scale up to 0.1, then on a linear one."""
    # A curve is its own inverse: this is where it has fallen by a thousandth.
    begin = float(claim.tradeoff(np.array([0.999]))[0])
    rare = np.geomspace(min(max(begin, FARTHEST), 0.01), 0.1, 16)
    return np.concatenate([[0.0], rare, np.linspace(0.1, 1, 17)[1:]])


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else repr(value)
