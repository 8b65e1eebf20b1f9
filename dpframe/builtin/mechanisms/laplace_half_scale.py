"""A planted bug: the Laplace mechanism with half of the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpframe import LaplaceDP, Pair
from dpframe.builtin.mechanisms._calibrated import Calibrated
from dpframe.builtin.mechanisms._laplace import (
    laplace_cdf,
    laplace_log_density,
    laplace_truth,
    standard_laplace,
)

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Key


class LaplaceHalfScale(Calibrated, name="laplace-half-scale"):
    """Laplace noise half as wide as it should be: x + Lap(Δ/2ε) in every coordinate.

    Claim: ε-DP; false. True ε for the zeros-ones pair: 2ε. A coordinate rounds to 1 with
    probability ½e^{−ε/Δ} on D and 1 − ½e^{−ε/Δ} on D′. The majority vote shows the violation at
    dims 1 and 2; at dim 3 and from dim 5 on its loss stays below ε, and the vote cannot see it.
    """

    def truth(self, pair: Pair) -> LaplaceDP | None:
        return laplace_truth(pair, self.scale / 2)

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return laplace_cdf(data, x, self.scale / 2)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return data + self.scale / 2 * standard_laplace(key, data, n)

    def log_density(self, data: Array, outputs: Array) -> Array:
        return laplace_log_density(data, outputs, self.scale / 2)
