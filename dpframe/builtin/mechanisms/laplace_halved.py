"""The Laplace mechanism followed by harmless post-processing."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Self

from dpframe import Gt, LaplaceDP, Mechanism, Pair, PureDP
from dpframe.builtin.mechanisms._laplace import (
    l1_sensitivity,
    laplace_log_density,
    laplace_truth,
    noise_scale,
    standard_laplace,
)

if TYPE_CHECKING:
    from dpframe import Array, Key


class LaplaceHalved(Mechanism, name="laplace-halved"):
    """Half of a Laplace release: ½(x + Lap(Δ/ε)) in every coordinate.

    Claim: ε-DP; true, because scaling a release is post-processing. (The code of [Habernal2022]
    calls it a wrong sensitivity.) True ε for the zeros-ones pair: exactly ε. A coordinate rounds
    to 1 with probability ½e^{−ε/Δ} on D and ½ on D′, so the majority vote attains ε at dims 1
    and 2: the worst case for the validity of a bound.
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
        return 0.5 * (
            data + noise_scale(self.sensitivity, self.epsilon) * standard_laplace(key, data, n)
        )

    def log_density(self, data: Array, outputs: Array) -> Array:
        return laplace_log_density(data, 2 * outputs, noise_scale(self.sensitivity, self.epsilon))
