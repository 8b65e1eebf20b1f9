"""Scores between cuts that reach far into both tails: what a search chooses its events from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.statistic import BinCounts, DecisionCounts, Statistic

if TYPE_CHECKING:
    from dpframe.types import HostArray, Ints, Tree


@dataclasses.dataclass(frozen=True)
class Cuts(BinCounts):
    """Counts of scores between cuts at quantiles of what was seen before."""

    number: int = 64
    """Cuts; where scores take fewer values there is one at each."""

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> Any:
        seen = np.concatenate([pilot0, pilot1])
        seen = np.sort(seen[~np.isnan(seen)])
        if not len(seen):
            return np.zeros(self.number, pilot0.dtype)
        values = np.unique(seen)
        if len(values) <= self.number:
            return np.resize(values, self.number)[np.argsort(np.resize(values, self.number))]
        # Ranks from either end, each a little farther from it: a tail has events of every size.
        ranks = np.geomspace(1, len(seen) / 2, self.number // 2).astype(int)
        return np.sort(np.concatenate([seen[ranks - 1], seen[-ranks]]))


def above(statistic: Statistic, layout: Tree, counts: Tree) -> Ints:
    """Draws at or above each cut, shape [2, cuts]: on D, on D′.

    Args:
        statistic: `Cuts`, or counts of decisions, where "at or above" means D′.
        layout: the cuts.
        counts: of the statistic.
    """
    (leaf,) = jax.tree.leaves(counts)
    found = np.asarray(leaf, np.int64)
    if isinstance(statistic, DecisionCounts):
        return found[:, 1:]
    return np.cumsum(found[:, :1:-1], axis=1)[:, ::-1]


def in_words(statistic: Statistic, layout: Tree, cut: int, *, is_above: bool) -> str:
    """One event of a statistic, after the name of its attack."""
    if isinstance(statistic, DecisionCounts):
        return "decides D′" if is_above else "decides D"
    edge = float(np.asarray(layout)[cut])
    return f"scores {edge:.6g} or more" if is_above else f"scores less than {edge:.6g}"
