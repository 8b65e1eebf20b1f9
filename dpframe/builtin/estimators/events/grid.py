"""Scores on a monotone grid that the pilot fixes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from dpframe import BinCounts

if TYPE_CHECKING:
    from dpframe import Array, Floats, HostArray, Tree

EDGES = 1023
"""Bins are then narrow enough that rounding costs less than half a percent of a bound."""

DISTINCT = 64
"""Up to so many distinct values in the pilot, each value gets a bin of its own."""

BEYOND = 40
"""Edges outside of the pilot's extremes, on each side."""


@dataclasses.dataclass(frozen=True)
class PilotGrid(BinCounts):
    """Counts on a grid of the pilot's order statistics, and the pilot's own counts beside it.

    Edges are dense in the tails, where rare events are, and go on beyond the extremes.
    """

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> dict[str, HostArray]:
        edges = grid(pilot0, pilot1)
        pilot = np.stack([bin_counts(edges, scores) for scores in (pilot0, pilot1)])
        return {"edges": edges, "pilot": pilot}

    def edges(self, layout: Tree) -> Array:
        edges: Array = layout["edges"]
        return edges

    def describe(self, layout: Tree) -> dict[str, Any]:
        edges = np.asarray(layout["edges"])
        return {
            **super().describe(layout),
            # As short as their precision allows: a float32 has half the digits of its float64.
            "edges": [float(str(edge)) for edge in edges],
            "pilot": np.asarray(layout["pilot"]).tolist(),
        }


def grid(pilot0: HostArray, pilot1: HostArray) -> HostArray:
    """Edges in ascending order, padded with inf, shape [EDGES], in the dtype of the scores."""
    dtype = pilot0.dtype
    values = distinct(pilot0, pilot1)
    if len(values) > DISTINCT:
        pilots = [pilot[np.isfinite(pilot)].astype(np.float64) for pilot in (pilot0, pilot1)]
        levels = (EDGES - 2 * BEYOND - 2) // 4
        quantiles = [_tails(np.sort(scores), levels) for scores in pilots if len(scores)]
        values = np.concatenate([*quantiles, _beyond(np.concatenate(pilots))])
        # What is not finite has a bin of its own.
        values = np.append(values, [np.finfo(dtype).min, np.inf])
    edges = np.unique(values.astype(dtype))
    padding = np.full(EDGES - len(edges), np.inf, dtype)
    return np.concatenate([edges, padding])


def distinct(pilot0: HostArray, pilot1: HostArray) -> HostArray:
    """The distinct values of both pilots in ascending order, without NaN."""
    values: HostArray = np.unique(np.concatenate([pilot0, pilot1]))
    found: HostArray = values[~np.isnan(values)]
    return found


def _tails(scores: Floats, levels: int) -> Floats:
    """Order statistics at ranks in geometric progression from both ends, interpolated."""
    ranks = np.geomspace(1, max(1, len(scores) / 2), levels) - 1
    places = np.arange(len(scores))
    return np.concatenate(
        [np.interp(ranks, places, scores), np.interp(ranks, places, scores[::-1])]
    )


def _beyond(scores: Floats) -> Floats:
    """Edges outside of the extremes, in steps that grow from a fraction of the tail's scale."""
    scores = np.sort(scores)
    inner = min(len(scores) - 1, round(np.sqrt(len(scores))))
    steps = np.geomspace(0.02, 30, BEYOND)
    above = scores[-1] + steps * (scores[-1] - scores[-1 - inner])
    below = scores[0] - steps * (scores[inner] - scores[0])
    both: Floats = np.concatenate([above, below])
    found: Floats = both[np.isfinite(both)]
    return found


def bin_counts(edges: HostArray, scores: HostArray) -> HostArray:
    """Counts as `BinCounts` counts them, on the host, shape [len(edges) + 2]."""
    bins = np.where(np.isnan(scores), 0, 1 + np.searchsorted(edges, scores, side="right"))
    return np.bincount(bins, minlength=len(edges) + 2).astype(np.int32)
