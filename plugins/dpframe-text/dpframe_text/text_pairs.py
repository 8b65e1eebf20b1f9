"""Neighbouring texts: pairs that differ in one word or in all, those that break libraries first."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from dpframe.plugins import Pair
from dpframe_text.vocabulary import Vocabulary

Words = tuple[str, ...]

Unit = Literal["word", "text"]

Adjacency = Literal["replace", "add-remove", "either"]

RELATIONS: dict[tuple[str, str], str] = {
    ("word", "replace"): "replace one word, in texts of equal word count",
    ("word", "add-remove"): "add or remove one word",
    ("word", "either"): "replace, add or remove one word",
    ("text", "replace"): "replace the whole text",
}
"""The relation of D and D′ by unit and adjacency."""

STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "from", "he", "her"),
        *("his", "i", "in", "is", "it", "my", "no", "not", "of", "on", "or", "our", "she", "so"),
        *("that", "the", "their", "they", "this", "to", "us", "was", "we", "were", "with", "you"),
    )
)

UNKNOWN = ("zyx", "qvorble", "xkjdf")
SPECIAL = ("[MASK]", "<unk>", "[UNK]", "<pad>")
LOOK_ALIKES = str.maketrans("aeopcxi", "\u0430\u0435\u043e\u0440\u0441\u0445\u0456")
"""Latin letters, and Cyrillic ones that look the same."""
LONG_WORD = "a" * 200
LONG_TEXT = 8  # times as long as the given text

MOST_EACH = 6  # pairs of words of one kind
MOST_COMPARED = 1500  # words of a vocabulary whose distances are compared

# Kinds of words that differ. Those of the first group are in the vocabulary.
NEAREST, FARTHEST = "the nearest words", "the farthest words"
RARE, STOP, SIZE = "a rare word", "a stop word", "a short word and a long one"
CASE, NUMBER, PUNCTUATION = "a word in capitals", "a number", "a punctuation mark"
ANY = "any two words"
UNKNOWN_WORD, LOOK_ALIKE = "an unknown word", "a look-alike of a word"
SPECIAL_WORD, LONG = "a special token", "a very long word"

# Places of the difference.
ONLY, FIRST, LAST = "the only word", "the first word", "the last word"
MIDDLE, REPEATED = "a word in the middle", "a word among equal ones"

# Differences of whole texts.
GIVEN, ALL_WORDS, ONE_WORD = "two given texts", "all words differ", "one word differs"
LONGER, MUCH_LONGER, EMPTY = "one word longer", "a much longer text", "the empty text"

ADDED = "a word is added or removed"

PLACES = {ONLY, FIRST, LAST, MIDDLE, REPEATED, ALL_WORDS, ONE_WORD, LONGER, EMPTY, ADDED}

NEVER = (
    "several answers to one text",
    "the time of an answer",
    f"answers of more than {32} words, apart from the whole",
)
"""Parts of a claim that no pair tests."""


class Draft(NamedTuple):
    """Two texts, and in what they differ."""

    before: Words
    after: Words
    kinds: tuple[str, ...]

    @property
    def words(self) -> str:
        """The difference in a few words."""
        gone, new = (Counter(self.before) - Counter(self.after)), Counter(self.after)
        old, fresh = list(gone), list(new - Counter(self.before))
        shown = [" ".join(map(_short, side[:1])) or "nothing" for side in (old, fresh)]
        return f"{'; '.join(self.kinds)}: {shown[0]} → {shown[1]}"


def _short(word: str) -> str:
    return repr(word if len(word) <= 24 else word[:24] + "…")


class TextPair(Pair, name="texts"):
    """Two texts, which a rewriting function gets as strings or as lists of words."""

    parameters_say_all: ClassVar[bool] = True

    before: str
    """The words of D, separated by spaces."""
    after: str
    """The words of D′."""
    lists: bool = False
    """True if texts are lists of words."""
    apart: float | None = None
    """Their distance d(x, x′), if the claim is ε·d(x, x′)."""
    metric: str = ""
    """The name of the distance."""
    adjacency: str = "as given"
    """The relation in which they are neighbours."""
    description: str = ""
    """Their difference in a few words."""

    @property
    def d0(self) -> Any:
        return self.before.split() if self.lists else self.before

    @property
    def d1(self) -> Any:
        return self.after.split() if self.lists else self.after

    @property
    def texts(self) -> tuple[Words, Words]:
        """The words of D and of D′."""
        return tuple(self.before.split()), tuple(self.after.split())

    @property
    def kinds(self) -> list[str]:
        """The kinds of differences, as in the description."""
        return self.description.partition(": ")[0].split("; ")

    @property
    def exchanged(self) -> str:
        """The kind of words that differ, or of the difference as a whole."""
        return next((kind for kind in self.kinds if kind not in PLACES), self.kinds[0])


@dataclasses.dataclass(frozen=True, eq=False)
class TextSpace:
    """The texts that a function takes, and the pairs of them that are neighbours."""

    texts: tuple[Words, ...]
    """A few ordinary ones."""
    vocabulary: Words
    unit: Unit = "word"
    adjacency: Adjacency = "replace"
    lists: bool = False
    beyond: bool = True
    """True if texts may have words beyond the vocabulary, or none."""
    without: frozenset[str] = frozenset()
    """Kinds of pairs beyond the vocabulary that are left out."""
    vectors: Vocabulary | None = None
    measure: Callable[[Words, Words], float | None] | None = None
    """Distance of two texts that are neighbours; None if they have none."""
    metric: str = ""

    @property
    def relation(self) -> str:
        """The relation of D and D′, in words."""
        relation = RELATIONS[self.unit, self.adjacency]
        return f"{relation}, at distance d ({self.metric})" if self.measure else relation

    def is_beyond(self, *texts: Words) -> bool:
        """True if a text is empty, or has a word beyond the vocabulary."""
        known = self._known
        return any(not text or not known.issuperset(text) for text in texts)

    @property
    def _known(self) -> frozenset[str]:
        cached: frozenset[str] | None = self.__dict__.get("_known_words")
        if cached is None:
            cached = frozenset(self.vocabulary)
            self.__dict__["_known_words"] = cached
        return cached

    def pair(self, draft: Draft) -> TextPair | None:
        """Return a draft as a pair; None if the texts are no neighbours of the claim."""
        apart = None
        if draft.before == draft.after:
            return None
        if self.is_beyond(draft.before, draft.after) and (
            not self.beyond or self.without & {*draft.kinds}
        ):
            return None
        if self.measure is not None:
            apart = self.measure(draft.before, draft.after)
            if apart is None:
                return None
        return TextPair(
            before=" ".join(draft.before),
            after=" ".join(draft.after),
            lists=self.lists,
            apart=apart,
            metric=self.metric,
            adjacency=self.relation,
            description=draft.words,
        )

    def planned(self) -> list[TextPair]:
        """Return the systematic pairs, each once, with each kind early.

        With a distance, near texts come first, because a claim of ε·d is refuted by about e^(ε·d)
        answers.
        """
        pairs = {}
        for draft in self._drafts():
            key = frozenset((draft.before, draft.after))
            if key not in pairs and (pair := self.pair(draft)) is not None:
                pairs[key] = pair
        made = list(pairs.values())
        return made if self.measure is None else sorted(made, key=lambda p: p.apart or 0.0)

    def all_kinds(self) -> list[str]:
        """Return the kinds of all planned pairs, also of those that are left out."""
        every = dataclasses.replace(self, without=frozenset(), beyond=True)
        return list(dict.fromkeys(kind for pair in every.planned() for kind in pair.kinds))

    def _drafts(self) -> Iterator[Draft]:
        swaps = list(_interleaved(self._swaps()))
        drafted = self._of_words if self.unit == "word" else self._of_texts
        for turn in range(len(self.places)):
            for number, (kind, old, new) in enumerate(swaps):
                yield from drafted(kind, old, new, self.places[(number + turn) % len(self.places)])

    def _swaps(self) -> list[list[tuple[str, str, str]]]:
        """Return pairs of words to exchange, by kind."""
        words = self.vocabulary
        counts = Counter(word for text in self.texts for word in text)
        usual = sorted(words, key=lambda word: -counts[word])[:MOST_EACH]
        places = {word: at for at, word in enumerate(words)}
        rare = sorted(words, key=lambda word: (counts[word], -places[word]))[:MOST_EACH]
        by_size = sorted(words, key=len)
        plain = [word for word in usual if word.isalpha()] or usual
        lower = {word.lower(): word for word in words}

        def against(kind: str, odd: Sequence[str], others: Sequence[str]) -> list[Any]:
            """Exchange odd words for others, and for each other."""
            pairs = [(kind, other, one) for one, other in zip(odd, itertools.cycle(others))]
            pairs += [(kind, one, other) for one, other in itertools.pairwise(odd)]
            return pairs[:MOST_EACH]

        def inside(test: Callable[[str], bool]) -> list[str]:
            return [word for word in words if test(word)][:MOST_EACH]

        same = [(CASE, word, lower[word.lower()]) for word in words if lower[word.lower()] != word]
        cases = [word.upper() for word in plain if word.upper() not in self._known]
        groups = [
            against(RARE, rare, usual),
            [(ANY, *two) for two in itertools.combinations(words[:24], 2)][: 8 * MOST_EACH],
            against(STOP, inside(lambda w: w.lower() in STOP_WORDS), rare),
            [(SIZE, by_size[at], by_size[-1 - at]) for at in range(min(2, len(words) // 2))],
            same[:MOST_EACH],
            against(NUMBER, inside(lambda w: any(c.isdigit() for c in w)), usual),
            against(PUNCTUATION, inside(lambda w: not any(c.isalnum() for c in w)), usual),
            self._by_distance(),
            # Beyond the vocabulary.
            against(UNKNOWN_WORD, self._unknown(UNKNOWN), plain),
            [(CASE, word.lower(), word) for word in cases if word.lower() in self._known],
            against(NUMBER, self._unknown(("7", "1984", "2001")), plain),
            against(PUNCTUATION, self._unknown(("!", ",")), plain),
            [(PUNCTUATION, word, word + ",") for word in plain[:2] if word + "," not in words],
            [
                (LOOK_ALIKE, word, word.translate(LOOK_ALIKES))
                for word in plain
                if word.translate(LOOK_ALIKES) != word
            ][:2],
            against(SPECIAL_WORD, self._unknown(SPECIAL), plain),
            against(LONG, self._unknown((LONG_WORD,)), plain),
        ]
        return [group for group in groups if group]

    def _unknown(self, words: Sequence[str]) -> list[str]:
        return [word for word in words if word not in self._known]

    def _by_distance(self) -> list[tuple[str, str, str]]:
        """Return the nearest and the farthest words, those of the texts among them."""
        if self.vectors is None:
            return []
        known = [word for word in self.vocabulary if word in self.vectors]
        few = list(dict.fromkeys([*(w for t in self.texts for w in t if w in known), *known]))
        few = few[:MOST_COMPARED]
        if len(few) < 2:
            return []
        vectors = np.stack([self.vectors.vector(word) for word in few])
        squares = np.square(vectors).sum(axis=1)
        gaps = squares[:, None] + squares - 2 * vectors @ vectors.T
        row, column = np.triu_indices(len(few), 1)
        order = np.argsort(gaps[row, column], kind="stable")
        near = [(NEAREST, few[row[at]], few[column[at]]) for at in order[: 4 * MOST_EACH]]
        far = [(FARTHEST, few[row[at]], few[column[at]]) for at in order[::-1][:2]]
        own = []
        for at in range(min(MOST_EACH, len(few))):
            others = np.where(np.arange(len(few)) == at, np.inf, gaps[at])
            own.append((NEAREST, few[at], few[int(np.argmin(others))]))
        return list(dict.fromkeys([*near[:2], *own, *far, *near[2:]]))

    @property
    def places(self) -> tuple[str, ...]:
        """Places in which words are exchanged."""
        if self.unit == "text":
            return (ONLY, ALL_WORDS, ONE_WORD, GIVEN, LONGER, EMPTY, MUCH_LONGER)
        return (ONLY, FIRST, REPEATED, LAST, MIDDLE)

    def _of_words(self, kind: str, old: str, new: str, place: str) -> Iterator[Draft]:
        text = self._text(old)
        at = {ONLY: 0, FIRST: 0, REPEATED: len(text) - 1, LAST: len(text) - 1}.get(
            place, len(text) // 2
        )
        if place == ONLY:
            text = (old,)
        elif place == REPEATED:
            text = (old,) * max(3, len(text))
        before, after = text[:at], text[at + 1 :]
        if self.adjacency != "add-remove":
            yield Draft((*before, old, *after), (*before, new, *after), (kind, place))
        if self.adjacency != "replace":
            kinds = (ADDED, kind, place) + ((EMPTY,) if not before + after else ())
            yield Draft((*before, *after), (*before, new, *after), kinds)

    def _of_texts(self, kind: str, old: str, new: str, place: str) -> Iterator[Draft]:
        text, size = self._text(old), max(2, len(self._text(old)))
        if place == ONLY:
            yield Draft((old,), (new,), (kind, place))
        elif place == ALL_WORDS:
            yield Draft((old,) * size, (new,) * size, (kind, place))
        elif place == GIVEN:
            for one, other in itertools.islice(itertools.combinations(self.texts, 2), 6):
                yield Draft(one, other, (place,))
        elif place == LONGER:
            yield Draft(text, (*text, new), (kind, place))
        elif place == EMPTY:
            yield Draft((), (new,), (kind, place))
            yield Draft((), text, (place,))
        elif place == MUCH_LONGER:
            yield Draft((old,), text * LONG_TEXT, (place,))
        else:
            yield Draft((old, *text[1:]), (new, *text[1:]), (kind, place))

    def _text(self, word: str) -> Words:
        """Return a given text with this word, if there is one, else the first that has words."""
        own = [text for text in self.texts if text]
        return next((text for text in own if word in text), own[0])

    def near(self, pair: TextPair, rng: np.random.Generator) -> Draft:
        """Return a draft like a pair: other words in its place, or its words in another place."""
        one, other = pair.texts
        old, new = (Counter(one) - Counter(other)), (Counter(other) - Counter(one))
        kind = pair.exchanged
        words = [next(iter(side), self._drawn(rng)) for side in (old, new)]
        if rng.random() < 0.5:
            words[int(rng.integers(2))], kind = self._drawn(rng), ANY
        return self._drawn_in(kind, words[0], words[1], rng)

    def by_chance(self, rng: np.random.Generator) -> Draft:
        """Draw two words and a place."""
        return self._drawn_in(ANY, self._drawn(rng), self._drawn(rng), rng)

    def _drawn(self, rng: np.random.Generator) -> str:
        return self.vocabulary[int(rng.integers(len(self.vocabulary)))]

    def _drawn_in(self, kind: str, old: str, new: str, rng: np.random.Generator) -> Draft:
        place = self.places[int(rng.integers(len(self.places)))]
        drafted = self._of_words if self.unit == "word" else self._of_texts
        return next(drafted(kind, old, new, place)) if old != new else Draft((), (), ())


def _interleaved(groups: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """Yield the first of each group, then the second of each, and so on."""
    for row in itertools.zip_longest(*groups):
        yield from (one for one in row if one is not None)


def sum_of_words(vectors: Vocabulary) -> Callable[[Words, Words], float | None]:
    """Return the sum of the Euclidean distances of words at the same place.

    Texts with different numbers of words, or with words without a vector, have no distance.
    """

    def measure(one: Words, other: Words) -> float | None:
        if len(one) != len(other):
            return None
        changed = [(old, new) for old, new in zip(one, other, strict=True) if old != new]
        if any(word not in vectors for both in changed for word in both):
            return None
        return math.fsum(vectors.distance(old, new) for old, new in changed)

    return measure
