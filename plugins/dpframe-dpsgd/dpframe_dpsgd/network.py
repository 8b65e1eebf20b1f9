"""A network with one hidden layer, and the sum of its clipped gradients without single gradients.

The gradient of one record with respect to a dense layer is the outer product of the layer's input
and the back-propagated error, so its norm is the product of their norms. With the norms known, one
weighted matrix product sums the clipped gradients [Goodfellow2015] ("ghost norms"). For dense
layers this is exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpframe.plugins import Array, Key


class Network(NamedTuple):
    """Parameters of one hidden layer with rectified linear units."""

    hidden_weights: Any
    """Shape [features, width]."""
    hidden_bias: Any
    output_weights: Any
    """Shape [width, classes]."""
    output_bias: Any


def init_network(key: Key, features: int, width: int, classes: int) -> Network:
    """Return random weights of variance 2/inputs, and zero biases."""
    first, second = jax.random.split(key)
    return Network(
        jax.random.normal(first, (features, width)) * (2 / features) ** 0.5,
        jnp.zeros(width),
        jax.random.normal(second, (width, classes)) * (2 / width) ** 0.5,
        jnp.zeros(classes),
    )


def loss(network: Network, x: Array, y: Array) -> Array:
    """Return the cross-entropy of one record: features [features], label a scalar."""
    hidden = jax.nn.relu(x @ network.hidden_weights + network.hidden_bias)
    logits = hidden @ network.output_weights + network.output_bias
    lost: Array = jax.nn.logsumexp(logits) - logits[y]
    return lost


def clipped_sum(
    network: Network, x: Array, y: Array, weight: Array, clip: Array | float
) -> Network:
    """Return Σᵢ wᵢ gᵢ min(1, C/‖gᵢ‖) over a batch, exactly, without computing any gᵢ.

    Args:
        network: the point at which the gradients are taken.
        x: features, shape [batch, features].
        y: labels, shape [batch].
        weight: wᵢ, shape [batch]; 0 for padding.
        clip: C.
    """
    before = x @ network.hidden_weights + network.hidden_bias
    hidden = jax.nn.relu(before)
    logits = hidden @ network.output_weights + network.output_bias
    error = jax.nn.softmax(logits) - jax.nn.one_hot(y, logits.shape[1], dtype=logits.dtype)
    back = jnp.where(before > 0, error @ network.output_weights.T, 0)
    squared = _squared_norms(x, back) + _squared_norms(hidden, error)
    scale = (weight * clip_factor(squared, clip))[:, None]
    error, back = error * scale, back * scale
    return Network(x.T @ back, back.sum(0), hidden.T @ error, error.sum(0))


def clip_factor(squared_norms: Array, clip: Array | float) -> Array:
    """Return min(1, C/‖g‖), or 1 if g = 0."""
    return jnp.minimum(1, clip * jax.lax.rsqrt(jnp.maximum(squared_norms, 1e-30)))


def _squared_norms(entering: Array, error: Array) -> Array:
    """Return ‖gᵢ‖² of the weights and bias of one dense layer."""
    return (1 + jnp.sum(entering**2, axis=1)) * jnp.sum(error**2, axis=1)
