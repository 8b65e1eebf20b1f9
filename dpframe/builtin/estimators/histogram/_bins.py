"""Scores in bins of equal width, and the histograms that the counts make."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe import BinCounts
from dpframe.builtin.estimators.events.grid import DISTINCT, bin_counts, distinct
from dpframe.stats.scott import common_deviation, normal_roughness, scott_width

if TYPE_CHECKING:
    from dpframe import Array, Floats, HostArray, Ints, Tree

FINE = 1022
"""Bins between the two open ones that are counted where the width is chosen later: the width is
Scott's rule at the number of trials, which the pilot does not know."""

MOST_BINS = 100_000
"""As many as the pilot has draws; more would be empty, and take memory all the same."""

OUTSIDE = 0.001
"""Share of a pilot's scores that each open end may hold where no range is given."""

REPEATED = 4
"""Values count as discrete if the pilot met each of them so often in the mean."""

QUARTILES = 1.3489795003921634
"""Interquartile range of a normal distribution, in standard deviations."""


@dataclasses.dataclass(frozen=True)
class PilotBins(BinCounts):
    """Counts in bins of equal width, the outermost ones open, and the pilot's counts beside them.

    Without a number of bins the counts are finer than the histogram will be (see `first_bins`).
    If the pilot has few distinct values and no range was given, each gets a bin instead.
    """

    bins: int | None
    low: float | None
    high: float | None

    def bind(self, pilot0: HostArray, pilot1: HostArray) -> dict[str, Any]:
        edges, deviation = self._edges((pilot0, pilot1))
        pilot = np.stack([bin_counts(edges, scores) for scores in (pilot0, pilot1)])
        return {"edges": edges, "pilot": pilot, "deviation": np.float64(deviation)}

    def edges(self, layout: Tree) -> Array:
        edges: Array = layout["edges"]
        return edges

    def describe(self, layout: Tree) -> dict[str, Any]:
        return {
            **super().describe(layout),
            # As short as their precision allows: a float32 has half the digits of its float64.
            "edges": [float(str(edge)) for edge in np.asarray(layout["edges"])],
            "pilot": np.asarray(layout["pilot"]).tolist(),
            "deviation": float(layout["deviation"]),
        }

    def _edges(self, pilots: tuple[HostArray, HostArray]) -> tuple[HostArray, float]:
        """Edges, and the deviation that decides how many of them to leave out; 0 for none."""
        dtype, values = pilots[0].dtype, distinct(*pilots)
        most = FINE + 1 if self.bins is None else self.bins - 1
        few = min(DISTINCT, most, sum(map(len, pilots)) // REPEATED)
        if self.low is None and self.high is None and 0 < len(values) <= few:
            # Repeated edges make empty bins, which `first_bins` leaves out.
            return np.concatenate([values, np.full(most - len(values), values[-1])]), 0.0
        finite = [scores[np.isfinite(scores)].astype(np.float64) for scores in pilots]
        low, high = self._range(finite)
        # Not low + t (high − low), which overflows for the widest of ranges.
        if self.bins is not None:
            t = np.arange(1, self.bins) / self.bins
            return (low * (1 - t) + high * t).astype(dtype), 0.0
        t = np.arange(FINE + 1) / FINE
        deviation = common_deviation(*(_deviation(scores) for scores in finite))
        return (low * (1 - t) + high * t).astype(dtype), deviation

    def _range(self, finite: list[Floats]) -> tuple[float, float]:
        seen = [np.sort(scores) for scores in finite if len(scores)]
        ends = [(scores[_inner(scores)], scores[-1 - _inner(scores)]) for scores in seen]
        low = min((float(a) for a, _ in ends), default=0.0) if self.low is None else self.low
        high = max((float(b) for _, b in ends), default=1.0) if self.high is None else self.high
        # A limit that was given may lie beyond what the pilot saw.
        return (low, max(low, high)) if self.low is not None else (min(low, high), high)


class Histograms(NamedTuple):
    """Counts of the same bins on both datasets."""

    counts: Ints
    """Shape [2, k]; NaN comes first if it has a bin of its own, then ascending scores."""

    @property
    def bins(self) -> int:
        """k, all that must be paid for."""
        return int(self.counts.shape[1])

    @property
    def trials(self) -> Ints:
        """Shape [2]; at least 1, so that nothing is divided by 0."""
        return np.asarray(np.maximum(self.counts.sum(axis=1), 1), np.int64)

    @property
    def q(self) -> Floats:
        """Frequencies on D."""
        return np.asarray(self.counts[0] / self.trials[0], np.float64)

    @property
    def p(self) -> Floats:
        """Frequencies on D′."""
        return np.asarray(self.counts[1] / self.trials[1], np.float64)


def grouped(layout: Tree, counts: Ints, trials: tuple[int, int]) -> Histograms:
    """The histograms of some counts; the bins depend on the layout and the trials alone.

    Args:
        layout: of `PilotBins`.
        counts: shape [2, edges + 2].
        trials: for how many the width is to be best.
    """
    starts = first_bins(layout, trials)
    return Histograms(np.add.reduceat(np.asarray(counts, np.int64), starts, axis=1))


def first_bins(layout: Tree, trials: tuple[int, int]) -> Ints:
    """The counted bin with which each bin of the histogram begins, shape [k].

    Fine bins are merged until they are as wide as Scott's rule has it [Koskela2024, equation 4.1],
    each density taken for a normal one. NaN has a bin of its own if the pilot met
    one; otherwise it joins the lowest bin, and costs nothing.
    """
    edges, pilot = np.asarray(layout["edges"]), np.asarray(layout["pilot"])
    deviation = float(layout["deviation"])
    step = _merged(edges, deviation, trials) if deviation > 0 else 1
    kept = np.arange(0, len(edges), step)
    kept = kept[np.append(True, edges[kept][1:] != edges[kept][:-1])]
    nan_apart = [1] if pilot[:, 0].any() else []
    return np.array([0, *nan_apart, *(kept + 2)], np.int64)


def _merged(edges: HostArray, deviation: float, trials: tuple[int, int]) -> int:
    """How many fine bins make one of Scott's width."""
    n = 2 / sum(1 / max(1, count) for count in trials)
    # In units of the deviation, so that no power of it overflows.
    width = float(scott_width(normal_roughness(1.0), normal_roughness(1.0), n))
    whole = float(edges[-1]) / deviation - float(edges[0]) / deviation
    return max(1, min(FINE, round(width * FINE / whole))) if whole > 0 else 1


def _deviation(scores: Floats) -> float:
    """Standard deviation, or the interquartile range's if that is smaller: for heavy tails."""
    largest = float(np.abs(scores).max(initial=0.0))
    if largest == 0:
        return 0.0
    scaled = scores / largest
    low, high = np.quantile(scaled, [0.25, 0.75])
    plain, quartiles = float(scaled.std()), float(high - low) / QUARTILES
    return largest * (min(plain, quartiles) if quartiles > 0 else plain)


def _inner(ascending: Floats) -> int:
    return int(OUTSIDE * len(ascending))
