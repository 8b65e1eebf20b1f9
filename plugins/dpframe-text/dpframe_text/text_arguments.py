"""Arguments of audits of texts: checks, and the space of texts that they describe."""

from __future__ import annotations

import inspect
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from dpframe.plugins import DpframeError
from dpframe_text.programs.answer_features import words_of
from dpframe_text.text_pairs import Adjacency, TextSpace, Unit, Words, sum_of_words
from dpframe_text.text_search import checked_space
from dpframe_text.vocabulary import Vocabulary

SAMPLE = 12  # words or texts with which a distance is checked
ROUNDING = 1e-6  # relative difference of distances that may be rounding

GENERATORS = ("rng", "generator", "gen", "random", "random_state", "prng", "rand")
"""Names of a parameter that takes the generator."""

BIND = "bind settings with functools.partial"

Rewrite = Callable[..., Any]
Text = str | Sequence[str]
Metric = Callable[[Any, Any], float]
GivenMetric = Literal["euclidean"] | Metric | None
Embedding = Mapping[str, Sequence[float]] | Vocabulary | None


def takes_generator(rewrite: Rewrite) -> bool:
    """True if a function takes a generator before the text.

    Raises:
        DpframeError: it takes neither a text nor a generator and a text.
    """
    try:
        every = list(inspect.signature(rewrite).parameters.values())
    except (TypeError, ValueError):  # a function of a compiled module
        return False
    places = [one for one in every if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = [one.name for one in places if one.default is one.empty]
    named = [one.name for one in every if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    plain = [one.name.strip("_").lower() for one in places]
    takes = f"rewrite takes {', '.join([*needed, *named]) or 'nothing'}"
    calls = "it is called as rewrite(text) or rewrite(rng, text)"
    some = places or any(one.kind is one.VAR_POSITIONAL for one in every)
    if named or len(needed) > 2 or not some:
        raise DpframeError(f"{takes}; {calls}: {BIND}")
    if len(needed) == 2 and plain[0] not in GENERATORS:
        raise DpframeError(f"{takes}; {calls}: {'swap them' if plain[1] in GENERATORS else BIND}")
    return len(places) > 1 and plain[0] in GENERATORS


def space_of(
    texts: Sequence[Text],
    vocabulary: Sequence[str] | Vocabulary | None,
    metric: GivenMetric,
    embedding: Embedding,
    *,
    unit: Unit,
    adjacency: Adjacency,
    beyond: bool,
) -> TextSpace:
    """Return the space of texts that the arguments of an audit describe.

    Raises:
        DpframeError: an argument cannot be used; the message names it.
    """
    words, lists = _read_texts(texts)
    if isinstance(vocabulary, str):
        raise DpframeError("vocabulary: should be a list of words")
    if isinstance(vocabulary, Vocabulary):
        embedding = vocabulary if embedding is None else embedding
        vocabulary = vocabulary.words
    try:
        vectors = Vocabulary.of(embedding) if isinstance(embedding, Mapping) else embedding
    except (TypeError, ValueError) as error:
        raise DpframeError(f"embedding: {error}") from None
    if vocabulary is None and vectors is not None:
        vocabulary = vectors.words
    measure = _measure_of(metric, vectors, unit, lists)
    if measure is not None and unit == "word" and adjacency != "replace":
        raise DpframeError('metric: a distance of words needs adjacency="replace"')
    if callable(metric):
        sample: Sequence[Any] = list(dict.fromkeys(itertools.chain(*words, vocabulary or ())))
        if unit == "text":
            sample = [*words, *((word,) for word in sample)]
        _check_metric(metric, unit, lists, sample[:SAMPLE])
    try:
        return checked_space(
            words,
            None if vocabulary is None else tuple(vocabulary),
            unit=unit,
            adjacency=adjacency,
            lists=lists,
            beyond=beyond,
            vectors=vectors,
            measure=measure,
            metric="" if metric is None else _name(metric),
        )
    except ValueError as error:
        raise DpframeError(str(error)) from None


def _read_texts(texts: Sequence[Text]) -> tuple[list[Words], bool]:
    """Return the words of each text, and True if texts are lists of words."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise DpframeError("texts: should be a list of texts, each a string or a list of words")
    strings = [isinstance(text, str) for text in texts]
    if any(strings) and not all(strings):
        raise DpframeError("texts: some are strings, some lists of words; give all in one form")
    read: list[Words] = []
    for text in texts:
        words = words_of(text)
        if words is None:
            raise DpframeError(f"texts: {text!r} is neither a text nor a list of words")
        read.append(tuple(words))
    return read, bool(texts) and not strings[0]


def _name(metric: str | Metric) -> str:
    return metric if isinstance(metric, str) else str(getattr(metric, "__name__", "as given"))


def _measure_of(
    metric: GivenMetric, vectors: Vocabulary | None, unit: Unit, lists: bool
) -> Callable[[Words, Words], float | None] | None:
    """Return the distance of two neighbours, or None if the claim has none."""
    if metric is None:
        return None
    if callable(metric):
        return _measure(metric, unit, lists)
    if metric != "euclidean":
        raise DpframeError(f'metric: {metric!r} is not "euclidean" or a function of two {unit}s')
    if vectors is None:
        raise DpframeError('metric: "euclidean" needs an embedding, vectors by word')
    return sum_of_words(vectors)


def _given(words: Words, unit: Unit, lists: bool) -> Any:
    """Return a text as a metric gets it: the only word, or the text in its form."""
    if unit == "word":
        return words[0]
    return list(words) if lists else " ".join(words)


def _measure(metric: Metric, unit: Unit, lists: bool) -> Callable[[Words, Words], float | None]:
    """Return the distance of two neighbours; None if the metric has none for them."""

    def measure(one: Words, other: Words) -> float | None:
        if unit == "word":
            ((old, new),) = [b for b in zip(one, other, strict=True) if b[0] != b[1]]
            one, other = (old,), (new,)
        try:
            apart = float(metric(*(_given(part, unit, lists) for part in (one, other))))
        except Exception:  # of a word without a vector
            return None
        return apart if math.isfinite(apart) and apart >= 0 else None

    return measure


def _check_metric(metric: Metric, unit: Unit, lists: bool, sample: Sequence[Any]) -> None:
    """Check a distance on some words or texts.

    Warns if the triangle inequality fails, as for squared distances.

    Raises:
        DpframeError: it raises, is not finite, negative, not symmetric, or not 0 for equal inputs.
    """
    given = [one if unit == "word" else _given(one, unit, lists) for one in sample]
    name = _name(metric)
    apart = np.zeros((len(given), len(given)))
    for (i, one), (j, other) in itertools.product(enumerate(given), repeat=2):
        try:
            apart[i, j] = float(metric(one, other))
        except Exception as error:
            raise DpframeError(
                f"metric: {name}({one!r}, {other!r}) raised {type(error).__name__}: {error}"
            ) from None
        if not (math.isfinite(apart[i, j]) and apart[i, j] >= 0):
            raise DpframeError(f"metric: {name}({one!r}, {other!r}) is {apart[i, j]:g}")
    largest = ROUNDING * (1 + apart.max())
    for i, one in enumerate(given):
        if apart[i, i] > largest:
            raise DpframeError(f"metric: {name}({one!r}, {one!r}) is {apart[i, i]:g}, not 0")
    for (i, one), (j, other) in itertools.combinations(enumerate(given), 2):
        if abs(apart[i, j] - apart[j, i]) > largest:
            raise DpframeError(
                f"metric: {name} is {apart[i, j]:g} from {one!r} to {other!r}, and "
                f"{apart[j, i]:g} back"
            )
    excess = apart[:, :, None] - (apart[:, None, :] + apart.T[None, :, :])
    i, k, j = (int(at) for at in np.unravel_index(int(np.argmax(excess)), excess.shape))
    if excess[i, k, j] > largest:
        warnings.warn(
            f"metric: {name} is {apart[i, k]:g} from {given[i]!r} to {given[k]!r}, but "
            f"{apart[i, j]:g} and {apart[j, k]:g} by way of {given[j]!r}: it is not a metric. Is "
            "it the square of one?",
            stacklevel=4,
        )
