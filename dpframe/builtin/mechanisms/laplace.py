"""The Laplace mechanism, as it should be."""

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


class Laplace(Calibrated, name="laplace"):
    """Laplace mechanism: x + Lap(Δ/ε) in every coordinate, by the inverse CDF.

    Claim: ε-DP for a query of l1 sensitivity Δ [Dwork2006]; true. True ε for the
    zeros-ones pair: exactly ε. Sampled as in [Habernal2022, equation 4]. A coordinate rounds to
    1 with probability ½e^{−ε/2Δ} on D and 1 − ½e^{−ε/2Δ} on D′.
    """

    def truth(self, pair: Pair) -> LaplaceDP | None:
        return laplace_truth(pair, self.scale)

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return laplace_cdf(data, x, self.scale)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return data + self.scale * standard_laplace(key, data, n)

    def log_density(self, data: Array, outputs: Array) -> Array:
        return laplace_log_density(data, outputs, self.scale)
