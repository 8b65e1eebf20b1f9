"""Directions in place of gradients of canaries, and scores by what steps released in them.

Every direction has its own coordinates with random signs, so no two overlap; they lie in the
largest arrays of parameters. The released gradient in a canary's direction, in units of the
clipping norm, is about N(1, σ²) if the canary is in the batch, and N(0, σ²) if not. The other
records add to the noise, so further directions, which no canary has, show its size; so the score of
a canary depends on no coin but its own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpframe.common.types import Floats, Ints

COORDINATES = 8  # of a direction, at most
CONTROLS = 64  # directions without canaries, at most
FEWEST_CONTROLS = 48  # with fewer there are none, and scores depend on each other
LARGE = 10.0
"""Norm of a canary's gradient before clipping ÷ the clipping norm."""
NORMAL_MAD = 1.4826  # standard deviation of a normal variable over its median absolute deviation
LEAST_DEVIATION = 1e-3  # deviation of what a step releases, in units of the clipping norm


OUTCOME = np.dtype(
    [("canary", np.int64), ("record", np.int64), ("included", np.bool_), ("score", np.float64)]
)


class Directions(NamedTuple):
    """Orthogonal directions of norm 1 for m canaries, and then for the controls, if any."""

    number: int
    """m."""
    chosen: list[int]
    """Indices of the arrays that directions lie in."""
    which: Ints
    """For each coordinate the place of its array in `chosen`, shape [rows, coordinates]."""
    inner: Ints
    """Its index in the flat array, shape [rows, coordinates]."""
    signs: Floats
    """Its value, shape [rows, coordinates]."""


def draw_directions(
    sizes: Ints, number: int, seed: np.random.SeedSequence | int
) -> Directions | None:
    """Draw directions; None if there are fewer coordinates than canaries.

    Args:
        sizes: number of coordinates of each array of parameters.
        number: m.
        seed: of coordinates and signs.
    """
    sizes = np.asarray(sizes)
    each = min(COORDINATES, int(sizes.sum()) // number)
    if not each:
        return None
    order = np.argsort(-sizes, kind="stable")
    used = int(np.searchsorted(np.cumsum(sizes[order]), number * each)) + 1
    ends = np.cumsum(sizes[order[:used]])
    controls = min(CONTROLS, int(ends[-1]) // each - number)
    rows = number + controls * (controls >= FEWEST_CONTROLS)
    rng = np.random.default_rng(seed)
    coordinates = rng.choice(int(ends[-1]), (rows, each), replace=False)
    signs = rng.choice([-1.0, 1.0], (rows, each)) / math.sqrt(each)
    which = np.searchsorted(ends, coordinates, side="right")
    inner = coordinates - np.concatenate([[0], ends[:-1]])[which]
    return Directions(number, [int(place) for place in order[:used]], which, inner, signs)


def score_steps(
    projections: Floats, number: int, noise: Floats, rates: Floats
) -> tuple[Floats, Floats]:
    """Score canaries by what steps released in their directions [Nasr2023; Steinke2023, section 6].

    Args:
        projections: components of the releases in units of the clipping norm, shape [steps, rows].
        number: m; the other rows are controls.
        noise: σ of each step, shape [steps].
        rates: of sampling each record, strictly between 0 and 1, shape [steps].

    Returns:
        The log-likelihood ratio of each canary for being in the training set, and so in each batch
        with the probability of sampling, summed over the steps, shape [m]; and the spread of each
        step in directions without canaries, shape [steps].
    """
    others = projections[:, number:] if projections.shape[1] > number else projections
    odds = np.log(rates / (1 - rates))[:, None]
    with np.errstate(invalid="ignore", over="ignore"):  # a training may diverge
        spreads = NORMAL_MAD * np.median(np.abs(others), axis=1)
        variances = np.maximum(np.maximum(spreads, noise), LEAST_DEVIATION)[:, None] ** 2
        ratios = (2 * projections[:, :number] - 1) / (2 * variances) + odds
        return np.asarray(np.logaddexp(0, ratios).sum(axis=0)), spreads
