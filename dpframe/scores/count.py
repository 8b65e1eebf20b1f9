"""Scores that were made elsewhere, counted as the engine counts its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dpframe.errors import DpframeError

if TYPE_CHECKING:
    from dpframe.statistic import Statistic
    from dpframe.types import HostArray, Tree

ROWS = 1 << 20
"""Scores counted at a time: int32 counts of one call cannot overflow."""

PILOT_SHARE = 0.1
"""Share of the scores that a statistic with a pilot gets to see."""

PILOT_MOST = 100_000
"""No pilot needs more; the rest is worth more where it is counted."""


def count_scores(
    statistic: Statistic, scores: tuple[HostArray, HostArray], rng: np.random.Generator
) -> tuple[Tree, Tree, tuple[int, int]]:
    """Binds a statistic and counts scores with it.

    Args:
        statistic: what to count.
        scores: on D and on D′, each of shape [n]: booleans or floats.
        rng: decides which scores the pilot sees; no score is both seen and counted.

    Returns:
        Bound, counts (int64), and how many scores were counted per dataset.

    Raises:
        DpframeError: the statistic does not take such scores.
    """
    kinds = {"decision" if values.dtype == np.bool_ else "score" for values in scores}
    if not kinds <= statistic.accepts:
        wanted = " or ".join(sorted(statistic.accepts))
        raise DpframeError(f"takes a {wanted}, was given a {' and a '.join(sorted(kinds))}")
    layout: Tree = ()
    if statistic.needs_pilot():
        (pilot0, rest0), (pilot1, rest1) = (_split(values, rng) for values in scores)
        layout = jax.tree.map(np.asarray, statistic.bind(pilot0, pilot1))
        scores = (rest0, rest1)
    double = any(values.dtype == np.float64 for values in scores)
    with jax.enable_x64(double):
        counts = _counted(statistic, layout, scores)
    return layout, counts, (len(scores[0]), len(scores[1]))


def _split(values: HostArray, rng: np.random.Generator) -> tuple[HostArray, HostArray]:
    """A random part for the pilot, and the rest: scores may come sorted."""
    size = max(1, min(int(len(values) * PILOT_SHARE), PILOT_MOST))
    chosen = np.zeros(len(values), bool)
    chosen[rng.choice(len(values), size, replace=False)] = True
    return values[chosen], values[~chosen]


def _counted(statistic: Statistic, layout: Tree, scores: tuple[HostArray, HostArray]) -> Any:
    update = jax.jit(statistic.update)
    total = jax.tree.map(lambda leaf: np.asarray(leaf, np.int64), statistic.zero(layout))
    for dataset, values in enumerate(scores):
        for start in range(0, len(values), ROWS):
            part = values[start : start + ROWS]
            # One length, one program; the rest is masked.
            rows = min(ROWS, 1 << (len(part) - 1).bit_length())
            padded = np.zeros(rows, values.dtype)
            padded[: len(part)] = part
            keep = np.arange(rows) < len(part)
            counts = update(layout, statistic.zero(layout), np.int32(dataset), padded, keep)
            total = jax.tree.map(lambda old, new: old + np.asarray(new, np.int64), total, counts)
    return total
