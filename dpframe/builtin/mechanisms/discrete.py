"""The geometric mechanism, randomised response, and two baselines."""

from typing import Annotated, Self

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.builtin.mechanisms import laplace as _laplace
from dpframe.plugins import Array, Gt, HostArray, Key, Pair, PureDP


class Geometric(_laplace.Calibrated, name="geometric"):
    """Whole numbers plus two-sided geometric noise: Pr[z] = a^|z| (1 − a)/(1 + a), a = e^{−ε/Δ}.

    Claim: ε-DP for a query of l1 sensitivity Δ [Ghosh2009]; true.
    True ε for the zeros-ones pair: exactly ε at δ = 0. If one coordinate differs, by 1, an output
    only tells on which side of the gap it lies; so the curve is that of ε/Δ-DP at every δ, as for
    randomised response. Outputs are floats that hold whole numbers, exactly so
    below 2²⁴ in float32. A coordinate rounds to 1 with probability a/(1 + a) on D and 1/(1 + a)
    on D′.
    """

    def resolve(self, pair: Pair) -> Self:
        for data in (pair.d0, pair.d1):
            if not np.array_equal(data, np.round(data)):
                raise ValueError("the geometric mechanism requires whole numbers")
        return super().resolve(pair)

    def truth(self, pair: Pair) -> PureDP | None:
        # A gap of k takes k + 1 likelihood ratios, e^{−k/s}, e^{(2−k)/s}, …, e^{k/s}: for k > 1
        # the curve has corners that no claim has.
        gap = _laplace.lone_difference(pair)
        if gap is None or gap > 1:
            return None
        return PureDP(gap / self.scale)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return data + _laplace.from_uniform(self._noise, key, data, n, low=-0.5)

    def log_density(self, data: Array, outputs: Array) -> Array:
        return _laplace.laplace_log_density(data, outputs, self.scale)

    def _noise(self, v: Array) -> Array:
        """Inverse CDF of both sides at v + ½: |z| ≥ m where w = 1 − 2|v| ≤ 2a^m/(1 + a).

        v = −½ gives −inf, an output like any other.
        """
        scale = self.scale
        middle = jnp.log1p(jnp.expm1(-1 / scale) / 2)  # ln((1 + a)/2)
        log_w = _laplace.log(1 - 2 * jnp.abs(v))
        return jnp.copysign(jnp.floor(-(log_w + middle) * scale), v)


class RandomizedResponse(_laplace.Calibrated, name="randomized-response"):
    """Each bit of the data is kept with probability e^c/(1 + e^c), else flipped; c = ε/Δ.

    Bits are the numbers 0 and 1, in the data as in the outputs. Claim: ε-DP for data that differ in
    up to Δ bits [Warner1965]; true. True ε for the zeros-ones pair: exactly ε at δ = 0, attained
    by the event that all bits are 1; at dim 1 the curve is that of ε-DP at every δ. A bit is 1
    with probability 1/(1 + e^c) on D and e^c/(1 + e^c) on D′.
    """

    epsilon: Annotated[float, Gt(0)]
    """The claim: the budget of all bits together."""
    sensitivity: Annotated[float, Gt(0)] | None = None
    """Δ, the largest number of bits that may differ; default: the pair's l1 distance."""

    def resolve(self, pair: Pair) -> Self:
        for data in (pair.d0, pair.d1):
            if not np.isin(data, (0, 1)).all():
                raise ValueError("randomised response requires bits: data of 0 and 1")
        return super().resolve(pair)

    def truth(self, pair: Pair) -> PureDP | None:
        bits = _laplace.lone_difference(pair)
        return None if bits is None else PureDP(bits * self._epsilon_of_a_bit)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        # One row, reshaped last: vectors then have full width whatever the dimension.
        u = jax.random.uniform(key, (n * data.size,), data.dtype).reshape(n, *data.shape)
        return jnp.where(u < jax.nn.sigmoid(-self._epsilon_of_a_bit), 1 - data, data)

    def log_density(self, data: Array, outputs: Array) -> Array:
        flipped = (outputs != data).reshape(len(outputs), -1)
        return -self._epsilon_of_a_bit * jnp.sum(flipped, axis=1)

    @property
    def _epsilon_of_a_bit(self) -> float:
        return 1 / self.scale


class CopyInput(_laplace.ClaimsEpsilon, name="copy-input"):
    """Releases the data as they are [Habernal2022, section 5].

    Claim: ε-DP; false. True ε for the zeros-ones pair: infinite.
    """

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return jnp.broadcast_to(data, (n, *data.shape))

    def log_density(self, data: Array, outputs: Array) -> Array:
        """Return the log density with respect to the counting measure."""
        same = jnp.all((outputs == data).reshape(len(outputs), -1), axis=1)
        return jnp.where(same, 0.0, -jnp.inf)


class RandomOutput(_laplace.ClaimsEpsilon, name="random-output"):
    """Uni[0, 1) in every coordinate, whatever the data are [Habernal2022, section 5].

    Claim: ε-DP; true for every ε. True ε for every pair: 0. A coordinate rounds to 1 with
    probability ½ (up to 2⁻²⁴) on both sides.
    """

    def truth(self, pair: Pair) -> PureDP:
        return PureDP(0.0)

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return None if np.size(data) != 1 else np.clip(x, 0, 1)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return _laplace.from_uniform(lambda u: u, key, data, n)

    def log_density(self, data: Array, outputs: Array) -> Array:
        return jnp.zeros(len(outputs), outputs.dtype)
