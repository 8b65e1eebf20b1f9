"""The stability-based histogram: counts over a domain that is not listed in advance."""

from __future__ import annotations

from typing import Annotated, Literal

import jax.numpy as jnp

from dpframe.plugins import ApproxDP, Array, Gt, Key, Le, Mechanism, Pair
from dpframe_textbook.neighbours import of_steps, one_by_one
from dpframe_textbook.noise import laplace


class StabilityHistogram(Mechanism, name="stability-histogram"):
    """The nonzero counts plus noise, if above a threshold [Bun2019, section 3].

    The noise is Lap(1/ε) and the threshold 1 + ln(1/2δ)/ε; all other outputs are 0. Claim: (ε,
    δ)-DP if one count changes by up to 1; true: the bin of a single person is released with
    probability δ. With the mistake: wrong, it is always released. Counts are rounded first.
    """

    epsilon: Annotated[float, Gt(0)] = 1.0
    """ε of the claim for neighbours."""
    delta: Annotated[float, Gt(0), Le(0.5)] = 1e-3
    """δ of the claim for neighbours."""
    mistake: Literal["none", "no-threshold"] = "none"
    """no-threshold: every bin that is not empty is released."""

    def claim(self, pair: Pair) -> ApproxDP | None:
        return of_steps(self.epsilon, self.delta, one_by_one(pair))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        counts = jnp.maximum(jnp.floor(data + 0.5), 0)
        noisy = counts + laplace(key, (n, *data.shape), data.dtype) / self.epsilon
        shown = counts > 0
        if self.mistake == "none":
            shown = shown & (noisy > 1 - jnp.log(2 * self.delta) / self.epsilon)
        return jnp.where(shown, noisy, 0.0)
