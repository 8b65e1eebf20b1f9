"""The baseline without any information."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import jax.numpy as jnp
import numpy as np

from dpframe import Gt, Mechanism, Pair, PureDP
from dpframe.builtin.mechanisms._laplace import from_uniform

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Key


class RandomOutput(Mechanism, name="random-output"):
    """Uni[0, 1) in every coordinate, whatever the data are [Habernal2022, section 5].

    Claim: ε-DP; true for every ε. True ε for every pair: 0. A coordinate rounds to 1 with
    probability ½ (up to 2⁻²⁴) on both sides.
    """

    epsilon: Annotated[float, Gt(0)]
    """The claim; changes nothing else."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def truth(self, pair: Pair) -> PureDP:
        return PureDP(0.0)

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return None if np.size(data) != 1 else np.clip(x, 0, 1)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return from_uniform(lambda u: u, key, data, n)

    def log_density(self, data: Array, outputs: Array) -> Array:
        return jnp.zeros(len(outputs), outputs.dtype)
