"""The Laplace mechanism followed by harmless post-processing."""

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


class LaplaceHalved(Calibrated, name="laplace-halved"):
    """Half of a Laplace release: ½(x + Lap(Δ/ε)) in every coordinate.

    Claim: ε-DP; true, because scaling a release is post-processing. (The code of [Habernal2022]
    calls it a wrong sensitivity.) True ε for the zeros-ones pair: exactly ε. A coordinate rounds
    to 1 with probability ½e^{−ε/Δ} on D and ½ on D′, so the majority vote attains ε at dims 1
    and 2: the worst case for the validity of a bound.
    """

    def truth(self, pair: Pair) -> LaplaceDP | None:
        return laplace_truth(pair, self.scale)

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return laplace_cdf(data, 2 * x, self.scale)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return 0.5 * (data + self.scale * standard_laplace(key, data, n))

    def log_density(self, data: Array, outputs: Array) -> Array:
        return laplace_log_density(data, 2 * outputs, self.scale)
