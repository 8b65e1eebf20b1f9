"""Rounds of draws whose order is not known, or does not matter.

Draws that are independent and alike are as good in any order. So counts of all of them are dealt
out to rounds as a shuffled deck would be, by dice that know nothing of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpframe.builtin.estimators.betting._cuts import cuts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpframe import HostArray, Ints

FIRST = 64
"""Draws of the first round, on each side."""

GROWTH, LEAST = 9, 8
"""A round is one of so many parts of all before it, and at least so many draws."""

MOST = 10**9
"""Draws that NumPy deals out exactly."""


def sizes(trials: int) -> list[int]:
    """Draws of each round, on each side; the last one is what is left."""
    found, total = [], 0
    while total < trials:
        size = max(LEAST, total // GROWTH) if total else FIRST
        found.append(min(size, trials - total))
        total += found[-1]
    return found


def rounds_of_counts(counts: HostArray) -> Iterator[Ints]:
    """Counts of each round, from those of all of them, shape [2, bins].

    With fewer draws on one side some of the other are left out.
    """
    left = counts.astype(np.int64)
    trials = int(min(left.sum(axis=1)))
    if max(left.sum(axis=1)) >= MOST:
        yield left
        return
    rng = np.random.default_rng(0)
    for size in sizes(trials):
        dealt = np.stack(
            [rng.multivariate_hypergeometric(side, size, method="marginals") for side in left]
        )
        left = left - dealt
        yield dealt


def rounds_of_scores(
    scores: tuple[HostArray, HostArray], rng: np.random.Generator
) -> tuple[HostArray, Iterator[Ints]]:
    """Edges from the first of the scores, and the counts of each round between them."""
    mixed = [rng.permutation(np.asarray(part)) for part in scores]
    if mixed[0].dtype == np.bool_:
        edges, bins, number = np.zeros(0, np.float32), [p.astype(np.int64) for p in mixed], 2
    else:
        mixed = [np.asarray(part, np.float64) for part in mixed]
        edges = cuts(*(part[:FIRST] for part in mixed))
        bins = [
            np.where(np.isnan(part), 0, 1 + np.searchsorted(edges, part, side="right"))
            for part in mixed
        ]
        number = len(edges) + 2

    def dealt() -> Iterator[Ints]:
        at = 0
        for size in sizes(min(map(len, bins))):
            parts = [part[at : at + size] for part in bins]
            yield np.stack([np.bincount(part, minlength=number) for part in parts])
            at += size

    return edges, dealt()
