"""Sentences of a small grammar, as token numbers: the data of `dpframe_text.systems`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np

from dpframe.plugins import Earned, Ge, Ints, Le, Neighbourhood, Pair

LENGTH = 7
"""Words of a sentence; shorter ones end in empty words."""

TEMPLATES = (
    "{who} was treated for {illness}",
    "{who} was tested for {illness} in {city}",
    "{who} takes {drug} every {day}",
    "{who} has had {illness} since {day}",
    "the clinic in {city} called {who}",
    "the doctor gave {who} some {drug}",
    "please send the {drug} to {who}",
    "please book a flight to {city}",
    "book a table for {number} in {city}",
    "book a flight to {city} on {day}",
    "remind me to call {who} on {day}",
    "remind me to take {drug} at {hour}",
    "wake me up at {hour} on {day}",
    "what is the weather in {city}",
    "what is the weather like on {day}",
    "play some {music} for {who}",
    "play {music} at {hour} every {day}",
    "add {food} to the shopping list",
    "order {number} {food} for {who}",
    "{who} ordered {food} in {city}",
    "{who} lives in {city} with {who}",
    "{who} moved to {city} on {day}",
    "{who} owes {who} {number} dollars",
    "{who} paid {number} dollars for the {food}",
    "send {number} dollars to {who}",
    "where can i buy {drug} in {city}",
    "where can i hear {music} on {day}",
    "is {who} allergic to {food}",
    "is there a pharmacy in {city}",
    "how do i cook {food} for {number}",
    "how long does {illness} usually last",
    "does {drug} help against {illness}",
    "cancel my appointment on {day} at {hour}",
    "move the meeting with {who} to {day}",
    "my sister in {city} has {illness}",
    "my brother is learning to play {music}",
)
"""Sentences with words to fill in."""

FILLERS = {
    "who": "alice bob carol david emma frank grace henry",
    "illness": "asthma diabetes flu measles migraine anxiety",
    "city": "boston paris lima cairo oslo tokyo",
    "drug": "aspirin insulin penicillin ibuprofen",
    "day": "monday tuesday wednesday thursday friday saturday sunday",
    "number": "two three four five six ten",
    "hour": "noon midnight seven eight nine",
    "music": "jazz piano violin opera",
    "food": "rice soup bread salad noodles apples",
}
"""Words for each kind of gap."""


@functools.cache
def vocabulary() -> tuple[str, ...]:
    """Return all words, the empty one first."""
    words = " ".join([*FILLERS.values(), *TEMPLATES]).split()
    return "", *sorted({word for word in words if "{" not in word})


@functools.cache
def all_sentences() -> tuple[str, ...]:
    """Return every sentence of the grammar."""
    return tuple(sentence for template in TEMPLATES for sentence in _filled(template))


def _filled(template: str) -> list[str]:
    choices = [
        FILLERS[word[1:-1]].split() if word.startswith("{") else [word] for word in template.split()
    ]
    return [" ".join(words) for words in itertools.product(*choices)]


def tokens(sentence: str) -> Ints:
    """Return the numbers of the words of a sentence, shape [LENGTH].

    Raises ValueError if it is too long, or has a word that is not in the vocabulary.
    """
    words, known = sentence.split(), vocabulary()
    if len(words) > LENGTH:
        raise ValueError(f"{sentence!r} has {len(words)} words; the limit is {LENGTH}")
    if unknown := [word for word in words if word not in known]:
        raise ValueError(f"unknown words: {', '.join(unknown)}")
    padded = [*words, *[""] * (LENGTH - len(words))]
    return np.array([known.index(word) for word in padded], np.int32)


def text(numbers: Ints) -> str:
    """Return the sentence of token numbers, shape [LENGTH]; empty words are left out."""
    words = vocabulary()
    return " ".join(word for number in numbers if (word := words[int(number)]))


class Sentences(Pair, name="sentences"):
    """Two sentences of words that the systems know, as token numbers."""

    adjacency: ClassVar[str] = "any two sentences"
    parameters_say_all: ClassVar[bool] = True

    first: str = "carol takes aspirin every thursday"
    """The sentence of D."""
    second: str = "grace paid six dollars for the noodles"
    """The sentence of D′."""

    def check(self) -> None:
        if (self.d0 == self.d1).all():
            raise ValueError("first and second are the same sentence")

    @property
    def description(self) -> str:
        return f"“{self.first}” and “{self.second}”"

    @property
    def d0(self) -> Ints:
        return tokens(self.first)

    @property
    def d1(self) -> Ints:
        return tokens(self.second)


class SentencePairs(Neighbourhood, name="sentence-pairs"):
    """Random pairs of sentences, and changes of one sentence of the best pairs so far."""

    adjacency: ClassVar[str] = "any two sentences"

    batch: Annotated[int, Ge(1), Le(1000)] = 16
    """Pairs to propose at a time."""

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        sentences = all_sentences()

        def sentence() -> str:
            return sentences[int(rng.integers(len(sentences)))]

        drawn = [(sentence(), sentence()) for _ in range(self.batch)]
        best = sorted(history, key=lambda earned: -earned.growth)[:4]
        for earned in best if best and best[0].growth > 0 else ():
            pair = earned.pair
            if isinstance(pair, Sentences):
                drawn = [(pair.first, sentence()), (sentence(), pair.second), *drawn]
        seen = {
            frozenset({earned.pair.first, earned.pair.second})
            for earned in history
            if isinstance(earned.pair, Sentences)
        }
        pairs: list[Pair] = []
        for first, second in drawn[: self.batch]:
            if first != second and frozenset({first, second}) not in seen:
                seen.add(frozenset({first, second}))
                pairs.append(Sentences(first=first, second=second))
        return pairs
