"""The Laplace mechanism from a zero-centred uniform."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Self

import jax
import jax.numpy as jnp

from dpframe import Gt, LaplaceDP, Mechanism, Pair, PureDP
from dpframe.builtin.mechanisms._laplace import (
    l1_sensitivity,
    laplace_log_density,
    laplace_truth,
    noise_scale,
)

if TYPE_CHECKING:
    from dpframe import Array, Key


class LaplaceShifted(Mechanism, name="laplace-shifted"):
    """Laplace mechanism sampled from v ~ Uni(−½, ½) as −sgn(v) ln(1 − 2|v|).

    The second of the two correct ways of sampling [Habernal2022, equations 6 and 7]; DPText
    mixes it up with the first. Claim: ε-DP; true. True ε for the zeros-ones pair: exactly ε; a
    coordinate rounds to 1 as it does for `laplace`.
    """

    epsilon: Annotated[float, Gt(0)]
    """The claim, and with the sensitivity the scale of the noise."""
    sensitivity: Annotated[float, Gt(0)] | None = None
    """l1 sensitivity Δ; default: the pair's l1 distance."""

    def resolve(self, pair: Pair) -> Self:
        return dataclasses.replace(self, sensitivity=l1_sensitivity(self.sensitivity, pair))

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def truth(self, pair: Pair) -> LaplaceDP | None:
        return laplace_truth(pair, noise_scale(self.sensitivity, self.epsilon))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        v = jax.random.uniform(key, (n, *data.shape), data.dtype, minval=-0.5, maxval=0.5)
        noise = jnp.copysign(jnp.log(1 - 2 * jnp.abs(v)), v)  # −sgn(v) ln(1 − 2|v|)
        return data + noise_scale(self.sensitivity, self.epsilon) * noise

    def log_density(self, data: Array, outputs: Array) -> Array:
        return laplace_log_density(data, outputs, noise_scale(self.sensitivity, self.epsilon))
