"""A planted bug: the Laplace mechanism with half of the noise."""

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


class LaplaceHalfScale(Mechanism, name="laplace-half-scale"):
    """Laplace noise half as wide as it should be: x + Lap(Δ/2ε) in every coordinate.

    Claim: ε-DP; false. True ε for the zeros-ones pair: 2ε. A coordinate rounds to 1 with
    probability ½e^{−ε/Δ} on D and 1 − ½e^{−ε/Δ} on D′. The majority vote shows the violation at
    dims 1 and 2; at dim 3 and from dim 5 on its loss stays below ε, and the vote cannot see it.
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
        return laplace_truth(pair, noise_scale(self.sensitivity, 2 * self.epsilon))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return data + noise_scale(self.sensitivity, 2 * self.epsilon) * standard_laplace(
            key, data, n
        )

    def log_density(self, data: Array, outputs: Array) -> Array:
        return laplace_log_density(data, outputs, noise_scale(self.sensitivity, 2 * self.epsilon))
