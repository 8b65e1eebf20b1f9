"""An attack on rewritten texts, which looks for words of an answer, at a place or anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from dpframe.plugins import (
    Answers,
    Array,
    Attack,
    Floats,
    HostArray,
    HostMechanism,
    Ints,
    Key,
    Target,
    Tree,
    find_plugin,
)
from dpframe_text.programs.answer_features import FIRST, NO_WORD, SIZES, WHOLE, code

NO_TEXT = -1.0  # stands for all numbers of an exception
SMOOTHING = 0.5
MOST_LOSS = 40.0  # larger claims are compared as this one
CANDIDATES = 24
"""Words for which `contains` looks, the most frequent of D and of D′."""
JUDGED_BY = 4096  # draws of each dataset from which a column is chosen
CLEAR = 3.0  # standard errors beyond a claim that count more than a clear difference
MOST_WORDS = 512
"""Words of which `together` learns the log-odds."""
MOST_ODDS = 12.0  # log-odds of one word are clipped to this
BINS = 24  # intervals of the log-odds of a word's neighbourhood
LISTED = 3  # words in a description


@cache
def _learner() -> Any:
    """Return the attack that learns the shares of one column of 32-bit categories."""
    return find_plugin("attack", "answers").from_params({"look": "values"})


class TextFeatures(Attack, name="text"):
    """Log-odds of D′ from one view of a rewritten text, learned from shares.

    The view has columns of categories. The column that violates the claim most is chosen, on draws
    other than those from which its shares were learned, and the score is the logarithm of the
    ratio of the shares of a category.
    """

    gives = "score"
    portable = True

    look: Literal["word", "contains", "size", "whole", "together", "distance"] = "word"
    """"word": the word at one place. "contains": the presence of one word at any place. "size": the
    number of words, of characters or of different words. "whole": the answer as a whole.
    "together": the sum of the log-odds of all words. "distance": how much nearer the word at the
    changed place is to that of D′ than to that of D, in the embedding."""

    names: ClassVar[tuple[str, ...]] = SIZES

    def unsuited(self, target: Target) -> str | None:
        if not (
            isinstance(target.mechanism, HostMechanism)
            and getattr(target.mechanism, "gives_text_features", False)
        ):
            return "the answers of this mechanism are not features of a text: use a `rewriter`"
        if self.look == "distance" and getattr(target.mechanism, "vectors", None) is None:
            return "no embedding is given"
        return None

    def see(self, answers: Answers) -> HostArray:
        return np.nan_to_num(answers.numbers, nan=NO_TEXT)

    def fit(self, key: Key, target: Target, train: tuple[HostArray, HostArray]) -> Tree:
        if self.look == "together":
            return _learn_together(train)
        few = [part[:JUDGED_BY] for part in train]
        state: dict[str, Any] = {"word": np.float64(NO_WORD)}
        if self.look == "distance":
            state |= _nearness(target)
        elif self.look == "contains":
            words = _candidates(few)
            columns = [_has(part, words) for part in few]
            state["word"] = np.float64(words[_best(target, columns)] if len(words) else NO_WORD)
        places = range(FIRST, train[0].shape[1])
        if self.look in ("word", "size"):
            every = list(places if self.look == "word" else range(len(SIZES)))
            state["column"] = np.int32(every[_best(target, [part[:, every] for part in few])])
        elif self.look == "whole":
            state["column"] = np.int32(WHOLE)
        sides = tuple(self._categories(state, part) for part in train)
        state |= _learner().fit(key, target, sides)
        kept = state["hashes"][: int(state["known"])]
        named = _names(target, [int(state["word"]), *map(int, kept)])
        return {**state, "names": np.frombuffer(_listing(named), np.uint8)}

    def _categories(self, state: Tree, outputs: Any) -> HostArray:
        """Return the category of each answer as a 32-bit number, shape [n, 1]."""
        seen = np.maximum(np.asarray(outputs, np.float64), NO_WORD)
        if self.look == "contains":
            column: Any = _has(seen, state["word"][None])[:, 0]
        elif self.look == "distance":
            at = np.searchsorted(state["codes"], seen[:, int(state["place"])])
            at = np.minimum(at, len(state["codes"]) - 1)
            found = state["codes"][at] == seen[:, int(state["place"])]
            column = np.where(found, state["bins"][at], BINS)
        else:
            column = seen[:, int(state["column"])]
        return np.asarray(column, np.float64).astype(np.uint32)[:, None]

    def score(self, state: Tree, outputs: Array) -> Array:
        if self.look == "together":
            together: Array = _score_together(state, outputs)
            return together
        scores: Array = _learner().score(state, self._categories(state, outputs))
        return scores

    def words(self, state: Tree, edge: float, above: bool, words: Mapping[int, str]) -> str | None:
        if self.look == "together":
            side = f"{'above' if above else 'below'} {edge:.4g}"
            return f"the log-odds of D′ by all words of the answer, taken together, are {side}"
        scores = np.asarray(state["scores"])
        inside = (scores >= edge - 1e-6 * abs(edge)) == above
        number = int(state["known"])
        hashes, rest = np.asarray(state["hashes"])[:number], bool(inside[-1])
        strongest = np.argsort(-abs(scores[:number]), kind="stable")
        chosen = [int(hashes[at]) for at in strongest if inside[at]]
        others = [int(hashes[at]) for at in strongest if not inside[at]]
        if not chosen and not rest:
            return None
        # The shorter list names the event; categories that were never learned are on one side.
        names = dict(_read_listing(bytes(np.asarray(state["names"], np.uint8))))
        listed = others if rest else chosen
        if not listed:
            return "is any answer"
        return self._event(state, listed, names, negated=rest)

    def _event(
        self, state: Tree, values: Sequence[int], names: Mapping[int, str], *, negated: bool
    ) -> str:
        nots = " not" if negated else ""
        if self.look == "contains":
            word = names.get(int(state["word"]), "a word beyond the vocabulary")
            lacks = (0 in values) != negated
            return f"the answer {'does not contain' if lacks else 'contains'} {word}"
        if self.look == "size":
            name = SIZES[int(state["column"])]
            return f"the number of {name} is{nots} {_either([f'{value}' for value in values])}"
        if self.look == "distance":
            place = int(state["place"]) - FIRST + 1
            cuts = np.asarray(state["cuts"])
            return f"word {place} of the answer, d(·, D) − d(·, D′), is{nots} " + _either(
                [_interval(cuts, value) for value in sorted(values)]
            )
        other = "another text" if self.look == "whole" else "another word"
        texts = [names.get(value, other) for value in values if value]
        texts += ["missing"] if 0 in values else []
        if self.look == "whole":
            return f"the answer is{nots} {_either(texts)}"
        return f"word {int(state['column']) - FIRST + 1} of the answer is{nots} {_either(texts)}"


def _learn_together(train: tuple[HostArray, HostArray]) -> dict[str, Any]:
    """Learn the log-odds of each frequent word at each place, shrunk by their standard errors."""
    sides = [part[:, FIRST:] for part in train]
    codes, numbers = np.unique(np.concatenate(sides), return_counts=True)
    codes = np.sort(codes[np.argsort(-numbers, kind="stable")[:MOST_WORDS]])
    if not len(codes):
        codes = np.array([NO_WORD])
    counts = np.zeros((2, sides[0].shape[1], len(codes)))
    for side, part in enumerate(sides):
        at, is_known = _places_in(codes, part)
        for place in range(part.shape[1]):
            own = at[is_known[:, place], place]
            counts[side, place] = np.bincount(own, minlength=len(codes))
    smooth = counts + SMOOTHING
    totals = np.array([max(1, len(part)) for part in sides])[:, None, None]
    odds = np.diff(np.log(smooth / totals), axis=0)[0]
    error = np.sqrt((1 / smooth).sum(axis=0))
    shrunk = np.where(counts.sum(axis=0) > 0, odds / (1 + np.square(error)), 0.0)
    return {"codes": codes, "odds": np.clip(shrunk, -MOST_ODDS, MOST_ODDS)}


def _score_together(state: Tree, outputs: Any) -> Any:
    part = np.asarray(outputs, np.float64)[:, FIRST:]
    at, is_known = _places_in(state["codes"], part)
    odds = state["odds"][np.arange(part.shape[1]), at]
    return np.where(is_known, odds, 0.0).sum(axis=1)


def _places_in(codes: Any, part: HostArray) -> tuple[HostArray, HostArray]:
    """Return the places of words among sorted codes, and True for those that are there."""
    at = np.minimum(np.searchsorted(codes, part), len(codes) - 1)
    return at, np.asarray(codes[at] == part)


def _either(texts: Sequence[str]) -> str:
    """List a few texts, and the number of the others."""
    named = list(dict.fromkeys(text for text in texts if not text.startswith("another ")))
    more = len(texts) - len(named[:LISTED])
    named = named[:LISTED]
    if more and named:
        named.append("another one" if more == 1 else f"one of {more} others")
    return " or ".join(named) or f"one of {len(texts)} others"


@lru_cache(maxsize=8)
def _codes_of(words: tuple[str, ...]) -> dict[int, str]:
    """Return words by their codes, also in capitals and in lower case."""
    forms = (str.upper, str.capitalize, str.lower, str)
    return {int(code(form(word))): form(word) for form in forms for word in words}


def _names(target: Target, codes: Iterable[int]) -> dict[int, str]:
    """Return the texts of codes: words of the vocabulary and the pair, and the pair as a whole."""
    pair: Any = target.pair
    both = getattr(pair, "texts", ())
    whole = "\x00" if getattr(pair, "lists", False) else " "
    known = {int(code(whole.join(words))): " ".join(words) for words in both}
    tables = [
        known,
        *map(_codes_of, both),
        _codes_of(getattr(target.mechanism, "vocabulary", ())),
    ]
    found = ((one, next((t[one] for t in tables if one in t), None)) for one in codes)
    return {one: text for one, text in found if text is not None}


def _listing(known: Mapping[int, str]) -> bytes:
    return "\n".join(f"{key}\t{word}" for key, word in known.items()).encode(
        "utf-8", "surrogatepass"
    )


def _read_listing(content: bytes) -> list[tuple[int, str]]:
    lines = [one.split("\t", 1) for one in content.decode("utf-8", "surrogatepass").split("\n")]
    return [(int(line[0]), repr(line[1])) for line in lines if len(line) == 2]


def _has(part: HostArray, words: Any) -> HostArray:
    """Return 1 if an answer has a word, shape [n, words]."""
    return np.asarray((part[:, FIRST:, None] == np.asarray(words)).any(axis=1), np.float64)


def _candidates(sides: Sequence[HostArray]) -> HostArray:
    """Return the codes of the words most frequent in answers on D and on D′."""
    chosen: list[float] = []
    for part in sides:
        words, counts = np.unique(part[:, FIRST:], return_counts=True)
        some = (words != NO_WORD) & (words >= 0)
        order = np.argsort(-counts[some], kind="stable")[: CANDIDATES // 2]
        chosen += words[some][order].tolist()
    return np.array(list(dict.fromkeys(chosen)), np.float64)


def _nearness(target: Target) -> dict[str, Any]:
    """Return intervals of d(w, D) − d(w, D′) for each word w, and the place of the change."""
    vectors: Any = getattr(target.mechanism, "vectors", None)
    one, other = target.pair.texts  # type: ignore[attr-defined]
    both = list(zip(one, other, strict=False))
    place = next((at for at, (old, new) in enumerate(both) if old != new), 0)
    old, new = both[place] if both else ("", "")
    if old not in vectors or new not in vectors:
        unknown = {"codes": np.array([NO_WORD]), "bins": np.array([BINS])}
        return {"place": np.int32(FIRST), **unknown, "cuts": np.zeros(BINS - 1)}
    every = np.asarray(vectors.vectors)
    gaps = [np.linalg.norm(every - vectors.vector(word), axis=1) for word in (old, new)]
    nearness = gaps[0] - gaps[1]
    cuts = np.quantile(nearness, np.linspace(0, 1, BINS + 1)[1:-1])
    codes = np.array([code(word) for word in vectors.words])
    order = np.argsort(codes)
    return {
        "place": np.int32(FIRST + place),
        "codes": codes[order],
        "bins": np.searchsorted(cuts, nearness, side="right")[order],
        "cuts": cuts,
    }


def _interval(cuts: Floats, at: int) -> str:
    if at >= BINS:
        return "unknown"
    ends = [f"at least {cuts[at - 1]:.3g}"] if at else []
    ends += [f"below {cuts[at]:.3g}"] if at < len(cuts) else []
    return " and ".join(ends)


def _best(target: Target, sides: Sequence[HostArray]) -> int:
    """Return the column of categories that violates the claim most, else differs most."""
    claim = target.mechanism.claim(target.pair)
    claimed = (0.0, 0.0)
    if claim is not None:
        delta = min(claim.telling_deltas, default=0.0)
        epsilon = claim.epsilon_at(delta)
        claimed = min(epsilon if math.isfinite(epsilon) else MOST_LOSS, MOST_LOSS), delta
    if not sides[0].shape[1]:
        return 0
    beyond, apart = (_strengths(sides, *point) for point in (claimed, (0.0, 0.0)))
    return int(np.lexsort((apart, np.maximum(beyond, CLEAR)))[-1])


def _strengths(sides: Sequence[HostArray], epsilon: float, delta: float) -> Floats:
    """Return by how many standard errors an event of each column violates (ε, δ), shape [k].

    Events are chosen on one half of the draws and judged on the other half, both ways.
    """
    columns = sides[0].shape[1]
    if min(map(len, sides)) < 2:
        return np.zeros(columns)
    values, at = np.unique(np.concatenate(sides), return_inverse=True)
    own = at.reshape(-1, columns) + len(values) * np.arange(columns)
    parts = np.split(own, [len(sides[0])])
    halves = [
        np.stack([_counts(part[half::2], columns, len(values)) for part in parts], axis=1)
        for half in (0, 1)
    ]
    total = np.zeros(columns)
    slope = math.exp(epsilon)
    for half in (0, 1):
        learned, judged = halves[half], halves[1 - half]
        n = learned.sum(axis=2, keepdims=True)
        odds = np.diff(np.log((learned + SMOOTHING) / (n + 1)), axis=1)
        order = np.argsort(-odds, axis=2, kind="stable")
        hits = np.cumsum(np.take_along_axis(judged, order, axis=2), axis=2)
        trials = judged.sum(axis=2, keepdims=True)
        best = np.full(columns, -np.inf)
        for counts, side in ((hits, 1), (trials - hits, 0)):
            rates = (counts + SMOOTHING) / (trials + 1)
            p, q = rates[:, side], rates[:, 1 - side]
            noise = np.sqrt((slope**2 * q * (1 - q) + p * (1 - p)) / trials.min())
            best = np.maximum(best, ((p - slope * q - delta) / noise).max(axis=1))
        total += best
    return total


def _counts(at: Ints, columns: int, values: int) -> Ints:
    """Count each value in each column, shape [columns, values]."""
    counted: Ints = np.bincount(at.reshape(-1), minlength=columns * values)
    return counted.reshape(columns, values)
