"""Attacks on the final model through its loss on the canary."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from dpframe.plugins import Array, Attack, HostArray, Key, Target, Tree
from dpframe_dpsgd.pairs import Canary, CanaryPair
from dpframe_dpsgd.training import Training, as_vector


class LossOnCanary(Attack):
    """Base class of attacks that use the loss of the final model on the canary."""

    gives: ClassVar[Literal["decision", "score"]] = "score"

    def unsuited(self, target: Target) -> str | None:
        if not isinstance(target.mechanism, Training) or len(target.dims) != 1:
            return 'takes trained models: a trainer with output = "model"'
        pair = target.pair
        no_record = isinstance(pair, Canary) and pair.canary == "gradient"
        if not isinstance(pair, CanaryPair) or no_record:
            return "takes pairs whose canary is a record"
        return None


class CanaryLoss(LossOnCanary, name="canary-loss"):
    """Minus the loss on the canary: training on a record lowers its loss [Nasr2023].

    The score of [Koskela2024, Algorithm 3].
    """

    def learns(self) -> bool:
        return False

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        return losses_of(target)

    def score(self, state: Tree, outputs: Array) -> Array:
        losses: Array = state(outputs)
        return -losses


class CanaryLossRatio(LossOnCanary, name="canary-loss-ratio"):
    """The likelihood ratio of two normal distributions fitted to the losses on the canary.

    It assumes that the losses of models trained with and without the canary are normal
    [Carlini2022]. If they are not, the attack is weaker, but its bound remains valid.
    """

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        find = losses_of(target)
        losses = [np.asarray(find(models), np.float64) for models in train]
        means = np.array([values.mean() for values in losses])
        deviations = np.array([max(values.std(), 1e-9) for values in losses])
        return {"losses_of": find, "means": means, "deviations": deviations}

    def score(self, state: Tree, outputs: Array) -> Array:
        losses = state["losses_of"](outputs)
        distance = (losses[:, None] - state["means"]) / state["deviations"]
        log_densities = -(distance**2) / 2 - jnp.log(state["deviations"])
        ratios: Array = log_densities[:, 1] - log_densities[:, 0]
        return ratios


def losses_of(target: Target) -> Partial:
    """Return a function from models, shape [n, parameters], to losses on the canary, [n]."""
    assert isinstance(target.pair, CanaryPair)
    x, y = target.pair.record()
    partial: Any = Partial
    found: Partial = partial(_losses, target.mechanism, np.asarray(x), np.asarray(y))
    return found


def _losses(mechanism: Training, x: Array, y: Array, models: Array) -> Array:
    shapes = jax.eval_shape(lambda: mechanism.init(jax.random.key(0), x.shape[0]))
    _, shaped = as_vector(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes))
    losses: Array = jax.vmap(lambda model: mechanism.loss(shaped(model), x, y))(models)
    return losses
