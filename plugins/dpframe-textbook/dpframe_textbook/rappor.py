"""RAPPOR: a Bloom filter of a value, reported with randomised response."""

from __future__ import annotations

import math
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np

from dpframe.plugins import Array, Floats, Ge, Gt, Key, Le, Lt, Mechanism, Pair, PureDP
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.noise import uniform

FIRST = np.uint32(53)
"""The first hash function. With 4 hash functions and 20 bits, neighbouring integers from −2 to 2
have no bit in common."""


class BloomFilter(Mechanism):
    """Bits of a Bloom filter of one whole number, each reported at random."""

    hashes: Annotated[int, Ge(1), Le(64)] = 4
    """h, the number of hash functions."""
    bits: Annotated[int, Ge(2), Le(4096)] = 20
    """k, the length of the filter."""

    def claim(self, pair: Pair) -> PureDP:
        few, many = self._rates
        ratio = np.log(many / few) + np.log((1 - few) / (1 - many))
        return PureDP(self.hashes * float(ratio))

    def truth(self, pair: Pair) -> FiniteDP:
        zero, one = (
            bloom_filter(np.asarray(data), self.hashes, self.bits, np)
            for data in (pair.d0, pair.d1)
        )
        # Only the number of reported bits among those that differ carries information.
        lost, gained = int(np.sum(zero & ~one)), int(np.sum(one & ~zero))
        few, many = self._rates
        return FiniteDP.of(
            np.outer(_binomial(lost, many), _binomial(gained, few)),
            np.outer(_binomial(lost, few), _binomial(gained, many)),
        )

    def sample(self, key: Key, data: Array, n: int) -> Array:
        few, many = self._rates
        rates = jnp.where(bloom_filter(data, self.hashes, self.bits, jnp), many, few)
        u = uniform(key, (n, self.bits), data.dtype)
        return (u < rates.astype(data.dtype)).astype(data.dtype)

    @property
    def _rates(self) -> tuple[float, float]:
        """Probability that a bit is reported as 1, if it is 0 and if it is 1."""
        raise NotImplementedError


class RAPPOR(BloomFilter, name="rappor"):
    """A Bloom filter after permanent and instantaneous randomised response [Erlingsson2014].

    A permanent bit is the true bit with probability 1 − f, else a fair coin. A permanent 1 is
    reported as 1 with probability q, a permanent 0 with probability p. Claim: the loss of one
    report about two values whose 2h bits all differ, .4 with these defaults; true, and tight for
    such values. The mechanism covers steps 1 to 3, and every run has a new permanent response.
    """

    f: Annotated[float, Gt(0), Le(1)] = 0.75
    """f, the probability that a permanent bit is a fair coin."""
    p: Annotated[float, Gt(0), Lt(1)] = 0.45
    """Probability that a permanent 0 is reported as 1."""
    q: Annotated[float, Gt(0), Lt(1)] = 0.55
    """Probability that a permanent 1 is reported as 1."""

    def check(self) -> None:
        if self.p >= self.q:
            raise ValueError("p must be below q: a 1 is reported more often where the bit is 1")

    @property
    def _rates(self) -> tuple[float, float]:
        coin = self.f * (self.p + self.q) / 2
        return coin + (1 - self.f) * self.p, coin + (1 - self.f) * self.q


class OneTimeRAPPOR(BloomFilter, name="one-time-rappor"):
    """A Bloom filter after permanent randomised response alone [Erlingsson2014].

    Claim: 2h ln((1 − f/2)/(f/2)), .8 with these defaults; true, and tight for two values whose 2h
    bits all differ.
    """

    f: Annotated[float, Gt(0), Lt(1)] = 0.95
    """f, the probability that a permanent bit is a fair coin."""

    @property
    def _rates(self) -> tuple[float, float]:
        return self.f / 2, 1 - self.f / 2


def bloom_filter(value: Any, hashes: int, bits: int, numpy: Any) -> Any:
    """Return the bits that a number, rounded to an integer, sets; traced, or on the host.

    The hash functions are one 32-bit finaliser with different starting values.

    Args:
        value: one number, any shape.
        hashes: h.
        bits: k.
        numpy: `numpy` or `jax.numpy`.

    Returns:
        Booleans, shape [bits].
    """
    whole = numpy.floor(value.ravel()[0] + 0.5).astype(numpy.int32).astype(numpy.uint32)
    x = whole + (FIRST + numpy.arange(hashes, dtype=numpy.uint32)) * numpy.uint32(0x9E3779B9)
    x = (x ^ (x >> 16)) * numpy.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * numpy.uint32(0xC2B2AE35)
    places = (x ^ (x >> 16)) % numpy.uint32(bits)
    return (places[:, None] == numpy.arange(bits, dtype=numpy.uint32)).any(axis=0)


def _binomial(n: int, p: float) -> Floats:
    """Return the probabilities of 0 … n."""
    return np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])
