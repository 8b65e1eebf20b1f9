"""Views of an observer of the steps who knows everything except the canary and the noise.

The observer subtracts the contributions of all records except the canary from the released sum. The
views measure this residual in the direction in which the canary would move the sum [Koskela2024,
Algorithm 4], and in other directions that contain only noise if the trainer is correct.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpframe.plugins import Array


class Update(NamedTuple):
    """One step. Vectors have shape [parameters] and, except for `step`, are in units of C."""

    released: Any
    """The noisy sum: the released mean times the divisor that it should have."""
    known: Any
    """The clipped gradients of the records without the canary."""
    shift: Any
    """The canary's contribution to the sum if it is sampled."""
    step: Any
    """Distance of the new model from that of the known sum without noise, in learning rates."""
    before: Any
    """The residual of the previous step."""

    @property
    def residual(self) -> Any:
        """The noise, plus the canary if it was sampled."""
        return self.released - self.known

    @property
    def direction(self) -> Any:
        """Unit vector in which the canary would move the sum; zeros if it would not."""
        return self.shift / jnp.maximum(jnp.linalg.norm(self.shift), 1e-12)

    @property
    def along_canary(self) -> Any:
        """The residual in the direction of the canary, a scalar."""
        return self.direction @ self.residual


VIEWS = {
    "residual": "the released sum less the known one, in the direction of the canary, divided by C",
    "score": "the released sum itself in that direction, divided by C",
    "shift": "the distance that the canary would move the sum if sampled, divided by C",
    "difference": "the residual less that of the step before, in that direction, divided by C",
    "norm": "the norm of the residual, divided by C",
    "largest": "its largest coordinate",
    "rough": "the mean absolute difference of its neighbouring coordinates",
    "moved": "the model's movement beyond the known step, in the direction of the canary",
    "distance": "the model's movement beyond the known step, in any direction",
}
"""Columns of the views; the residual in the coordinates of each array of the model follows."""


def look(made: Update, shaped: Any) -> Array:
    """Return all views of one step.

    Args:
        made: the step.
        shaped: turns a vector into a model.

    Returns:
        Shape [views]: the views in `VIEWS`, then one for each array of the model.
    """
    residual, direction = made.residual, made.direction
    views = {
        "residual": made.along_canary,
        "score": direction @ made.released,
        "shift": jnp.linalg.norm(made.shift),
        "difference": direction @ (residual - made.before),
        "norm": jnp.linalg.norm(residual),
        "largest": jnp.max(jnp.abs(residual)),
        "rough": jnp.mean(jnp.abs(jnp.diff(residual))),
        "moved": direction @ made.step,
        "distance": jnp.linalg.norm(made.step),
    }
    pairs = zip(jax.tree.leaves(shaped(direction)), jax.tree.leaves(shaped(residual)), strict=True)
    layers = [_inner(d, r) for d, r in pairs]
    return jnp.stack([*(views[name] for name in VIEWS), *layers])


def _inner(direction: Array, residual: Array) -> Array:
    """Return the residual in the direction of the canary, restricted to some coordinates."""
    size = jnp.sqrt(jnp.sum(direction**2))
    return jnp.sum(direction * residual) / jnp.maximum(size, 1e-12)
