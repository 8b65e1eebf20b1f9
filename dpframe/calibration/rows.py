"""Rows of a calibration: what the repeats of one estimator amount to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe.calibration.corner import TRIALS, at_corner
from dpframe.calibration.together import AUDITS, together
from dpframe.errors import CellError
from dpframe.stats.exceedance import exceedance

if TYPE_CHECKING:
    from dpframe.calibration.arrange import Line
    from dpframe.calibration.rehearsal import Outcome, Part, Rehearsal
    from dpframe.spec.audit import Cell, Choice, RunSettings
    from dpframe.types import Floats

ROUNDING = 1e-9
"""Relative error of a known truth: a bound above it by less is not above it."""

KEPT, BROKEN = "kept", "broken"


def certifies(cell: Cell) -> bool:
    """Whether the estimator of a cell promises anything."""
    return cell.estimator.value.certifies_against(cell.claim)


def calibrated(rehearsal: Rehearsal, line: Line, outcome: Outcome, error: float) -> dict[str, Any]:
    """One row.

    Args:
        rehearsal: what was repeated.
        line: the cell, and its true ε.
        outcome: what the estimator said each time.
        error: 1 − confidence of the interval around the rate of exceedances.
    """
    cell, truth = line.cell, line.epsilon
    certified = certifies(cell)
    row = {
        **_named(cell, line.raw),
        "fit": rehearsal.run.fit or 0 if cell.attack.value.learns() else 0,
        "pilot": 0
        if line.raw or not cell.estimator.value.statistic().needs_pilot()
        else rehearsal.run.pilot or 0,
        "chunk": rehearsal.the_pass.rows,
        "truth": {"kind": line.truth.kind, "epsilon": truth},
        "certified": certified,
    }
    if outcome.reason is not None:
        return {**row, **NOTHING, "status": "failed", "reason": outcome.reason}
    lows = outcome.lows[~np.isnan(outcome.lows)]
    exceeded = int(np.count_nonzero(lows > truth + ROUNDING * max(1.0, truth)))
    row |= {**NOTHING, "status": "ok", "reason": None, "median_epsilon": _median(outcome.points)}
    if not len(lows):  # a point value and nothing else
        return row
    found = exceedance(exceeded, len(lows), 1 - cell.confidence, error)
    mean = _mean(lows)
    return row | {
        "exceeded": exceeded,
        "repeats": len(lows),
        "rate": found.rate,
        "rate_low": found.low,
        "rate_high": found.high,
        "alarm": found.alarm if certified else None,
        "mean_lower": mean,
        "share": mean / truth if mean is not None and truth > 0 else None,
        "promise": None if not certified else BROKEN if found.broken else KEPT,
    }


def corner_row(part: Part, run: RunSettings) -> dict[str, Any] | None:
    """What an estimator does at a corner, computed; None if it does not tell its shares.

    Args:
        part: a certifying estimator that reads counts.
        run: the precision.
    """
    cell, promised = part.cell, 1 - part.cell.confidence
    row = {
        "reads": cell.attack.value.gives,
        "estimator": _choice(cell.estimator),
        "confidence": cell.confidence,
        "trials": TRIALS,
        "promised": promised,
    }
    try:
        corner = at_corner(part, promised, run)
    except CellError as error:
        nothing = dict.fromkeys(("epsilon", "exceedance", "share", "of_share", "promise"))
        return {**row, **nothing, "mistakes": [], "reason": str(error)}
    if corner is None:
        return None
    mistakes = corner.mistakes(promised)
    return {
        **row,
        "epsilon": corner.epsilon,
        "exceedance": corner.exceedance,
        "share": corner.share,
        "of_share": corner.of_share,
        "promise": BROKEN if mistakes else KEPT,
        "mistakes": mistakes,
        "reason": None,
    }


ACCUSED = 1e-6
"""Probability that any of what `together_rows` shows is called broken if nothing is."""


def together_rows(confidence: float, seed: int) -> list[dict[str, Any]]:
    """What the engine does with audits as a whole, beside what it should do.

    Args:
        confidence: of each audit.
        seed: of the counts that are made up.
    """
    tried = list(together(confidence, AUDITS, seed))
    rows = []
    for one in tried:
        found = exceedance(one.happened, one.audits, one.promised, ACCUSED / len(tried))
        right = found.low <= one.expected <= found.high
        rows.append(
            {
                **one._asdict(),
                "rate": found.rate,
                "rate_low": found.low,
                "rate_high": found.high,
                "promise": KEPT if right else BROKEN,
            }
        )
    return rows


def failed(cell: Cell, reason: str) -> dict[str, Any]:
    """The row of a cell that could not even be tried."""
    certified = certifies(cell)
    rest = {"fit": 0, "pilot": 0, "chunk": None, "truth": None, "certified": certified}
    return {**_named(cell, False), **rest, **NOTHING, "status": "failed", "reason": reason}


NOTHING: dict[str, Any] = dict.fromkeys(
    (
        *("exceeded", "repeats", "rate", "rate_low", "rate_high", "alarm"),
        *("median_epsilon", "mean_lower", "share", "promise"),
    )
)


def _named(cell: Cell, raw: bool) -> dict[str, Any]:
    return {
        "mechanism": _choice(cell.mechanism),
        "pair": {"use": cell.pair.use, "params": cell.pair.value.params()},
        "attack": _choice(cell.attack),
        "estimator": _choice(cell.estimator),
        "reads": "scores" if raw else "counts",
        "swept": dict(cell.swept),
        "trials": cell.trials,
        "delta": cell.delta,
        "confidence": cell.confidence,
        "assumption": cell.estimator.value.assumption,
    }


def _choice(choice: Choice[Any]) -> dict[str, Any]:
    return {"use": choice.use, "label": choice.label, "params": choice.value.params()}


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _median(values: Floats) -> float | None:
    """The lower median: point values may be infinite, and half-way to that is nothing."""
    return float(np.sort(values)[(len(values) - 1) // 2]) if len(values) else None
