"""Statistics of scores for one threshold: a given one, or one that the pilot chooses."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np

from dpframe import DecisionCounts, Statistic
from dpframe.builtin.estimators.events.grid import PilotGrid

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Tree


@dataclasses.dataclass(frozen=True)
class ThresholdCounts(Statistic):
    """How often a score reached a given threshold: `counts[dataset][decision]`. NaN never does."""

    threshold: float
    accepts: ClassVar[frozenset[str]] = frozenset({"score"})

    def zero(self, layout: Tree) -> Any:
        return DecisionCounts().zero(layout)

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        reached = scores >= jnp.asarray(self.threshold, scores.dtype)
        return DecisionCounts().update(layout, counts, dataset, reached, keep)


@dataclasses.dataclass(frozen=True)
class PilotThresholds(PilotGrid):
    """Counts between the thresholds that the pilot offers, and the pilot's own counts.

    Which of them is best depends on δ and on the number of trials, which a statistic does not
    know. So all are counted, and the estimator chooses by the pilot's counts alone. A decision is
    the score 0 or 1.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"decision", "score"})

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> dict[str, HostArray]:
        return super().bind(*(_as_scores(pilot) for pilot in (pilot0, pilot1)))

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        if scores.dtype == np.bool_:
            scores = scores.astype(self.edges(layout).dtype)
        return super().update(layout, counts, dataset, scores, keep)


def _as_scores(pilot: HostArray) -> HostArray:
    return pilot.astype(np.float32) if pilot.dtype == np.bool_ else pilot


def threshold_statistic(threshold: float | None) -> Statistic:
    """The statistic for a given threshold, or for one that the pilot chooses."""
    return PilotThresholds() if threshold is None else ThresholdCounts(threshold)
