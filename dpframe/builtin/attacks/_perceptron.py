"""A small multilayer perceptron that learns what a linear score has left over."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.builtin.attacks._regression import padded

if TYPE_CHECKING:
    from dpframe import Array, Floats, HostArray, Key

BATCH = 512
EPOCHS = 20
PATIENCE = 3
RATE = 3e-3
DECAY = 1e-4
FURTHEST = 12.0
"""What it adds to a score at most, on either side."""


class Layers(NamedTuple):
    """Of two hidden layers."""

    first: Any
    """[columns + 1, hidden]: the last row is added."""
    second: Any
    """[hidden + 1, hidden]"""
    out: Any
    """[hidden]"""


def zero(columns: int, hidden: int) -> Layers:
    """One that adds nothing."""
    return Layers(
        np.zeros((columns + 1, hidden), np.float32),
        np.zeros((hidden + 1, hidden), np.float32),
        np.zeros(hidden, np.float32),
    )


def unfolded(layers: Layers, centre: Floats, spread: Floats) -> Layers:
    """The same for rows that are not standardised.

    Args:
        layers: what was learned from standardised rows.
        centre: what was subtracted from each column.
        spread: what it was divided by.
    """
    first = np.asarray(layers.first, np.float64)
    used = first[:-1] / spread[:, None]
    first = np.concatenate([used, [first[-1] - centre @ used]])
    return Layers(np.float32(first), np.float32(layers.second), np.float32(layers.out))


def begun(key: Key, columns: int, hidden: int) -> Layers:
    """One that adds nothing yet, and can learn."""
    one, two = jax.random.split(key)
    first = jax.random.normal(one, (columns, hidden), jnp.float32) / math.sqrt(max(columns, 1))
    second = jax.random.normal(two, (hidden, hidden), jnp.float32) / math.sqrt(hidden)
    empty = jnp.zeros((1, hidden), jnp.float32)
    return Layers(jnp.concatenate([first, empty]), jnp.concatenate([second, empty]), empty[0])


def added(layers: Layers, columns: Array) -> Array:
    """What it adds to scores, shape [n]; traced.

    Args:
        layers: what was learned.
        columns: shape [columns, n].
    """
    held = columns
    for layer in layers[:2]:
        held = jax.nn.relu(layer[:-1].T @ held + layer[-1][:, None])
    more: Array = FURTHEST * jnp.tanh(layers.out @ held / FURTHEST)
    return more


def _loss(weights: Layers, rows: Array, base: Array, signs: Array) -> Array:
    margins = (base + added(weights, rows.T)) * signs
    mean: Array = jnp.mean(jax.nn.softplus(-margins))
    return mean


_judge = jax.jit(_loss)


@jax.jit
def _epoch(
    weights: Layers, adam: Any, order: Array, rows: Array, base: Array, signs: Array
) -> tuple[Layers, Any]:
    """One pass over all rows by Adam [Kingma2015, algorithm 1]."""

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
    """Learns from rows until the loss on those held out falls no more.

    Args:
        key: where it begins and in which order it sees the rows.
        train: rows [n, columns], the scores that it adds to [n], and signs [n], 1 for D′ and −1.
        held: the same, to judge by.
        hidden: units of a layer.
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
    """Rows repeated up to a power of four: few shapes, few programs."""
    rows, base, signs = part
    size = padded(len(rows))
    taken = np.resize(rng.permutation(len(rows)), size)
    return tuple(jnp.asarray(each[taken], jnp.float32) for each in (rows, base, signs))
