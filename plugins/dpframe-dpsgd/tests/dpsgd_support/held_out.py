"""Mistakes for which no attack was written, as third-party trainers."""

import jax
import jax.numpy as jnp
from dpframe_dpsgd import network
from dpframe_dpsgd.batches import Batch, batch_length, poisson_sample
from dpframe_dpsgd.dense import DenseTraining
from dpframe_dpsgd.training import split_canary
from jax.flatten_util import ravel_pytree


class TwiceTheRate(DenseTraining, name="twice-the-rate"):
    """Samples records at twice the stated rate."""

    def batch_of(self, key, data, step):
        rate, rows = min(1.0, 2 * self.rate), data.present.shape[0]
        key = jax.random.fold_in(key, step)
        return poisson_sample(key, data.present, rate, batch_length(rows, rate))


class NoiseWithoutClip(DenseTraining, name="noise-without-clip"):
    """Adds noise of standard deviation σ for every C."""

    def noise(self, key, size, step):
        return super().noise(key, size, step) / self.clip


class VarianceSigma(DenseTraining, name="variance-sigma"):
    """Uses σ as the variance of the noise."""

    def noise(self, key, size, step):
        return super().noise(key, size, step) / self.noise_multiplier**0.5


class NoiseOfTheMean(DenseTraining, name="noise-of-the-mean"):
    """Adds noise scaled for the mean to the sum."""

    def noise(self, key, size, step):
        return super().noise(key, size, step) / self.batch


class LastStepSilent(DenseTraining, name="last-step-silent"):
    """Adds no noise in the last step."""

    def noise(self, key, size, step):
        return super().noise(key, size, step) * (step < self.steps - 1)


class FirstLayerOnly(DenseTraining, name="first-layer-only"):
    """Adds noise only to the first array of the model."""

    def noise(self, key, size, step):
        first = 64 * self.width
        return super().noise(key, size, step) * (jnp.arange(size) < first)


class OneBiasSilent(DenseTraining, name="one-bias-silent"):
    """Adds no noise to the last bias, which is ten of many numbers."""

    def noise(self, key, size, step):
        return super().noise(key, size, step) * (jnp.arange(size) < size - 10)


class NoiseAlternates(DenseTraining, name="noise-alternates"):
    """Alternates between two noise vectors."""

    def noise(self, key, size, step):
        return super().noise(key, size, step % 2)


class OneNumber(DenseTraining, name="one-number"):
    """Uses one random number for all coordinates of a row."""

    def noise(self, key, size, step):
        rows = size // 10 + 1
        return jnp.repeat(super().noise(key, rows, step), 10)[:size]


class UniformNoise(DenseTraining, name="uniform-noise"):
    """Adds uniform noise of the correct variance."""

    def noise(self, key, size, step):
        own = jax.random.fold_in(key, step)
        half = 3**0.5 * self.noise_multiplier * self.clip
        return jax.random.uniform(own, (size,), minval=-half, maxval=half)


class ClipPerLayer(DenseTraining, name="clip-per-layer"):
    """Clips every array of a gradient to norm C separately."""

    def clipped_sum(self, parameters, x, y, weight, clip):
        single = jax.vmap(jax.grad(self.loss), in_axes=(None, 0, 0))(parameters, x, y)

        def total(leaf):
            squared = jnp.sum(leaf.reshape(len(leaf), -1) ** 2, axis=1)
            return jnp.tensordot(weight * network.clip_factor(squared, clip), leaf, 1)

        return jax.tree.map(total, single)


class SoftClip(DenseTraining, name="soft-clip"):
    """Divides by 1 + ‖g‖/(4C) instead of by max(1, ‖g‖/C)."""

    def clipped_sum(self, parameters, x, y, weight, clip):
        single = jax.vmap(jax.grad(self.loss), in_axes=(None, 0, 0))(parameters, x, y)
        leaves = jax.tree.leaves(single)
        norm = sum(jnp.sum(leaf.reshape(len(leaf), -1) ** 2, axis=1) for leaf in leaves) ** 0.5
        return jax.tree.map(
            lambda leaf: jnp.tensordot(weight / (1 + norm / (4 * clip)), leaf, 1), single
        )


class Unclipped(DenseTraining, name="unclipped"):
    """Clips no gradient."""

    def clipped_sum(self, parameters, x, y, weight, clip):
        return super().clipped_sum(parameters, x, y, weight, jnp.inf)


class CanaryAlways(DenseTraining, name="canary-always"):
    """Puts the last record into every batch."""

    def batch_of(self, key, data, step):
        batch = super().batch_of(key, data, step)
        weight = batch.weight * (batch.index != data.place)
        own = data.present[-1].astype(weight.dtype)
        return Batch(jnp.append(batch.index, data.place), jnp.append(weight, own))


class PaddingCounts(DenseTraining, name="padding-counts"):
    """Fills padding with the last record, and counts it."""

    def batch_of(self, key, data, step):
        batch = super().batch_of(key, data, step)
        last = jnp.where(data.present[-1], data.place, 0)
        index = jnp.where(batch.weight > 0, batch.index, last)
        return Batch(index, jnp.ones_like(batch.weight))


class ClipTheBatch(DenseTraining, name="clip-the-batch"):
    """Clips the sum of the batch to its expected size times C, instead of each record."""

    def sums(self, parameters, data, batch, canary):
        x, y = data.x[batch.index], data.y[batch.index]
        weight, taken = split_canary(data, batch)
        found, _ = ravel_pytree(self.clipped_sum(parameters, x, y, weight, jnp.inf))
        found = found + taken * canary
        return found * network.clip_factor(jnp.sum(found**2), self.clip * self.batch)


class Duplicates(DenseTraining, name="duplicates"):
    """Takes some records twice, because it adds up two samples instead of one."""

    def batch_of(self, key, data, step):
        first = super().batch_of(key, data, step)
        second = super().batch_of(jax.random.fold_in(key, 1 << 20), data, step)
        return Batch(*(jnp.concatenate(both) for both in zip(first, second, strict=True)))


GRADIENT = [
    *(TwiceTheRate, NoiseWithoutClip, VarianceSigma, NoiseOfTheMean, LastStepSilent),
    *(FirstLayerOnly, OneBiasSilent, NoiseAlternates, OneNumber, UniformNoise),
    *(CanaryAlways, PaddingCounts, ClipTheBatch, Duplicates),
]
"""Found with a gradient as canary."""
RECORD = [ClipPerLayer, SoftClip, Unclipped]
"""Found with a mislabelled record as canary, whose gradient takes the way of all others."""
