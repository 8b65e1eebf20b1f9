"""Texts written by a language model from clipped logits, and bags of words."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal

import numpy as np

from dpframe.plugins import Floats, Ge, Gt, Le, Pair, PureDP
from dpframe_text.choices import WordChoices, distances_of, on_topics, places, vectors_of


class ClippedLogits(WordChoices):
    """A language model that draws words from the softmax of its clipped logits.

    The model is a formula. At position i of a text, the hidden state is the mean of the vectors of
    the text's words, plus the vector of word i; logits are linear in it, and their level differs
    from text to text. Words are drawn independently. Negative numbers are no words.
    """

    words: Annotated[int, Ge(30), Le(300)] = 30
    """Size of the vocabulary: words 0, 1, …; other numbers are rounded and clamped."""
    epsilon: Annotated[float, Gt(0)] = 2.0
    """ε of the whole text."""
    low: float = -2.0
    """Smaller logits are raised to it."""
    high: float = 2.0
    """Larger logits are lowered to it."""

    def check(self) -> None:
        if self.low >= self.high:
            raise ValueError("low must be below high")

    def temperature(self, length: int) -> Any:
        """Return 2(high − low)n/ε, for which n draws are ε-DP [McSherry2007]."""
        return 2 * (self.high - self.low) * length / self.epsilon

    def clipped(self, data: Any, xp: Any) -> Any:
        """Return clipped logits, shape [m, words]."""
        return xp.clip(language_model(data, self.words, xp), self.low, self.high)


class DPPrompt(ClippedLogits, name="dp-prompt"):
    """A paraphrase from clipped logits, with as many words as the text may have [Utpala2023].

    Claim: ε-DP for any two texts; true. With a mistake: wrong.
    """

    mistake: Literal[
        "none", "not-clipped", "half-range", "top-k", "greedy", "per-word", "own-length"
    ] = "none"
    """not-clipped: logits are not clipped; half-range: the temperature is computed from half of
    their range; top-k: only the five most probable words are drawn; greedy: always the most
    probable word; per-word: the temperature gives ε for each word; own-length: the paraphrase is as
    long as the text."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def log_weights(self, data: Any, xp: Any) -> Any:
        texts = data.ravel()
        logits = self.clipped(texts, xp)
        if self.mistake == "not-clipped":
            logits = language_model(texts, self.words, xp)
        temperature = self.temperature(1 if self.mistake == "per-word" else len(texts))
        weights = logits / temperature * (2 if self.mistake == "half-range" else 1)
        if self.mistake in ("top-k", "greedy"):
            # Ties, which clipping makes, are broken by the order of the words.
            ranks = xp.argsort(xp.argsort(-logits, axis=1, stable=True), axis=1)
            weights = xp.where(ranks < (5 if self.mistake == "top-k" else 1), weights, -xp.inf)
        if self.mistake != "own-length":
            return weights
        missing = (texts < -0.5)[:, None]
        nothing = xp.where(missing, 0.0, -xp.inf)
        return xp.concatenate([xp.where(missing, -xp.inf, weights), nothing], axis=1)


class DPMLM(ClippedLogits, name="dp-mlm"):
    """A text whose every word is drawn anew from clipped logits [Meisenbacher2024].

    Claim: ε-DP for any two texts of this length; true. With a mistake: wrong.
    """

    mistake: Literal["none", "not-clipped", "per-changed-word", "function-words-kept"] = "none"
    """not-clipped: logits are not clipped; per-changed-word: the temperature gives ε for each word,
    and the claim is ε times the number of words that differ, although a word changes the logits of
    all places; function-words-kept: function words stay as they are."""

    def claim(self, pair: Pair) -> PureDP:
        if self.mistake != "per-changed-word":
            return PureDP(self.epsilon)
        zero, one = (places(np.ravel(data), self.words, np) for data in (pair.d0, pair.d1))
        return PureDP(self.epsilon * int(np.count_nonzero(zero != one)))

    def log_weights(self, data: Any, xp: Any) -> Any:
        words = places(data.ravel(), self.words, xp)
        logits = self.clipped(words, xp)
        if self.mistake == "not-clipped":
            logits = language_model(words, self.words, xp)
        weights = logits / self.temperature(1 if self.mistake == "per-changed-word" else len(words))
        if self.mistake != "function-words-kept":
            return weights
        kept = (xp.asarray(on_topics(self.words, "function"))[words] == 1)[:, None]
        itself = xp.arange(self.words) == words[:, None]
        return xp.where(kept & ~itself, -xp.inf, weights)


class SyntheticTerms(WordChoices, name="synthetic-terms"):
    """SynTF: a bag of as many words as the text may have [Weggenmann2018].

    Each is a replacement of a random word of the text. The exponential mechanism chooses it by its
    similarity in [0, 1], with ε/n for each of n words. An empty text gives words of equal
    probability. Negative numbers are no words. Claim: ε-DP for any two texts; true. With a mistake:
    wrong.
    """

    words: Annotated[int, Ge(30), Le(300)] = 30
    """Size of the vocabulary: words 0, 1, …; other numbers are rounded and clamped."""
    epsilon: Annotated[float, Gt(0)] = 4.0
    """ε of the whole bag."""
    reach: Annotated[float, Gt(0)] = 6.0
    """The distance from which on the similarity is 0."""
    mistake: Literal["none", "per-word", "own-length"] = "none"
    """per-word: the exponential mechanism gets ε for each word; own-length: the bag has as many
    words as the text."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def log_weights(self, data: Any, xp: Any) -> Any:
        texts = data.ravel()
        exists = (texts > -0.5)[:, None]
        rate = self.epsilon / 2 / (1 if self.mistake == "per-word" else len(texts))
        scores = xp.maximum(0.0, 1 - xp.asarray(distances_of(self.words)) / self.reach)
        weights = xp.exp(rate * scores[places(texts, self.words, xp)])
        each = weights / xp.sum(weights, axis=1, keepdims=True)
        count = xp.sum(exists)
        mean = xp.sum(xp.where(exists, each, 0.0), axis=0) / xp.maximum(count, 1)
        mean = xp.where(count == 0, 1 / self.words, mean)
        rows = xp.log(xp.broadcast_to(mean, (len(texts), self.words)))
        if self.mistake != "own-length":
            return rows
        missing = xp.arange(len(texts))[:, None] >= count
        nothing = xp.where(missing, 0.0, -xp.inf)
        return xp.concatenate([xp.where(missing, -xp.inf, rows), nothing], axis=1)


def language_model(texts: Any, words: int, xp: Any) -> Any:
    """Return the logits of every word at every position, about −15 to 15, shape [m, words].

    Args:
        texts: numbers of words, negative if there is none, shape [m].
        words: size of the vocabulary.
        xp: NumPy or jax.numpy.
    """
    table = xp.asarray(_centred(words))
    exists = (texts > -0.5)[:, None]
    vectors = xp.where(exists, table[places(texts, words, xp)], 0.0)
    hidden = vectors + xp.mean(vectors, axis=0)
    return hidden @ table.T / 4 + LEVEL * hidden[:, :1]


LEVEL = 1.0  # of the first feature, life, in all logits


@functools.cache
def _centred(words: int) -> Floats:
    """Return the vectors of the small vocabulary less their mean, shape [words, d]."""
    vectors = vectors_of(words)
    return np.asarray(vectors - vectors.mean(axis=0))
