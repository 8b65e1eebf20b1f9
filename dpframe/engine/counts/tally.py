"""The counts of one pass as they come in, in whatever order."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.engine.checks.answers import zero_of

if TYPE_CHECKING:
    from dpframe.engine.addresses.chunks import Segment
    from dpframe.engine.planning.plan import Pass
    from dpframe.statistic import Statistic
    from dpframe.types import Tree


class Tally:
    """Counts by dataset: a gapless prefix of whole chunks, segments beyond a gap, and the tail.

    Only the prefix may be stored, because only a prefix can be gone on with. A trial is a trial
    wherever it stands: all that came in counts where nothing more is to come.

    Args:
        prefix: counts of the chunks 0 … done[d] − 1, every leaf int64 and zero if none.
        done: whole chunks counted, per dataset.
        rows: rows per chunk.
    """

    def __init__(self, prefix: Tree, done: tuple[int, int], rows: int) -> None:
        self.rows = rows
        self._counted = prefix, done
        self._beyond: tuple[dict[int, tuple[int, Tree]], ...] = ({}, {})
        self._tail: list[tuple[Segment, Tree] | None] = [None, None]
        self._total: tuple[Tree, tuple[int, int]] | None = None

    @property
    def prefix(self) -> Any:
        """Counts of the chunks 0 … done[d] − 1 of each dataset d."""
        return self._counted[0]

    @property
    def done(self) -> tuple[int, int]:
        """How many whole chunks the prefix covers, per dataset."""
        return self._counted[1]

    def add(self, dataset: int, segment: Segment, counts: Tree) -> None:
        """Takes in the counts of a segment, once; one that was cut to nothing has none."""
        if segment.stop == segment.first or segment.first < self.done[dataset]:
            return
        self._total = None
        if segment.limit < self.rows:
            self._tail[dataset] = (segment, counts)
            return
        waiting = self._beyond[dataset]
        waiting[segment.first] = (segment.stop, counts)
        while self.done[dataset] in waiting:
            stop, counts = waiting.pop(self.done[dataset])
            done = (stop, self.done[1]) if dataset == 0 else (self.done[0], stop)
            # One assignment: a signal may raise anywhere, and what is here is stored then.
            self._counted = _sum(self.prefix, counts), done

    def total(self) -> tuple[Tree, tuple[int, int]]:
        """Counts of everything that came in, and how many trials that is per dataset.

        A box that hangs leaves a gap, and what others counted beyond it are trials like any. Every
        cell of the pass asks for it; it is added up once.
        """
        if self._total is None:
            self._total = self._added_up()
        return self._total

    def _added_up(self) -> tuple[Tree, tuple[int, int]]:
        counts = self.prefix
        for beyond, tail in zip(self._beyond, self._tail, strict=True):
            for _, more in beyond.values():
                counts = _sum(counts, more)
            if tail is not None:
                counts = _sum(counts, tail[1])
        return counts, self.trials

    @property
    def trials(self) -> tuple[int, int]:
        """How many trials have come in, per dataset."""
        whole = [
            done + sum(stop - first for first, (stop, _) in tuple(beyond.items()))
            for done, beyond in zip(self.done, self._beyond, strict=True)
        ]
        n0, n1 = (
            number * self.rows + (tail[0].limit if tail is not None else 0)
            for number, tail in zip(whole, self._tail, strict=True)
        )
        return n0, n1


def _sum(a: Tree, b: Tree) -> Any:
    return jax.tree.map(np.add, a, b)


@functools.lru_cache(maxsize=64)
def _zero_without_layout(statistic: Statistic, x64: bool, layout: Tree = ()) -> Tree:
    return zero_of(statistic, layout)


def _zero(statistic: Statistic, layout: Tree) -> Tree:
    """Counts of no draws; asked once where no pilot has fixed anything, as in most passes."""
    if not (isinstance(layout, tuple) and not layout):  # an array has no truth, and no order
        return zero_of(statistic, layout)
    return _zero_without_layout(statistic, jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def no_counts(the_pass: Pass, layouts: tuple[Tree, ...]) -> tuple[Any, ...]:
    """Counts of no draws at all, per scorer; every leaf [lanes, attacks, …].

    Args:
        the_pass: what is to be counted.
        layouts: what its pilots fixed, shaped likewise.
    """

    def zeros(statistic: Any, layout: Tree, attacks: int) -> Any:
        zero = _zero(statistic, jax.tree.map(lambda leaf: leaf[0, 0], layout))
        shape = (len(the_pass.mechanisms), attacks)
        return jax.tree.map(
            lambda leaf: np.zeros((*shape, *leaf.shape), np.asarray(leaf).dtype), zero
        )

    return tuple(
        zeros(scorer.statistic, layout, len(scorer.attacks))
        for scorer, layout in zip(the_pass.scorers, layouts, strict=True)
    )
