"""Words with embeddings: a small one for tests and examples, or the user's own."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Self

import numpy as np

from dpframe.plugins import Floats, Ints

SPREAD = 2.0  # width of the cube around a topic's features in which its words lie
PRIMES = (2, 3, 5, 7, 11)


@dataclasses.dataclass(frozen=True, eq=False)
class Vocabulary:
    """Words and their vectors.

    Raises:
        ValueError: a word is repeated, or there is not one vector of finite numbers for each word.
    """

    words: tuple[str, ...]
    vectors: Floats
    """Shape [n, d]."""
    topics: tuple[str, ...] = ()
    """The topic of each word, or nothing."""

    def __post_init__(self) -> None:
        if len(set(self.words)) != len(self.words):
            raise ValueError("a word is repeated")
        if np.ndim(self.vectors) != 2 or len(self.vectors) != len(self.words):
            raise ValueError(
                f"{len(self.words)} words need vectors of shape [{len(self.words)}, d], "
                f"not {list(np.shape(self.vectors))}"
            )
        if not np.isfinite(self.vectors).all():
            raise ValueError("a vector is not finite")

    @classmethod
    def of(cls, vectors: Mapping[str, Sequence[float]]) -> Self:
        """Return the vocabulary of a dict from words to vectors of one length."""
        return cls(tuple(vectors), np.array(list(vectors.values()), np.float64))

    @classmethod
    def toy(cls, size: int | None = None) -> Self:
        """Return 300 English words on 30 topics in five dimensions, or the first `size` of them.

        A vector is the features of the word's topic plus an offset: coordinate j of word w moves by
        the fractional part of (w + 1)√p_j, where p_j is the jth prime, times 2. So the nearest
        words are mostly on one topic. Every 30 words in a row have one word of each topic. The
        first topic has function words, the second digits and numerals, and the last rare words.

        Raises:
            ValueError: size is below 1 or above 300.
        """
        words, topics, vectors = _toy()
        if size is not None and not 1 <= size <= len(words):
            raise ValueError(f"size: from 1 to {len(words)}, not {size}")
        return cls(words[:size], vectors[:size], topics[:size])

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._places

    def index(self, word: str) -> int:
        """Return the place of a word; raises KeyError if it is missing."""
        return self._places[word]

    def vector(self, word: str) -> Floats:
        """Return the vector of a word, shape [d]; raises KeyError if it is missing."""
        return np.asarray(self.vectors[self._places[word]])

    def distance(self, one: str, other: str) -> float:
        """Return the Euclidean distance between two words; raises KeyError if one is missing."""
        return float(np.linalg.norm(self.vector(one) - self.vector(other)))

    @functools.cached_property
    def distances(self) -> Floats:
        """Euclidean distances between all words, shape [n, n]."""
        return np.asarray(np.linalg.norm(self.vectors[:, None] - self.vectors[None], axis=2))

    def nearest(self, word: str, count: int = 1) -> tuple[str, ...]:
        """Return the words nearest to a word, without itself, nearest first."""
        return tuple(self.words[k] for k in self._order(word) if self.words[k] != word)[:count]

    def farthest(self, word: str) -> str:
        """Return the word farthest from a word."""
        return self.words[int(self._order(word)[-1])]

    def _order(self, word: str) -> Ints:
        gaps = np.linalg.norm(self.vectors - self.vector(word), axis=1)
        return np.asarray(np.argsort(gaps, kind="stable"))

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {word: k for k, word in enumerate(self.words)}


@functools.cache
def _toy() -> tuple[tuple[str, ...], tuple[str, ...], Floats]:
    """Return the words, their topics and vectors of `words.txt`."""
    text = (resources.files("dpframe_text") / "words.txt").read_text(encoding="utf-8")
    lines = [line.split(":") for line in text.splitlines() if not line.startswith("#")]
    names = [head.split()[0] for head, _ in lines]
    features = np.array([head.split()[1:] for head, _ in lines], np.float64)
    columns = [words.split() for _, words in lines]
    ranks = range(len(columns[0]))
    words = tuple(column[rank] for rank in ranks for column in columns)
    places = np.arange(1, len(words) + 1)[:, None]
    offsets = SPREAD * ((places * np.sqrt(np.array(PRIMES, np.float64))) % 1)
    return words, tuple(names) * len(ranks), np.tile(features, (len(ranks), 1)) + offsets
