"""Order statistics of raw scores, without a pilot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.builtin.estimators.events.choice import choose
from dpframe.builtin.estimators.events.grid import DISTINCT, bin_counts, distinct, grid
from dpframe.builtin.estimators.events.ladder import Events, Family, geometric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import HostArray, Query


Shares = tuple[tuple[Family, float], ...]

DISCRETE_SHARE = 0.1
"""Share of the error that is kept for fixed thresholds, in case the scores are discrete."""

PILOT_SHARE = 0.1
"""Share of the scores that looks whether they are, and is not counted for fixed thresholds."""

BINS = 512
"""Order statistics between which scores are counted for their exposure."""

FEWEST = 100
"""With fewer scores nothing is kept for fixed thresholds."""


def raw_events(
    scores: tuple[HostArray, HostArray], families: Shares, query: Query, rng: np.random.Generator
) -> list[Events]:
    """Events beyond ranks of all scores, and fixed ones chosen by a few where scores are discrete.

    The scores are in ascending order. Both kinds are valid at their own share of the error, so it
    does not matter that the same scores decide whether there are fixed ones.
    """
    small = min(len(values) for values in scores) < FEWEST
    kept = 0.0 if small else DISCRETE_SHARE
    ascending = (np.sort(scores[0]), np.sort(scores[1]))
    ranked = [geometric(family.sorted(ascending), (1 - kept) * share) for family, share in families]
    if small:
        return ranked
    return ranked + _fixed_events(scores, [family for family, _ in families], query, kept, rng)


def _fixed_events(
    scores: tuple[HostArray, HostArray],
    families: Sequence[Family],
    query: Query,
    share: float,
    rng: np.random.Generator,
) -> list[Events]:
    parts = [_split(values, rng) for values in scores]
    pilots, rest = (tuple(part[n] for part in parts) for n in (0, 1))
    if len(distinct(*pilots)) > DISTINCT:
        return []
    edges = grid(*pilots)
    pilot, counts = (np.stack([bin_counts(edges, s) for s in group]) for group in (pilots, rest))
    query = query._replace(trials=(len(rest[0]), len(rest[1])))
    chosen = choose(pilot.astype(np.int64), families, query, share)
    return [one.events(one.family.bins(counts)) for one in chosen]


def _split(values: HostArray, rng: np.random.Generator) -> tuple[HostArray, HostArray]:
    """A random part, because the scores are sorted, and the rest."""
    chosen = np.zeros(len(values), bool)
    chosen[rng.choice(len(values), int(len(values) * PILOT_SHARE), replace=False)] = True
    return values[chosen], values[~chosen]


def rank_counts(scores: tuple[HostArray, HostArray]) -> HostArray:
    """Counts between order statistics on D, dense at the top, from ascending scores; [2, bins]."""
    ranks = np.geomspace(1, len(scores[0]), BINS).astype(np.int64)
    edges = np.unique(scores[0][len(scores[0]) - ranks])
    cuts = [np.searchsorted(values, edges) for values in scores]
    return np.stack(
        [np.diff([0, *cut, len(values)]) for cut, values in zip(cuts, scores, strict=True)]
    )


def ascending(scores: HostArray) -> HostArray:
    """Scores as float64, sorted, in which NaN, its own atom below everything else, is −inf.

    What was −inf becomes the least finite number: a rounding of scores like any other.
    """
    values = np.array(scores, np.float64)
    values[values == -np.inf] = np.finfo(np.float64).min
    values[np.isnan(values)] = -np.inf
    values.sort()
    return values
