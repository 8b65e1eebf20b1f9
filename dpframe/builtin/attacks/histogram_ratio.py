"""The likelihood ratio of single numbers, learned from a histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import jax.numpy as jnp
import numpy as np

from dpframe import Attack, Ge, Gt, Le
from dpframe.builtin.attacks._levels import cuts
from dpframe.builtin.attacks._outputs import host_numbers, not_one_number, numbers

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Key, Target, Tree


class HistogramRatio(Attack, name="histogram-ratio"):
    """ln of the share of the fit stream in the output's bin, on D′ over on D.

    For single numbers whose likelihood ratio need not rise with the output. Bins are cut at order
    statistics of both datasets together, close together in the tails; the outer two are open.
    With counts c the score is ln((c₁ + s)/(n₁ + sk)) − ln((c₀ + s)/(n₀ + sk)), so it has at most k
    values. A NaN output scores NaN.
    """

    gives = "score"

    bins: Annotated[int, Ge(2), Le(4096)] = 128
    """k, the number of bins; fewer are in use where outputs repeat."""
    smoothing: Annotated[float, Gt(0)] = 1.0
    """s, added to every count: a bin that one dataset has not hit is no proof."""

    def unsuited(self, target: Target) -> str | None:
        return not_one_number(target)

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        seen = [x[~np.isnan(x)] for x in map(host_numbers, train)]
        pooled = np.sort(np.concatenate(seen))
        edges = np.full(self.bins - 1, np.inf)
        if len(pooled):
            found = cuts(pooled, self.bins - 1)
            edges[: len(found)] = found
        logs = []
        for x in seen:
            counts = np.bincount(np.searchsorted(edges, x, side="right"), minlength=self.bins)
            total = len(x) + self.smoothing * self.bins
            logs.append(np.log((counts + self.smoothing) / total))
        return {"edges": edges, "ratios": logs[1] - logs[0]}

    def score(self, state: Tree, outputs: Array) -> Array:
        x = numbers(outputs)
        edges = state["edges"].astype(x.dtype)
        bins = jnp.searchsorted(edges, x, side="right", method="scan_unrolled")
        return jnp.where(jnp.isnan(x), jnp.nan, state["ratios"].astype(x.dtype)[bins])
