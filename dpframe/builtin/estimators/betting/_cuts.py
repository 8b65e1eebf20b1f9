"""Counts between cuts that a few scores fix, or of decisions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpframe import BinCounts, DecisionCounts

if TYPE_CHECKING:
    from dpframe import Array, Floats, HostArray, Tree

EDGES = 320
"""Cuts of scores; fewer of them are told apart from one another."""

BEYOND = 44
"""Cuts outside of the extremes, on each side."""


@dataclasses.dataclass(frozen=True)
class Cuts(BinCounts):
    """Scores between edges, and decisions as they are: `counts[dataset][bin or decision]`.

    The edges come from the scores of the first round, which nothing is bet on.
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"decision", "score"})

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> HostArray:
        if pilot0.dtype == np.bool_:
            return np.zeros(0, np.float32)
        return cuts(pilot0, pilot1)

    def update(self, layout: Tree, counts: Any, dataset: Array, scores: Array, keep: Array) -> Any:
        if scores.dtype == np.bool_:
            return DecisionCounts().update((), counts, dataset, scores, keep)
        return super().update(layout, counts, dataset, scores, keep)

    def describe(self, layout: Tree) -> dict[str, Any]:
        edges = np.asarray(layout)
        if not len(edges):
            return DecisionCounts().describe(())
        # As short as their precision allows: a float32 has half the digits of its float64.
        return {**super().describe(layout), "edges": [float(str(edge)) for edge in edges]}


def cuts(scores0: HostArray, scores1: HostArray) -> HostArray:
    """Edges in ascending order, padded with inf, shape [EDGES], in the dtype of the scores.

    At every value, and just above those that are there twice: atoms are then told from what is
    around them. Between values and beyond the extremes as far as there is room.
    """
    dtype = scores0.dtype
    values = np.sort(np.concatenate([scores0, scores1]))
    values = values[np.isfinite(values)]
    distinct, times = np.unique(values, return_counts=True)
    atoms = distinct[times > 1]
    own = np.concatenate([distinct, np.nextafter(atoms, np.array(np.inf, dtype))])
    info = np.finfo(dtype)
    ends = np.array([info.min, np.inf], dtype)
    wide = distinct.astype(np.float64)
    outer = _beyond(wide)
    room = EDGES - 2 - len(outer)
    if len(own) > room:
        own = own[np.linspace(0, len(own) - 1, room).round().astype(int)]
    room -= len(own)
    between = np.zeros(0)
    if len(wide) > 1 and room > 0:
        between = np.interp(
            (np.arange(room) + 0.5) / room * (len(wide) - 1), np.arange(len(wide)), wide
        )
    with np.errstate(over="ignore"):
        every = np.concatenate([own, between.astype(dtype), outer.astype(dtype), ends])
    edges = np.unique(every[every > -np.inf])[:EDGES]
    return np.concatenate([edges, np.full(EDGES - len(edges), np.inf, dtype)]).astype(dtype)


def _beyond(values: Floats) -> Floats:
    """Outside of the extremes, in steps that grow from a fraction of the tail's scale."""
    if not len(values):
        return np.zeros(0)
    inner = min(len(values) - 1, round(np.sqrt(len(values))))
    steps = np.geomspace(0.02, 1000, BEYOND)
    largest = np.abs(values).max() or 1.0
    above = values[-1] + steps * ((values[-1] - values[-1 - inner]) or largest)
    below = values[0] - steps * ((values[inner] - values[0]) or largest)
    both = np.concatenate([above, below])
    return np.asarray(both[np.isfinite(both)], np.float64)


def above(counts: HostArray) -> HostArray:
    """Draws at or above each cut, from counts in bins, shape [2, bins − 1]."""
    return np.cumsum(counts[:, ::-1], axis=1, dtype=np.int64)[:, -2::-1]
