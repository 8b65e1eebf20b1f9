"""Mechanisms that claim ε-DP: Laplace noise, right and wrong, randomised response, baselines."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpframe.plugins import (
    Array,
    Gt,
    HostArray,
    HostMechanism,
    Key,
    LaplaceDP,
    Mechanism,
    Pair,
    PureDP,
)


def sensitivity_or_distance(given: float | None, pair: Pair, p: float) -> float:
    """Return the sensitivity that the user gave, else the pair's l_p distance."""
    sensitivity = pair.distance(p) if given is None else given
    if sensitivity == 0:
        raise ValueError("D and D′ are equal: give the sensitivity that the noise is scaled for")
    return sensitivity


def known(value: float | None) -> float:
    """Return a parameter that `resolve` has filled."""
    if value is None:
        raise ValueError("the noise is known only for a given pair")
    return value


def lone_difference(pair: Pair) -> float | None:
    """Return |D′ − D| if they differ in one coordinate at most; else None.

    With noise that is independent in all coordinates only the differing one tells D from D′.
    """
    d0, d1 = (np.asarray(data) for data in (pair.d0, pair.d1))
    if d0.shape != d1.shape or not all(data.dtype.kind in "biuf" for data in (d0, d1)):
        return None
    difference = np.abs(d1.astype(np.float64) - d0.astype(np.float64))
    return float(difference.sum()) if np.count_nonzero(difference) <= 1 else None


_ONE: Final = np.uint32(0x3F800000)  # the bits of 1.0, whose mantissa is empty
_ROOT_HALF: Final = np.uint32(0x3F3504F3)  # the bits of √½
_MANTISSA: Final = np.uint32(23)  # bits of it in float32

# ln(1 + x) = x − x²/2 + x³·P(x) for 1 + x in [√½, √2), by Cephes' `logf`; XLA's logarithm has the
# same polynomial. These are the coefficients of x⁸, x⁵, x², of x⁷, x⁴, x, and of x⁶, x³, 1.
_THIRDS: Final = np.array(
    [
        [0x3D9021BB, 0xBDEBD1B8, 0x3DEF251A],
        [0xBDFE5D4F, 0x3E11E9BF, 0xBE2AAE50],
        [0x3E4CCEAC, 0xBE7FFFFC, 0x3EAAAAAA],
    ],
    np.uint32,
).view(np.float32)
_LN_2: Final = np.array([0x3F318000, 0xB95E8083], np.uint32).view(np.float32)
"""ln 2 in two parts, the first of which has few bits: whole multiples of it are exact."""


def uniform(key: Key, n: int, dtype: Any, low: float = 0.0) -> Array:
    """Draw n numbers from Uni[low, low + 1), for low = 0 the same bits as `jax.random.uniform`.

    In float32 they are whole multiples of 2⁻²³; that minus ½ is exact, in one step as in two.
    """
    if dtype != jnp.float32:
        return jax.random.uniform(key, (n,), dtype) + low
    bits = jax.random.bits(key, (n,), np.uint32)
    one_to_two = lax.bitcast_convert_type((bits >> np.uint32(9)) | _ONE, np.float32)
    return one_to_two + np.float32(low - 1)


def log(x: Array) -> Array:
    """Return the natural logarithm of 0 and of normal numbers up to 1.

    In float32 it has the same bits as XLA's logarithm on a CPU, in two thirds of the time, because
    it does not handle NaN, infinite, negative and denormal numbers. Other types use XLA's.
    """
    if x.dtype != jnp.float32:
        return jnp.log(x)
    bits = lax.bitcast_convert_type(x, jnp.int32)
    # x = 2^exponent · (1 + part) with 1 + part in [√½, √2), by arithmetic on the bits.
    exponent = (bits - _ROOT_HALF.view(np.int32)) >> _MANTISSA.view(np.int32)
    scaled = bits - (exponent << _MANTISSA.view(np.int32))
    part = lax.bitcast_convert_type(scaled, jnp.float32) - np.float32(1)
    square = part * part
    cube = square * part
    highest, middle, lowest = ((a * part + b) * part + c for a, b, c in _THIRDS)
    tail = ((highest * cube + middle) * cube + lowest) * cube
    power = exponent.astype(jnp.float32)
    tail = tail + _LN_2[1] * power
    logarithm = (part - np.float32(0.5) * square) + tail + _LN_2[0] * power
    return jnp.where(x == 0, -jnp.inf, logarithm)


def from_uniform(
    noise: Callable[[Array], Array], key: Key, data: Array, n: int, low: float = 0.0
) -> Array:
    """Make noise of u ~ Uni[low, low + 1), one for every coordinate of n outputs.

    Evaluated in one row and reshaped last: vectors then have full width whatever the dimension.

    Args:
        noise: maps u, elementwise.
        key: a JAX key.
        data: gives the shape of one output and the dtype.
        n: number of outputs.
        low: 0 or −½.

    Returns:
        Shape [n, *data.shape].
    """
    return noise(uniform(key, n * data.size, data.dtype, low)).reshape(n, *data.shape)


def inverse_cdf(v: Array) -> Array:
    """Inverse CDF of Lap(0, 1) at v + ½: −sgn(v) ln(1 − 2|v|) [Habernal2022, equation 4].

    v = −½ gives −inf, an output like any other.
    """
    # The argument is exact in floating point, so log1p would cost more without being more accurate.
    # It is at most 1, so −log is the magnitude, and only the sign has to be added.
    return jnp.copysign(log(1 - 2 * jnp.abs(v)), v)


def laplace_log_density(data: Array, outputs: Array, scale: Array | float) -> Array:
    """Return the log density of data + Lap(0, scale), up to a constant, shape [n]."""
    deviations = jnp.abs(outputs - data).reshape(len(outputs), -1)
    return -jnp.sum(deviations, axis=1) / scale


def laplace_cdf(data: HostArray, x: HostArray, scale: float) -> HostArray | None:
    """Return P(data + Lap(0, scale) ≤ x) for data of one number, else None."""
    if np.size(data) != 1:
        return None
    away = (x - np.ravel(data)[0]) / scale
    tail = np.exp(-np.abs(away)) / 2
    below: HostArray = np.where(away > 0, 1 - tail, tail)
    return below


def laplace_truth(pair: Pair, scale: float) -> LaplaceDP | None:
    """Return the exact curve of data + Lap(0, scale) if one coordinate at most differs."""
    difference = lone_difference(pair)
    return None if difference is None else LaplaceDP(difference / scale)


class ClaimsEpsilon(Mechanism):
    """A mechanism that claims ε-DP."""

    epsilon: Annotated[float, Gt(0)]
    """The claim; it has no other effect."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)


class Calibrated(ClaimsEpsilon):
    """A mechanism that takes the scale of its noise from the claimed ε and a sensitivity Δ."""

    epsilon: Annotated[float, Gt(0)]
    """The claim; with the sensitivity it sets the scale of the noise."""
    sensitivity: Annotated[float, Gt(0)] | None = None
    """l1 sensitivity Δ; default: the pair's l1 distance."""

    def resolve(self, pair: Pair) -> Self:
        sensitivity = sensitivity_or_distance(self.sensitivity, pair, 1)
        return dataclasses.replace(self, sensitivity=sensitivity)

    @property
    def scale(self) -> float:
        """Δ/ε, once `resolve` has filled Δ."""
        return known(self.sensitivity) / self.epsilon


class LaplaceNoise(Mechanism):
    """x + Laplace noise in every coordinate, by the inverse CDF."""

    @property
    def noise(self) -> float:
        """Scale of the noise."""
        raise NotImplementedError

    def truth(self, pair: Pair) -> LaplaceDP | None:
        return laplace_truth(pair, self.noise)

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return laplace_cdf(data, x, self.noise)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return data + self.noise * from_uniform(inverse_cdf, key, data, n, low=-0.5)

    def log_density(self, data: Array, outputs: Array) -> Array:
        return laplace_log_density(data, outputs, self.noise)


class CalibratedLaplace(LaplaceNoise, Calibrated):
    """Laplace noise whose scale follows from ε and Δ."""

    @property
    def noise(self) -> float:
        return self.scale


class Laplace(CalibratedLaplace, name="laplace"):
    """Laplace mechanism: x + Lap(Δ/ε) in every coordinate, by the inverse CDF.

    Claim: ε-DP for a query of l1 sensitivity Δ [Dwork2006]; true. True ε for the
    zeros-ones pair: exactly ε. Sampled as in [Habernal2022, equation 4]. A coordinate rounds to
    1 with probability ½e^{−ε/2Δ} on D and 1 − ½e^{−ε/2Δ} on D′.
    """


class LaplaceHalfScale(CalibratedLaplace, name="laplace-half-scale"):
    """Laplace noise half as wide as it should be: x + Lap(Δ/2ε) in every coordinate.

    Claim: ε-DP; false. True ε for the zeros-ones pair: 2ε. A coordinate rounds to 1 with
    probability ½e^{−ε/Δ} on D and 1 − ½e^{−ε/Δ} on D′. The majority vote shows the violation at
    dims 1 and 2; at dim 3 and from dim 5 on its loss stays below ε, and the vote cannot see it.
    """

    @property
    def noise(self) -> float:
        return self.scale / 2


class LaplaceHalved(CalibratedLaplace, name="laplace-halved"):
    """Half of a Laplace release: ½(x + Lap(Δ/ε)) in every coordinate.

    Claim: ε-DP; true, because scaling a release is post-processing. (The code of [Habernal2022]
    calls it a wrong sensitivity.) True ε for the zeros-ones pair: exactly ε. A coordinate rounds
    to 1 with probability ½e^{−ε/Δ} on D and ½ on D′, so the majority vote attains ε at dims 1
    and 2: the worst case for the validity of a bound.
    """

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return super().cdf(data, 2 * x)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return 0.5 * super().sample(key, data, n)

    def log_density(self, data: Array, outputs: Array) -> Array:
        return super().log_density(data, 2 * outputs)


class LaplaceShifted(CalibratedLaplace, name="laplace-shifted"):
    """Laplace mechanism sampled from v ~ Uni(−½, ½) as −sgn(v) ln(1 − 2|v|).

    The second of the two correct ways of sampling [Habernal2022, equations 6 and 7]; DPText
    mixes it up with the first. Claim: ε-DP; true. True ε for the zeros-ones pair: exactly ε; a
    coordinate rounds to 1 as it does for `laplace`.
    """

    def sample(self, key: Key, data: Array, n: int) -> Array:
        v = jax.random.uniform(key, (n, *data.shape), data.dtype, minval=-0.5, maxval=0.5)
        noise = jnp.copysign(jnp.log(1 - 2 * jnp.abs(v)), v)  # −sgn(v) ln(1 − 2|v|)
        return data + self.scale * noise


class LaplaceNumpy(HostMechanism, name="laplace-numpy"):
    """Laplace mechanism as a black box: x + Lap(Δ/ε) from `numpy.random.Generator.laplace`.

    Claim: ε-DP [Dwork2006]; true. True ε for the zeros-ones pair: exactly ε; a coordinate
    rounds to 1 as it does for `laplace`. It shows what an audit of code outside JAX looks like.
    """

    rows = 4096  # one call draws many at hardly any cost
    epsilon: Annotated[float, Gt(0)]
    """The claim; with the sensitivity it sets the scale of the noise."""
    sensitivity: Annotated[float, Gt(0)] | None = None
    """l1 sensitivity Δ; default: the pair's l1 distance."""

    def resolve(self, pair: Pair) -> Self:
        sensitivity = sensitivity_or_distance(self.sensitivity, pair, 1)
        return dataclasses.replace(self, sensitivity=sensitivity)

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def truth(self, pair: Pair) -> LaplaceDP | None:
        return laplace_truth(pair, known(self.sensitivity) / self.epsilon)

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return laplace_cdf(data, x, known(self.sensitivity) / self.epsilon)

    def sample(self, rng: np.random.Generator, data: HostArray, n: int) -> HostArray:
        scale = known(self.sensitivity) / self.epsilon
        return data + rng.laplace(scale=scale, size=(n, *data.shape))


class Adept(LaplaceNoise, ClaimsEpsilon, name="adept"):
    """Laplace noise of scale 1/ε whatever the dimension, as in ADePT [Krishna2021].

    Claim: ε-DP; false from dim 2 on, because the l1 sensitivity is not 1 [Habernal2021]. True ε
    for the zeros-ones pair: dim·ε. A coordinate rounds to 1 with probability ½e^{−ε/2} on D and
    1 − ½e^{−ε/2} on D′ [Habernal2022, section 5].
    """

    epsilon: Annotated[float, Gt(0)]
    """The claim, and the inverse scale of the noise."""

    @property
    def noise(self) -> float:
        return 1 / self.epsilon


class DPText(Calibrated, name="dptext"):
    """x + noise with v ~ Uni(0, 1) in −(Δ/ε) sgn(v) ln(1 − 2|v|), as DPText samples it.

    The formula needs v ~ Uni(−½, ½) [Habernal2022, equations 8 and 9]. Here the noise is never
    negative, and NaN for v > ½; `nan` selects how to treat it. Claim: ε-DP; false. True ε for the
    zeros-ones pair: infinite (Theorem 3.2), since D′ never releases less than 1. A coordinate
    rounds to 1 always on D′; on D with probability ½e^{−ε/2Δ} ("zero"), e^{−ε/2Δ} ("resample"),
    or ½ + ½e^{−ε/2Δ} ("keep", where NaN counts as 1).
    """

    nan: Literal["zero", "resample", "keep"] = "zero"
    """NaN noise becomes 0, is drawn again until it is a number, or stays in the output."""

    @property
    def may_be_nan(self) -> bool:
        return self.nan == "keep"

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        """Return the CDF: half of all v give exponential noise, others NaN."""
        if np.size(data) != 1:
            return None
        noise = x - np.ravel(data)[0]
        below: HostArray = -np.expm1(-np.maximum(noise, 0) / self.scale)
        if self.nan == "resample":
            return below
        return below / 2 + 0.5 * (noise >= 0) if self.nan == "zero" else below / 2

    def sample(self, key: Key, data: Array, n: int) -> Array:
        noise = from_uniform(self._noise, key, data, n)
        return data + self.scale * noise

    def _noise(self, v: Array) -> Array:
        """Return noise of scale 1; sgn(v) is 1 except at v = 0, where the noise is 0 anyway."""
        if self.nan == "resample":
            return -log(1 - v)  # the law of v given that the noise is a number is that of v/2
        return jnp.where(v > 0.5, 0.0 if self.nan == "zero" else jnp.nan, -log(1 - 2 * v))

    def log_density(self, data: Array, outputs: Array) -> Array:
        """Return ∞ if noise that was NaN has become 0: an atom, for one dataset only."""
        noise = (outputs - data).reshape(len(outputs), -1)
        logs = -noise / self.scale
        if self.nan == "zero":
            logs = jnp.where(noise == 0, jnp.inf, logs)
        logs = jnp.where(jnp.isnan(noise), 0.0, logs)  # as often on either dataset
        return jnp.where(jnp.any(noise < 0, axis=1), -jnp.inf, jnp.sum(logs, axis=1))


class Geometric(Calibrated, name="geometric"):
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


class RandomizedResponse(Calibrated, name="randomized-response"):
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
        bits = lone_difference(pair)
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


class CopyInput(ClaimsEpsilon, name="copy-input"):
    """Releases the data as they are [Habernal2022, section 5].

    Claim: ε-DP; false. True ε for the zeros-ones pair: infinite.
    """

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return jnp.broadcast_to(data, (n, *data.shape))

    def log_density(self, data: Array, outputs: Array) -> Array:
        """Return the log density with respect to the counting measure."""
        same = jnp.all((outputs == data).reshape(len(outputs), -1), axis=1)
        return jnp.where(same, 0.0, -jnp.inf)


class RandomOutput(ClaimsEpsilon, name="random-output"):
    """Uni[0, 1) in every coordinate, whatever the data are [Habernal2022, section 5].

    Claim: ε-DP; true for every ε. True ε for every pair: 0. A coordinate rounds to 1 with
    probability ½ (up to 2⁻²⁴) on both sides.
    """

    def truth(self, pair: Pair) -> PureDP:
        return PureDP(0.0)

    def cdf(self, data: HostArray, x: HostArray) -> HostArray | None:
        return None if np.size(data) != 1 else np.clip(x, 0, 1)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return from_uniform(lambda u: u, key, data, n)

    def log_density(self, data: Array, outputs: Array) -> Array:
        return jnp.zeros(len(outputs), outputs.dtype)
