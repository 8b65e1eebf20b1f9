"""The geometric mechanism: discrete Laplace noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import jax.numpy as jnp
import numpy as np

from dpframe import Pair, PureDP
from dpframe.builtin.mechanisms._calibrated import Calibrated
from dpframe.builtin.mechanisms._laplace import (
    from_uniform,
    laplace_log_density,
)
from dpframe.builtin.mechanisms._logarithm import log
from dpframe.builtin.mechanisms._pairs import lone_difference

if TYPE_CHECKING:
    from dpframe import Array, Key


class Geometric(Calibrated, name="geometric"):
    """Whole numbers plus two-sided geometric noise: Pr[z] = a^|z| (1 − a)/(1 + a), a = e^{−ε/Δ}.

    Claim: ε-DP for a query of l1 sensitivity Δ [Ghosh2009]; true.
    True ε for the zeros-ones pair: exactly ε at δ = 0. Where one coordinate differs, by 1, all
    that an output tells is on which side of the gap it lies; so the curve is that of ε/Δ-DP at
    every δ, as for randomised response. Outputs are floats that hold whole numbers, exactly so
    below 2²⁴ in float32. A coordinate rounds to 1 with probability a/(1 + a) on D and 1/(1 + a)
    on D′.
    """

    def resolve(self, pair: Pair) -> Self:
        for data in (pair.d0, pair.d1):
            if not np.array_equal(data, np.round(data)):
                raise ValueError("the geometric mechanism takes whole numbers")
        return super().resolve(pair)

    def truth(self, pair: Pair) -> PureDP | None:
        # A gap of k takes k + 1 likelihood ratios, e^{−k/s}, e^{(2−k)/s}, …, e^{k/s}: for k > 1
        # the curve has corners that no claim has.
        gap = lone_difference(pair)
        if gap is None or gap > 1:
            return None
        return PureDP(gap / self.scale)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return data + from_uniform(self._noise, key, data, n, low=-0.5)

    def log_density(self, data: Array, outputs: Array) -> Array:
        return laplace_log_density(data, outputs, self.scale)

    def _noise(self, v: Array) -> Array:
        """Inverse CDF of both sides at v + ½: |z| ≥ m where w = 1 − 2|v| ≤ 2a^m/(1 + a).

        v = −½ gives −inf, an output like any other.
        """
        scale = self.scale
        middle = jnp.log1p(jnp.expm1(-1 / scale) / 2)  # ln((1 + a)/2)
        log_w = log(1 - 2 * jnp.abs(v))
        return jnp.copysign(jnp.floor(-(log_w + middle) * scale), v)
