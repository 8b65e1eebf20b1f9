"""Neighbouring texts as numbers of words of the small vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import numpy as np

from dpframe.plugins import Earned, Floats, Ge, Le, Neighbourhood, Pair, Values
from dpframe_text.choices import distances_of

NEAR = 4  # words among which a near one is drawn
PARENTS = 4  # pairs with the most evidence, which are changed
TRIES = 20  # draws for each wanted pair before giving up


class WordNumbers(Neighbourhood, name="word-numbers"):
    """Texts of one length as numbers of words, and near, distant and random neighbours of them.

    The first pair has the two nearest words. Later pairs are random, or differ little from those
    with the most evidence.
    """

    words: Annotated[int, Ge(30), Le(300)] = 60
    """Size of the vocabulary: words 0, 1, …"""
    length: Annotated[int, Ge(1)] = 1
    """Most words of a text."""
    change: Literal["one-word", "any"] = "any"
    """one-word: D and D′ differ in one word; any: any two texts are neighbours."""
    shorter: bool = False
    """True if texts may have fewer words; −1 then stands for no word, at the end."""
    batch: Annotated[int, Ge(1), Le(1000)] = 16
    """Pairs to propose at a time."""

    def check(self) -> None:
        if self.shorter and self.change == "one-word":
            raise ValueError("texts that differ in one word have equally many")

    @property
    def adjacency(self) -> str:
        """The relation in words."""
        return "any two texts" if self.change == "any" else "one word differs"

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        seen = {_key(earned.pair.d0, earned.pair.d1) for earned in history}
        earning = [earned for earned in history if earned.growth > 0]
        best = sorted(earning, key=lambda earned: -earned.growth)[:PARENTS]
        pairs: list[Pair] = []
        for d0, d1 in self._drawn(rng, [earned.pair for earned in best], first=not history):
            if len(key := _key(d0, d1)) == 2 and key not in seen:
                seen.add(key)
                pairs.append(Values(d0=d0, d1=d1, adjacency=self.adjacency))
            if len(pairs) == self.batch:
                break
        return pairs

    def _drawn(
        self, rng: np.random.Generator, best: Sequence[Pair], *, first: bool
    ) -> Iterator[tuple[Floats, Floats]]:
        if first:
            gaps = distances_of(self.words) + np.diag(np.full(self.words, np.inf))
            near = np.unravel_index(np.argmin(gaps), gaps.shape)
            d0 = np.full(self.length, float(near[0]))
            last = np.arange(self.length) == self.length - 1
            yield d0, np.where(last if self.change == "one-word" else True, float(near[1]), d0)
        for _ in range(TRIES * self.batch):
            if best and rng.random() < 0.6:
                d0, d1 = (np.array(data) for data in _both(best[int(rng.integers(len(best)))], rng))
                yield self._mutated(rng, d0, d1)
            else:
                d0 = self._text(rng)
                yield d0, self._neighbour(rng, d0)

    def _text(self, rng: np.random.Generator) -> Floats:
        """Draw a text: of different words, or of one word repeated; often a full one."""
        text = rng.integers(self.words, size=self.length).astype(float)
        if rng.random() < 0.3:
            text[:] = text[0]
        if self.shorter and rng.random() < 0.5:
            text[rng.integers(self.length + 1) :] = -1
        return text

    def _neighbour(self, rng: np.random.Generator, text: Floats) -> Floats:
        if self.change == "any" and self.length > 1 and rng.random() < 0.7:
            return self._text(rng)
        other = text.copy()
        place = rng.integers(self.length)
        other[place] = self._other_word(rng, int(text[place]))
        return other

    def _other_word(self, rng: np.random.Generator, word: int) -> float:
        """Draw a near word, a distant one, or any."""
        order = np.argsort(distances_of(self.words)[max(word, 0)], kind="stable")
        kind = rng.random()
        if kind < 0.4:
            return float(order[1 + rng.integers(NEAR)])
        return float(order[-1 - rng.integers(NEAR)] if kind < 0.6 else rng.integers(self.words))

    def _mutated(self, rng: np.random.Generator, d0: Floats, d1: Floats) -> tuple[Floats, Floats]:
        """Change one word of D, of D′, or the same place of both."""
        place = rng.integers(self.length)
        if self.change == "one-word":
            where = int(np.argmax(d0 != d1))
            if place == where:
                d1[place] = self._other_word(rng, int(d0[place]))
            else:
                d0[place] = d1[place] = self._other_word(rng, int(d0[place]))
            return d0, d1
        if d1[place] >= 0:
            d1[place] = self._other_word(rng, int(rng.choice([d0[place], d1[place]])))
        elif d0[place] >= 0:
            d0[place] = self._other_word(rng, int(d0[place]))
        return d0, d1


def _both(pair: Pair, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return D and D′ in a random order."""
    both = (pair.d0, pair.d1) if rng.random() < 0.5 else (pair.d1, pair.d0)
    zero, one = (np.asarray(data, np.float64) for data in both)
    return zero, one


def _key(d0: Floats, d1: Floats) -> frozenset[tuple[float, ...]]:
    return frozenset(tuple(np.ravel(data).tolist()) for data in (d0, d1))
