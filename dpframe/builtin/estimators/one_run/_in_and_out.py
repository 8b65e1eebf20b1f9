"""Canaries in bins, those that were in and those that were out apart."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp
import numpy as np

from dpframe import Statistic
from dpframe.builtin.estimators.histogram._bins import PilotBins

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Tree


@dataclasses.dataclass(frozen=True)
class InAndOut(Statistic):
    """Counts[dataset][in][bin] of the scores of canaries; a pilot of runs chooses the bins."""

    bins: PilotBins

    accepts: ClassVar[frozenset[str]] = frozenset({"canaries"})

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> Any:
        runs = np.concatenate([pilot0, pilot1])
        values, members = runs[:, 0].ravel(), runs[:, 1].ravel() > 0.5
        return self.bins.bind(values[~members], values[members])

    def zero(self, layout: Tree) -> Any:
        zero = self.bins.zero(layout)
        return jnp.stack([zero, zero])

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        values, members = scores[:, 0].ravel(), scores[:, 1].ravel() > 0.5
        kept = jnp.repeat(keep, scores.shape[-1])
        own = counts[dataset]
        for side, chosen in ((0, ~members), (1, members)):
            own = self.bins.update(layout, own, jnp.asarray(side), values, kept & chosen)
        return counts.at[dataset].set(own)

    def describe(self, layout: Tree) -> dict[str, Any]:
        return {**self.bins.describe(layout), "name": type(self).__name__}
