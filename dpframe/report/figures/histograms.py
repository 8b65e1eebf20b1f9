"""Scores that were counted in bins, on D and on D′, as a record has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpframe.report.figures.style import shorten
from dpframe.report.group import groups, same, short
from dpframe.report.words import setting

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpframe.record.model import CellRecord, Record

    Floats = npt.NDArray[np.float64]

NONE = "none of its cells counted scores in bins"
FEWEST = 4
"""Edges; with fewer it is decisions, or almost, that were counted."""

_THRESHOLD = re.compile(r"scores (?:from|above|below|up to) (-?[\d.]+(?:e[-+]?\d+)?)")


class Histogram(NamedTuple):
    """What was counted of one attack on one mechanism."""

    title: str
    edges: Floats
    """Inner edges, ascending, shape [k − 1]."""
    counts: Floats
    """On D and on D′, of k bins, the outer two open; shape [2, k]."""
    nan: tuple[int, int]
    thresholds: tuple[float, ...] = ()
    exact: Floats | None = None
    """How likely each bin is, where the mechanism knows; of scores, shape [2, k]."""

    @property
    def finest(self) -> int:
        """Number of bins."""
        return len(self.edges) + 1


def histograms(record: Record) -> list[Histogram]:
    """One for each mechanism, attack and swept values: of several the one with finest bins."""
    found = groups(record.cells)
    several = len({group.names[1] for group in found}) > 1
    kept: dict[tuple[str, ...], Histogram] = {}
    cuts: dict[tuple[str, ...], set[float]] = {}
    for group in found:
        for spot in group.spots:
            keys = [k for k in spot.values if not k.startswith(("audit.", "estimator."))]
            who = (group.names[0], group.names[1], *(same(spot.values[k]) for k in keys))
            place = [f"{short(k, spot.values)} {setting(spot.values[k])}" for k in keys]
            names = [group.names[0], *([group.names[1]] if several else []), *place]
            for cell in spot.done[:1]:
                cuts.setdefault(who, set()).update(_thresholds(cell))
                new = _histogram(shorten(" · ".join(names), 40), cell)
                if new is not None and (who not in kept or new.finest > kept[who].finest):
                    kept[who] = new
    return [h._replace(thresholds=tuple(sorted(cuts[who]))) for who, h in kept.items()]


def _histogram(title: str, cell: CellRecord) -> Histogram | None:
    """Of bins between recorded edges; the first count of a statistic with edges is that of NaN."""
    edges = cell.statistic.get("edges")
    counts: Any = cell.counts
    if not isinstance(edges, list) or not isinstance(counts, list) or len(edges) < 2:
        return None
    if any(not isinstance(row, list) or len(row) != len(edges) + 2 for row in counts):
        return None
    known = np.array([float(edge) for edge in edges])
    inner = np.flatnonzero(np.isfinite(known) & (np.abs(known) < 1e30))
    if len(inner) < FEWEST:
        return None
    first, last = int(inner[0]), int(inner[-1])

    def folded(table: Any) -> Floats:
        """Without NaN; bins between edges that are padding, or ends of float32, in the outer."""
        bins = np.array(table, float)[:, 1:]
        low = bins[:, : first + 1].sum(axis=1, keepdims=True)
        high = bins[:, last + 1 :].sum(axis=1, keepdims=True)
        return np.hstack([low, bins[:, first + 1 : last + 1], high])

    shares = cell.exact_shares or []
    exact = folded(shares) if [len(row) for row in shares] == [len(row) for row in counts] else None
    nan = (int(counts[0][0]), int(counts[1][0]))
    return Histogram(title, known[first : last + 1], folded(counts), nan, exact=exact)


def _thresholds(cell: CellRecord) -> list[float]:
    """Those that the statistic names, or a remark of the estimator."""
    listed = cell.statistic.get("threshold")
    found = [float(listed)] if isinstance(listed, int | float) else []
    remarks = cell.estimate.notes if cell.estimate is not None else []
    return [*found, *(float(m.group(1)) for note in remarks if (m := _THRESHOLD.search(note)))]
