"""DP-SGD with many canaries in one run: an independent coin for each, and one model for all."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Key, Pair
from dpframe_dpsgd.batches import Batch, batch_length, poisson_sample
from dpframe_dpsgd.dense import DenseTraining
from dpframe_dpsgd.records import Records
from dpframe_dpsgd.training import as_vector

RUNS_AT_ONCE = 4
"""Runs that train together. An audit needs few runs, so a larger chunk would waste work."""


class OneRunDPSGD(DenseTraining, name="dpsgd-one-run"):
    """DP-SGD as in `dpsgd`, with canaries among the records; one release is one run.

    The pair `many-canaries` marks the canaries. An independent coin includes each in training with
    probability ½ [Steinke2023]. The score of a canary is the loss of the final model on its
    features with the next label, minus the loss on the canary itself. The claim is that of `dpsgd`,
    for adding or removing one record.
    """

    canaries = True

    @property
    def at_once(self) -> int:
        return RUNS_AT_ONCE

    def resolve(self, pair: Pair) -> Self:
        data: Records = pair.d0
        records = int(np.sum(data.present))
        if self.output != "model":
            raise ValueError('a run with canaries has output = "model"')
        if records == len(data.present) or data.gradient:
            raise ValueError("the pair has no records that are canaries: use many-canaries")
        if self.records not in (None, records):
            raise ValueError(f"records = {self.records}, but the pair has {records}: leave it out")
        return dataclasses.replace(super().resolve(pair), records=records)

    def batch_of(self, key: Key, data: Records, step: Array) -> Batch:
        # Half of the canaries are out, so an array for all of them would be partly padding.
        first = self.records or 0
        canaries = len(data.present) - first
        length = batch_length(first, self.rate) + batch_length(canaries, self.rate / 2)
        own = jax.random.fold_in(key, step)
        return poisson_sample(own, data.present, self.rate, min(length, len(data.present)))

    def sample(self, key: Key, data: Any, n: int) -> Array:
        data = jax.tree.map(jnp.asarray, data)
        return jax.vmap(self._run, in_axes=(0, None))(jax.random.split(key, n), data)

    def _run(self, key: Key, data: Records) -> Array:
        """Return scores and memberships of the canaries of one model, shape [2, m]."""
        first = self.records or 0
        coins, training = jax.random.split(key)
        members = jax.random.bernoulli(coins, 0.5, (data.present.shape[0] - first,))
        present = data.present.at[first:].set(members)
        vector, _ = self.train(training, data._replace(present=present))
        _, shaped = as_vector(self.init(training, data.x.shape[1]))
        model, x, y = shaped(vector), data.x[first:], data.y[first:]
        losses = jax.vmap(self.loss, in_axes=(None, 0, 0))
        # Both losses contain the difficulty of a record that was never seen.
        scores = losses(model, x, (y + 1) % (self.classes or 2)) - losses(model, x, y)
        return jnp.stack([scores, members.astype(scores.dtype)])
