"""A linear score, learned by logistic regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import jax.numpy as jnp
import numpy as np

from dpframe import Attack, Gt
from dpframe.builtin.attacks._outputs import vectors
from dpframe.stats.logistic import logistic_regression

if TYPE_CHECKING:
    from dpframe import Array, Floats, HostArray, Key, Target, Tree

FURTHEST = 8.0
"""Standard deviations beyond which an output has no more influence on what is learned."""

LOOKED_AT = 10_000
"""Outputs per dataset that mean and standard deviation are taken from."""


class Logistic(Attack, name="logistic"):
    """Log-odds of D′ by logistic regression on the coordinates of the output.

    For vectors of any length. Coordinates are standardised; the weights maximise the likelihood of
    the fit stream less ½λ‖w‖² per output, by Newton's method, so the same draws give the same
    weights. Draws with a NaN teach nothing; an output with a NaN scores NaN.
    """

    gives = "score"

    ridge: Annotated[float, Gt(0)] = 1e-3
    """λ, which keeps weights finite where the two datasets can be told apart without error."""

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        seen = [_finite_rows(outputs) for outputs in train]
        if not all(map(len, seen)):
            raise ValueError("every output that it could learn from is NaN")
        centre, scale = _typical(np.concatenate([x[:LOOKED_AT] for x in seen]))
        rows = np.clip((np.concatenate(seen) - centre) / scale, -FURTHEST, FURTHEST)
        labels = np.repeat([0.0, 1.0], [len(x) for x in seen])
        intercept, weights = logistic_regression(rows, labels, self.ridge)
        return {"centre": centre, "weights": weights / scale, "intercept": np.float64(intercept)}

    def score(self, state: Tree, outputs: Array) -> Array:
        x = vectors(outputs)
        parts = (x - state["centre"].astype(x.dtype)) * state["weights"].astype(x.dtype)
        odds: Array = jnp.sum(parts, axis=1) + state["intercept"].astype(x.dtype)
        return odds


def _typical(rows: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column, the outermost 1 % drawn in on either side."""
    inner = np.clip(rows, *np.quantile(rows, [0.01, 0.99], axis=0))
    scale = inner.std(axis=0)
    scale = np.where(scale > 0, scale, rows.std(axis=0))
    return inner.mean(axis=0), np.where(scale > 0, scale, 1.0)


def _finite_rows(outputs: HostArray) -> Floats:
    """Outputs as vectors without NaN; infinite entries become the largest finite one."""
    rows = np.asarray(outputs, np.float64).reshape(len(outputs), -1)
    rows = rows[~np.isnan(rows).any(axis=1)]
    most = np.max(np.abs(rows), where=np.isfinite(rows), initial=0.0)
    return np.clip(rows, -most, most)
