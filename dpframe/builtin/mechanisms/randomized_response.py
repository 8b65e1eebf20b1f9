"""Randomised response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

import jax
import jax.numpy as jnp
import numpy as np

from dpframe import Gt, Pair, PureDP
from dpframe.builtin.mechanisms._calibrated import Calibrated
from dpframe.builtin.mechanisms._pairs import lone_difference

if TYPE_CHECKING:
    from dpframe import Array, Key


class RandomizedResponse(Calibrated, name="randomized-response"):
    """Each bit of the data is kept with probability e^c/(1 + e^c), else flipped; c = ε/Δ.

    Bits are the numbers 0 and 1, in the data as in the outputs. Claim: ε-DP for data that differ in
    up to Δ bits [Warner1965]; true. True ε for the zeros-ones pair: exactly ε at δ = 0, attained
    by the event that all bits are 1; at dim 1 the curve is that of ε-DP at every δ. A bit is 1
    with probability 1/(1 + e^c) on D and e^c/(1 + e^c) on D′.
    """

    epsilon: Annotated[float, Gt(0)]
    """The claim: the budget of all bits together."""
    sensitivity: Annotated[float, Gt(0)] | None = None
    """Δ, the most bits that may differ; default: the pair's l1 distance."""

    def resolve(self, pair: Pair) -> Self:
        for data in (pair.d0, pair.d1):
            if not np.isin(data, (0, 1)).all():
                raise ValueError("randomised response takes bits, data of 0 and 1 only")
        return super().resolve(pair)

    def truth(self, pair: Pair) -> PureDP | None:
        bits = lone_difference(pair)
        return None if bits is None else PureDP(bits * self._epsilon_of_a_bit)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        # One row, reshaped last: vectors then have full width whatever the dimension.
        u = jax.random.uniform(key, (n * data.size,), data.dtype).reshape(n, *data.shape)
        return jnp.where(u < jax.nn.sigmoid(-self._epsilon_of_a_bit), 1 - data, data)

    def log_density(self, data: Array, outputs: Array) -> Array:
        flipped = (outputs != data).reshape(len(outputs), -1)
        return -self._epsilon_of_a_bit * jnp.sum(flipped, axis=1)

    @property
    def _epsilon_of_a_bit(self) -> float:
        return 1 / self.scale
