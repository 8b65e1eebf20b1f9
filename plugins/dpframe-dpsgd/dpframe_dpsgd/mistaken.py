"""The trainer with planted mistakes, to test which of them audits find."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from dpframe.plugins import Array, Key, Tree
from dpframe_dpsgd import network
from dpframe_dpsgd.batches import Batch, batch_length
from dpframe_dpsgd.dense import DenseTraining
from dpframe_dpsgd.records import Records
from dpframe_dpsgd.training import split_canary

Mistake = Literal[
    "none",
    "no-noise",
    "half-noise",
    "clipped-after-averaging",
    "clipped-to-twice",
    "canary-unclipped",
    "noise-reused",
    "noise-shared",
    "true-size",
    "without-replacement",
    "one-epoch-more",
]


class MistakenDPSGD(DenseTraining, name="dpsgd-mistaken"):
    """`dpsgd` with one planted mistake; the claim is that of the correct trainer.

    none: no mistake. no-noise: no noise is added. half-noise: the standard deviation is halved.
    clipped-after-averaging: the mean gradient is clipped instead of each record's.
    clipped-to-twice: gradients are clipped to norm 2C. canary-unclipped: the canary's gradient is
    not clipped. noise-reused: every step adds the noise of the first step. noise-shared: every
    model adds the same noise. true-size: the sum is divided by the expected batch size of the
    actual data, with or without the canary. without-replacement: batches have a fixed size and come
    from a new order of the records in each epoch, but are accounted as Poisson samples.
    one-epoch-more: training runs for one epoch more than accounted for.
    """

    mistake: Mistake
    """The planted mistake."""

    def check(self) -> None:
        super().check()
        if self.output == "pooled" and self.mistake in ("noise-reused", "noise-shared"):
            raise ValueError(f'output = "pooled" needs steps that are independent: {self.mistake}')

    def batch_of(self, key: Key, data: Records, step: Array) -> Batch:
        if self.mistake != "without-replacement":
            return super().batch_of(key, data, step)
        # In each epoch the present rows in a random order, cut into batches.
        rows, per_epoch = data.present.shape[0], max(1, (self.records or 1) // self.batch)
        order = jax.random.uniform(jax.random.fold_in(key, step // per_epoch), (rows,))
        order = jnp.argsort(jnp.where(data.present, order, jnp.inf))
        length = min(self.batch, batch_length(rows, self.rate))
        places = (step % per_epoch) * length + jnp.arange(length)
        weight = places < jnp.sum(data.present)
        return Batch(order[places % rows], weight.astype(jnp.result_type(float)))

    def sums(self, parameters: Tree, data: Records, batch: Batch, canary: Array) -> Array:
        if self.mistake not in ("canary-unclipped", "clipped-to-twice", "clipped-after-averaging"):
            return super().sums(parameters, data, batch, canary)
        x, y = data.x[batch.index], data.y[batch.index]
        weight, taken = split_canary(data, batch)

        def total(weight: Array, clip: Any) -> Array:
            vector: Array = ravel_pytree(self.clipped_sum(parameters, x, y, weight, clip))[0]
            return vector

        if self.mistake == "clipped-to-twice":
            factor = network.clip_factor(jnp.sum(canary**2), 2 * self.clip)
            return total(weight, 2 * self.clip) + taken * canary * factor
        if self.mistake == "canary-unclipped":
            own = weight * (batch.index == data.place)
            return total(weight - own, self.clip) + total(own, jnp.inf) + taken * canary
        size = jnp.maximum(jnp.sum(batch.weight), 1)
        mean = (total(weight, jnp.inf) + taken * canary) / size
        return size * mean * network.clip_factor(jnp.sum(mean**2), self.clip)

    def noise(self, key: Key, size: int, step: Array) -> Array:
        if self.mistake == "noise-reused":
            return super().noise(key, size, jnp.zeros_like(step))
        if self.mistake == "noise-shared":
            return super().noise(jax.random.key(1), size, step)
        scale = {"no-noise": 0.0, "half-noise": 0.5}.get(self.mistake, 1.0)
        return scale * super().noise(key, size, step)

    def expected_size(self, data: Records) -> Any:
        if self.mistake != "true-size":
            return super().expected_size(data)
        return self.rate * jnp.sum(data.present)

    def updates(self) -> int:
        more = (self.records or 1) // self.batch if self.mistake == "one-epoch-more" else 0
        return self.steps + more
