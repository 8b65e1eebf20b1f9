"""The Laplace mechanism on NumPy's sampler."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Self

from dpframe import Gt, HostMechanism, LaplaceDP, Pair, PureDP
from dpframe.builtin.mechanisms._laplace import (
    l1_sensitivity,
    laplace_cdf,
    laplace_truth,
    noise_scale,
)

if TYPE_CHECKING:
    import numpy as np

    from dpframe import HostArray


class LaplaceNumpy(HostMechanism, name="laplace-numpy"):
    """Laplace mechanism as a black box: x + Lap(Δ/ε) from `numpy.random.Generator.laplace`.

    Claim: ε-DP [Dwork2006]; true. True ε for the zeros-ones pair: exactly ε; a coordinate
    rounds to 1 as it does for `laplace`. It shows what an audit of code outside JAX looks like.
    """

    rows = 4096  # one call draws many at hardly any cost
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

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return laplace_cdf(data, x, noise_scale(self.sensitivity, self.epsilon))

    def sample(self, rng: np.random.Generator, data: HostArray, n: int) -> HostArray:
        return data + rng.laplace(
            scale=noise_scale(self.sensitivity, self.epsilon), size=(n, *data.shape)
        )
