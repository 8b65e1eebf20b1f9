"""ADePT's Laplace noise: the wrong sensitivity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dpframe import Gt, LaplaceDP, Mechanism, Pair, PureDP
from dpframe.builtin.mechanisms._laplace import (
    laplace_cdf,
    laplace_log_density,
    laplace_truth,
    standard_laplace,
)

if TYPE_CHECKING:
    from dpframe import Array, HostArray, Key


class Adept(Mechanism, name="adept"):
    """Laplace noise of scale 1/ε whatever the dimension, as in ADePT [Krishna2021].

    Claim: ε-DP; false from dim 2 on, because the l1 sensitivity is not 1 [Habernal2021]. True ε
    for the zeros-ones pair: dim·ε. A coordinate rounds to 1 with probability ½e^{−ε/2} on D and
    1 − ½e^{−ε/2} on D′ [Habernal2022, section 5].
    """

    epsilon: Annotated[float, Gt(0)]
    """The claim, and the inverse scale of the noise."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def truth(self, pair: Pair) -> LaplaceDP | None:
        return laplace_truth(pair, 1 / self.epsilon)

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return laplace_cdf(data, x, 1 / self.epsilon)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return data + 1 / self.epsilon * standard_laplace(key, data, n)

    def log_density(self, data: Array, outputs: Array) -> Array:
        return laplace_log_density(data, outputs, 1 / self.epsilon)
