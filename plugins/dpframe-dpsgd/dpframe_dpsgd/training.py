"""DP-SGD: Poisson samples, clipped gradients, Gaussian noise and Adam [Abadi2016]."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from dpframe.plugins import AccountedDP, Array, Claim, Ge, Gt, Key, Mechanism, Pair, Tree
from dpframe_dpsgd.batches import Batch, batch_length, poisson_sample
from dpframe_dpsgd.network import clip_factor
from dpframe_dpsgd.records import Records
from dpframe_dpsgd.white_box import Update, look

AT_ONCE = 8
"""Models of about 15,000 parameters that train together; more need memory and save no time."""
SPACING = 1e-3
"""Spacing of the grid of privacy losses. For the specs of this plugin ε is too large by less than
1e-4, and the accountant takes a tenth of the time of its default spacing: 13 s if ε is 100."""


class Training(Mechanism):
    """Base class of trainers; a subclass defines `init` and `loss`.

    The gradients of a Poisson sample of the records are clipped to norm C and summed. N(0, σ²C²) is
    added in every coordinate, and Adam gets the sum divided by the expected batch size [Abadi2016].
    A pair's canary gradient is sampled and clipped like a record's. Claim: the privacy loss
    distribution of the composed, Poisson-sampled Gaussian mechanism for adding or removing one
    record (dp-accounting).
    """

    noise_multiplier: Annotated[float, Gt(0)] = 1.0
    """σ: standard deviation of the noise divided by C."""
    clip: Annotated[float, Gt(0)] = 1.0
    """C: the largest norm of a record's gradient."""
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    """Step size of Adam."""
    steps: Annotated[int, Ge(1)] = 200
    """Number of updates."""
    batch: Annotated[int, Ge(1)] = 50
    """Expected size of a batch; divided by `records` it is the sampling probability."""
    records: Annotated[int, Ge(1)] | None = None
    """Size of the training set that defines the sampling probability; default: that of D."""
    classes: Annotated[int, Ge(2)] | None = None
    """Number of labels; default: those in the data."""
    canary_norm: Annotated[float, Gt(0)] = 1.0
    """Norm of a canary gradient before it is clipped, in units of C."""
    canary_direction: Literal["fresh", "fixed"] = "fresh"
    """Direction of a canary gradient. fresh: new at every step. fixed: always the same."""
    output: Literal["model", "steps", "pooled"] = "model"
    """The output of training. model: the parameters of the final model, shape [parameters]. steps:
    the white-box views of every step, shape [steps, views]. pooled: the residual of each step as a
    separate output, shape []; for canary gradients only, and the claim is that of one step."""

    def resolve(self, pair: Pair) -> Self:
        data: Records = pair.d0
        if self.output == "pooled" and not data.gradient:
            raise ValueError(
                'output = "pooled" needs a pair whose canary is a gradient: what other canaries '
                "do to a step depends on the steps before it"
            )
        return dataclasses.replace(
            self,
            records=self.records or int(np.sum(data.present)),
            classes=self.classes or max(2, int(np.max(data.y)) + 1),
        )

    def check(self) -> None:
        if self.records is not None and self.batch > self.records:
            raise ValueError(f"batch = {self.batch} is more than the {self.records} records")
        if self.output == "pooled" and self.canary_norm < 1:
            raise ValueError('output = "pooled" needs canary_norm ≥ 1')

    @property
    def rate(self) -> float:
        """The sampling probability q."""
        return self.batch / (self.records or self.batch)

    @property
    def at_once(self) -> int:
        """Return the number of models that train together; it must not depend on the machine."""
        return AT_ONCE

    @property
    def rows(self) -> int:
        """Return the number of outputs per chunk."""
        return self.at_once * (self.steps if self.output == "pooled" else 1)

    def claim(self, pair: Pair) -> Claim | None:
        import dp_accounting as dp

        step = dp.PoissonSampledDpEvent(self.rate, dp.GaussianDpEvent(self.noise_multiplier))
        steps = 1 if self.output == "pooled" else self.steps
        return AccountedDP(dp.SelfComposedDpEvent(step, steps), discretization=SPACING)

    def init(self, key: Key, features: int) -> Tree:
        """Return the initial parameters, a pytree of arrays.

        Args:
            key: draw all randomness from it.
            features: number of features of one record.
        """
        raise NotImplementedError

    def loss(self, parameters: Tree, x: Array, y: Array) -> Array:
        """Return the loss of one record, a scalar that is differentiable in the parameters.

        Args:
            parameters: of the model.
            x: features, shape [features].
            y: the label, an integer scalar.
        """
        raise NotImplementedError

    def clipped_sum(self, parameters: Tree, x: Array, y: Array, weight: Array, clip: Any) -> Tree:
        """Return Σᵢ wᵢ gᵢ min(1, C/‖gᵢ‖) over a batch; override it if no single gᵢ is needed.

        Args:
            parameters: the point at which the gradients are taken.
            x: features, shape [batch, features].
            y: labels, shape [batch].
            weight: wᵢ, shape [batch]; 0 for padding.
            clip: C.
        """
        gradients = jax.vmap(jax.grad(self.loss), in_axes=(None, 0, 0))(parameters, x, y)
        leaves = jax.tree.leaves(gradients)
        squared = jnp.stack([jnp.sum(g.reshape(len(g), -1) ** 2, axis=1) for g in leaves])
        scale = weight * clip_factor(squared.sum(0), clip)
        return jax.tree.map(lambda leaf: jnp.tensordot(scale, leaf, 1), gradients)

    # The parts of a step, each a pure function.

    def batch_of(self, key: Key, data: Records, step: Array) -> Batch:
        """Return the records of one step; `key` is that of the model."""
        length = batch_length(data.present.shape[0], self.rate)
        return poisson_sample(jax.random.fold_in(key, step), data.present, self.rate, length)

    def sums(self, parameters: Tree, data: Records, batch: Batch, canary: Array) -> Array:
        """Return the sum of the clipped gradients of a batch, shape [parameters].

        Args:
            parameters: the point at which the gradients are taken.
            data: the records.
            batch: the sampled records.
            canary: the gradient that replaces the last row if that row is a canary gradient, shape
                [parameters].
        """
        weight, taken = split_canary(data, batch)
        x, y = data.x[batch.index], data.y[batch.index]
        records: Any = self.clipped_sum(parameters, x, y, weight, self.clip)
        known: Array = ravel_pytree(records)[0]
        return known + taken * canary * clip_factor(jnp.sum(canary**2), self.clip)

    def noise(self, key: Key, size: int, step: Array) -> Array:
        """Return the noise of one step, shape [size]; `key` is that of the model."""
        own = jax.random.fold_in(key, step)
        noise: Array = self.noise_multiplier * self.clip * jax.random.normal(own, (size,))
        return noise

    def expected_size(self, data: Records) -> Any:
        """Return the divisor of the sums of gradients."""
        return float(self.batch)

    def updates(self) -> int:
        """Return the number of updates."""
        return self.steps

    def train(self, key: Key, data: Records) -> tuple[Array, Any]:
        """Train one model: a pure function of key, data and parameters.

        Returns:
            The parameters of the model as one vector, and the white-box observations of all steps,
            shape [steps, views], or only the residuals, [steps]; None if only the model is needed.
        """
        start, choose, direct, shake = jax.random.split(key, 4)
        vector, shaped = as_vector(self.init(start, data.x.shape[1]))
        adam: Any = optax.adam(self.learning_rate)
        watched = self.output != "model"

        def update(carry: Any, step: Array) -> Any:
            vector, state, before = carry
            canary = self._canary(direct, vector.size, step, data.gradient)

            def sum_of(data: Records, batch: Batch) -> Array:
                return self.sums(shaped(vector), data, batch, canary)

            batch = self.batch_of(choose, data, step)
            noisy = sum_of(data, batch) + self.noise(shake, vector.size, step)
            released = noisy / self.expected_size(data)
            change, after = adam.update(released, state, vector)
            new = vector + change
            if not watched:
                return (new, after, before), None
            without = data.without_canary()
            batch = self.batch_of(choose, without, step)
            known, best = sum_of(without, batch), sum_of(without, batch.with_row(data.place))
            quiet, _ = adam.update(known / self.batch, state, vector)
            made = Update(
                released=released * self.batch / self.clip,
                known=known / self.clip,
                shift=(best - known) / self.clip,
                step=(vector + quiet - new) / self.learning_rate,
                before=before,
            )
            views = made.along_canary if self.output == "pooled" else look(made, shaped)
            return (new, after, made.residual), views

        steps = jnp.arange(self.updates(), dtype=jnp.int32)
        before = jnp.zeros_like(vector) if watched else None
        (vector, _, _), seen = jax.lax.scan(update, (vector, adam.init(vector), before), steps)
        return vector, seen

    def sample(self, key: Key, data: Any, n: int) -> Array:
        data = jax.tree.map(jnp.asarray, data)
        models = math.ceil(n / self.updates()) if self.output == "pooled" else n
        trained = jax.vmap(self.train, in_axes=(0, None))(jax.random.split(key, models), data)
        if self.output == "pooled":
            residuals: Array = trained[1].reshape(-1)[:n]
            return residuals
        outputs: Array = trained[0] if self.output == "model" else trained[1]
        return outputs

    def _canary(self, key: Key, size: int, step: Array, needed: Array) -> Array:
        """Return a canary gradient before clipping; zeros if the canary is a record."""
        if self.canary_direction == "fixed":
            key, step = jax.random.key(0), jnp.zeros_like(step)

        def make() -> Array:
            direction: Array = jax.random.normal(jax.random.fold_in(key, step), (size,))
            direction /= jnp.linalg.norm(direction)
            return self.canary_norm * self.clip * direction

        made: Array = jax.lax.cond(needed, make, lambda: jnp.zeros(size))
        return made


def as_vector(parameters: Tree) -> tuple[Array, Callable[[Array], Tree]]:
    """Return the parameters as one vector, and the function that turns a vector into parameters."""
    raveled: Any = ravel_pytree(parameters)
    vector, shaped = raveled
    return vector, shaped


def split_canary(data: Records, batch: Batch) -> tuple[Array, Array]:
    """Return the weights of the records of a batch, [length], and of a canary gradient, []."""
    own = data.gradient & (batch.index == data.place)
    return batch.weight * ~own, jnp.sum(batch.weight * own)
