"""Selection of the best candidate: the exponential mechanism and permute-and-flip."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dpframe.plugins import Array, Floats, Key, Pair
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.neighbours import EachByOne
from dpframe_textbook.noise import categorical, uniform
from dpframe_textbook.quadrature import EXPONENTIAL, largest_of


class ExponentialMechanism(EachByOne, name="exponential-mechanism"):
    """The index of a score q, with probability proportional to e^{εq/2} [McSherry2007].

    Claim: ε-DP if each score changes by up to 1; true. With the mistake: wrong.
    """

    mistake: Literal["none", "no-half"] = "none"
    """no-half: the probability is proportional to e^{εq}, as if all scores moved in one
    direction."""

    def truth(self, pair: Pair) -> FiniteDP:
        return FiniteDP.of(self.probabilities(pair.d0), self.probabilities(pair.d1))

    def probabilities(self, data: Floats) -> Floats:
        """Return the probability of each index, in float64."""
        return np.asarray(special.softmax(self._rate * np.asarray(data, np.float64)))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        return categorical(key, jax.nn.softmax(self._rate * data), n)[:, None]

    @property
    def _rate(self) -> float:
        return self.epsilon / (1 if self.mistake == "no-half" else 2)


class PermuteAndFlip(EachByOne, name="permute-and-flip"):
    """The first candidate, in random order, whose coin shows heads [McKenna2020].

    The coin of a score q shows heads with probability e^{ε(q − max q)/2}.

    Claim: ε-DP if each score changes by up to 1; true. With the mistake: wrong.
    """

    mistake: Literal["none", "fixed-order"] = "none"
    """fixed-order: candidates are not shuffled, so none after the first best one is ever chosen."""

    def truth(self, pair: Pair) -> FiniteDP:
        return FiniteDP.of(self.probabilities(pair.d0), self.probabilities(pair.d1))

    def probabilities(self, data: Floats) -> Floats:
        """Return the probability of each index, in float64."""
        scores = np.asarray(data, np.float64)
        if self.mistake == "none":  # the same law as exponential noise of mean 2/ε
            return largest_of(scores * self.epsilon / 2, EXPONENTIAL)
        heads = np.exp(self.epsilon / 2 * (scores - scores.max()))
        return np.asarray(heads * np.cumprod(np.append(1.0, 1 - heads[:-1])))

    def sample(self, key: Key, data: Array, n: int) -> Array:
        of_coins, of_order = jax.random.split(key)
        chance = jnp.exp(self.epsilon / 2 * (data - jnp.max(data)))
        heads = uniform(of_coins, (data.size, n), data.dtype) < chance[:, None]
        if self.mistake == "none":
            place = uniform(of_order, (data.size, n), data.dtype)
        else:
            place = jnp.arange(data.size, dtype=data.dtype)[:, None]
        first = jnp.argmin(jnp.where(heads, place, jnp.inf), axis=0)
        return first.astype(data.dtype)[:, None]
