"""Mechanisms that choose each word of their output from a vocabulary, and their exact losses."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from dpframe_textbook.finite import FiniteDP
from dpframe_textbook.noise import categorical
from scipy import special

from dpframe.plugins import Array, Floats, Ge, Key, Le, Mechanism, Pair
from dpframe_text.vocabulary import Vocabulary


class WordChoices(Mechanism):
    """A mechanism that chooses each word of its output independently.

    Data are the numbers of words in the small vocabulary. A subclass gives `log_weights`, from
    which everything else follows: the sampler, its density and its exact loss.
    """

    words: Annotated[int, Ge(30), Le(300)] = 60
    """Size of the vocabulary: words 0, 1, …; other numbers are rounded and clamped."""

    def log_weights(self, data: Any, xp: Any) -> Any:
        """Return the log of the weight of every option at every position of the output.

        Args:
            data: numbers of words, shape [m].
            xp: NumPy for exact losses, or jax.numpy for draws.

        Returns:
            Shape [positions, options]; −inf for impossible options.
        """
        raise NotImplementedError

    def choices(self, data: Any) -> Floats:
        return self.log_probabilities(data)

    def log_probabilities(self, data: Any) -> Floats:
        """Return `log_weights`, normalised, in float64."""
        weights = self.log_weights(np.asarray(data, np.float64), np)
        return np.asarray(special.log_softmax(weights, axis=1))

    def truth(self, pair: Pair) -> FiniteDP | None:
        zero, one = (self.log_probabilities(data) for data in (pair.d0, pair.d1))
        return FiniteDP.of(np.exp(zero), np.exp(one)) if len(zero) == 1 else None

    def sample(self, key: Key, data: Array, n: int) -> Array:
        probabilities = jax.nn.softmax(self.log_weights(data, jnp), axis=1)
        keys = jax.random.split(key, len(probabilities))
        return jax.vmap(lambda k, p: categorical(k, p, n), out_axes=1)(keys, probabilities)

    def log_density(self, data: Array, outputs: Array) -> Array:
        logs = jax.nn.log_softmax(self.log_weights(data, jnp), axis=1)
        return jnp.sum(logs[jnp.arange(len(logs)), outputs.astype(int)], axis=1)


def largest_loss(mechanism: WordChoices, pair: Pair) -> float:
    """Return the largest log ratio of the probabilities of an output, in either direction.

    It is the sum over the positions of their largest log ratios, because the positions are
    independent.
    """
    zero, one = (mechanism.log_probabilities(data) for data in (pair.d0, pair.d1))
    with np.errstate(invalid="ignore"):
        ratios = one - zero
    ways = (np.nanmax(way, axis=1, initial=-np.inf).sum() for way in (ratios, -ratios))
    return float(max(ways))


def places(data: Any, words: int, xp: Any) -> Any:
    """Return the numbers of words as whole numbers from 0 to words − 1, of the shape of `data`."""
    return xp.clip(xp.floor(data + 0.5), 0, words - 1).astype(int)


@functools.cache
def vectors_of(words: int) -> Floats:
    """Return the vectors of the small vocabulary, shape [words, d]."""
    return Vocabulary.toy(words).vectors


@functools.cache
def distances_of(words: int) -> Floats:
    """Return the Euclidean distances of the small vocabulary, shape [words, words]."""
    return Vocabulary.toy(words).distances


def on_topics(words: int, *topics: str) -> Floats:
    """Return 1 for words on one of these topics and 0 for others, shape [words]."""
    return np.array([float(topic in topics) for topic in Vocabulary.toy(words).topics])
