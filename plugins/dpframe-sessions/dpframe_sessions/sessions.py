"""Samples of sessions as arrays, and how far two samples differ beyond a claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpframe.plugins import Claim, Floats, HostArray, Ints
from dpframe_sessions.strategies import Refusal, number_of

MOST_POINTS = 4  # points (ε, δ) of a claim that events are compared with
LARGEST_LOSS = 50.0  # larger claimed losses are clipped to this
BINS = 8  # intervals that the numbers of one round are cut into
CUTS = 16  # cuts of a score
SMOOTHING = 0.5  # added to every count, because a kind that did not occur proves nothing


class Points(NamedTuple):
    """Points of a claim: no event may have p > e^ε q + δ."""

    epsilon: Floats
    delta: Floats


def points_of(claim: Claim) -> Points:
    """Return a few points of a claim."""
    deltas = list(claim.telling_deltas)
    deltas = deltas[:: -(-len(deltas) // MOST_POINTS)]
    pairs = [(min(claim.epsilon_at(delta), LARGEST_LOSS), delta) for delta in deltas]
    pairs = [pair for pair in pairs if not math.isnan(pair[0])] or [(0.0, 0.0)]
    return Points(*np.array(pairs).T)


class Sample(NamedTuple):
    """The answers of sessions of one strategy on one dataset, by session and round."""

    kinds: Any  # object array, shape [sessions, rounds]: labels, refusals, names of types
    numbers: Floats  # shape [sessions, rounds]; NaN if an answer has no number

    def __len__(self) -> int:
        return len(self.numbers)


def sample_of(sessions: Sequence[Sequence[Any]]) -> Sample:
    """Return a sample of sessions of equal length."""
    shape = len(sessions), len(sessions[0])
    kinds, numbers = np.empty(shape, object), np.full(shape, math.nan)
    for row, answers in enumerate(sessions):
        for at, answer in enumerate(answers):
            kinds[row, at] = kind = kind_of(answer)
            if not isinstance(kind, Label):
                numbers[row, at] = number_of(answer)
    return Sample(kinds, numbers)


class Label(NamedTuple):
    """An answer that is compared as it is."""

    text: str


def kind_of(answer: Any) -> Any:
    """Return the answer itself, as a label, if it is no number; otherwise the name of its type."""
    if answer is None or isinstance(answer, str | bool | np.bool_):
        return Label(repr(answer.item() if isinstance(answer, np.generic) else answer))
    if isinstance(answer, Refusal):
        return Label(type(answer).__name__)
    return type(answer).__name__


def append(one: Sample | None, other: Sample) -> Sample:
    """Return both samples as one."""
    if one is None:
        return other
    return Sample(*(np.concatenate(arrays) for arrays in zip(one, other, strict=True)))


def excess(hits: Any, sizes: tuple[int, int], points: Points) -> Any:
    """Return how far events lie outside a claim, in standard errors.

    Args:
        hits: sessions in each event, on D and on D′, shape [2, events].
        sizes: number of sessions on D and on D′.
        points: of the claim.

    Returns:
        Shape [events]: the largest over both directions and all points.
    """
    counts = np.asarray(hits, float)
    number = np.array(sizes, float)[:, None]
    shares = (counts + SMOOTHING) / (number + 2 * SMOOTHING)
    variances = shares * (1 - shares) / number
    slope = np.exp(points.epsilon)[:, None]
    best: Any = np.full(counts.shape[1], -np.inf)
    for one, other in ((0, 1), (1, 0)):
        distance = shares[one] - slope * shares[other] - points.delta[:, None]
        error = np.sqrt(variances[one] + slope**2 * variances[other])
        best = np.maximum(best, (distance / error).max(axis=0))
    return best


def divergence(pair: tuple[Sample, Sample], points: Points) -> float:
    """Return how far the best event of a score lies outside a claim, in standard errors.

    The score adds up the log-likelihood ratios of the rounds, and of the differences between
    successive answers. Each half of the sessions is scored by the other half.
    """
    columns = _columns(pair)
    scores = [np.zeros(len(sample)) for sample in pair]
    for half in (0, 1):
        for codes in columns:
            size = 1 + max(int(code.max(initial=0)) for code in codes)
            ratios = _ratios([code[1 - half :: 2] for code in codes], size)
            for dataset, code in enumerate(codes):
                scores[dataset][half::2] += ratios[code[half::2]]
    cuts = np.unique(np.quantile(np.concatenate(scores), np.arange(1, CUTS) / CUTS))
    above = np.array([(score[:, None] >= cuts).sum(axis=0) for score in scores])
    sizes = np.array([[len(score)] for score in scores])
    events = np.concatenate([above, sizes - above], axis=1)
    return float(excess(events, (len(pair[0]), len(pair[1])), points).max(initial=-np.inf))


def _columns(pair: tuple[Sample, Sample]) -> list[list[Ints]]:
    """Return the answers of each round, and the differences of successive ones, as categories."""
    both = append(*pair)
    codes: dict[Any, int] = {}
    kinds = np.array([codes.setdefault(kind, len(codes)) for kind in both.kinds.ravel()])
    kinds = kinds.reshape(both.kinds.shape)
    with np.errstate(invalid="ignore"):
        steps = np.diff(both.numbers, axis=1)
    values = [*zip(kinds.T, both.numbers.T, strict=True), *((0 * step, step) for step in steps.T)]
    columns = []
    for kind, numbers in values:
        finite = numbers[np.isfinite(numbers)]
        edges = np.unique(np.quantile(finite, np.arange(1, BINS) / BINS)) if len(finite) else finite
        bins = np.where(np.isnan(numbers), len(edges) + 1, np.searchsorted(edges, numbers, "right"))
        whole = np.where(np.isnan(kind), 0, kind) * (len(edges) + 2) + bins
        code = np.unique(whole, return_inverse=True)[1].ravel()
        if code.any():
            columns.append([code[: len(pair[0])], code[len(pair[0]) :]])
    return columns


def _ratios(codes: Sequence[Ints], size: int) -> Floats:
    """Return log-likelihood ratios of `size` categories, drawn towards 0 by a standard error."""
    counts = np.array([np.bincount(code, minlength=size) for code in codes]) + SMOOTHING
    plain = np.diff(np.log(counts / counts.sum(axis=1, keepdims=True)), axis=0)[0]
    error = np.sqrt((1 / counts).sum(axis=0))
    drawn: Floats = np.sign(plain) * np.maximum(abs(plain) - error, 0)
    return drawn


# Events that a person can check.


class Event(NamedTuple):
    """A simple event of the answers of a session."""

    form: str  # "answer", "sum", "largest", "smallest", "difference", "labels"
    rounds: tuple[int, ...]  # numbers of the rounds it reads, from 0
    cut: float  # for numbers
    is_above: bool  # True if the number is above the cut
    labels: tuple[str, ...] = ()  # for labels

    def __str__(self) -> str:
        first, last = self.rounds[0] + 1, self.rounds[-1] + 1
        span = f"answer {first}" if first == last else f"answers {first} to {last}"
        relation = f"{'above' if self.is_above else 'at most'} {self.cut:.6g}"
        if self.form == "labels":
            verb = "is" if first == last else "are"
            return f"{span} {verb} {', '.join(self.labels)}"
        if self.form == "answer":
            return f"{span} is {relation}"
        if self.form == "difference":
            return f"answer {last} − answer {first} is {relation}"
        return f"the {self.form} of the numbers among {span} is {relation}"

    def holds(self, sample: Sample) -> HostArray:
        """Return True for the sessions in the event, shape [sessions]."""
        rounds = list(self.rounds)
        if self.form == "labels":
            texts = np.array([[_text(kind) for kind in row] for row in sample.kinds[:, rounds]])
            return np.asarray((texts == np.array(self.labels)).all(axis=1))
        values = _VALUES[self.form](sample.numbers[:, rounds])
        with np.errstate(invalid="ignore"):
            return np.asarray(values > self.cut if self.is_above else values <= self.cut)


def _text(kind: Any) -> str:
    return kind.text if isinstance(kind, Label) else "a number"


def _nothing_if_empty(reduced: Any, numbers: Floats) -> Floats:
    return np.where(np.isnan(numbers).all(axis=1), math.nan, reduced)


_VALUES: dict[str, Any] = {
    "answer": lambda numbers: numbers[:, 0],
    "difference": lambda numbers: numbers[:, -1] - numbers[:, 0],
    "sum": lambda numbers: _nothing_if_empty(np.nansum(numbers, axis=1), numbers),
    "largest": lambda numbers: _nothing_if_empty(
        np.where(np.isnan(numbers), -np.inf, numbers).max(axis=1), numbers
    ),
    "smallest": lambda numbers: _nothing_if_empty(
        np.where(np.isnan(numbers), np.inf, numbers).min(axis=1), numbers
    ),
}


def best_event(pair: tuple[Sample, Sample], points: Points) -> tuple[float, Event | None]:
    """Return the simple event farthest outside a claim, with its distance in standard errors."""
    rounds = range(pair[0].numbers.shape[1])
    sizes = len(pair[0]), len(pair[1])
    both = append(*pair)
    best: tuple[float, Event | None] = (-np.inf, None)
    spans: list[tuple[str, tuple[int, ...]]] = [("answer", (at,)) for at in rounds]
    spans += [("difference", (at, later)) for at in rounds for later in rounds if at < later <= 7]
    for last in rounds[1:]:
        for form in ("sum", "largest", "smallest"):
            spans += [(form, tuple(range(first, last + 1))) for first in {0, last - 1}]
    for form, read in spans:
        values = _VALUES[form](both.numbers[:, list(read)])
        finite = values[np.isfinite(values)]
        if not len(finite):
            continue
        cuts = np.unique(np.quantile(finite, np.arange(0, CUTS + 1) / CUTS))
        split = values[: sizes[0]], values[sizes[0] :]
        above = np.array([(part[:, None] > cuts).sum(axis=0) for part in split])
        below = np.array([(part[:, None] <= cuts).sum(axis=0) for part in split])
        for hits, is_above in ((above, True), (below, False)):
            distances = excess(hits, sizes, points)
            at = int(np.argmax(distances))
            if distances[at] > best[0]:
                best = float(distances[at]), Event(form, read, float(cuts[at]), is_above)
    texts = np.array([[_text(kind) for kind in row] for row in both.kinds])
    if (texts != "a number").any():
        spans = [("labels", (at,)) for at in rounds]
        spans += [("labels", tuple(rounds[: last + 1])) for last in rounds[1:]]
        for _, read in spans:
            patterns, code = np.unique(texts[:, list(read)], axis=0, return_inverse=True)
            code = code.ravel()
            split = code[: sizes[0]], code[sizes[0] :]
            counts = np.array([np.bincount(part, minlength=len(patterns)) for part in split])
            distances = excess(counts, sizes, points)
            at = int(np.argmax(distances))
            if distances[at] > best[0]:
                labels = tuple(str(text) for text in patterns[at])
                best = float(distances[at]), Event("labels", read, 0.0, True, labels)
    return best
