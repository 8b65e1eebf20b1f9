"""Learners of scores: logistic regression, a perceptron, and weights for thin leaks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.builtin.attacks import columns as _columns
from dpframe.builtin.attacks.columns import Columns
from dpframe.plugins import Array, Floats, HostArray, Ints, Key

# Logistic regression, with the ridge and the features that do best on held-out rows.
#
# All candidates descend together, so that each step reads the rows once.

RIDGES = (1.0, 0.1, 1e-2, 1e-3)
STEPS = 40
FEWER = 12  # steps of a fit that starts from another one
UNUSED = 1e9  # ridge that removes a feature from a candidate

# Least ridge for which steps are computed, because of single precision.
FLOOR = 1e-3
EXACT = 512  # up to this many columns, steps use the whole curvature, not its largest eigenvalue
FREE = 1e-6  # ridge of the intercept
SMALLEST = 64  # columns are padded to a multiple of this; rows to its square, or a power of four


def padded(count: int) -> int:
    """Return the padded number of rows; few shapes compile fast."""
    bits = (max(count, SMALLEST**2) - 1).bit_length()
    return 1 << (bits + bits % 2)


class Linear(NamedTuple):
    """A linear score: the intercept and one weight per column."""

    intercept: float
    weights: Floats


class TrainingRows(NamedTuple):
    """Rows of two classes, the intercept's column last, padded."""

    rows: Any  # float32, [n, columns]
    signs: Any  # [n]: −1 for D, 1 for D′
    shares: Any  # [n]: 1/count; 0 for padding


def table(sides: Sequence[HostArray]) -> TrainingRows:
    """Join standardised rows on D and on D′, each of shape [n, columns], into one table."""
    count, width = sum(map(len, sides)), sides[0].shape[1]
    rows = np.zeros((padded(count), -(-(width + 1) // SMALLEST) * SMALLEST), np.float32)
    signs, shares = np.ones(len(rows), np.float32), np.zeros(len(rows), np.float32)
    signs[: len(sides[0])], shares[:count] = -1, 1 / count
    rows[: len(sides[0]), :width], rows[len(sides[0]) : count, :width] = sides
    rows[:count, -1] = 1
    return TrainingRows(rows, signs, shares)


def best_ridge(
    train: Sequence[HostArray], held: Sequence[HostArray], groups: Sequence[Ints]
) -> tuple[float, Ints, Linear]:
    """Choose the ridge and the columns with the smallest loss on rows held out.

    Rows on D and on D′ are standardised, shape [n, columns] each. Groups are choices of columns; if
    several have equal losses, the first is used.

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
    """Maximise the mean log-likelihood of two classes less ½ ridge ‖w‖².

    Rows on D and on D′ are standardised, shape [n, columns] each. `near` is the start, such as the
    fit to some of the rows.
    """
    width = sides[0].shape[1]
    given = table(sides)
    start = np.zeros((1, given.rows.shape[1]), np.float32)
    start[0, :width], start[0, -1] = near.weights, near.intercept
    found = np.asarray(_fitted(given, np.full((1, width), ridge), start), np.float64)[0]
    return Linear(float(found[-1]), found[:width])


def _fitted(given: TrainingRows, penalties: Floats, start: HostArray | None = None) -> Array:
    """Return the weights of every candidate, shape [candidates, padded columns]."""
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
    """Run accelerated gradient descent [Nesterov1983], restarted if a step goes uphill."""
    # The curvature is largest at 0, where it is a quarter of the moments, so these steps are safe.
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
    """Invert positive definite matrices, shape [candidates, n, n], by Gauss-Jordan elimination.

    LAPACK is not used, because its threads wait for each other on busy cores.
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
    """Return the largest eigenvalue of a positive semidefinite matrix, or slightly more."""

    def step(_: Any, vector: Array) -> Array:
        turned = matrix @ vector
        unit: Array = turned / jnp.linalg.norm(turned)
        return unit

    start = jnp.sqrt(jnp.diag(matrix)) + 1e-3
    vector = jax.lax.fori_loop(0, 30, step, start)
    largest: Array = 1.2 * jnp.linalg.norm(matrix @ vector) / jnp.linalg.norm(vector)
    return largest


# A small multilayer perceptron that learns what a linear score cannot.

BATCH = 512
EPOCHS = 20
PATIENCE = 3
RATE = 3e-3
DECAY = 1e-4
FURTHEST = 12.0  # largest absolute change of a score by the perceptron


class Layers(NamedTuple):
    """The weights of two hidden layers."""

    first: Any  # [columns + 1, hidden]: the last row is added
    second: Any  # [hidden + 1, hidden]
    out: Any  # [hidden]


def zero(columns: int, hidden: int) -> Layers:
    """Return a perceptron that adds nothing."""
    return Layers(
        np.zeros((columns + 1, hidden), np.float32),
        np.zeros((hidden + 1, hidden), np.float32),
        np.zeros(hidden, np.float32),
    )


def unfolded(layers: Layers, centre: Floats, spread: Floats) -> Layers:
    """Return the same perceptron for rows that are not standardised by centre and spread."""
    first = np.asarray(layers.first, np.float64)
    used = first[:-1] / spread[:, None]
    first = np.concatenate([used, [first[-1] - centre @ used]])
    return Layers(np.float32(first), np.float32(layers.second), np.float32(layers.out))


def begun(key: Key, columns: int, hidden: int) -> Layers:
    """Return an untrained perceptron, which adds nothing."""
    one, two = jax.random.split(key)
    first = jax.random.normal(one, (columns, hidden), jnp.float32) / math.sqrt(max(columns, 1))
    second = jax.random.normal(two, (hidden, hidden), jnp.float32) / math.sqrt(hidden)
    empty = jnp.zeros((1, hidden), jnp.float32)
    return Layers(jnp.concatenate([first, empty]), jnp.concatenate([second, empty]), empty[0])


def added(layers: Layers, columns: Array) -> Array:
    """Return what the perceptron adds to scores, shape [n]; columns [columns, n]; traced."""
    held = columns
    for layer in layers[:2]:
        held = jax.nn.relu(layer[:-1].T @ held + layer[-1][:, None])
    return FURTHEST * jnp.tanh(layers.out @ held / FURTHEST)


def _loss(weights: Layers, rows: Array, base: Array, signs: Array) -> Array:
    margins = (base + added(weights, rows.T)) * signs
    return jnp.mean(jax.nn.softplus(-margins))


_judge = jax.jit(_loss)


@jax.jit
def _epoch(
    weights: Layers, adam: Any, order: Array, rows: Array, base: Array, signs: Array
) -> tuple[Layers, Any]:
    """Train for one pass over all rows by Adam [Kingma2015, algorithm 1]."""

    def step(carried: Any, batch: Array) -> tuple[Any, None]:
        weights, (count, first, second) = carried
        taken = rows[batch], base[batch], signs[batch]
        slope = jax.grad(_loss)(weights, *taken)
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, slope)

        def moved(w: Array, m: Array, v: Array) -> Array:
            towards = m / (1 - 0.9**count) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)
            new: Array = w - RATE * (towards + DECAY * w)
            return new

        return (jax.tree.map(moved, weights, first, second), (count, first, second)), None

    (weights, adam), _ = jax.lax.scan(step, (weights, adam), order)
    return weights, adam


def trained(
    key: Key,
    train: tuple[HostArray, HostArray, HostArray],
    held: tuple[HostArray, HostArray, HostArray],
    hidden: int,
) -> Layers:
    """Train on rows until the loss on held-out rows stops falling.

    `train` and `held` each contain rows of shape [n, columns], linear scores of shape [n] and signs
    of shape [n] (1 for D′, −1 for D). `key` determines the first weights and the order of the rows.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())
    data, judged = (_evened(part, rng) for part in (train, held))
    layers = begun(key, train[0].shape[1], hidden)
    adam: Any = (jnp.float32(0), *(jax.tree.map(jnp.zeros_like, layers) for _ in range(2)))
    best, lowest, since = layers, float(_judge(layers, *judged)), 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(data[0])).reshape(-1, BATCH)
        layers, adam = _epoch(layers, adam, order, *data)
        now = float(_judge(layers, *judged))
        since = 0 if now < lowest else since + 1
        if now < lowest:
            best, lowest = layers, now
        if since == PATIENCE:
            break
    learned: Layers = jax.tree.map(np.asarray, best)
    return learned


def _evened(part: tuple[HostArray, HostArray, HostArray], rng: np.random.Generator) -> Any:
    """Repeat rows up to a power of four; few shapes compile fast."""
    rows, base, signs = part
    size = padded(len(rows))
    taken = np.resize(rng.permutation(len(rows)), size)
    return tuple(jnp.asarray(each[taken], jnp.float32) for each in (rows, base, signs))


# Weights for leaks so small that only hundreds of thousands of outputs reveal them.
#
# If every output reveals next to nothing, the loss of logistic regression is a parabola around 0.
# Two sums over all outputs then suffice to fit any choice of features with any ridge, and two more
# over held-out outputs suffice to choose among the fits.

FROM = 2**16  # least number of outputs per dataset for such a fit
BLOCK = 2**13  # outputs per dataset that are added up at a time; every fourth block is held out
CURVED = 16  # blocks for the covariance of features; their means use all blocks
ENTRIES = 2**27  # of the features of one dataset, about: further outputs are left out
WIDEST = 2**10  # features beyond which their products would take too long
THIN = 0.5  # standard deviation of a score up to which its loss is about a parabola
THIN_RIDGES = (1.0, 0.1, 1e-2, 1e-3, 1e-4)

# Standard errors by which separate weights must improve on one weight for all columns.
LUCK = 1.0
ALIKE = 0.05  # of a spread: largest difference of centres and spreads of similar columns


def pooled(columns: Columns, sides: Sequence[HostArray]) -> Columns | None:
    """Pool the columns of outputs on D and on D′; None if the columns are not similar."""
    c = len(columns.centre)
    if c < 2:
        return None
    spread = np.median(columns.spread)
    off = np.abs(columns.centre - np.median(columns.centre)) + np.abs(columns.spread - spread)
    special = np.sort(columns.special, axis=1)
    if np.any(off > ALIKE * spread) or np.any(special != special[0]):
        return None
    one = _columns.looked_at((sides[0].reshape(-1, 1), sides[1].reshape(-1, 1)), FROM, columns)
    return Columns(*(np.repeat(part, c, axis=0) for part in one))


class Sums(NamedTuple):
    """Slope and curvature of the loss at 0, over some outputs."""

    slope: Floats  # negative gradient, shape [m]
    curvature: Floats  # [m, m]

    def along(self, directions: Floats) -> Sums:
        """Return the sums for weights along directions, shape [k, m]."""
        return Sums(directions @ self.slope, directions @ self.curvature @ directions.T)

    def fitted(self, ridges: Sequence[float]) -> list[Floats]:
        """Return the weights of the smallest loss, for each ridge."""
        values, vectors = np.linalg.eigh(self.curvature)
        turned = vectors.T @ self.slope
        return [vectors @ (turned / (np.maximum(values, 0) + ridge)) for ridge in ridges]

    def shown(self, weights: Floats) -> float:
        """Return the distance of the means of a score, in units of its spread.

        If two datasets have one law, its standard deviation is 1/√(2n) for n outputs of each.
        """
        spread = np.sqrt(weights @ self.curvature @ weights)
        return float(self.slope @ weights / spread) if spread > 0 else 0.0


def thin_weights(
    columns: Columns, centre: Floats, scale: Floats, sides: Sequence[HostArray], *, alike: bool
) -> Floats | None:
    """Learn weights from many outputs; None if they reveal nothing, or more than a small leak.

    Args:
        columns: the features.
        centre: mean of each feature, shape [m].
        scale: 1/standard deviation of each; 0 for those that are not used.
        sides: outputs on D and on D′.
        alike: True if all columns are similar.

    Returns:
        Weights of the standardised features.
    """
    rows = min(*map(len, sides), ENTRIES // len(centre)) // BLOCK * BLOCK
    slopes, blocks = np.zeros((2, len(centre))), np.zeros((2, 2))
    products: list[Any] = [0.0, 0.0]
    for number in range(rows // BLOCK):
        at, held, curved = number * BLOCK, int(number % 4 == 3), number < CURVED
        part = (sides[0][at : at + BLOCK], sides[1][at : at + BLOCK])
        slope, product = _summed(columns, centre, scale, *part, curved=curved)
        slopes[held] += np.asarray(slope, np.float64)
        products[held] = products[held] + np.asarray(product, np.float64)
        blocks[held] += 1, curved
    train, held_out = (
        Sums(slope / many, product / few)
        for slope, product, (many, few) in zip(slopes, products, blocks, strict=True)
    )
    whole = train._replace(slope=slopes.sum(axis=0) / blocks[:, 0].sum())
    found = []
    for directions in _directions(columns, scale, sides, alike):
        own, judge = train.along(directions), held_out.along(directions)
        shown = [judge.shown(weights) for weights in own.fitted(THIN_RIDGES)]
        best = int(np.argmax(shown))
        found.append((shown[best], directions, THIN_RIDGES[best]))
    most, noise = max(shown for shown, *_ in found), 1 / np.sqrt(2 * BLOCK * blocks[1, 0])
    if most <= noise:
        return None
    # Prefer one weight for all columns, unless several weights are clearly better.
    chosen = max(found[:2] if alike else found, key=lambda choice: choice[0])
    if chosen[0] < most - LUCK * noise:
        chosen = max(found, key=lambda choice: choice[0])
    _, directions, ridge = chosen
    (weights,) = whole.along(directions).fitted([ridge])
    weights = weights @ directions
    if 2 * np.sqrt(weights @ whole.curvature @ weights) > THIN:
        return None
    return weights


def _directions(
    columns: Columns, scale: Floats, sides: Sequence[HostArray], alike: bool
) -> list[Floats]:
    """Return choices of features, each as a basis of the weights, shape [k, m]; small ones first.

    The choices are: no ramps; the ramp between the medians of D and D′, where two-sided noise has
    its step; all ramps. For similar columns there are also choices with one weight for all columns.
    """
    c, ramps = columns.start.shape
    flags = columns.special.size + c
    kind = np.concatenate(
        [
            np.tile(np.arange(flags // c), c),
            np.full(c, flags // c),
            np.tile(flags // c + 1 + np.arange(ramps), c),
        ]
    )
    middle = np.zeros((c, ramps), bool)
    for at in range(c if ramps else 0):
        own = slice(None) if alike else at
        parts = [side[: _columns.LOOKED_AT, own].ravel() for side in sides]
        medians = [np.median(part[np.isfinite(part)]) for part in parts if np.isfinite(part).any()]
        distance = np.abs(columns.start[at] - min(medians, default=0.0))
        distance[columns.slope[at] <= 0] = np.inf
        middle[at, np.argmin(distance)] = True
    plain = kind <= flags // c
    step = plain.copy()
    step[flags + c :] = middle.ravel()
    each, every = np.eye(len(kind)), np.ones(len(kind), bool)
    found = [each[group & (scale > 0)] for group in (plain, step, every)]
    if alike:
        one = np.stack([(kind == own) * (scale > 0) for own in np.unique(kind[scale > 0])])
        found = [one * step / np.sqrt(c), one / np.sqrt(c), *found]
    return [directions[directions.any(axis=1)] for directions in found if directions.any()]


@partial(jax.jit, static_argnames="curved")
def _summed(
    columns: Columns, centre: Any, scale: Any, d0: Array, d1: Array, curved: bool
) -> tuple[Array, Array]:
    rows = jnp.concatenate([d0, d1])
    seen = (_columns.see(columns, rows, jnp) - centre.astype(rows.dtype)) * scale.astype(rows.dtype)
    slope = (seen[len(d0) :].mean(axis=0) - seen[: len(d0)].mean(axis=0)) / 4
    return slope, seen.T @ seen / (4 * len(rows)) if curved else jnp.zeros(())
