"""Count scores made elsewhere as the engine does, test their direction, and draw their ROC."""

import functools
import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from dpframe.common import trees
from dpframe.common.arrays import jax
from dpframe.common.types import HostArray, Ints, Tree
from dpframe.errors import DpframeError
from dpframe.interfaces.attack import in_words
from dpframe.interfaces.statistic import Statistic

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
    included. Raises
    DpframeError if the statistic does not take canaries, or needs a pilot.
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


SET_ASIDE = 0.05  # share of the scores that only the test of their direction sees
MOST_SET_ASIDE = 1_000  # of each side
SPARED = 20  # first scores of each side, which are never set aside
LEVEL = 1e-3  # probability that scores in the right direction are taken for reversed


def set_aside(count: int, rng: np.random.Generator) -> HostArray:
    """Choose scores that no bound uses; return booleans of shape [count].

    The choice among earlier scores does not depend on the count: bets on a growing file must not
    change.
    """
    chosen = rng.random(count) < SET_ASIDE
    chosen[:SPARED] = False
    return chosen & (np.cumsum(chosen) <= MOST_SET_ASIDE)


def reversed_p_value(outside: HostArray, inside: HostArray) -> float | None:
    """Test the hypothesis that scores with the record are stochastically no lower than without.

    This is the Mann-Whitney test with ties, in its normal approximation [Mann1947].

    Args:
        outside: scores on D, shape [n].
        inside: scores on D′, shape [m].

    Returns:
        The p-value; None if a side is empty or all scores are equal.
    """
    n, m = len(outside), len(inside)
    values = np.concatenate([_ordered(outside), _ordered(inside)])
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    if not n * m or len(times) == 1:
        return None
    ranks = (np.cumsum(times) - (times - 1) / 2)[place]
    below = float(ranks[n:].sum()) - m * (m + 1) / 2
    ties = float((times**3 - times).sum()) / ((n + m) * (n + m - 1))
    deviation = math.sqrt(n * m / 12 * (n + m + 1 - ties))
    return float(ndtr((below - n * m / 2 + 0.5) / deviation))


MOST_THRESHOLDS = 200  # thresholds of each kind and side, if there are many scores


def roc(outside: HostArray, inside: HostArray) -> list[list[float]]:
    """Return the points (FPR, TPR) of thresholds on the scores.

    If there are many scores, only some ranks of both sides are thresholds, spaced evenly and
    logarithmically from both ends, so that rare errors are resolved. NaN is below every number.

    Args:
        outside: scores on D, shape [n].
        inside: scores on D′, shape [m].

    Returns:
        Frequencies, which are not bounds: shape [k][2], rising from (0, 0) to (1, 1); empty if a
        side is empty.
    """
    if not (len(outside) and len(inside)):
        return []
    sides = [np.sort(_ordered(values)) for values in (outside, inside)]
    places = np.unique(np.concatenate([values[_ranks(len(values))] for values in sides]))
    fpr, tpr = ((len(v) - np.searchsorted(v, places)) / len(v) for v in sides)
    points = np.unique(np.stack([fpr, tpr], axis=1), axis=0).tolist()
    return [[0.0, 0.0], *points]


def _ordered(values: HostArray) -> HostArray:
    if values.dtype.kind != "f":
        return values.astype(np.float32)
    return np.where(np.isnan(values), -np.inf, values)


def _ranks(count: int) -> Ints:
    """Return the ranks of the thresholds among `count` sorted scores."""
    if count <= 3 * MOST_THRESHOLDS:
        return np.arange(count)
    near = np.unique(np.geomspace(1, count, MOST_THRESHOLDS).astype(np.int64))
    even = np.linspace(0, count - 1, MOST_THRESHOLDS).astype(np.int64)
    return np.unique(np.concatenate([near - 1, even, count - near]))
