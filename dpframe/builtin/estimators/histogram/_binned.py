"""What the estimators from histograms share: parameters, and the statistic that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dpframe import Estimator, Ge, Le
from dpframe.builtin.estimators.histogram._bins import MOST_BINS, PilotBins

if TYPE_CHECKING:
    from dpframe import Statistic


class Binned(Estimator):
    """An estimator from the histograms of the scores, in bins of equal width."""

    bins: Annotated[int, Ge(2), Le(MOST_BINS)] | None = None
    """How many, the two open ones included; default: of Scott's width for these trials."""
    low: float | None = None
    """Where the range begins; default: from the pilot."""
    high: float | None = None
    """Where it ends; default: from the pilot."""

    def check(self) -> None:
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")

    def statistic(self) -> Statistic:
        return PilotBins(self.bins, self.low, self.high)
