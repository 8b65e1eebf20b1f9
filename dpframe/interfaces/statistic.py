"""Statistics: mergeable counts of scores."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from dpframe.common.arrays import jnp
from dpframe.common.types import Array, HostArray, Tree
from dpframe.stats.histograms import bin_counts


class Statistic(ABC):
    """Additive integer counts of scores.

    Instances are hashable, and equal instances of one attack share a pass over the draws. The
    counts of two sets of draws together are the sums of their counts, leaf by leaf, so the engine
    counts in any order and on any number of devices. Counts are never negative, and those of one
    call stay below 2³¹; totals are kept in int64.
    """

    accepts: ClassVar[frozenset[str]]
    """The scores it takes: "decision" (boolean), "score" (float), "canaries", or several."""

    portable: ClassVar[bool] = False
    """True if `update` also takes NumPy arrays; black boxes are then counted without JAX."""

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> Tree:
        """Fix thresholds or edges from scores of the pilot stream. Optional; runs on the host.

        Args:
            pilot0: scores on D, shape [n].
            pilot1: scores on D′, shape [n].

        Returns:
            The layout: a pytree of arrays; `()` if there is nothing to fix.
        """
        return ()

    def lay_out(self, dims: tuple[int, ...]) -> Tree:
        """Return the layout that follows from the shape of a score; called if there is no `bind`.

        Args:
            dims: () for decisions and scores, (2, m) for m canaries.
        """
        return ()

    @classmethod
    def needs_pilot(cls) -> bool:
        """True if the class has its own `bind`, which needs draws of a pilot."""
        return cls.bind is not Statistic.bind

    @abstractmethod
    def zero(self, layout: Tree) -> Tree:
        """Return the counts of no draws: a pytree of int32 arrays, first axis the dataset."""

    @abstractmethod
    def update(
        self, layout: Tree, counts: Tree, dataset: Array, scores: Array, keep: Array
    ) -> Tree:
        """Add scores to the counts; traced, and of a `portable` statistic not.

        Args:
            layout: what `bind` or `lay_out` returned.
            counts: the counts so far.
            dataset: 0 or 1, a traced integer.
            scores: shape [n]; of canaries [n, 2, m], scores and memberships.
            keep: boolean, shape [n]; scores at False are not counted.

        Returns:
            The new counts.
        """

    def counted(self, counts: Tree) -> HostArray | None:
        """Return the number of scores in counts, if the subclass counts each score once.

        Args:
            counts: as `zero` returns them, NumPy arrays; every leaf may have the same further axes
                before its first one.

        Returns:
            Shape [*further axes, 2]; None if it does not follow from the counts.
        """
        return None

    def describe(self, layout: Tree) -> dict[str, Any]:
        """Describe the statistic in JSON values; a subclass adds its edges or thresholds."""
        fields: dict[str, Any] = dataclasses.asdict(self) if dataclasses.is_dataclass(self) else {}
        return {"name": type(self).__name__, **fields}


@dataclasses.dataclass(frozen=True)
class DecisionCounts(Statistic):
    """Counts of the decisions for D (index 0) and D′ (index 1): `counts[dataset][decision]`."""

    accepts: ClassVar[frozenset[str]] = frozenset({"decision"})
    portable: ClassVar[bool] = True

    def zero(self, layout: Tree) -> Any:
        return np.zeros((2, 2), np.int32)

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        kept, ones = count_true(keep), count_true(scores & keep)
        xp = scores.__array_namespace__()
        here = xp.arange(2, dtype=xp.int32) == dataset
        return counts + here[:, None] * xp.stack([kept - ones, ones])

    def counted(self, counts: Any) -> HostArray:
        return np.sum(counts, axis=-1)  # type: ignore[no-any-return]

    def edges(self, layout: Tree) -> Any:
        """Return the least score that counts as D′, shape [1]; a decision is the score 0 or 1."""
        return np.ones(1)


def count_true(mask: Array) -> Array:
    """Count the True entries of a boolean array [n], as int32.

    Groups of 32 are summed in bytes first, because XLA fuses only such short sums with the code
    that made the mask.
    """
    xp = mask.__array_namespace__()
    if mask.size % 32 == 0:
        mask = xp.sum(mask.reshape(-1, 32), axis=1, dtype=xp.uint8)
    total: Array = xp.sum(mask, dtype=xp.int32)
    return total


def _reached(edges: Array, scores: Array) -> Array:
    """Count, for each score, the edges [k] that are at most the score, as int32; traced.

    Bisection gathers an edge for each score, which takes most of the time; so the first halvings
    compare every score with the same few edges.
    """
    number = edges.shape[0]
    halvings = number.bit_length()
    edges = jnp.concatenate([edges, jnp.full((1 << halvings) - 1 - number, jnp.inf, edges.dtype)])
    together = min(halvings, _TOGETHER)
    step = 1 << (halvings - together)
    found = jnp.zeros(scores.shape, jnp.int32)
    for last in range(step - 1, edges.shape[0], step):
        found = jnp.where(edges[last] <= scores, found + step, found)
    while step := step // 2:
        own = edges.at[found + (step - 1)].get(mode="promise_in_bounds")
        found = jnp.where(own <= scores, found + step, found)
    return jnp.minimum(found, number)  # a score of inf also reaches the padding


_TOGETHER = 4  # halvings, so 15 edges


class BinCounts(Statistic):
    """Counts of scores in bins: `counts[dataset][bin]`.

    A subclass is a frozen dataclass whose `bind` fixes the edges from the pilot. Edges e_1 ≤ … ≤
    e_k make k + 2 bins: bin 0 holds NaN, bin 1 scores below e_1 (−inf included), bin j + 1 those in
    [e_j, e_{j+1}), the last those of at least e_k. So bin > j means score ≥ e_j. Repeated edges
    make empty bins, which pads a list of edges to a fixed length.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"score"})
    portable: ClassVar[bool] = True

    def edges(self, layout: Tree) -> Array:
        """Return the edges in a layout, shape [k]; override if the layout holds anything else."""
        edges: Array = layout
        return edges

    def zero(self, layout: Tree) -> Any:
        return np.zeros((2, self.edges(layout).shape[0] + 2), np.int32)

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        host: Any = scores
        if isinstance(host, np.ndarray):  # NumPy counts them without compiling a program
            own = bin_counts(np.asarray(self.edges(layout), host.dtype), host[np.asarray(keep)])
            return counts + np.where(np.arange(2)[:, None] == dataset, own, 0).astype(counts.dtype)
        edges = jnp.asarray(self.edges(layout), scores.dtype)
        bins = jnp.where(jnp.isnan(scores), 0, 1 + _reached(edges, scores))
        return jnp.asarray(counts).at[dataset, bins].add(keep.astype(counts.dtype))

    def counted(self, counts: Any) -> HostArray:
        return np.sum(counts, axis=-1)  # type: ignore[no-any-return]

    def describe(self, layout: Tree) -> dict[str, Any]:
        return {**super().describe(layout), "edges": np.asarray(self.edges(layout)).tolist()}
