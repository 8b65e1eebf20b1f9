"""Combine observations of many steps into one score."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from dpframe.plugins import Array
from dpframe_dpsgd.white_box import VIEWS

COLUMN = {name: place for place, name in enumerate(VIEWS)}
LAGS = 16
"""Steps between which residuals are compared."""


def likelihood_ratio(seen: Array, rate: Any, noise: Any) -> Array:
    """Return the optimal score for a correct trainer.

    It is the sum over all steps of the log-ratio of qN(s, σ²) + (1 − q)N(0, σ²) to N(0, σ²) at the
    residual. Here s is the distance by which the canary would have moved the sum.

    Args:
        seen: shape [n, steps, views].
        rate: q.
        noise: σ.

    Returns:
        Shape [n].
    """
    residual, shift = seen[..., COLUMN["residual"]], seen[..., COLUMN["shift"]]
    ratio = (2 * shift * residual - shift**2) / (2 * noise**2)
    return jnp.logaddexp(jnp.log1p(-rate), jnp.log(rate) + ratio).sum(1)


def candidates(seen: Array, rate: Any, noise: Any) -> Array:
    """Return every score that an audit may choose from.

    They are the likelihood ratio; each view of each step, and its sum and its maximum over the
    steps; the difference between the residuals of any two steps; and for each lag the mean absolute
    difference between residuals that are this many steps apart. The last is 0 if the noise repeats
    and no canary was sampled.

    Args:
        seen: shape [n, steps, views].
        rate: q.
        noise: σ.

    Returns:
        Shape [n, candidates].
    """
    steps = min(seen.shape[1], LAGS)
    first, second = jnp.triu_indices(steps, 1)
    residual = seen[:, :, COLUMN["residual"]]
    apart = [
        jnp.mean(jnp.abs(residual[:, lag:] - residual[:, :-lag]), axis=1, keepdims=True)
        for lag in range(1, steps)
    ]
    return jnp.concatenate(
        [
            likelihood_ratio(seen, rate, noise)[:, None],
            seen.reshape(len(seen), -1),
            seen.sum(1),
            seen.max(1),
            residual[:, second] - residual[:, first],
            *apart,
        ],
        axis=1,
    )
