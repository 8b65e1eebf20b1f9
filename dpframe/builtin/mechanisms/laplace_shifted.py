"""The Laplace mechanism from a zero-centred uniform."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from dpframe import LaplaceDP, Pair
from dpframe.builtin.mechanisms._calibrated import Calibrated
from dpframe.builtin.mechanisms._laplace import (
    laplace_cdf,
    laplace_log_density,
    laplace_truth,
)

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Key


class LaplaceShifted(Calibrated, name="laplace-shifted"):
    """Laplace mechanism sampled from v ~ Uni(−½, ½) as −sgn(v) ln(1 − 2|v|).

    The second of the two correct ways of sampling [Habernal2022, equations 6 and 7]; DPText
    mixes it up with the first. Claim: ε-DP; true. True ε for the zeros-ones pair: exactly ε; a
    coordinate rounds to 1 as it does for `laplace`.
    """

    def truth(self, pair: Pair) -> LaplaceDP | None:
        return laplace_truth(pair, self.scale)

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return laplace_cdf(data, x, self.scale)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        v = jax.random.uniform(key, (n, *data.shape), data.dtype, minval=-0.5, maxval=0.5)
        noise = jnp.copysign(jnp.log(1 - 2 * jnp.abs(v)), v)  # −sgn(v) ln(1 − 2|v|)
        return data + self.scale * noise

    def log_density(self, data: Array, outputs: Array) -> Array:
        return laplace_log_density(data, outputs, self.scale)
