"""Word replacement: each word of the vocabulary is chosen with a stated probability."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal

import numpy as np

from dpframe.plugins import Floats, Ge, Gt, MetricDP, Pair, PureDP
from dpframe_text.choices import WordChoices, distances_of, on_topics, places, vectors_of


class WordReplacement(WordChoices):
    """A mechanism that replaces one word by another."""

    epsilon: Annotated[float, Gt(0)] = 1.0
    """ε for words at distance 1, or for any two words that the claim covers."""

    def log_weights(self, data: Any, xp: Any) -> Any:
        return self.row(places(data.ravel()[0], self.words, xp), xp)[None, :]

    def row(self, word: Any, xp: Any) -> Any:
        """Return the log of the weight of every word as a replacement of `word`, shape [words]."""
        raise NotImplementedError

    def both(self, pair: Pair) -> tuple[int, int]:
        """Return the words of D and D′."""
        first = (np.ravel(data)[0] for data in (pair.d0, pair.d1))
        zero, one = (int(places(word, self.words, np)) for word in first)
        return zero, one

    def for_distance(self, pair: Pair) -> MetricDP:
        """Return the claim of ε times the Euclidean distance between the two words."""
        gap = float(distances_of(self.words)[self.both(pair)])
        return MetricDP(self.epsilon, gap, metric="euclidean")


class SanText(WordReplacement, name="santext"):
    """A word at distance d, chosen with probability proportional to e^{−εd/2} [Yue2021].

    Claim: ε times the Euclidean distance between the two words; true. With a mistake: wrong.
    """

    mistake: Literal["none", "no-half", "squared", "cosine", "own-scale"] = "none"
    """no-half: e^{−εd}; squared: d is the square of the distance, as libraries for search in
    embeddings return it; cosine: d is 10 times the cosine distance, also in the claim, but that is
    no metric; own-scale: all distances from a word are scaled to the same maximum."""

    def claim(self, pair: Pair) -> MetricDP:
        if self.mistake == "cosine":
            gap = float(_cosines(self.words)[self.both(pair)])
            return MetricDP(self.epsilon, gap, metric="10 times the cosine distance")
        return self.for_distance(pair)

    def row(self, word: Any, xp: Any) -> Any:
        table = distances_of(self.words)
        if self.mistake == "squared":
            table = table**2
        elif self.mistake == "cosine":
            table = _cosines(self.words)
        elif self.mistake == "own-scale":
            table = table * table.max() / table.max(axis=1, keepdims=True)
        rate = self.epsilon / (1 if self.mistake == "no-half" else 2)
        return -rate * xp.asarray(table)[word]


class SanTextPlus(WordReplacement, name="santext-plus"):
    """SanText for sensitive words, and for a share p of all occurrences of others [Yue2021].

    Function words and numbers are not sensitive: they stay with probability 1 − p, and are else
    replaced by a sensitive word, as sensitive words are. Claim: ε times the Euclidean distance
    between two sensitive words; true. With the mistake: wrong.
    """

    p: Annotated[float, Gt(0)] = 0.5
    """Probability with which a word that is not sensitive is replaced."""
    mistake: Literal["none", "all-words"] = "none"
    """all-words: the claim is made for all words, although some stay as they are."""

    def claim(self, pair: Pair) -> MetricDP | None:
        if self.mistake == "none" and _open_words(self.words)[list(self.both(pair))].any():
            return None
        return self.for_distance(pair)

    def row(self, word: Any, xp: Any) -> Any:
        kept = xp.asarray(_open_words(self.words))
        rates = -self.epsilon / 2 * xp.asarray(distances_of(self.words))[word]
        weights = xp.where(kept == 1, 0.0, xp.exp(rates))
        replaced = weights / xp.sum(weights)
        itself = (xp.arange(self.words) == word) * 1.0
        mixed = self.p * replaced + (1 - self.p) * itself
        return _log(xp.where(kept[word] == 1, mixed, replaced), xp)


class CusText(WordReplacement, name="custext"):
    """A word of the same group, chosen by the exponential mechanism [Chen2023].

    Groups of `candidates` words are formed once, of words near to each other. Similarities to a
    word are scaled to [0, 1], and the weight of similarity s is e^{εs/2}. Claim: ε-DP for two words
    of a group; true. With a mistake: wrong.
    """

    candidates: Annotated[int, Ge(2)] = 20
    """Size of a group; the last may be smaller."""
    mistake: Literal["none", "no-half", "raw-distances", "own-candidates", "rare-kept"] = "none"
    """no-half: e^{εs}; raw-distances: s is minus the distance, which is not scaled to [0, 1];
    own-candidates: the replacements of a word are the words nearest to it, not its group;
    rare-kept: rare words and numbers stay as they are, as if they were missing from the
    vocabulary."""

    def claim(self, pair: Pair) -> PureDP | None:
        groups = _groups(self.words, self.candidates)
        zero, one = self.both(pair)
        return PureDP(self.epsilon) if groups[zero] == groups[one] else None

    def row(self, word: Any, xp: Any) -> Any:
        table, groups = distances_of(self.words), _groups(self.words, self.candidates)
        allowed = groups[:, None] == groups
        if self.mistake == "own-candidates":
            allowed = table.argsort(axis=1).argsort(axis=1) < self.candidates
        if self.mistake == "rare-kept":
            kept = on_topics(self.words, "rare", "numbers")[:, None] == 1
            allowed = np.where(kept, np.eye(self.words) == 1, allowed)
        scores = -table
        if self.mistake != "raw-distances":
            farthest = np.where(allowed, table, 0.0).max(axis=1, keepdims=True)
            scores = 1 - table / np.where(farthest > 0, farthest, 1.0)
        rate = self.epsilon / (1 if self.mistake == "no-half" else 2)
        return xp.where(xp.asarray(allowed)[word], rate * xp.asarray(scores)[word], -xp.inf)


class TruncatedExponential(WordReplacement, name="truncated-exponential"):
    """TEM: the exponential mechanism, with all distant words as one candidate [Carvalho2021].

    A word at distance d up to `reach` has weight e^{−εd/2}. The distant words together have the
    weight of `reach` times their number, and one of them is then chosen uniformly. Claim: ε times
    the Euclidean distance between the two words; true. With a mistake: wrong.
    """

    reach: Annotated[float, Gt(0)] = 6.0
    """The distance γ beyond which all words count as equally far."""
    mistake: Literal["none", "no-half", "no-count", "cut-off"] = "none"
    """no-half: e^{−εd}; no-count: the weight of the distant words does not grow with their number;
    cut-off: distant words are never chosen."""

    def claim(self, pair: Pair) -> MetricDP:
        return self.for_distance(pair)

    def row(self, word: Any, xp: Any) -> Any:
        gaps = xp.asarray(distances_of(self.words))[word]
        rate = self.epsilon / (1 if self.mistake == "no-half" else 2)
        distant = gaps > self.reach
        weights = -rate * xp.minimum(gaps, self.reach)
        if self.mistake == "no-count":
            return weights - xp.where(distant, _log(xp.maximum(xp.sum(distant), 1), xp), 0.0)
        return xp.where(distant, -xp.inf, weights) if self.mistake == "cut-off" else weights


class WordExponential(WordReplacement, name="word-exponential"):
    """Any word, chosen with the exponential mechanism [McSherry2007].

    The score of a word at distance d is the larger of 0 and 1 − d/reach. Claim: ε-DP for any two
    words; true. With a mistake: wrong.
    """

    reach: Annotated[float, Gt(0)] = 10.0
    """The distance from which on the score is 0."""
    mistake: Literal["none", "half-range", "numbers-kept"] = "none"
    """half-range: scores are centred, and ½ is taken for their sensitivity; numbers-kept: digits
    and numerals stay as they are."""

    def claim(self, pair: Pair) -> PureDP:
        return PureDP(self.epsilon)

    def row(self, word: Any, xp: Any) -> Any:
        scores = xp.maximum(0.0, 1 - xp.asarray(distances_of(self.words))[word] / self.reach)
        weights = self.epsilon / (1 if self.mistake == "half-range" else 2) * scores
        if self.mistake == "numbers-kept":
            kept = xp.asarray(on_topics(self.words, "numbers"))[word] == 1
            return xp.where(kept & (xp.arange(self.words) != word), -xp.inf, weights)
        return weights


def _log(x: Any, xp: Any) -> Any:
    """Return ln x, and −inf for 0 without a warning."""
    with np.errstate(divide="ignore"):
        return xp.log(x)


@functools.cache
def _cosines(words: int) -> Floats:
    """Return 10 times the cosine distances, shape [words, words]."""
    units = vectors_of(words) / np.linalg.norm(vectors_of(words), axis=1, keepdims=True)
    return np.asarray(10 * np.clip(1 - units @ units.T, 0.0, 2.0))


@functools.cache
def _open_words(words: int) -> Floats:
    """Return 1 for words that are not sensitive."""
    return on_topics(words, "function", "numbers")


@functools.cache
def _groups(words: int, size: int) -> Floats:
    """Return the group of each word: the first free word with the free words nearest to it."""
    group = np.full(words, -1.0)
    for number in range(-(-words // size)):
        free = np.flatnonzero(group < 0)
        gaps = distances_of(words)[free[0]][free]
        group[free[np.argsort(gaps, kind="stable")[:size]]] = number
    return group
