"""Learners of scores: logistic regression, a perceptron, and weights for thin leaks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dpframe.builtin import columns as _columns
from dpframe.builtin.columns import Columns
from dpframe.plugins import Array, Floats, HostArray, Ints, Key

# Logistic regression, with the ridge and the features that do best on held-out rows.
#
# All candidates descend together, so that each step reads the rows once.

RIDGES = (1.0, 0.1, 1e-2, 1e-3)
DESCENT_STEPS = 40
WARM_STEPS = 12  # steps of a fit that starts from another one
UNUSED = 1e9  # ridge that removes a feature from a candidate

# Least ridge for which steps are computed, because of single precision.
FLOOR = 1e-3
EXACT = 512  # up to this many columns, steps use the whole curvature, not its largest eigenvalue
FREE = 1e-6  # ridge of the intercept


class Linear(NamedTuple):
    """A linear score: the intercept and one weight per column."""

    intercept: float
    weights: Floats


class TrainingRows(NamedTuple):
    """Rows of two classes, the intercept's column last."""

    rows: Any  # float32, [n, columns]
    signs: Any  # [n]: −1 for D, 1 for D′


def table(sides: Sequence[HostArray]) -> TrainingRows:
    """Join standardised rows on D and on D′, each of shape [n, columns], into one table."""
    rows = np.concatenate([np.asarray(side, np.float32) for side in sides])
    ones = np.ones((len(rows), 1), np.float32)
    signs = np.repeat([-1, 1], [len(side) for side in sides]).astype(np.float32)
    return TrainingRows(np.concatenate([rows, ones], axis=1), signs)


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
    judged = table(held)
    margins = judged.rows @ weights.T * judged.signs[:, None]
    best = int(np.argmin(np.logaddexp(0, -margins).mean(axis=0)))
    group = groups[best // len(RIDGES)]
    chosen = weights[best].astype(np.float64)
    return RIDGES[best % len(RIDGES)], group, Linear(float(chosen[-1]), chosen[group])


def ridge_regression(sides: Sequence[HostArray], ridge: float, near: Linear) -> Linear:
    """Maximise the mean log-likelihood of two classes less ½ ridge ‖w‖².

    Rows on D and on D′ are standardised, shape [n, columns] each. `near` is the start, such as the
    fit to some of the rows.
    """
    width = sides[0].shape[1]
    given = table(sides)
    start = np.zeros((1, given.rows.shape[1]), np.float32)
    start[0, :width], start[0, -1] = near.weights, near.intercept
    fitted = _fitted(given, np.full((1, width), ridge), start)[0].astype(np.float64)
    return Linear(float(fitted[-1]), fitted[:width])


def _fitted(given: TrainingRows, penalties: Floats, start: HostArray | None = None) -> HostArray:
    """Return the weights of every candidate, shape [candidates, columns].

    They run accelerated gradient descent [Nesterov1983], restarted if a step goes uphill.
    """
    rows, signs = given
    ridges = np.column_stack([penalties, np.full(len(penalties), FREE)]).astype(np.float32)
    # The curvature is largest at 0, where it is a quarter of the moments, so these steps are safe.
    curvature = rows.T @ rows / (4 * len(rows))
    floored = np.maximum(ridges, FLOOR)
    exact = rows.shape[1] <= EXACT
    if exact:
        steps = np.linalg.inv(curvature + floored[:, :, None] * np.eye(len(curvature)))
    else:
        steps = 1 / (_steepest(curvature) + floored)
    steps = steps.astype(np.float32)
    weights = ahead = np.zeros_like(ridges) if start is None else start
    momentum = np.ones(len(ridges), np.float32)
    for _ in range(DESCENT_STEPS if start is None else WARM_STEPS):
        odds = special.expit(-(rows @ ahead.T) * signs[:, None]) * (signs / len(rows))[:, None]
        slope = ridges * ahead - odds.T @ rows
        step = (steps @ slope[:, :, None])[:, :, 0] if exact else steps * slope
        moved, weights = ahead - step - weights, ahead - step
        uphill = np.sum(slope * moved, axis=1) > 0
        then = np.where(uphill, 1, (1 + np.sqrt(1 + 4 * momentum**2)) / 2)
        push = np.where(uphill, 0, (momentum - 1) / then)
        ahead, momentum = weights + push[:, None] * moved, then
    return weights


def _steepest(matrix: HostArray) -> float:
    """Return the largest eigenvalue of a positive semidefinite matrix, or slightly more."""
    vector = np.sqrt(np.diag(matrix)) + 1e-3
    for _ in range(30):
        vector = matrix @ vector
        vector /= np.linalg.norm(vector)
    return float(1.2 * np.linalg.norm(matrix @ vector))


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


def begun(rng: np.random.Generator, columns: int, hidden: int) -> Layers:
    """Return an untrained perceptron, which adds nothing."""
    layers = zero(columns, hidden)
    layers.first[:-1] = rng.standard_normal((columns, hidden)) / math.sqrt(max(columns, 1))
    layers.second[:-1] = rng.standard_normal((hidden, hidden)) / math.sqrt(hidden)
    return layers


def added(layers: Layers, columns: Array) -> Array:
    """Return what the perceptron adds to scores, shape [n]; columns [columns, n]."""
    held, xp = columns, columns.__array_namespace__()
    for layer in layers[:2]:
        held = xp.maximum(layer[:-1].T @ held + layer[-1][:, None], 0)
    more: Array = FURTHEST * xp.tanh(layers.out @ held / FURTHEST)
    return more


class Examples(NamedTuple):
    """Rows of shape [n, columns], linear scores [n] and signs [n] (1 for D′, −1 for D)."""

    rows: HostArray
    base: HostArray
    signs: HostArray

    def loss(self, layers: Layers) -> float:
        """Return the mean loss of the scores to which a perceptron is added."""
        scores: Any = self.base + np.asarray(added(layers, self.rows.T))  # type: ignore[arg-type]
        return float(np.logaddexp(0, -scores * self.signs).mean())

    def slope(self, layers: Layers) -> Layers:
        """Return the gradient of the loss."""
        held = [self.rows]
        for layer in layers[:2]:
            held.append(np.maximum(held[-1] @ layer[:-1] + layer[-1], 0))
        bent = np.tanh(held[2] @ layers.out / FURTHEST)
        margins = (self.base + FURTHEST * bent) * self.signs
        back = -self.signs * special.expit(-margins) * (1 - bent * bent) / len(margins)
        slopes = [held[2].T @ back]
        back = back[:, None] * layers.out
        for number in (1, 0):
            back = back * (held[number + 1] > 0)
            slopes.append(np.concatenate([held[number].T @ back, back.sum(axis=0)[None]]))
            back = back @ layers[number][:-1].T
        return Layers(*reversed(slopes))


def trained(key: Key, train: Examples, held: Examples, hidden: int) -> Layers:
    """Train by Adam [Kingma2015, algorithm 1] until the loss on held-out rows stops falling.

    `key` determines the first weights and the order of the rows.
    """
    rng = np.random.default_rng(_words_of(key))
    layers = best = begun(rng, train.rows.shape[1], hidden)
    first = second = [0.0] * len(layers)
    lowest, since, count = held.loss(layers), 0, 0
    batches = max(1, len(train.rows) // BATCH)
    for _ in range(EPOCHS):
        for taken in np.array_split(rng.permutation(len(train.rows)), batches):
            slope = Examples(*(part[taken] for part in train)).slope(layers)
            count += 1
            first = [0.9 * m + 0.1 * g for m, g in zip(first, slope, strict=True)]
            second = [0.999 * v + 0.001 * g * g for v, g in zip(second, slope, strict=True)]
            layers = Layers(
                *(
                    w - RATE * (_towards(m, v, count) + DECAY * w)
                    for w, m, v in zip(layers, first, second, strict=True)
                )
            )
        now = held.loss(layers)
        since = 0 if now < lowest else since + 1
        if now < lowest:
            best, lowest = layers, now
        if since == PATIENCE:
            break
    return best


def _towards(mean: Any, square: Any, count: int) -> Any:
    return mean / (1 - 0.9**count) / (np.sqrt(square / (1 - 0.999**count)) + 1e-8)


def _words_of(key: Any) -> list[int]:
    if isinstance(key, np.ndarray):
        return key.ravel().tolist()
    import jax

    return np.asarray(jax.random.key_data(key)).ravel().tolist()


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
    choices = []
    for directions in _directions(columns, scale, sides, alike):
        own, judge = train.along(directions), held_out.along(directions)
        shown = [judge.shown(weights) for weights in own.fitted(THIN_RIDGES)]
        best = int(np.argmax(shown))
        choices.append((shown[best], directions, THIN_RIDGES[best]))
    most, noise = max(shown for shown, *_ in choices), 1 / np.sqrt(2 * BLOCK * blocks[1, 0])
    if most <= noise:
        return None
    # Prefer one weight for all columns, unless several weights are clearly better.
    chosen = max(choices[:2] if alike else choices, key=lambda choice: choice[0])
    if chosen[0] < most - LUCK * noise:
        chosen = max(choices, key=lambda choice: choice[0])
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
    bases = [each[group & (scale > 0)] for group in (plain, step, every)]
    if alike:
        one = np.stack([(kind == own) * (scale > 0) for own in np.unique(kind[scale > 0])])
        bases = [one * step / np.sqrt(c), one / np.sqrt(c), *bases]
    return [directions[directions.any(axis=1)] for directions in bases if directions.any()]


def _summed(
    columns: Columns, centre: Any, scale: Any, d0: HostArray, d1: HostArray, *, curved: bool
) -> tuple[Any, Any]:
    rows = np.concatenate([d0, d1])
    seen = (_columns.see(columns, rows) - centre.astype(rows.dtype)) * scale.astype(rows.dtype)
    slope = (seen[len(d0) :].mean(axis=0) - seen[: len(d0)].mean(axis=0)) / 4
    return slope, seen.T @ seen / (4 * len(rows)) if curved else 0.0
