"""Randomised response with amplification by subsampling or by shuffling."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from dpframe.plugins import ApproxDP, Array, Floats, Gt, Key, Le, Mechanism, Pair, PureDP
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.neighbours import of_steps, one_by_one
from dpframe_textbook.noise import uniform


class SubsampledResponse(Mechanism, name="subsampled-randomized-response"):
    """The randomised response of one of m people, drawn at random [BalleBG2018].

    Data are bits. Claim: ln(1 + (e^ε − 1)/m)-DP if one bit changes; true, because the output does
    not show whose answer it is. With the mistake: wrong, the loss is ε.
    """

    epsilon: Annotated[float, Gt(0)] = 1.0
    """ε of the response."""
    mistake: Literal["none", "tells-which"] = "none"
    """tells-which: the index of the person is also released."""

    def claim(self, pair: Pair) -> PureDP:
        amplified = np.log1p(np.expm1(self.epsilon) / np.size(pair.d0))
        return PureDP(one_by_one(pair) * float(amplified))

    def truth(self, pair: Pair) -> FiniteDP:
        return FiniteDP.of(*(self.probabilities(_bits(d, np)) for d in (pair.d0, pair.d1)))

    def probabilities(self, bits: Floats) -> Floats:
        """Return the probabilities of 0 and 1, by person if the output names one; [2] or [2, m]."""
        keeps = 1 / (1 + np.exp(-self.epsilon))
        ones = np.where(bits == 1, keeps, 1 - keeps) / len(bits)
        table = np.stack([1 / len(bits) - ones, ones])
        return table if self.mistake == "tells-which" else table.sum(axis=1)

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_person, of_response = jax.random.split(key)
        bits = _bits(data, jnp)
        u = uniform(of_person, (n,), data.dtype)
        person = jnp.minimum(jnp.floor(u * data.size), data.size - 1)
        kept = uniform(of_response, (n,), data.dtype) < jax.nn.sigmoid(self.epsilon)
        bit = bits[person.astype(int)]
        response = jnp.where(kept, bit, 1 - bit).astype(data.dtype)
        columns = [person, response] if self.mistake == "tells-which" else [response]
        return jnp.stack(columns, axis=1)


class ShuffledResponse(Mechanism, name="shuffled-randomized-response"):
    """The number of 1s among the shuffled randomised responses of m people [Erlingsson2019].

    Data are bits. Claim: (ε′, δ)-DP if one bit changes, with the smallest ε′ for which this holds
    for all other bits; true. With the mistake: wrong.
    """

    epsilon: Annotated[float, Gt(0)] = 1.0
    """ε of one response."""
    delta: Annotated[float, Gt(0), Le(0.5)] = 1e-3
    """δ of the claim for neighbours."""
    mistake: Literal["none", "in-order"] = "none"
    """in-order: the responses are not shuffled, so each can be attributed to its person."""

    def claim(self, pair: Pair) -> ApproxDP | None:
        size = np.size(pair.d0)
        curves = [self._curve(ones, ones + 1, size) for ones in range(size)]
        amplified = max(curve.epsilon_at(self.delta) for curve in curves)
        return of_steps(amplified, self.delta, one_by_one(pair))

    def truth(self, pair: Pair) -> FiniteDP | None:
        if self.mistake == "in-order":
            zero, one = (_bits(data, np) for data in (pair.d0, pair.d1))
            if np.count_nonzero(zero != one) != 1:
                return None
            both = np.array([1.0, np.exp(self.epsilon)])
            return FiniteDP.of(both, both[::-1])
        zero, one = (int(_bits(data, np).sum()) for data in (pair.d0, pair.d1))
        return self._curve(zero, one, np.size(pair.d0))

    def probabilities(self, ones: int, size: int) -> Floats:
        """Return the probability of 0, …, m responses of 1, given the number of bits that are 1."""
        keeps = 1 / (1 + np.exp(-self.epsilon))
        probabilities = np.ones(1)
        for person in range(size):
            rate = keeps if person < ones else 1 - keeps
            probabilities = np.convolve(probabilities, [1 - rate, rate])
        return probabilities

    def sample(self, key: Key, data: Array, n: int) -> Array:
        bits = _bits(data, jnp)
        kept = uniform(key, (data.size, n), data.dtype) < jax.nn.sigmoid(self.epsilon)
        responses = jnp.where(kept, bits[:, None], 1 - bits[:, None])
        if self.mistake == "in-order":
            return responses.T
        return jnp.sum(responses, axis=0)[:, None]

    def _curve(self, zero: int, one: int, size: int) -> FiniteDP:
        return FiniteDP.of(self.probabilities(zero, size), self.probabilities(one, size))


def _bits(data: Any, numpy: Any) -> Any:
    """Return 1 for numbers of at least ½, else 0, shape [m]."""
    return (numpy.asarray(data).ravel() >= 0.5) * numpy.ones((), numpy.asarray(data).dtype)
