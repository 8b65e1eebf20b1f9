"""Logistic regression, and the ridge and the features that do best on rows held out.

All candidates descend together, so that the rows are read once for all of them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpframe import Array, Floats, HostArray, Ints

RIDGES = (1.0, 0.1, 1e-2, 1e-3)
STEPS = 40
FEWER = 12
"""Steps from where another fit has ended."""

UNUSED = 1e9
"""Ridge of a feature that a candidate does without."""

FLOOR = 1e-3
"""Ridge that steps are made for, at least, so that they can be found in single precision."""

EXACT = 512
"""Columns up to which steps follow the curvature, and not only its largest value."""

FREE = 1e-6
"""Ridge of the intercept."""

SMALLEST = 64
"""Columns are added up to a multiple of this; rows to its square, or a power of four."""


def padded(count: int) -> int:
    """To how many rows others are added: few shapes, few programs."""
    bits = (max(count, SMALLEST**2) - 1).bit_length()
    return 1 << (bits + bits % 2)


class Linear(NamedTuple):
    """A linear score: the intercept and one weight per column."""

    intercept: float
    weights: Floats

    def margins(self, rows: HostArray) -> HostArray:
        """Scores of rows of shape [n, columns]."""
        found: HostArray = rows @ self.weights.astype(np.float32) + np.float32(self.intercept)
        return found


class Table(NamedTuple):
    """Rows of two classes, the intercept's column last, padded."""

    rows: Any
    """float32, [n, columns]"""
    signs: Any
    """[n]: −1 for D, 1 for D′."""
    shares: Any
    """[n]: 1/count; 0 for padding."""


def table(sides: Sequence[HostArray]) -> Table:
    """Standardised rows on D and on D′, each of shape [n, columns], as one table."""
    count, width = sum(map(len, sides)), sides[0].shape[1]
    rows = np.zeros((padded(count), -(-(width + 1) // SMALLEST) * SMALLEST), np.float32)
    signs, shares = np.ones(len(rows), np.float32), np.zeros(len(rows), np.float32)
    signs[: len(sides[0])], shares[:count] = -1, 1 / count
    rows[: len(sides[0]), :width], rows[len(sides[0]) : count, :width] = sides
    rows[:count, -1] = 1
    return Table(rows, signs, shares)


def best_ridge(
    train: Sequence[HostArray], held: Sequence[HostArray], groups: Sequence[Ints]
) -> tuple[float, Ints, Linear]:
    """Which ridge and which columns give the smallest loss on rows held out.

    Args:
        train: standardised rows on D and on D′, shape [n, columns] each.
        held: rows to judge by.
        groups: choices of columns; of equal ones the first is taken.

    Returns:
        The ridge, the columns, and the weights of these that were learned.
    """
    learned_from, width = table(train), train[0].shape[1]
    penalties = []
    for group in groups:
        for ridge in RIDGES:
            penalty = np.full(width, UNUSED)
            penalty[group] = ridge
            penalties.append(penalty)
    weights = _fitted(learned_from, np.stack(penalties))
    losses = np.asarray(_losses(*table(held), weights))
    best = int(np.argmin(losses))
    group = groups[best // len(RIDGES)]
    found = np.asarray(weights[best], np.float64)
    return RIDGES[best % len(RIDGES)], group, Linear(float(found[-1]), found[group])


def ridge_regression(sides: Sequence[HostArray], ridge: float, near: Linear) -> Linear:
    """Maximises the mean log-likelihood of two classes less ½ ridge ‖w‖².

    Args:
        sides: standardised rows on D and on D′, shape [n, columns] each.
        ridge: above 0.
        near: where to begin, such as what some of the rows gave.
    """
    width = sides[0].shape[1]
    given = table(sides)
    start = np.zeros((1, given.rows.shape[1]), np.float32)
    start[0, :width], start[0, -1] = near.weights, near.intercept
    found = np.asarray(_fitted(given, np.full((1, width), ridge), start), np.float64)[0]
    return Linear(float(found[-1]), found[:width])


def _fitted(given: Table, penalties: Floats, start: HostArray | None = None) -> Array:
    """Weights of every candidate, shape [candidates, padded columns]."""
    width = given.rows.shape[1]
    ridges = np.full((len(penalties), width), UNUSED)
    ridges[:, : penalties.shape[1]], ridges[:, -1] = penalties, FREE
    steps = STEPS if start is None else FEWER
    begun = np.zeros(ridges.shape, np.float32) if start is None else start
    found: Array = _descended(*given, ridges.astype(np.float32), begun, steps, exact=width <= EXACT)
    return found


@jax.jit
def _losses(rows: Array, signs: Array, shares: Array, weights: Array) -> Array:
    margins = rows @ weights.T * signs[:, None]
    return shares @ jax.nn.softplus(-margins)


@partial(jax.jit, static_argnames="exact")
def _descended(
    rows: Array, signs: Array, shares: Array, ridges: Array, start: Array, count: int, exact: bool
) -> Array:
    """Accelerated gradient descent [Nesterov1983], begun anew where it goes uphill."""
    # Nowhere is more curvature than at 0, a quarter of the moments: steps by its inverse are safe.
    curvature = (rows * shares[:, None]).T @ rows / 4
    floored = jnp.maximum(ridges, FLOOR)
    if exact:
        steps = _inverses(curvature + jax.vmap(jnp.diag)(floored))
    else:
        steps = 1 / (_steepest(curvature) + floored)

    def step(_: Any, carried: Any) -> Any:
        weights, ahead, momentum = carried
        margins = rows @ ahead.T * signs[:, None]
        odds = jax.nn.sigmoid(-margins) * (signs * shares)[:, None]
        slope = ridges * ahead - odds.T @ rows
        new = ahead - (jnp.einsum("cij,cj->ci", steps, slope) if exact else steps * slope)
        moved = new - weights
        uphill = jnp.sum(slope * moved, axis=1) > 0
        then = jnp.where(uphill, 1.0, (1 + jnp.sqrt(1 + 4 * momentum**2)) / 2)
        push = jnp.where(uphill, 0.0, (momentum - 1) / then)
        return new, new + push[:, None] * moved, then

    first = start, start, jnp.ones(len(ridges), ridges.dtype)
    found = jax.lax.fori_loop(0, count, step, first)
    weights: Array = found[0]
    return weights


def _inverses(matrices: Array) -> Array:
    """Inverses of positive definite matrices by Gauss and Jordan, shape [candidates, n, n].

    Not LAPACK: its threads wait for each other where others use the cores too.
    """

    def step(at: Array, found: Array) -> Array:
        pivots = found[:, at, at][:, None]
        row, column = found[:, at, :] / pivots, found[:, :, at]
        found = found - column[:, :, None] * row[:, None, :]
        found = found.at[:, at, :].set(row).at[:, :, at].set(-column / pivots)
        return found.at[:, at, at].set(1 / pivots[:, 0])

    inverses: Array = jax.lax.fori_loop(0, matrices.shape[1], step, matrices)
    return inverses


def _steepest(matrix: Array) -> Array:
    """The largest eigenvalue of a positive semidefinite matrix, or a little more."""

    def step(_: Any, vector: Array) -> Array:
        turned = matrix @ vector
        unit: Array = turned / jnp.linalg.norm(turned)
        return unit

    start = jnp.sqrt(jnp.diag(matrix)) + 1e-3
    vector = jax.lax.fori_loop(0, 30, step, start)
    largest: Array = 1.2 * jnp.linalg.norm(matrix @ vector) / jnp.linalg.norm(vector)
    return largest
