"""Neighbourhoods of texts, and rewriting programs as mechanisms."""

from __future__ import annotations

import functools
import os
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpframe.plugins import (
    ApproxDP,
    Claim,
    Earned,
    ForeignMechanism,
    Ge,
    Gt,
    Le,
    Lt,
    MetricDP,
    Neighbourhood,
    Pair,
    ParameterError,
    PureDP,
    SpecFile,
)
from dpframe_text.text_pairs import (
    NEVER,
    RELATIONS,
    Adjacency,
    TextPair,
    TextSpace,
    Unit,
    Words,
    sum_of_words,
)
from dpframe_text.vocabulary import Vocabulary

PROGRAMS = Path(__file__).parent / "programs"

BEYOND = "a word beyond the vocabulary, or no word"

LARGEST_FILE = 1 << 28
"""Bytes of a file with texts, words or vectors, at most."""

NAMED = 4  # words in a message


class TextNeighbours(Neighbourhood):
    """Proposes the planned pairs of texts, then variations of those with the most evidence."""

    one_shape: ClassVar[bool] = False

    beyond: bool = True
    """True if texts may have words beyond the vocabulary, or none: unknown words, capitals,
    numbers, punctuation, look-alikes, special tokens."""
    batch: Annotated[int, Ge(1), Le(1000)] = 64
    """Pairs to propose at a time."""

    @abstractmethod
    def space(self) -> TextSpace:
        """Return the texts and their neighbours."""

    @functools.cached_property
    def _space(self) -> TextSpace:
        return self.space()

    @functools.cached_property
    def _planned(self) -> list[TextPair]:
        return self._space.planned()

    def propose(self, rng: np.random.Generator, history: Sequence[Earned]) -> Sequence[Pair]:
        space = self._space
        seen = {frozenset(earned.pair.texts) for earned in history}  # type: ignore[attr-defined]
        best = [e for e in sorted(history, key=lambda earned: -earned.growth)[:4] if e.growth > 0]
        proposed: list[Pair] = []

        def add(pair: TextPair | None) -> None:
            key = frozenset() if pair is None else frozenset(pair.texts)
            if pair is not None and key not in seen and len(proposed) < self.batch:
                seen.add(key)
                proposed.append(pair)

        for earned in best:
            for _ in range(self.batch // 8):
                pair: Any = earned.pair
                add(space.pair(space.near(pair, rng)))
        for planned in self._planned:
            add(planned)
        for _ in range(2 * self.batch if history else 0):
            add(space.pair(space.by_chance(rng)))
        return proposed

    def features(self, pair: Pair) -> Sequence[str]:
        """Return the kinds of differences of a pair."""
        return pair.kinds if isinstance(pair, TextPair) else ()

    def all_features(self) -> Sequence[str]:
        """Return the kinds of all pairs, and what no pair tests."""
        return [*self._space.all_kinds(), *NEVER]

    def own_data(self) -> Sequence[Any]:
        text = self._space.texts[0]
        return [list(text) if self._space.lists else " ".join(text)]

    def needs(self, pair: Pair) -> dict[str, dict[str, Any]]:
        if isinstance(pair, TextPair) and self._space.is_beyond(*pair.texts):
            return {BEYOND: {"beyond": False}}
        return {}


class Texts(TextNeighbours, name="texts"):
    """Texts that differ in one word, or as a whole, those that break libraries first.

    The first pairs exchange rare words, stop words, numbers, words of other case or length, the
    nearest and farthest words of an embedding, and words beyond the vocabulary: as the only word of
    a text, the first, the last, one in the middle, or among equal words. Words are separated by
    spaces. Random words follow, and variations of the pairs with the most evidence.
    """

    texts: tuple[str, ...] = ()
    """Ordinary texts."""
    file: SpecFile | None = None
    """A file with a text on each line instead, relative to the spec."""
    vocabulary: tuple[str, ...] = ()
    """The words of which texts consist; default: those of `vocabulary_file`, of `vectors`, or of
    the texts."""
    vocabulary_file: SpecFile | None = None
    """A file with a word on each line instead."""
    vectors: SpecFile | None = None
    """A file with an embedding: on each line a word and its numbers, separated by spaces."""
    unit: Unit = "word"
    """"word": texts differ in one word. "text": any two texts are neighbours."""
    change: Adjacency = "replace"
    """"replace": the word is replaced, and texts have equal word counts. "add-remove": it is added
    or removed. "either". For whole texts only "replace"."""
    metric: Literal["none", "euclidean"] = "none"
    """"euclidean": the claim of a `rewriter` is ε·d, with d the sum of the distances of the words
    in the embedding. Texts without such a distance are no neighbours."""
    lists: bool = False
    """True if the mechanism gets lists of words."""

    @property
    def adjacency(self) -> str:
        """The relation of D and D′."""
        return RELATIONS[self.unit, self.change]

    def check(self) -> None:
        try:
            self._space  # noqa: B018  # reads the files, so that a mistake is reported with its place
        except ValueError as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError("texts", str(error)) from None

    def params(self) -> dict[str, Any]:
        params = super().params()
        return {name: value for name, value in params.items() if value not in (None, (), [])}

    def space(self) -> TextSpace:
        lines = list(self.texts) if self.file is None else _lines(self.file, "file")
        vectors = None if self.vectors is None else read_vectors(self.vectors)
        words: Sequence[str] = self.vocabulary
        if self.vocabulary_file is not None:
            words = _lines(self.vocabulary_file, "vocabulary_file")
        elif not words and vectors is not None:
            words = vectors.words
        if self.metric != "none" and vectors is None:
            raise ParameterError("metric", f"metric = {self.metric!r} needs `vectors`")
        return checked_space(
            [tuple(line.split()) for line in lines],
            tuple(words) or None,
            unit=self.unit,
            adjacency=self.change,
            lists=self.lists,
            beyond=self.beyond,
            vectors=vectors,
            measure=None if self.metric == "none" or vectors is None else sum_of_words(vectors),
            metric="" if self.metric == "none" else self.metric,
        )


def _lines(file: SpecFile, parameter: str) -> list[str]:
    try:
        content = file.read(LARGEST_FILE).decode("utf-8")
    except ValueError as error:
        raise ParameterError(parameter, str(error)) from None
    return [line.strip() for line in content.splitlines() if line.strip()]


def read_vectors(file: SpecFile) -> Vocabulary:
    """Read an embedding: on each line a word and its numbers.

    Raises:
        ParameterError: a line is none, or words are repeated.
    """
    vectors: dict[str, list[float]] = {}
    for number, line in enumerate(_lines(file, "vectors"), 1):
        word, *numbers = line.split(" ")
        try:
            vectors[word] = [float(one) for one in numbers]
        except ValueError:
            raise ParameterError("vectors", f"{file}:{number}: not a word and numbers") from None
    try:
        return Vocabulary.of(vectors)
    except ValueError as error:
        raise ParameterError("vectors", f"{file}: {error}") from None


def checked_space(
    texts: Sequence[Words], vocabulary: Words | None, *, adjacency: str, **more: Any
) -> TextSpace:
    """Return a space of texts.

    Raises:
        ValueError: there is no text, no pair of neighbours, or a word that is not in the
            vocabulary; the message names the parameter and the words.
    """
    if not texts:
        raise ValueError("texts: give at least one ordinary text")
    own = list(dict.fromkeys(word for text in texts for word in text))
    if not own:
        raise ValueError("texts: all of them are empty")
    words = tuple(dict.fromkeys(own if vocabulary is None else vocabulary))
    odd = [word for word in words if not isinstance(word, str) or word.split() != [word]]
    if odd:
        raise ValueError(f"vocabulary: {odd[0]!r} is not one word without spaces")
    if missing := [word for word in own if word not in words]:
        lower = [word for word in missing if word.lower() in words]
        hint = "; texts in lower case would fit" if len(lower) == len(missing) else ""
        named = ", ".join(map(repr, missing[:NAMED])) + (", …" if len(missing) > NAMED else "")
        raise ValueError(
            f"texts: {named} {'is' if len(missing) == 1 else 'are'} not in the vocabulary{hint}; "
            "add the words, or leave the vocabulary out, which is then that of the texts"
        )
    if len(words) < 2:
        raise ValueError("vocabulary: it needs at least two words")
    unit: Any = more["unit"]
    if (unit, adjacency) not in RELATIONS:
        raise ValueError(f"adjacency: {adjacency!r} is not a relation of texts by {unit}")
    space = TextSpace(tuple(texts), words, adjacency=adjacency, **more)  # type: ignore[arg-type]
    if not space.planned():
        raise ValueError("metric: no two neighbours have a distance")
    return space


def claim_of(epsilon: float, delta: float, pair: Any) -> Claim:
    """Return the claim for a pair: (ε, δ), or (ε·d, δ) if the pair has a distance d."""
    apart = getattr(pair, "apart", None)
    if delta:
        return ApproxDP(epsilon if apart is None else epsilon * apart, delta)
    return PureDP(epsilon) if apart is None else MetricDP(epsilon, apart, pair.metric)


class Rewriter(ForeignMechanism, name="rewriter"):
    """A rewriting program: its `prepare(params, text)` returns a function that rewrites it once.

    That function returns a text or a list of words. `params` has `epsilon`, `delta` and `variant`.
    It claims (ε, δ), or (ε·d, δ) for texts at distance d. The output has the numbers of words and
    characters, and codes of the words and of the whole, for the attack `text`.
    """

    module: ClassVar[str | os.PathLike[str]] = PROGRAMS / "adapter.py"
    gives_text_features: ClassVar[bool] = True

    file: SpecFile
    """The program, relative to the spec; the command line names it too, with --plugin."""
    epsilon: Annotated[float, Gt(0)]
    """The claimed ε."""
    delta: Annotated[float, Ge(0), Lt(1)] = 0.0
    """The claimed δ."""
    variant: str = ""
    """Passed to the program, which may have several configurations."""

    def check(self) -> None:
        self.consented(self.file.path)

    def code(self) -> str:
        return f"{super().code()}+{self.consented(self.file.path).digest}"

    def claim(self, pair: Pair) -> Claim:
        return claim_of(self.epsilon, self.delta, pair)

    def arguments(self) -> dict[str, Any]:
        given = {"epsilon": self.epsilon, "delta": self.delta, "variant": self.variant}
        return {"file": str(self.file.path.resolve()), "given": given}
