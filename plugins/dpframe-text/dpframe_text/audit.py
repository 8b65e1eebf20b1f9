"""Audits of functions that rewrite texts."""

from __future__ import annotations

import copy
import dataclasses
import math
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpframe import UndecidedError, audit
from dpframe.plugins import Claim, DpframeError, HostMechanism, Pair, Record
from dpframe_text.programs.answer_features import PLACES, features, words_of
from dpframe_text.text_arguments import (
    Embedding,
    GivenMetric,
    Rewrite,
    Text,
    space_of,
    takes_generator,
)
from dpframe_text.text_attack import TextFeatures
from dpframe_text.text_pairs import EMPTY, Adjacency, TextPair, TextSpace, Unit, Words
from dpframe_text.text_search import TextNeighbours, claim_of
from dpframe_text.vocabulary import Vocabulary

LOCAL = "local"  # the distribution of classes that are given to an audit
UNLIMITED = 2**40  # trials if only the time is limited
SECONDS = 30.0  # time limit of a search if neither trials nor seconds are given
TRYING, SHARE = 10.0, 0.2
"""Seconds of all trial calls together, and their share of the time limit, at most."""

SEVERAL = 3  # trial calls of each given text
LARGEST_CLAIM = 16.0
"""Larger ε·d are left out if there are smaller ones: no count of answers refutes them."""
NOTHING = "so nothing was tested"

MORE_PLACES = 4  # places of words beyond the longest given text

BATCHES = (3.0, 64), (5.0, 36), (math.inf, 20)
"""Pairs to propose at a time, by the least claimed ε: a refutation takes about e^ε answers."""

LOOKS = ("word", "contains", "size", "whole", "together")


def audit_text(
    rewrite: Rewrite,
    texts: Sequence[Text],
    *,
    vocabulary: Sequence[str] | Vocabulary | None = None,
    epsilon: float,
    delta: float = 0.0,
    unit: Unit = "word",
    adjacency: Adjacency = "replace",
    metric: GivenMetric = None,
    embedding: Embedding = None,
    choices: Callable[[Any], Any] | None = None,
    beyond: bool = True,
    trials: int | None = None,
    seconds: float | None = None,
    limit: float | None = None,
    confidence: float = 0.999,
    seed: int = 0,
) -> Record:
    """Search for two neighbouring texts whose rewritten forms refute a claim.

    Args:
        rewrite: returns a rewritten text, called as `rewrite(text)`, or as `rewrite(rng, text)`
            with a NumPy generator for all of its randomness. It returns a text or a list of words.
            Within the vocabulary an exception is an answer too.
        texts: a few ordinary texts: strings of words separated by spaces, or lists of words.
            `rewrite` gets texts in the same form.
        vocabulary: the words of which texts consist; default: those of the embedding, else of the
            texts.
        epsilon: the claimed ε; with a metric, ε for texts at distance 1.
        delta: the claimed δ.
        unit: "word" if neighbours differ in one word, "text" if any two texts are neighbours.
        adjacency: for words, "replace" (texts of equal word count that differ in one word),
            "add-remove" (one word is added or removed) or "either".
        metric: if the claim is ε·d(x, x′): "euclidean", the sum over words of the distances in the
            embedding, or a function of two words, or of two texts if these are the unit.
        embedding: vectors by word.
        choices: the distribution of the words of an answer, as `choices(text)`, if it is known: a
            dict of log-probabilities by word for each place, see
            `dpframe.plugins.Mechanism.choices`. The loss of each pair is then computed, which
            decides a claim of any ε.
        beyond: True if texts may have words beyond the vocabulary, or none at all. Kinds of such
            texts are left out if `rewrite` raises on them in trial calls, or splits their words.
        trials: number of answers on each of D and D′, over all pairs; default: no limit.
        seconds: time limit of the search; default: 30 without `trials`, no limit with them.
        limit: time limit of one call in seconds; one that exceeds it counts as TimeoutError.
        confidence: of the verdict.
        seed: of all randomness.

    Returns:
        The record. Its witness is the pair of texts and the event with the strongest evidence;
        `record.cells[0].search.coverage` lists the kinds of pairs that were tried, those that were
        not, and the limit that ended the search. A consistent record never means that the function
        is private.

    Raises:
        DpframeError: the arguments do not fit each other, the metric is no distance, or trial calls
            show that no answer is a text; the message names the argument or the line.
        UndecidedError: the answers could not have refuted the claim, or all of them were equal.
    """
    if not callable(rewrite):
        raise DpframeError(f"rewrite: {rewrite!r} is not a function")
    seeded = takes_generator(rewrite)
    for name, value, least in (("epsilon", epsilon, 0.0), ("delta", delta, 0.0)):
        if not isinstance(value, int | float) or not math.isfinite(value) or value < least:
            raise DpframeError(f"{name}: {value!r} is not a number of at least {least:g}")
    more: Any = {"unit": unit, "adjacency": adjacency, "beyond": beyond}
    space = space_of(texts, vocabulary, metric, embedding, **more)
    started = time.monotonic()
    if seconds is None and trials is None:
        seconds = SECONDS
    until = started + min(TRYING, math.inf if seconds is None else SHARE * seconds)
    call = _Caller(rewrite, seeded, seed, limit, until)
    call.look_at_texts(space)
    space = call.without_refused(space)
    planned = space.planned()
    pairs = planned if choices is not None else _decidable(planned, epsilon)
    least = min(epsilon if p.apart is None else epsilon * p.apart for p in pairs)
    batch = next(number for largest, number in BATCHES if least <= largest)
    batch = BATCHES[0][1] if choices is not None else batch
    mechanism = _mechanism(rewrite, seeded, space, epsilon, delta, choices)
    neighbourhood = _neighbourhood(space, pairs, some_are_far=len(pairs) < len(planned))
    looks = LOOKS if space.vectors is None else (*LOOKS, "distance")
    entry: dict[str, Any] = {"use": f"{LOCAL}/{mechanism.name}"}  # it may be called `laplace`
    spec: dict[str, Any] = {
        "schema": 1,
        "audit": {
            "name": mechanism.name,
            "trials": UNLIMITED if trials is None else trials,
            "confidence": confidence,
            "seed": seed,
        },
        "search": {
            "use": f"{LOCAL}/{neighbourhood.name}",
            "params": {**_understood(space), "batch": batch},
        },
        "mechanism": [entry if limit is None else {**entry, "limit": float(limit)}],
        "attack": [
            {"use": "answers", "label": "kinds", "params": {"look": "kinds"}},
            *(
                {"use": f"{LOCAL}/{TextFeatures.name}", "label": look, "params": {"look": look}}
                for look in (looks if choices is None else ())
            ),
        ],
        "run": {"stop": "decided"},
    }
    if seconds is not None:
        spec["run"]["seconds"] = max(seconds - (time.monotonic() - started), 0.5 * seconds)
    record = audit(spec, plugins=[mechanism, neighbourhood, TextFeatures, TextPair])
    (cell,) = record.cells
    computed = cell.stated is not None and cell.status == "ok"
    if not computed and cell.verdict not in ("violated", "consistent"):
        advice = "" if cell.status == "failed" else "; more seconds, or a smaller ε, may decide"
        raise UndecidedError(f"no verdict: {cell.reason or cell.untested}{advice}", record)
    return record


def _decidable(pairs: Sequence[TextPair], epsilon: float) -> list[TextPair]:
    """Return the pairs whose claims some number of answers may refute, or else the smallest."""
    some = [p for p in pairs if p.apart is None or epsilon * p.apart <= LARGEST_CLAIM]
    return some or list(pairs[:1])


class _Tried(NamedTuple):
    """A trial call."""

    text: Any
    answer: Any
    raised: str = ""


class _Caller:
    """Makes trial calls, which no bound uses, until a time on the monotonic clock."""

    def __init__(
        self, rewrite: Rewrite, seeded: bool, seed: int, limit: float | None, until: float
    ) -> None:
        self._rewrite, self._limit, self._until = rewrite, limit, until
        self._keeps_counts = False
        """True if the answers to the given texts had as many words as these."""
        self._rng = (np.random.default_rng([seed, 0x7E87]),) if seeded else ()

    def look_at_texts(self, space: TextSpace) -> None:
        """Call the function on the given texts.

        Raises:
            DpframeError: all calls raise an exception, or return something other than a text.
        """
        calls = list(self._on([text for text in space.texts if text] * SEVERAL, space))
        if not calls:
            return
        if all(one.raised for one in calls):
            raise DpframeError(
                f"rewrite raised an exception in all {len(calls)} trial calls, {NOTHING}: "
                f"{calls[0].raised} (for {calls[0].text!r})"
            )
        answered = [one for one in calls if not one.raised]
        if all(one.answer is None for one in answered):
            raise DpframeError(
                f"rewrite returned None in all {len(answered)} trial calls, {NOTHING}; "
                "forgot `return`?"
            )
        if all(words_of(one.answer) is None for one in answered):
            shown = " ".join(repr(answered[0].answer).split())[:100]
            raise DpframeError(
                f"rewrite returned {shown}, {NOTHING}: return a text, or a list of words"
            )
        self._keeps_counts = all(_gained(one) == 0 for one in answered)

    def without_refused(self, space: TextSpace) -> TextSpace:
        """Leave out kinds of texts beyond the vocabulary that the function does not take.

        It raises on them, splits a word into several although it otherwise keeps the number of
        words, or there was no time to try them.
        """
        took: dict[str, bool] = {}  # by kind: True if it took all texts that were tried
        for pair in space.planned() if space.beyond else ():
            odd = [text for text in pair.texts if space.is_beyond(text)]
            kind = pair.exchanged if all(odd) else EMPTY
            if odd and took.get(kind) is not False:
                calls = list(self._on(odd, space))
                if calls or kind not in took:
                    took[kind] = bool(calls) and not any(map(self._is_refusal, calls))
        without = frozenset(kind for kind, taken in took.items() if not taken)
        return dataclasses.replace(space, without=without)

    def _is_refusal(self, one: _Tried) -> bool:
        return bool(one.raised) or (self._keeps_counts and _gained(one) > 0)

    def _on(self, texts: Sequence[Words], space: TextSpace) -> Iterator[_Tried]:
        for words in texts:
            if time.monotonic() > self._until:
                return
            text = list(words) if space.lists else " ".join(words)
            outcome = self._called(text)
            if outcome is None:
                return
            yield outcome

    def _called(self, text: Any) -> _Tried | None:
        """Return a call; None if it exceeds the time limit of one call."""
        results: list[_Tried] = []

        def attempt() -> None:
            try:
                answer = self._rewrite(*self._rng, copy.copy(text))
                results.append(_Tried(text, answer))
            except Exception as error:
                results.append(_Tried(text, None, _told(error)))

        if self._limit is None:
            attempt()
        else:
            thread = threading.Thread(target=attempt, daemon=True)
            thread.start()
            thread.join(self._limit)
        return results[0] if results else None


def _gained(one: _Tried) -> int:
    """Return how many more words an answer has than the text."""
    return len(words_of(one.answer) or ()) - len(words_of(one.text) or ())


def _told(error: BaseException) -> str:
    """Describe an exception by its class, its message and the user's line that led to it."""
    steps = [s for s in traceback.extract_tb(error.__traceback__) if s.filename != __file__]
    own = [step for step in steps if step.filename == steps[0].filename]
    place = f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    message = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}{': ' + message if message else ''}{place}"


def _understood(space: TextSpace) -> dict[str, Any]:
    """Return the parameters of the neighbourhood, which the record repeats."""
    return {
        "unit": space.unit,
        "adjacency": space.relation,
        "metric": space.metric or "none",
        "words": len(space.vocabulary),
        "texts": len(space.texts),
        "beyond": space.beyond,
        "refused": sorted(space.without),
    }


def _neighbourhood(
    space: TextSpace, pairs: list[TextPair], *, some_are_far: bool
) -> type[TextNeighbours]:
    far = [f"texts at a claim ε·d above {LARGEST_CLAIM:g}"] if some_are_far else []

    class GivenTexts(TextNeighbours, name="given-texts"):
        """The texts of an audit and their neighbours."""

        unit: str
        """The unit of privacy."""
        adjacency: str
        """The relation of D and D′."""
        metric: str
        """The distance of the claim."""
        words: int
        """Number of words of the vocabulary."""
        texts: int
        """Number of given texts."""
        refused: tuple[str, ...] = ()
        """Kinds of texts beyond the vocabulary that the function does not take."""

        def space(self) -> TextSpace:
            return space

        @property
        def _planned(self) -> list[TextPair]:
            return pairs

        def all_features(self) -> Sequence[str]:
            return [*super().all_features(), *far]

    return GivenTexts


def _mechanism(
    rewrite: Rewrite,
    seeded: bool,
    space: TextSpace,
    epsilon: float,
    delta: float,
    choices: Callable[[Any], Any] | None,
) -> type[HostMechanism]:
    places = min(PLACES, max(map(len, space.texts)) + MORE_PLACES)

    def release(self: Any, rng: np.random.Generator, data: Any) -> Any:
        text = copy.copy(data)  # some functions change their list
        answer = rewrite(rng, text) if seeded else rewrite(text)
        return features(answer, places) if choices is None else answer

    def claim(self: Any, pair: Pair) -> Claim:
        return claim_of(epsilon, delta, pair)

    title = str(getattr(rewrite, "__name__", ""))
    title = title if title.isidentifier() and title.isascii() else "rewrite"  # as of a lambda
    body = {
        "__doc__": "A function that rewrites texts.",
        "__module__": str(getattr(rewrite, "__module__", None)),
        "seedable": seeded,
        "gives_text_features": choices is None,
        "vocabulary": space.vocabulary,
        "vectors": space.vectors,
        "claim": claim,
        "release": release,
    }
    if choices is not None:
        body["choices"] = lambda self, data: choices(copy.copy(data))
    return types.new_class(title, (HostMechanism,), {"name": title}, lambda ns: ns.update(body))
