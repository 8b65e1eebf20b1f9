"""Compute exactly how often bounds exceed the truth, from outputs with two values.

The trade-off curve of ε-DP has a corner, FPR = FNR = 1/(1 + e^ε). A mechanism with two outputs and
these error rates attains its ε in both directions, and the counts of its outputs are two binomial
numbers. So every probability is a finite sum, and there are no false alarms.

A whole bound exceeds the truth more rarely than it promises, because most of the events that
share its error do not matter for this mechanism. Even twice the error could then pass. So each
event is tested against its own share of the error (`dpframe.Share`). If output D′ is rare, the
corner is sharp: limits that cover it give a bound below ε, so an exact limit exceeds ε almost as
often as it may.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpframe.draw.streams import precision_of
from dpframe.engine.power import TwoValued
from dpframe.errors import CellError
from dpframe.interfaces.estimator import Estimate
from dpframe.results.build import choice_record
from dpframe.spec.audit import RunSettings
from dpframe.stats.binomial import PROBABILITY_ROUNDING, probability_of
from dpframe.testing.experiment import CalibratedCell

TRUTH_ROUNDING = 1e-9  # relative error of a known truth: a bound above it by less is not above it
KEPT, BROKEN = "kept", "broken"


class Corner:
    """A bound and its shares of the error at the corner of the curve of ε-DP.

    `rate` is FPR and FNR of the two outputs, and `error` the promised error of the bound, which may
    exceed ε by `rounding`.
    """

    def __init__(self, table: TwoValued, rate: float, error: float, rounding: float) -> None:
        self._table, self._rate, self.error = table, rate, error
        self.epsilon = math.log((1 - rate) / rate)
        self._most = self.epsilon + rounding
        expected = round(rate * table.trials)
        self.shares = [share.error for share in table.estimate(expected, expected).shares]
        self.spent = math.fsum(self.shares)
        self.largest = sorted(range(len(self.shares)), key=lambda n: -self.shares[n])

    def probability(self, hit: Callable[[Estimate], bool], promised: float) -> float:
        """Return the probability of an estimate that hits; see `probability_of`."""
        table, rate = self._table, self._rate
        return probability_of(lambda k, u: hit(table.estimate(k, u)), table.trials, rate, promised)

    @functools.cached_property
    def exceedance(self) -> float:
        """The probability that the bound exceeds ε."""
        return self.probability(lambda one: (one.epsilon_lower or 0.0) > self._most, self.error)

    @functools.cache  # noqa: B019  # a corner is short-lived
    def of_share(self, number: int) -> float:
        """Return the probability that an event certifies more than ε at its share of the error."""

        def hit(one: Estimate) -> bool:
            own = one.shares[number : number + 1]
            return bool(own) and own[0].epsilon_lower > self._most

        return self.probability(hit, self.shares[number] * self.error)

    def mistakes(self, events: int = 1) -> list[str]:
        """Describe every broken promise of the bound, and of the events with the largest shares."""
        rounding, mistakes = 1 + PROBABILITY_ROUNDING, []
        if self.exceedance > self.error * rounding:
            mistakes.append(
                f"the bound exceeds the truth with probability {self.exceedance:.4g}, but promises "
                f"at most {self.error:.4g}"
            )
        for number in self.largest[:events]:
            share, own = self.shares[number], self.shares[number] * self.error
            if self.of_share(number) > own * rounding:
                mistakes.append(
                    f"the event with {share:.3g} of the error, {own:.4g}, exceeds the truth with "
                    f"probability {self.of_share(number):.4g}"
                )
        if self.spent > rounding:
            mistakes.append(f"the shares of the error sum to {self.spent:.6g}")
        return mistakes


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
    corner = Corner(table, errors / trials, 1 - cell.confidence, TRUTH_ROUNDING)
    return corner if corner.shares else None


def corner_row(part: CalibratedCell, run: RunSettings) -> dict[str, Any] | None:
    """Return the row of a certifying estimator at a corner; None if it reports no shares."""
    cell = part.cell
    row = {
        "reads": cell.attack.value.gives,
        "estimator": choice_record(cell.estimator).model_dump(),
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
