"""Frequency oracles: one report about one value of k.

The dataset is one number, rounded to a value from 0 to k − 1. An output is the report that a server
receives. Each protocol defines its density, so the optimal attack `likelihood-ratio` works, and its
exact loss.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.noise import laplace, uniform

from dpframe.plugins import Array, Ge, Gt, Key, Le, Lt, Mechanism, Pair, ParameterError, PureDP

MOST_VALUES = 4096
HASHES = 1 << 16
"""Hash functions of local hashing."""


class Protocol(Mechanism):
    """One report about one value."""

    epsilon: Annotated[float, Gt(0)] = 1.0
    """The claimed ε for any two values."""
    k: Annotated[int, Ge(2), Le(MOST_VALUES)] = 4
    """Number of values."""

    def claim(self, pair: Pair) -> PureDP | None:
        return PureDP(self.epsilon)

    def value(self, data: Any, numpy: Any = jnp) -> Any:
        """Return the user's value, from 0 to k − 1."""
        number = numpy.floor(numpy.asarray(data).ravel()[0] + 0.5).astype(numpy.int32)
        return numpy.clip(number, 0, self.k - 1)

    def _values(self, pair: Pair) -> tuple[int, int]:
        return int(self.value(pair.d0, np)), int(self.value(pair.d1, np))

    def _two_sided(self, keep: float, other: float, share: float = 1.0) -> FiniteDP:
        """Return the curve if a share of reports has two informative answers, and others none.

        Args:
            keep: probability of the answer of the user's own value.
            other: probability of the answer of the other value.
            share: the share of informative reports.
        """
        rest = max(1 - keep - other, 0.0)
        zero = share * np.array([keep, other, rest])
        one = share * np.array([other, keep, rest])
        return FiniteDP.of(np.append(zero, 1 - share), np.append(one, 1 - share))


class GRR(Protocol, name="grr"):
    """Generalised randomised response [Kairouz2016].

    Reports the value with probability e^ε/(e^ε + k − 1), otherwise another one at random. Claim: ε;
    true, and tight.
    """

    def truth(self, pair: Pair) -> FiniteDP:
        zero, one = self._values(pair)
        keep, other = grr_rates(self.epsilon, self.k, np)
        return self._two_sided(keep, other) if zero != one else FiniteDP.of(*[np.ones(1)] * 2)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return grr(key, self.value(data), self.epsilon, self.k, (n,), data.dtype)[:, None]

    def log_density(self, data: Array, outputs: Array) -> Array:
        return jnp.where(outputs[:, 0] == self.value(data), self.epsilon, 0.0)


class Unary(Protocol):
    """A bit for each value; each bit is reported at random."""

    def rates(self, numpy: Any = jnp) -> tuple[Any, Any]:
        """Return the probability that a bit is reported as 1: of the value, and of others."""
        raise NotImplementedError

    def truth(self, pair: Pair) -> FiniteDP | None:
        zero, one = self._values(pair)
        p, q = (float(rate) for rate in self.rates(np))
        bits = [np.array([1 - p, p]), np.array([1 - q, q])]  # of the value, and of another
        both = np.outer(bits[0], bits[1])
        return FiniteDP.of(both, both.T if zero != one else both)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        p, q = self.rates()
        rates = jnp.where(jnp.arange(self.k) == self.value(data), p, q)
        u = uniform(key, (n, self.k), data.dtype)
        return (u < rates.astype(data.dtype)).astype(data.dtype)

    def log_density(self, data: Array, outputs: Array) -> Array:
        p, q = self.rates()
        ratio = jnp.log(p) - jnp.log(q) + jnp.log1p(-q) - jnp.log1p(-p)
        own: Array = jnp.take(outputs, self.value(data), axis=1)
        return ratio * own


class SUE(Unary, name="sue"):
    """Symmetric unary encoding, basic one-time RAPPOR [Wang2017, section 4].

    Bits are kept with probability e^(ε/2)/(e^(ε/2) + 1). Claim: ε; true, and tight.
    """

    def rates(self, numpy: Any = jnp) -> tuple[Any, Any]:
        keep = 1 / (1 + numpy.exp(-self.epsilon / 2))
        return keep, 1 - keep


class OUE(Unary, name="oue"):
    """Optimised unary encoding: 1 stays 1 w.p. ½, 0 becomes 1 w.p. 1/(e^ε + 1).

    [Wang2017, section 4]. Claim: ε; true, and tight.
    """

    def rates(self, numpy: Any = jnp) -> tuple[Any, Any]:
        return 0.5 + 0.0 * self.epsilon, 1 / (1 + numpy.exp(self.epsilon))


class THE(Unary, name="the"):
    """Thresholding with histogram encoding: Lap(2/ε) on each bit, 1 above θ.

    [Wang2017, section 4]. Claim: ε; true but not tight: the threshold hides part of the loss.
    """

    theta: Annotated[float, Gt(0.5), Lt(1)] = 0.67
    """θ."""

    def rates(self, numpy: Any = jnp) -> tuple[Any, Any]:
        half = self.epsilon / 2
        return 1 - numpy.exp(half * (self.theta - 1)) / 2, numpy.exp(-half * self.theta) / 2


class SHE(Protocol, name="she"):
    """Summation with histogram encoding: Lap(2/ε) on each bit [Wang2017, section 4].

    Claim: ε; true, and tight.
    """

    def sample(self, key: Key, data: Array, n: int) -> Array:
        bits = (jnp.arange(self.k) == self.value(data)).astype(data.dtype)
        noised: Array = bits + 2 / self.epsilon * laplace(key, (n, self.k), data.dtype)
        return noised

    def log_density(self, data: Array, outputs: Array) -> Array:
        bits = jnp.arange(self.k) == self.value(data)
        return -self.epsilon / 2 * jnp.sum(jnp.abs(outputs - bits), axis=1)


class SubsetSelection(Protocol, name="subset-selection"):
    """A set of ω values, more likely to contain the user's own [Ye2018].

    With probability ωe^ε/(ωe^ε + k − ω) the set is the user's value and ω − 1 others, otherwise ω
    others. The output has a bit for each value. Claim: ε; true, and tight.
    """

    omega: Annotated[int, Ge(1)] | None = None
    """ω; default: k/(e^ε + 1), rounded, at least 1."""

    def resolve(self, pair: Pair) -> SubsetSelection:
        best = max(1, round(self.k / (math.exp(self.epsilon) + 1)))
        return self if self.omega else dataclasses.replace(self, omega=best)

    def check(self) -> None:
        if self.omega is not None and self.omega >= self.k:
            raise ParameterError("omega", f"{self.omega} is not below k = {self.k}")

    def rate(self, numpy: Any) -> Any:
        size = self.omega or 1
        return 1 / (1 + (self.k - size) / size * numpy.exp(-self.epsilon))

    def truth(self, pair: Pair) -> FiniteDP:
        zero, one = self._values(pair)
        size, rate = self.omega or 1, float(self.rate(np))
        with_other = (size - 1) / (self.k - 1)  # of the other value in a set with the own one
        without = size / (self.k - 1)  # in a set without the own one
        both = np.array(
            [
                [(1 - rate) * (1 - without), (1 - rate) * without],
                [rate * (1 - with_other), rate * with_other],
            ]
        )
        return FiniteDP.of(both, both.T if zero != one else both)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_own, of_others = jax.random.split(key)
        size = self.omega or 1
        own = uniform(of_own, (n, 1), data.dtype) < self.rate(jnp).astype(data.dtype)
        places = uniform(of_others, (n, self.k), data.dtype)
        mine = jnp.arange(self.k) == self.value(data)
        places = jnp.where(mine, jnp.where(own, -1.0, 2.0), places)
        order = jnp.argsort(jnp.argsort(places, axis=1), axis=1)
        return (order < size).astype(data.dtype)

    def log_density(self, data: Array, outputs: Array) -> Array:
        own: Array = jnp.take(outputs, self.value(data), axis=1)
        return self.epsilon * own


class LocalHashing(Protocol):
    """A hash function, and the hash of the value after randomised response."""

    def size(self) -> int:
        """Return g, the number of hashes."""
        raise NotImplementedError

    def truth(self, pair: Pair) -> FiniteDP:
        zero, one = self._values(pair)
        seeds = np.arange(HASHES, dtype=np.uint32)
        hashes = (hashed(seeds, np.array([v], np.uint32), self.size(), np) for v in (zero, one))
        apart = np.not_equal(*hashes)
        keep, other = grr_rates(self.epsilon, self.size(), np)
        return self._two_sided(keep, other, float(np.mean(apart)))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_hash, of_response = jax.random.split(key)
        seeds = jax.random.randint(of_hash, (n,), 0, HASHES).astype(jnp.uint32)
        own = hashed(seeds, self.value(data).astype(jnp.uint32), self.size(), jnp)
        response = grr(
            of_response, own.astype(jnp.int32), self.epsilon, self.size(), (n,), data.dtype
        )
        # Whole numbers, because the attack rounds floats, and a rounded seed selects another
        # function.
        return jnp.stack([seeds.astype(jnp.int32), response.astype(jnp.int32)], axis=1)

    def log_density(self, data: Array, outputs: Array) -> Array:
        seeds, value = outputs[:, 0].astype(jnp.uint32), self.value(data).astype(jnp.uint32)
        own = hashed(seeds, value, self.size(), jnp)
        return jnp.where(outputs[:, 1] == own, self.epsilon, 0.0)


class BLH(LocalHashing, name="blh"):
    """Binary local hashing [Wang2017, section 4].

    Claim: ε; true, and tight, although half of the reports cannot distinguish two values.
    """

    def size(self) -> int:
        return 2


class OLH(LocalHashing, name="olh"):
    """Optimised local hashing, with e^ε + 1 hashes [Wang2017, section 4].

    Claim: ε; true, and tight.
    """

    g: Annotated[int, Ge(2), Le(MOST_VALUES)] | None = None
    """Number of hashes; default: e^ε + 1, rounded."""

    def resolve(self, pair: Pair) -> OLH:
        best = min(max(2, round(math.exp(self.epsilon) + 1)), MOST_VALUES)
        return self if self.g else dataclasses.replace(self, g=best)

    def size(self) -> int:
        return self.g or 2


class HadamardResponse(Protocol, name="hadamard-response"):
    """A column of a Hadamard matrix, more likely where the value's row has a 1 [Acharya2019].

    Claim: ε; true, and tight.
    """

    def _columns(self) -> int:
        return 1 << self.k.bit_length()  # the smallest power of 2 above k: row 0 is not used

    def truth(self, pair: Pair) -> FiniteDP:
        columns = np.arange(self._columns())
        rows = [signs(np.int32(v + 1), columns, np) for v in self._values(pair)]
        return FiniteDP.of(*(np.where(row, np.exp(self.epsilon), 1.0) for row in rows))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_sign, of_column = jax.random.split(key)
        columns, row = self._columns(), self.value(data) + 1
        wanted = uniform(of_sign, (n,), data.dtype) < jax.nn.sigmoid(self.epsilon)
        column = jax.random.randint(of_column, (n,), 0, columns)
        # Half of the columns have each sign; flipping a bit of the row changes the sign.
        lowest = row & -row
        right = signs(row, column, jnp) == wanted
        return jnp.where(right, column, column ^ lowest).astype(data.dtype)[:, None]

    def log_density(self, data: Array, outputs: Array) -> Array:
        column = outputs[:, 0].astype(jnp.int32)
        return jnp.where(signs(self.value(data) + 1, column, jnp), self.epsilon, 0.0)


def grr_rates(epsilon: Any, k: int, numpy: Any) -> tuple[Any, Any]:
    """Return the probability of the user's value, and that of each other value."""
    other = 1 / (numpy.exp(epsilon) + k - 1)
    return 1 - (k - 1) * other, other


def grr(key: Key, value: Any, epsilon: Any, k: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return answers of generalised randomised response, as floats.

    Args:
        key: a JAX key.
        value: the own values, broadcastable to the shape.
        epsilon: ε.
        k: number of values.
        shape: of the answers.
        dtype: of the answers.
    """
    of_keep, of_other = jax.random.split(key)
    keep, _ = grr_rates(epsilon, k, jnp)
    kept = uniform(of_keep, shape, dtype) < jnp.asarray(keep, dtype)
    shift = jax.random.randint(of_other, shape, 1, k)
    return jnp.where(kept, value, (value + shift) % k).astype(dtype)


def hashed(seed: Any, value: Any, size: int, numpy: Any) -> Any:
    """Return the hash of a value under a hash function: a finaliser of 32 bits, twice."""
    x = (seed + numpy.uint32(1)) * numpy.uint32(0x9E3779B1)
    x = x ^ ((value + numpy.uint32(1)) * numpy.uint32(0x85EBCA77))
    for _ in range(2):
        x = (x ^ (x >> 16)) * numpy.uint32(0xC2B2AE35)
        x = (x ^ (x >> 15)) * numpy.uint32(0x27D4EB2F)
    return (x ^ (x >> 16)) % numpy.uint32(size)


def signs(row: Any, column: Any, numpy: Any) -> Any:
    """Return True where a Hadamard matrix has a 1: if row & column has an even number of bits."""
    x = row & column
    for shift in (16, 8, 4, 2, 1):
        x = x ^ (x >> shift)
    return (x & 1) == 0
