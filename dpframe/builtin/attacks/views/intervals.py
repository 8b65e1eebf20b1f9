"""Intervals of a column of numbers, and one weighted sum of many columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Floats, HostArray

EDGES = 80
"""Ends of intervals, at most; NaN has a category of its own after the last."""

ATOMS = 8
"""Values that come again and again, at most; each is an interval."""

OFTEN = 3
"""Times that each value must come, on average, for all of them to be intervals."""

EACH = 5
"""Draws that an interval has, about, where there are few."""

RARE = 50
"""One in so many is often enough for that."""

FURTHEST = 8.0
"""Standard deviations beyond which a number adds no more to a weighted sum."""


def edges_of(numbers: HostArray) -> tuple[Floats, bool]:
    """Where intervals of some numbers begin, ascending; infinite in empty places.

    Ranks from either end, each a little farther from it, so that tails have intervals of every
    size; and around values that come again and again.

    Returns:
        The edges, and whether there are no such values, so that neighbours are alike.
    """
    found = np.full(EDGES, np.inf)
    seen = np.sort(numbers[~np.isnan(numbers)])
    if not len(seen):
        return found, False
    values, counts = np.unique(seen, return_counts=True)
    if len(values) <= EDGES // 2 and len(seen) >= OFTEN * len(values):
        edges: Any = values
        smooth = False
    else:
        often = np.argsort(-counts, kind="stable")[:ATOMS]
        atoms = values[often[counts[often] >= max(3, len(seen) // RARE)]]
        number = int(np.clip(len(seen) // EACH, 3, EDGES - 2 * ATOMS)) // 2
        ranks = np.geomspace(max(1, len(seen) / 200), len(seen) / 2, number + 1).astype(int)
        ends = [seen[ranks[:-1] - 1], seen[[len(seen) // 2]], seen[-ranks[:-1]]]
        edges = np.unique(np.concatenate([*ends, atoms, np.nextafter(atoms, np.inf)]))
        smooth = not len(atoms)
    found[: len(edges)] = edges[:EDGES]
    return found, smooth


def categories(edges: Any, numbers: Any, xp: Any) -> Any:
    """In which interval numbers lie, as whole numbers below EDGES + 2; the last one is NaN."""
    at = xp.searchsorted(edges, numbers, side="right")
    # NaN is sorted to the end, infinity is not: it is above all edges too.
    return xp.where(xp.isnan(numbers), EDGES + 1, xp.minimum(at, EDGES))


def smoothed(counts: Any) -> Any:
    """Counts of intervals with half of those of both neighbours.

    A density changes little from one interval to the next, and of few draws each has few.

    Args:
        counts: of categories, shape [..., EDGES + 2]; the last, NaN, has no neighbours.
    """
    found = counts.astype(np.float64)
    plain = counts[..., : EDGES + 1] / 2
    found[..., 1 : EDGES + 1] += plain[..., :-1]
    found[..., :EDGES] += plain[..., 1:]
    # An interval in which nothing was seen is none.
    return np.where(counts.sum(axis=-2, keepdims=True) > 0, found, 0.0)


def weights(sides: Sequence[HostArray]) -> dict[str, Floats]:
    """A direction in which two sets of rows differ: means over variances, coordinate by coordinate.

    Args:
        sides: rows on D and on D′, shape [n, k].
    """
    plain = [np.where(np.isfinite(part), part, np.nan) for part in sides]
    both = np.concatenate(plain)
    there = np.isfinite(both)
    count = np.maximum(there.sum(axis=0), 1)
    filled = np.where(there, both, 0.0)
    with np.errstate(all="ignore"):
        centre = filled.sum(axis=0) / count
        spread = np.sqrt(np.where(there, np.square(filled - centre), 0.0).sum(axis=0) / count)
        spread = np.where((spread > 0) & np.isfinite(spread), spread, 1.0)
        centre = np.where(np.isfinite(centre), centre, 0.0)
        means = [_standard(part, centre, spread, np).mean(axis=0) for part in plain]
    return {"centre": centre, "spread": spread, "weights": means[1] - means[0]}


def weighted(state: dict[str, Any], rows: Any, xp: Any) -> Any:
    """The weighted sum of rows, shape [n]; what is no number counts as the mean."""
    standard = _standard(rows, state["centre"], state["spread"], xp)
    return standard @ xp.asarray(state["weights"])


def _standard(rows: Any, centre: Any, spread: Any, xp: Any) -> Any:
    there = xp.isfinite(rows)
    scaled = xp.clip((xp.where(there, rows, centre) - centre) / spread, -FURTHEST, FURTHEST)
    return xp.where(there, scaled, 0.0)
