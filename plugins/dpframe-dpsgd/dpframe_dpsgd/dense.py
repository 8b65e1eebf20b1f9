"""DP-SGD on a network with one hidden layer."""

from __future__ import annotations

from typing import Annotated, Any

from dpframe.plugins import Array, Ge, Key, Tree
from dpframe_dpsgd import network
from dpframe_dpsgd.training import AT_ONCE, Training

WIDTH = 200
"""Hidden units of the experiments."""


class DenseTraining(Training):
    """Base class of trainers of a network with one hidden layer and cross-entropy loss."""

    width: Annotated[int, Ge(1)] = WIDTH
    """Units of the hidden layer."""

    @property
    def at_once(self) -> int:
        return AT_ONCE * max(1, WIDTH // self.width)

    def init(self, key: Key, features: int) -> Tree:
        return network.init_network(key, features, self.width, self.classes or 2)

    def loss(self, parameters: Tree, x: Array, y: Array) -> Array:
        return network.loss(parameters, x, y)

    def clipped_sum(self, parameters: Tree, x: Array, y: Array, weight: Array, clip: Any) -> Tree:
        return network.clipped_sum(parameters, x, y, weight, clip)


class DPSGD(DenseTraining, name="dpsgd"):
    """DP-SGD on a network with one hidden layer.

    Batches are Poisson samples. The gradient of each record is clipped to norm C, N(0, σ²C²) is
    added to the sum of the gradients, and Adam takes the step [Abadi2016]. These are the
    experiments of [Koskela2024, section 9]. Claim: the privacy loss distribution of the composed,
    Poisson-sampled Gaussian mechanism, for adding or removing one record. For `output = "pooled"`
    it is that of one step.
    """
