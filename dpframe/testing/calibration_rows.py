"""Summarise the repeats of a calibration in rows, and compute bounds at a corner exactly."""

from typing import Any

import numpy as np

from dpframe.draw.streams import precision_of
from dpframe.engine.corner import Corner, TwoValued
from dpframe.errors import CellError
from dpframe.spec.audit import Cell, Choice, RunSettings
from dpframe.stats.binomial import exceedance
from dpframe.testing.experiment import CalibratedCell, Estimates, Experiment

ROUNDING = 1e-9  # relative error of a known truth: a bound above it by less is not above it
KEPT, BROKEN = "kept", "broken"

NOTHING: dict[str, Any] = dict.fromkeys(
    (
        *("exceeded", "repeats", "rate", "rate_low", "rate_high", "alarm"),
        *("median_epsilon", "mean_lower", "share", "promise"),
    )
)


def calibrated(
    experiment: Experiment, part: CalibratedCell, outcome: Estimates, error: float
) -> dict[str, Any]:
    """Return the row of one part of a repeated audit.

    `error` is 1 − confidence of the interval around the rate of exceedances.
    """
    cell, truth = part.cell, part.epsilon
    reads_pilot = not part.raw and cell.estimator.value.statistic().needs_pilot()
    row = {
        **_named(cell, part.raw),
        "fit": experiment.run.fit or 0 if cell.attack.value.learns() else 0,
        "pilot": experiment.run.pilot or 0 if reads_pilot else 0,
        "chunk": experiment.the_pass.rows,
        "truth": {"kind": part.truth.kind, "epsilon": truth},
        "certified": part.certifies,
    }
    if outcome.reason is not None:
        return {**row, **NOTHING, "status": "failed", "reason": outcome.reason}
    # The lower median, because the mean of a finite and an infinite value would be infinite.
    median = float(np.sort(outcome.points)[(len(outcome.points) - 1) // 2])
    row |= {**NOTHING, "status": "ok", "reason": None, "median_epsilon": median}
    lows = outcome.lows[~np.isnan(outcome.lows)]
    if not len(lows):  # neither bounds nor intervals
        return row
    exceeded = int(np.count_nonzero(lows > truth + ROUNDING * max(1.0, truth)))
    found = exceedance(exceeded, len(lows), 1 - cell.confidence, error)
    mean = float(lows.mean())
    return row | {
        "exceeded": exceeded,
        "repeats": len(lows),
        "rate": found.rate,
        "rate_low": found.low,
        "rate_high": found.high,
        "alarm": found.alarm if part.certifies else None,
        "mean_lower": mean,
        "share": mean / truth if truth > 0 else None,
        "promise": None if not part.certifies else BROKEN if found.broken else KEPT,
    }


# Draws per dataset at the corner, and the mean number of errors among them: enough that counts are
# fine steps, few enough that the corner is sharp. The level of a bound does not depend on them.
TRIALS, ERRORS = 100_000, 100


def at_corner(
    part: CalibratedCell, run: RunSettings, trials: int = TRIALS, errors: float = ERRORS
) -> Corner | None:
    """Return a certifying estimator at a corner, with a pilot of exactly the expected outputs.

    Return None if the estimate does not report its shares of the error, because its bound may rest
    on more than error rates and need not hold for two outputs; and for canaries. Raise CellError if
    the estimator or its statistic raised an exception.
    """
    cell = part.cell
    if cell.attack.value.gives == "canaries":
        return None
    query = part.query._replace(trials=(trials, trials), delta=0.0)
    dtype = np.dtype(bool if cell.attack.value.gives == "decision" else run.precision)
    table = TwoValued(cell.estimator.value, query, dtype, trials, round(errors))
    corner = Corner(table, errors / trials, 1 - cell.confidence, ROUNDING)
    return corner if corner.shares else None


def corner_row(part: CalibratedCell, run: RunSettings) -> dict[str, Any] | None:
    """Return the row of a certifying estimator at a corner; None if it reports no shares."""
    cell = part.cell
    row = {
        "reads": cell.attack.value.gives,
        "estimator": _choice(cell.estimator),
        "confidence": cell.confidence,
        "trials": TRIALS,
        "promised": 1 - cell.confidence,
    }
    try:
        with precision_of(run):
            if (corner := at_corner(part, run)) is None:
                return None
            mistakes, largest = corner.mistakes(), corner.largest[0]
            return row | {
                "epsilon": corner.epsilon,
                "exceedance": corner.exceedance,
                "share": corner.shares[largest],
                "of_share": corner.of_share(largest),
                "promise": BROKEN if mistakes else KEPT,
                "mistakes": mistakes,
                "reason": None,
            }
    except CellError as error:
        nothing = dict.fromkeys(("epsilon", "exceedance", "share", "of_share", "promise"))
        return {**row, **nothing, "mistakes": [], "reason": str(error)}


def failed(cell: Cell, reason: str) -> dict[str, Any]:
    """Return the row of a cell that could not be run."""
    certified = cell.estimator.value.certifies_against(cell.claim)
    rest = {"fit": 0, "pilot": 0, "chunk": None, "truth": None, "certified": certified}
    return {**_named(cell, False), **rest, **NOTHING, "status": "failed", "reason": reason}


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
