"""What the estimators from one threshold share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe import Estimator
from dpframe.builtin.estimators.threshold._deciding import Direction, extreme_counts
from dpframe.builtin.estimators.threshold._limits import Limits
from dpframe.builtin.estimators.threshold._thresholds import threshold_statistic

if TYPE_CHECKING:
    from dpframe import Ints, Statistic, Tree


class OneThreshold(Estimator):
    """An estimator from the error rates of one threshold, given or chosen by the pilot."""

    threshold: float | None = None
    """Decide by scores at it; default: the pilot chooses."""

    def statistic(self) -> Statistic:
        return threshold_statistic(self.threshold)


class LimitedThreshold(OneThreshold):
    """One with limits of both error rates, in a direction."""

    limits: Limits = "clopper-pearson"
    """Exact limits of the error rates, or approximate ones that certify nothing."""
    direction: Direction = "either"
    """Whether larger scores mean D′ ("up", as attacks should have it), D, or may mean either."""

    def extreme(self, layout: Tree, trials: tuple[int, int]) -> Ints:
        return extreme_counts(layout, trials, self.direction)
