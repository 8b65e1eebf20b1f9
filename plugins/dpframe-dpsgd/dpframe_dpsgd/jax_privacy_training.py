"""DP-SGD with the clipping and the noise of the library jax-privacy."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp

from dpframe_dpsgd.dense import DenseTraining

if TYPE_CHECKING:
    from dpframe.plugins import Array, Key, Pair, Tree


class JaxPrivacyDPSGD(DenseTraining, name="dpsgd-jax-privacy"):
    """DP-SGD with gradients clipped and noise drawn by jax-privacy.

    The audit covers `jax_privacy.clipping.clipped_grad`, which computes the gradients of single
    records and ignores padding, and `jax_privacy.noise_addition.gaussian_privatizer`. The samples,
    the network, Adam and the claim are those of `dpsgd`. It needs the package jax-privacy.
    """

    def resolve(self, pair: Pair) -> Self:
        _library("clipping")
        return super().resolve(pair)

    def clipped_sum(self, parameters: Tree, x: Array, y: Array, weight: Array, clip: Any) -> Tree:
        def loss(parameters: Tree, x: Array, y: Array) -> Array:
            return self.loss(parameters, x, y)

        clipped = _library("clipping").clipped_grad(
            loss, l2_clip_norm=clip, batch_argnums=(1, 2), keep_batch_dim=False
        )
        return clipped(parameters, x, y, is_padding_example=weight == 0)

    def noise(self, key: Key, size: int, step: Array) -> Array:
        nothing = jnp.zeros(size)
        privatizer = _library("noise_addition").gaussian_privatizer(
            stddev=self.noise_multiplier * self.clip, prng_key=jax.random.fold_in(key, step)
        )
        noise: Array = privatizer.update(nothing, privatizer.init(nothing))[0]
        return noise


def _library(module: str) -> Any:
    try:
        return importlib.import_module(f"jax_privacy.{module}")
    except ImportError as error:
        raise ValueError(
            "dpsgd-jax-privacy trains with the package jax-privacy, which cannot be imported "
            f"({error}): pip install jax-privacy"
        ) from error
