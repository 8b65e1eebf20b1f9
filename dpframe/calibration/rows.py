"""Summarise the repeats of a calibration in rows, and compute bounds at a corner exactly."""

import math
from typing import Any, NamedTuple

import numpy as np

from dpframe.calibration.corrections import AUDITS, together
from dpframe.calibration.experiment import CalibratedCell, Estimates, Experiment
from dpframe.engine.power import TwoValued
from dpframe.errors import CellError
from dpframe.sampling.address import precision_of
from dpframe.spec.audit import Cell, Choice, RunSettings
from dpframe.stats import binomial
from dpframe.stats.binomial import exceedance

ROUNDING = 1e-9  # relative error of a known truth: a bound above it by less is not above it
KEPT, BROKEN = "kept", "broken"

# Probability that any row of `together_rows` is called broken although nothing is.
ACCUSED = 1e-6

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


def corner_row(part: CalibratedCell, run: RunSettings) -> dict[str, Any] | None:
    """Return the row of a certifying estimator at a corner; None if it reports no shares."""
    cell, promised = part.cell, 1 - part.cell.confidence
    row = {
        "reads": cell.attack.value.gives,
        "estimator": _choice(cell.estimator),
        "confidence": cell.confidence,
        "trials": TRIALS,
        "promised": promised,
    }
    try:
        found = at_corner(part, promised, run)
    except CellError as error:
        nothing = dict.fromkeys(("epsilon", "exceedance", "share", "of_share", "promise"))
        return {**row, **nothing, "mistakes": [], "reason": str(error)}
    if found is None:
        return None
    mistakes = found.mistakes(promised)
    return {
        **row,
        "epsilon": found.epsilon,
        "exceedance": found.exceedance,
        "share": found.share,
        "of_share": found.of_share,
        "promise": BROKEN if mistakes else KEPT,
        "mistakes": mistakes,
        "reason": None,
    }


def together_rows(confidence: float, seed: int) -> list[dict[str, Any]]:
    """Compare the error rates of whole audits at a confidence with the expected rates."""
    tried = list(together(confidence, AUDITS, seed))
    rows = []
    for one in tried:
        found = exceedance(one.happened, one.audits, one.promised, ACCUSED / len(tried))
        right = found.low <= one.expected <= found.high
        rates = {"rate": found.rate, "rate_low": found.low, "rate_high": found.high}
        rows.append({**one._asdict(), **rates, "promise": KEPT if right else BROKEN})
    return rows


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


# The probability that a bound exceeds the truth, computed without draws where it is largest.
#
# The trade-off curve of ε-DP has a corner, FPR = FNR = 1/(1 + e^ε). A mechanism with two outputs
# and these error rates attains its ε in both directions, and the counts of its outputs are two
# binomial numbers. So every probability is a finite sum, and there are no false alarms.
#
# A whole bound exceeds the truth more rarely than it promises, because most of the events that
# share its error do not matter for this mechanism. Even twice the error could then pass. So each
# event is tested against its own share of the error (`dpframe.Share`). If output D′ is rare, the
# corner is sharp: limits that cover it give a bound below ε, so an exact limit exceeds ε almost as
# often as it may.


# Draws per dataset, and the mean number of errors among them: enough that counts are fine steps,
# few enough that the corner is sharp. The level of a bound does not depend on them.
TRIALS, ERRORS = 100_000, 100


class Corner(NamedTuple):
    """The exceedance probabilities of an estimator at a corner."""

    epsilon: float  # of the corner, and the truth
    exceedance: float  # probability that the bound exceeds it
    share: float  # the largest share of the error that an event has
    of_share: float  # probability that this event certifies more than ε
    spent: float  # all shares together

    def mistakes(self, error: float) -> list[str]:
        """Describe every broken promise of a bound with a promised error."""
        own, more = self.share * error, 1 + binomial.PROBABILITY_ROUNDING
        found = []
        if self.exceedance > error * more:
            found.append(
                f"the bound exceeds the truth with probability {self.exceedance:.4g}, but promises "
                f"at most {error:.4g}"
            )
        if self.of_share > own * more:
            found.append(
                f"the event with {self.share:.3g} of the error, {own:.4g}, exceeds the truth with "
                f"probability {self.of_share:.4g}"
            )
        if self.spent > more:
            found.append(f"the shares of the error sum to {self.spent:.6g}")
        return found


def at_corner(
    part: CalibratedCell,
    error: float,
    run: RunSettings,
    trials: int = TRIALS,
    errors: float = ERRORS,
) -> Corner | None:
    """Compute the exceedance probabilities of an estimator at a corner.

    The layout is that of a pilot with exactly the expected outputs.

    Args:
        part: a certifying estimator and its query.
        error: promised error of the whole bound.
        run: settings with the precision.
        trials: draws per dataset.
        errors: mean number of errors among them; fewer than half.

    Returns:
        None if the estimate does not report its shares of the error, because its bound may rest on
        more than error rates and need not hold for two outputs. None for canaries.

    Raises:
        CellError: the estimator or its statistic raised an exception.
    """
    if part.cell.attack.value.gives == "canaries":
        return None
    rate = errors / trials
    epsilon = math.log((1 - rate) / rate)
    with precision_of(run):
        table = estimates(part, trials, rate, run)
        shares = [share.error for share in table.estimate(round(errors), round(errors)).shares]
        if not shares:
            return None
        largest = int(np.argmax(shares))
        truth = epsilon * (1 + binomial.PROBABILITY_ROUNDING * 1e-4)

        def bound_exceeds(k: int, u: int) -> bool:
            return (table.estimate(k, u).epsilon_lower or 0.0) > truth

        def share_exceeds(k: int, u: int) -> bool:
            own = table.estimate(k, u).shares[largest:]
            return bool(own) and own[0].epsilon_lower > truth

        return Corner(
            epsilon=epsilon,
            exceedance=binomial.probability_of(bound_exceeds, trials, rate, error),
            share=shares[largest],
            of_share=binomial.probability_of(share_exceeds, trials, rate, shares[largest] * error),
            spent=math.fsum(shares),
        )


def estimates(part: CalibratedCell, trials: int, rate: float, run: RunSettings) -> TwoValued:
    """Return the estimates of an estimator at δ = 0, with a pilot as large as the trials."""
    decides = part.cell.attack.value.gives == "decision"
    query = part.query._replace(trials=(trials, trials), delta=0.0)
    dtype = np.dtype(bool if decides else run.precision)
    return TwoValued(part.cell.estimator.value, query, dtype, trials, round(rate * trials))
