"""Audit what a function measures with noise, instead of what it makes of the measurements.

A synthesizer that selects, measures and generates spends its budget on noisy
measurements; its rows are post-processing, in which a loss hardly shows. The trace records the
noised values of each run. They are the output that this audit bounds, by fresh draws: what a trace
observes only chooses the score.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from dpframe import UndecidedError, score
from dpframe.plugins import (
    Claim,
    DpframeError,
    Floats,
    clopper_pearson_upper,
)
from dpframe_trace import frameworks, primitives
from dpframe_trace.noise import Tape
from dpframe_trace.runs import run
from dpframe_trace.tracing import caller

LEARNED = 64  # runs on each dataset that choose the score
FEWEST = 8  # runs with a measurement that show its value
PILOT = 1 / 10  # share of the draws that choose the threshold of the bound on μ
CUTS = 64  # thresholds that are tried
LARGEST = 50.0  # larger losses of one measurement are clipped to this
STEP = 1e-9  # to which scores are rounded, or more if values are large relative to their noise
ROUNDING = 1e3 * float(np.finfo(float).eps)  # this step relative to values in units of noise
SHIFT = 0.1234  # of steps: the scores of exact losses are not halfway between two
ESTIMATOR = "certified-betting"  # one is chosen beforehand, so that its bound holds
ALL = "all"

Place = tuple[Any, ...]


class Measurement(NamedTuple):
    """A noised value, or a choice, of one run."""

    place: Place
    """Its line, its number among the values of this line, its shape, and the choices before it."""
    line: str
    family: str  # "normal", "laplace" or "choice"
    value: Floats  # without noise; the probabilities of a choice
    scale: Floats
    released: Any  # with noise; the position of a choice
    uses: int  # sums with noise of the run up to here


@dataclasses.dataclass(frozen=True)
class MeasuredLine:
    """The measurements of one line of code."""

    place: str
    """File and line."""
    family: str
    scale: float
    """Smallest scale of its noise."""
    change: float
    """Largest distance of its values on D and on D′: l1 for Laplace noise, else l2."""

    def __str__(self) -> str:
        if self.family == "choice":
            return f"{self.place}: a choice"
        return f"{self.place}: {self.family}, scale {self.scale:.6g}, change {self.change:.6g}"


@dataclasses.dataclass(frozen=True)
class MeasurementAudit:
    """The outcome of an audit of measurements on one pair."""

    lines: tuple[MeasuredLine, ...]
    draws: int
    """Draws on each dataset that the bounds use."""
    refuted: bool
    """True if the draws refute the claim at this confidence."""
    epsilon_lower: float
    """Certified ε at `delta`."""
    delta: float
    mu_lower: float
    """Certified μ: the measurements satisfy μ-Gaussian DP for no smaller μ."""
    confidence: float
    """Confidence of each bound alone."""

    def __str__(self) -> str:
        verdict = "the claim is refuted" if self.refuted else "the claim is not refuted"
        of = "\n".join(f"  {line}" for line in self.lines)
        delta = f"{self.delta:g}".replace("e-0", "e-")
        return (
            f"{verdict} by {self.draws:,} draws of the measurements on each dataset\n"
            f"ε ≥ {self.epsilon_lower:.4g} at δ = {delta}; μ ≥ {self.mu_lower:.4g}; each "
            f"alone at {100 * self.confidence:g} %\n{of}\n"
            "if the claim covers all of these values together, whatever is made of them"
        )


def audit_measurements(
    function: Callable[..., Any],
    d0: Any,
    d1: Any,
    *,
    claim: Claim,
    measured: Sequence[str] | str,
    delta: float = 0.0,
    draws: int = 10_000,
    confidence: float = 0.999,
    seed: int = 0,
) -> MeasurementAudit:
    """Bound the loss of the noised values of a function from draws on two neighbouring datasets.

    The function runs with recorded noise in this process. A few runs on each dataset show what is
    measured, and choose a score: the log-likelihood ratio of the measurements. Other runs are
    scored, and nothing else enters the bounds: a wrong score only makes them weaker.

    Args:
        function: called as `function(data)`, or as `function(rng, data)`.
        d0: D, any Python value.
        d1: D′.
        claim: the claim for all measurements together, as by composition.
        measured: the lines that draw the noise of measurements that the claim covers, such as
            "mst.py:52", or "all". A noised value that stays secret, such as one of which only the
            largest is named, is none.
        delta: at which ε is bounded.
        draws: number of runs on each dataset for the bounds.
        confidence: of each bound, and of the verdict.
        seed: of the noise.

    Raises:
        UndecidedError: no measurement was seen in these lines; the message lists the lines with
            noise.
        DpframeError: the arguments cannot be used.
    """
    if draws < 2 * CUTS:
        raise DpframeError(f"draws must be at least {2 * CUTS}, got {draws}")
    if not 0 <= seed < 2**30:
        raise DpframeError(f"seed must be from 0 to 2^30 − 1, got {seed}")
    call = caller(function)
    wanted = {measured} if isinstance(measured, str) else set(measured)
    frameworks.start()
    with primitives.replaced(function):
        run(call, d0, Tape(_seed(seed, 0, 0, 0)))  # the first call may import modules
    with primitives.replaced(function):

        def transcripts(
            stage: int, number: int, uses: float = math.inf
        ) -> Iterator[Iterator[Tape]]:
            for dataset, data in enumerate((d0, d1)):
                seeds = (_seed(seed, stage, dataset, at) for at in range(number))
                yield (_transcript(call, data, _BriefTape(each, uses)) for each in seeds)

        learned = [[_measurements(tape) for tape in tapes] for tapes in transcripts(1, LEARNED)]
        seen = sorted({one.line for tapes in learned for tape in tapes for one in tape})
        if not wanted & {*seen, ALL} or not seen:
            raise UndecidedError(
                f"no measurement was seen at {', '.join(sorted(wanted))}; lines with normal or "
                f"Laplace noise, or with choices: {', '.join(seen) or 'none'}. Pass those whose "
                "values the claim covers as measured="
            )
        learned = [[_of(tape, wanted) for tape in tapes] for tapes in learned]
        scorer = _Scorer(learned)
        scores = [
            np.array([scorer.score(_measurements(tape)) for tape in tapes])
            for tapes in transcripts(2, draws, scorer.uses)
        ]
    bounds = confidence, delta
    return _judged(scores, claim, bounds, scorer.lines())


class _Measured(BaseException):
    """Everything is measured, so the rest of a run says nothing more about the data."""


class _BriefTape(Tape):
    """A tape that ends its run after a number of sums with noise."""

    def __init__(self, seed: int, uses: float) -> None:
        super().__init__(seed)
        self._most = uses

    def use(self, *given: Any, **more: Any) -> Any:
        result = super().use(*given, **more)
        if len(self.uses) >= self._most:
            raise _Measured
        return result


def _transcript(call: Callable[[Any], Any], data: Any, tape: Tape) -> Tape:
    with contextlib.suppress(_Measured):
        run(call, data, tape)
    return tape


def _seed(seed: int, stage: int, dataset: int, at: int) -> int:
    """Return a seed of a run; no two are equal, and none is one of `trace`."""
    return (((1 << 30) + seed) << 32) + (stage << 30) + (dataset << 29) + at


def _of(measurements: Sequence[Measurement], wanted: set[str]) -> list[Measurement]:
    return [one for one in measurements if ALL in wanted or one.line in wanted]


def _measurements(tape: Tape) -> list[Measurement]:
    """Return the noised values and choices of a run, in order."""
    noised = []
    for use in tape.uses.values():
        calls = tape.calls_of(use.draws)
        families = {call.family for call in calls}
        known = np.all(np.isfinite(use.scale)) and np.all(use.scale > 0)
        if not use.compared and known and families in ({"normal"}, {"laplace"}):
            noised.append((int(use.draws.max()), families.pop(), calls[0].key, use))
    chosen = [
        (call.first, "choice", call.key, call)
        for call in tape.calls.values()
        if call.family == "choice"
    ]
    order = {id(use): number for number, use in enumerate(tape.uses.values(), 1)}
    found, before, visits, sums = list[Measurement](), list[int](), dict[Any, int](), 0
    for _, family, key, one in sorted([*noised, *chosen], key=lambda each: each[0]):
        line = f"{Path(key.file).name}:{key.line}"
        number = visits[line] = visits.get(line, -1) + 1
        of: Any = one
        released: Any
        if family == "choice":
            value, scale, released = of.law[0], np.ones(()), int(of.result)
        else:
            value, scale, released = of.value, of.scale, np.asarray(of.result, float)
        place = line, number, np.shape(value), tuple(before)
        sums += family != "choice"
        uses = order.get(id(one), sums)
        found.append(Measurement(place, line, family, np.asarray(value), scale, released, uses))
        if family == "choice":
            before.append(released)
    return found


def _are_equal(measurements: Sequence[Measurement]) -> bool:
    first = measurements[0].value
    return len(measurements) >= FEWEST and all(
        np.array_equal(one.value, first, equal_nan=True) for one in measurements
    )


class _Scorer:
    """The log-likelihood ratio of measurements whose values on D and on D′ were learned."""

    def __init__(self, learned: Sequence[Sequence[Sequence[Measurement]]]) -> None:
        self._values: list[dict[Place, list[Measurement]]] = []
        for tapes in learned:
            by_place: dict[Place, list[Measurement]] = {}
            for tape in tapes:
                for one in tape:
                    by_place.setdefault(one.place, []).append(one)
            self._values.append(by_place)
        both = self._values[0].keys() & self._values[1].keys()
        # A value that varies depends on earlier noise: its mean would only blur the score.
        stable = [
            place
            for place in self._values[0]
            if place in both and all(_are_equal(by_place[place]) for by_place in self._values)
        ]
        self._means = {
            place: tuple(by_place[place][0].value for by_place in self._values) for place in stable
        }
        self._step = max(STEP, ROUNDING * self._size())
        last = [one for by_place in self._values for place in stable for one in by_place[place]]
        # A choice may come after all sums.
        ends = any(one.family == "choice" for one in last)
        self.uses: float = math.inf if ends or not last else max(one.uses for one in last)
        """Sums with noise after which a run shows nothing more."""

    def _size(self) -> float:
        """Return a bound on the sum of the values in units of their noise."""
        total = 0.0
        for place, means in self._means.items():
            one = self._values[0][place][0]
            if one.family != "choice":
                with np.errstate(all="ignore"):
                    sizes = np.max(np.abs(np.nan_to_num(means)), axis=0, initial=0) / one.scale
                total += float(np.nan_to_num(np.sum(sizes)))
        return min(total, 1e300)

    def score(self, measurements: Sequence[Measurement]) -> float:
        """Return the ratio of D′ over D, from the released values alone."""
        total = 0.0
        for one in measurements:
            means = self._means.get(one.place)
            if means is None:
                continue
            first, second = means
            scale = self._values[0][one.place][0].scale
            with np.errstate(all="ignore"):
                if one.family == "choice":
                    ratio = np.log(second[one.released]) - np.log(first[one.released])
                else:
                    distances = (np.abs(one.released - each) / scale for each in means)
                    power, factor = (2, 0.5) if one.family == "normal" else (1, 1.0)
                    ratio = factor * np.subtract(*(each**power for each in distances)).sum()
            total += float(np.clip(np.nan_to_num(ratio), -LARGEST, LARGEST))
        # Far from both values the ratio of Laplace noise is constant: its last digits would tell
        # how sums of floating-point numbers were rounded, and so which dataset it was.
        return round(total / self._step + SHIFT) * self._step

    def lines(self) -> tuple[MeasuredLine, ...]:
        """Return what was measured, by line."""
        found: dict[str, MeasuredLine] = {}
        for place, (first, second) in sorted(self._means.items(), key=repr):
            one = self._values[0][place][0]
            norm = 1 if one.family == "laplace" else 2
            change = float(np.linalg.norm(np.ravel(second - first), norm))
            scale = float(np.min(one.scale, initial=math.inf))
            old = found.get(one.line, MeasuredLine(one.line, one.family, scale, change))
            found[one.line] = MeasuredLine(
                one.line, one.family, min(scale, old.scale), max(change, old.change)
            )
        return tuple(found.values())


def _judged(
    scores: Sequence[Floats],
    claim: Claim,
    bounds: tuple[float, float],
    lines: tuple[MeasuredLine, ...],
) -> MeasurementAudit:
    (confidence, delta), pilot = bounds, int(PILOT * len(scores[0]))
    if np.ptp(np.concatenate(scores)) == 0:
        raise UndecidedError("the measurements have the same values on D and on D′")
    result = score(
        scores[1],
        scores[0],
        claim=claim,
        delta=delta,
        confidence=confidence,
        estimators=[ESTIMATOR],
        lower_is_member=False,
    )
    (row,) = result["rows"]
    p_value = row["p_value"]
    return MeasurementAudit(
        lines=lines,
        draws=len(scores[0]),
        refuted=p_value is not None and float(p_value) <= 1 - confidence,
        epsilon_lower=float(row["estimate"]["epsilon_lower"] or 0.0),
        delta=delta,
        mu_lower=_mu(
            [each[:pilot] for each in scores], [each[pilot:] for each in scores], confidence
        ),
        confidence=confidence,
    )


def _mu(pilot: Sequence[Floats], rest: Sequence[Floats], confidence: float) -> float:
    """Bound μ from below, at the threshold that does best in a pilot.

    Under μ-Gaussian DP no test has Φ⁻¹(1 − FPR) − Φ⁻¹(FNR) > μ [Dong2022].
    """
    cuts = np.unique(np.quantile(np.concatenate(pilot), np.arange(1, CUTS) / CUTS))

    def shown(scores: Sequence[Floats], at: Floats) -> Floats:
        false_positives = (scores[0][:, None] > at).sum(axis=0)
        false_negatives = (scores[1][:, None] <= at).sum(axis=0)
        error = (1 - confidence) / 2
        rates = (
            clopper_pearson_upper(hits, len(of), error)
            for hits, of in zip((false_positives, false_negatives), scores, strict=True)
        )
        return np.array([_contrast(*pair) for pair in zip(*rates, strict=True)])

    best = cuts[[int(np.argmax(shown(pilot, cuts)))]]
    return max(0.0, float(shown(rest, best)[0]))


def _contrast(false_positives: float, false_negatives: float) -> float:
    """Return Φ⁻¹(1 − FPR) − Φ⁻¹(FNR); 0 if a rate may be 1."""
    if max(false_positives, false_negatives) >= 1:
        return 0.0
    normal = NormalDist()
    return -normal.inv_cdf(float(false_positives)) - normal.inv_cdf(float(false_negatives))
