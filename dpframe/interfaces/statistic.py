"""Statistics: mergeable counts of scores, and how scores made elsewhere are counted."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from dpframe.common import trees
from dpframe.common.arrays import jax, jnp
from dpframe.common.types import Array, HostArray, Tree
from dpframe.errors import DpframeError
from dpframe.interfaces.attack import in_words
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


ROWS = 1 << 20  # scores counted at a time: int32 counts of one call cannot overflow
PILOT_SHARE = 0.1  # share of the scores that become the pilot
PILOT_MOST = 100_000  # scores of a pilot, at most; further scores are counted instead


def count_scores(
    statistic: Statistic, scores: tuple[HostArray, HostArray], rng: np.random.Generator
) -> tuple[Tree, Tree, tuple[int, int]]:
    """Bind a statistic and count scores with it.

    `scores` are those on D and on D′, each of shape [n]: booleans or floats. `rng` selects the
    scores of the pilot, which are not counted. Returns layout, counts (int64), and the number of
    scores counted on each dataset. Raises DpframeError if the statistic does not take such scores.
    """
    if statistic.accepts == {"canaries"}:
        raise DpframeError("takes canaries of one run, scores with memberships (--one-run)")
    kinds = {"decision" if values.dtype == np.bool_ else "score" for values in scores}
    if not kinds <= statistic.accepts:
        given = " and ".join(map(in_words, ([kind] for kind in sorted(kinds))))
        raise DpframeError(f"takes {in_words(statistic.accepts)}, was given {given}")
    layout: Tree = ()
    if statistic.needs_pilot():
        (pilot0, rest0), (pilot1, rest1) = (_split(values, rng) for values in scores)
        layout = trees.map(np.asarray, statistic.bind(pilot0, pilot1))
        scores = (rest0, rest1)
    counts = _counted(statistic, layout, scores)
    return layout, counts, (len(scores[0]), len(scores[1]))


def count_canaries(
    statistic: Statistic, scores: HostArray, members: HostArray
) -> tuple[Tree, Tree]:
    """Count the canaries of each run as one release on D; return layout and counts (int64).

    Scores and members have shape [m], or [runs, m]; members are True for canaries that were
    included. Raises DpframeError if the statistic does not take canaries, or needs a pilot.
    """
    if "canaries" not in statistic.accepts:
        wanted = in_words(statistic.accepts)
        raise DpframeError(f"takes {wanted} of each run, not many canaries of one")
    if statistic.needs_pilot():
        raise DpframeError("needs runs of its own to choose from")
    releases = np.stack(np.atleast_2d(scores, members.astype(scores.dtype)), axis=1)
    layout = trees.map(np.asarray, statistic.lay_out(releases.shape[1:]))
    counts = add_scores(statistic, layout, statistic.zero(layout), 0, releases)
    return layout, trees.map(lambda leaf: np.asarray(leaf, np.int64), counts)


def _split(values: HostArray, rng: np.random.Generator) -> tuple[HostArray, HostArray]:
    """Draw a random part for the pilot, because scores may be sorted; return it and the rest."""
    size = max(1, min(int(len(values) * PILOT_SHARE), PILOT_MOST))
    chosen = np.zeros(len(values), bool)
    chosen[rng.choice(len(values), size, replace=False)] = True
    return values[chosen], values[~chosen]


def padded(values: HostArray) -> tuple[HostArray, HostArray]:
    """Pad scores to a power of two, so that few programs are compiled; return them and `keep`."""
    rows = 1 << (len(values) - 1).bit_length()
    filled = np.zeros(rows, values.dtype)
    filled[: len(values)] = values
    return filled, np.arange(rows) < len(values)


def add_scores(
    statistic: Statistic, layout: Tree, counts: Tree, dataset: int, scores: HostArray
) -> Tree:
    """Return counts with some more scores: in NumPy, or by a program if the statistic needs JAX."""
    update: Any = statistic.update
    if statistic.portable:
        with np.errstate(all="ignore"):
            return update(layout, counts, np.int32(dataset), scores, np.ones(len(scores), bool))
    with jax.enable_x64(scores.dtype == np.float64):
        update = compiled_update(statistic)
        return update(layout, counts, np.int32(dataset), *padded(scores))


@functools.cache
def compiled_update(statistic: Statistic) -> Any:
    """Compile `statistic.update`, once for equal statistics."""
    return jax.jit(statistic.update)


def _counted(statistic: Statistic, layout: Tree, scores: tuple[HostArray, HostArray]) -> Any:
    total = trees.map(lambda leaf: np.asarray(leaf, np.int64), statistic.zero(layout))
    for dataset, values in enumerate(scores):
        for start in range(0, len(values), ROWS):
            part = values[start : start + ROWS]
            counts = add_scores(statistic, layout, statistic.zero(layout), dataset, part)
            total = trees.map(lambda old, new: old + np.asarray(new, np.int64), total, counts)
    return total
