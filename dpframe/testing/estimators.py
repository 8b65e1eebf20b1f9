"""Promises of estimators."""

import dataclasses
import functools
import itertools
import math
from functools import partial
from typing import Any

import numpy as np
from scipy.special import bdtrc

from dpframe.claims import PureDP
from dpframe.common import trees
from dpframe.common.types import HostArray, Tree
from dpframe.engine.power import TwoValued
from dpframe.interfaces.estimator import Estimate, Estimator, Query
from dpframe.interfaces.plugin_calls import statistic_of, zero_of
from dpframe.interfaces.statistic import compiled_update, padded
from dpframe.results.estimate_checks import checked
from dpframe.stats.binomial import PROBABILITY_ROUNDING
from dpframe.testing.corner import Corner
from dpframe.testing.plugins import ERROR, LeftOut, Trial

TRIALS_EACH = 1000  # scores per dataset of one audit
REPEATS = 200  # audits at a truth
CONFIDENCE = 0.9  # of calibrated bounds: one in ten may exceed the truth
LEVELS = (0.9, 0.99, 0.999)  # a wrong bound can look right at one of them
CORNERS = ((100, 50), (200, 200 / (1 + math.e)), (10_000, 20))
"""Draws on each dataset, and the mean number of errors of the better decision rule. The p-value,
which is slow, is tested at the first."""
EVENTS = 3  # number of events, those with the largest shares, whose shares are tested
IID = "independent, identically distributed outputs"
BOUND_ROUNDING = 1e-6  # of a bound that is exactly the truth
LOUD = 8.0  # a loss so large that every estimator must detect it


@dataclasses.dataclass(frozen=True)
class ScoredEstimator:
    """An estimator, applied to scores with a known loss."""

    estimator: Estimator

    @functools.cached_property
    def statistic(self) -> Any:
        """The statistic of the estimator."""
        return statistic_of(self.estimator)

    @property
    def of_canaries(self) -> bool:
        """True if it accepts only the canaries of one run."""
        return bool(self.statistic.accepts == {"canaries"})

    @property
    def decides(self) -> bool:
        """True if it gets decisions; an estimator that accepts both gets scores."""
        return "score" not in self.statistic.accepts

    def scores(self, rng: np.random.Generator, epsilon: float, n: int) -> list[HostArray]:
        """Draw scores on D and D′ by randomised response or Laplace noise, with loss exactly ε."""
        if self.decides:
            return decisions(rng, epsilon, n)
        return [np.asarray(rng.laplace(place, size=n), np.float32) for place in (0.0, epsilon)]

    def layout(self, rng: np.random.Generator, epsilon: float = 1.0) -> Tree:
        """Return the layout that the statistic fixes from a pilot."""
        needs = self.statistic.needs_pilot()
        return self.bound_to(self.scores(rng, epsilon, TRIALS_EACH)) if needs else ()

    def bound_to(self, pilot: list[HostArray]) -> Tree:
        """Return the layout that the statistic fixes from scores; () if it needs none."""
        if not self.statistic.needs_pilot():
            return ()
        return trees.map(np.asarray, self.statistic.bind(*pilot))

    def counts(self, layout: Tree, scores: list[HostArray]) -> Tree:
        """Count scores, int64."""
        counts = zero_of(self.statistic, layout)
        for index, part in enumerate(scores):
            update = compiled_update(self.statistic)
            counts = update(layout, counts, np.int32(index), *padded(part))
        return trees.map(lambda leaf: np.asarray(leaf, np.int64), counts)

    def ask(
        self, layout: Tree, counts: Tree, n: int, confidence: float = CONFIDENCE, claim: Any = None
    ) -> Estimate:
        """Return an estimate, checked as the engine does."""
        query = Query((n, n), 0.0, confidence, claim, 1e-6)
        return self.checked(query, self.estimator.estimate(layout, counts, query))

    def checked(self, query: Query, estimate: Estimate) -> Estimate:
        """Return an answer to a query, checked as the engine does."""
        certified = self.estimator.certifies_against(query.claim)
        return checked(estimate, certified=certified, tested=certified and query.claim is not None)

    def audited(
        self, seed: int, epsilon: float, confidence: float = CONFIDENCE, claim: Any = None
    ) -> Estimate:
        """Run one audit at a known loss."""
        rng = np.random.default_rng(seed)
        if self.of_canaries:
            return self._run(rng, epsilon, confidence, claim)
        layout = self.layout(rng, epsilon)
        scores = self.scores(rng, epsilon, TRIALS_EACH)
        return self.ask(layout, self.counts(layout, scores), TRIALS_EACH, confidence, claim)

    def lower(self, seed: int, epsilon: float, confidence: float = CONFIDENCE) -> float:
        """Return the bound of one audit at a known loss; 0 without one."""
        return self.audited(seed, epsilon, confidence=confidence).epsilon_lower or 0.0

    def _run(
        self, rng: np.random.Generator, epsilon: float, confidence: float, claim: Any
    ) -> Estimate:
        """Audit one run of canaries, in by fair coins, whose scores are randomised responses."""
        members = rng.random(TRIALS_EACH) < 0.5
        truthful = rng.random(TRIALS_EACH) < 1 / (1 + math.exp(-epsilon))
        scores = np.where(truthful, members, ~members) + rng.random(TRIALS_EACH) / 2
        query = Query((0, 1), 0.0, confidence, claim, 1e-6)
        estimate = self.estimator.estimate_canaries(scores, members, query, rng)
        return self.checked(query, estimate)


def decisions(rng: np.random.Generator, epsilon: float, n: int) -> list[HostArray]:
    """Draw decisions on D and D′ by randomised response, with loss exactly ε."""
    truth = 1 / (1 + math.exp(-epsilon))
    return [rng.random(n) < share for share in (1 - truth, truth)]


def _additive(subject: ScoredEstimator) -> None:
    _of_scores(subject)
    rng = np.random.default_rng(0)
    layout = subject.layout(rng)
    x, y = subject.scores(rng, 1.0, 512)
    whole = subject.counts(layout, [x, y])
    parts = [subject.counts(layout, [x[part], y[part]]) for part in (slice(256), slice(256, None))]
    for all_, one, other in zip(*map(trees.leaves, (whole, *parts)), strict=True):
        assert np.array_equal(all_, one + other), (
            "the counts of two halves do not add up to those of the whole, or scores masked "
            "by `keep` are counted"
        )


def _binds_again(subject: ScoredEstimator) -> None:
    _of_scores(subject)
    if not subject.statistic.needs_pilot():
        raise LeftOut("its statistic needs no pilot")
    one, other = (trees.leaves(subject.layout(np.random.default_rng(1))) for _ in range(2))
    assert all(np.array_equal(x, y, equal_nan=True) for x, y in zip(one, other, strict=True)), (
        "bind fixes something different from the same scores"
    )


def _total(subject: ScoredEstimator) -> None:
    _of_scores(subject)
    layout = subject.layout(np.random.default_rng(2))
    ends = (False, True) if subject.decides else (np.float32(-9), np.float32(9))
    for n in (0, 1, 2, 50):
        for pair in ((a, b) for a in ends for b in ends):
            counts = subject.counts(layout, [np.full(n, value) for value in pair])
            for claim in (None, PureDP(1.0)):
                estimate = subject.ask(layout, counts, n, claim=claim)
                lower = estimate.epsilon_lower or 0.0
                assert n or not lower, f"with no draws at all it certifies {lower:.3g}"
    if not subject.decides:
        odd = [np.full(50, value, np.float32) for value in (np.nan, np.inf)]
        subject.ask(layout, subject.counts(layout, odd), 50)


def _monotone(subject: ScoredEstimator) -> None:
    _certifying(subject)
    # On average, because the events that the pilot chooses may depend on the level.
    levels = (0.5, 0.9, 0.99, 0.9999)
    for epsilon in (1.0, LOUD):
        bounds = [
            float(np.mean([subject.lower(seed, epsilon, level) for seed in range(9)]))
            for level in levels
        ]
        assert bounds == sorted(bounds, reverse=True), (
            f"the mean bounds at the confidences {levels} are {bounds}; more confidence, smaller "
            "bound"
        )


def _agrees(subject: ScoredEstimator) -> None:
    _certifying(subject)
    for claimed in (0.1, 0.5, 1.0, 4.0):
        for epsilon in (1.0, LOUD):
            estimate = subject.audited(4, epsilon, claim=PureDP(claimed))
            lower, p = estimate.epsilon_lower or 0.0, estimate.p_value or 1.0
            assert lower <= claimed + 1e-6 or p <= (1 - CONFIDENCE) * (1 + 1e-6), (
                f"the bound {lower:.3g} is above the claim {claimed:g}, and the p-value {p:.3g} "
                "does not reject it"
            )


def _most_extreme(subject: ScoredEstimator) -> None:
    _of_scores(subject)
    _certifying(subject)
    rng = np.random.default_rng(5)
    layout = subject.layout(rng, LOUD)
    counts = subject.counts(layout, subject.scores(rng, LOUD, TRIALS_EACH))
    most = subject.estimator.extreme(layout, (TRIALS_EACH, TRIALS_EACH))
    usual, loudest = (
        subject.ask(layout, of, TRIALS_EACH, claim=PureDP(1.0)) for of in (counts, most)
    )
    assert (loudest.p_value or 1.0) <= (usual.p_value or 1.0) * (1 + 1e-9), (
        f"extreme gives the p-value {loudest.p_value}, but counts that occurred gave "
        f"{usual.p_value}: no counts may give stronger evidence"
    )


def _calibrated(subject: ScoredEstimator) -> None:
    _certifying(subject)
    for epsilon in (0.0, 1.0):
        lows = [subject.lower(seed, epsilon) for seed in range(REPEATS)]
        above = sum(low > epsilon + 1e-6 for low in lows)
        assert _chance(above, REPEATS) > ERROR / 2, (
            f"{above} of {REPEATS} bounds at {CONFIDENCE:.0%} exceed the true loss {epsilon:g}: "
            "the bound is not valid"
        )


def _chance(wrong: int, of: int) -> float:
    return float(bdtrc(wrong - 1, of, 1 - CONFIDENCE)) if wrong else 1.0


def _calibrated_exactly(subject: ScoredEstimator) -> None:
    """Test bounds at corners of the claim, where they fail most often, by sums over all counts.

    Decisions have two values. Scores with two values are used if the bound depends on error rates,
    as its shares show, or assumes nothing but `IID`.
    """
    _of_scores(subject)
    _certifying(subject)
    if type(subject.estimator).anytime:
        raise LeftOut("it bets in rounds, which have their own test")
    for (trials, errors), level in itertools.product(CORNERS, LEVELS):
        rate, error = errors / trials, 1 - level
        claim = PureDP(math.log((1 - rate) / rate)) if trials == CORNERS[0][0] else None
        query = Query((trials, trials), 0.0, level, claim, 1e-6)
        dtype, look_at = (bool if subject.decides else np.float32), partial(subject.checked, query)
        table = TwoValued(subject.estimator, query, dtype, trials, round(errors), look_at)
        corner = Corner(table, rate, error, BOUND_ROUNDING)
        if not (subject.decides or corner.shares or subject.estimator.assumption == IID):
            raise LeftOut(
                f"it assumes more than {IID!r}, and does not report its shares of the error"
            )
        mistakes = corner.mistakes(EVENTS)
        if claim is not None:
            rejected = corner.probability(
                lambda one: one.p_value is not None and one.p_value <= error,  # noqa: B023
                error,
            )
            if rejected > error * (1 + PROBABILITY_ROUNDING):
                mistakes.append(f"the p-value rejects it with probability {rejected:.4g}")
        assert not mistakes, (
            f"of {trials} decisions on each dataset, {rate:.3g} of them wrong: "
            f"{'; '.join(mistakes)}: the bound is not valid at the confidence {level}"
        )


def _not_vacuous(subject: ScoredEstimator) -> None:
    _certifying(subject)
    lows = [subject.lower(seed, LOUD) for seed in range(20)]
    assert np.median(lows) > 0.1, (
        f"for a true loss of {LOUD:g} and {TRIALS_EACH} draws it certifies {np.median(lows):.3g}: "
        "it can hardly find anything"
    )


def _bets_are_fair(subject: ScoredEstimator) -> None:
    """Test that wealth does not grow on average if the claim is true, after any earlier rounds."""
    decides = _accepts_decisions_anytime(subject)
    size, first, claim = 8, 24, PureDP(1.0)
    values = np.array([0, 1], bool if decides else np.float32)
    rate = 1 / (1 + math.e)
    layout = subject.bound_to([np.zeros(0, values.dtype)] * 2)

    def round_of(state: Any, k: int, u: int, n: int) -> Any:
        counts = subject.counts(
            layout, [np.repeat(values, (n - k, k)), np.repeat(values, (u, n - u))]
        )
        return subject.estimator.observe(
            state, layout, counts, Query((n, n), 0.0, CONFIDENCE, claim)
        )

    def wealth(state: Any, n: int) -> tuple[tuple[int, float], ...]:
        query = Query((n, n), 0.0, CONFIDENCE, claim)
        return subject.estimator.conclude(state, layout, query).wealth

    chances = [math.comb(size, k) * rate**k * (1 - rate) ** (size - k) for k in range(size + 1)]
    for k, u in ((2, 2), (6, 2), (20, 22)):
        state = round_of(round_of(None, k, u, first), k // 2, u // 2, first // 2)
        before = wealth(state, first + first // 2)
        if not before:
            raise LeftOut("it does not report its wealth")
        for reverse in (False, True):
            mean = 0.0
            for x, y in itertools.product(range(size + 1), repeat=2):
                wrong = (size - x, size - y) if reverse else (x, y)
                after = wealth(round_of(state, *wrong, size), first + first // 2 + size)
                mean += chances[x] * chances[y] * math.exp(after[-1][1] - before[-1][1])
            assert mean <= 1 + 1e-9, (
                f"a round of {size} multiplies its wealth against a true claim by {mean:.6g} on "
                f"average, but at most 1 is valid; before, rounds of {first} and {first // 2} "
                f"decisions had {k} and {k // 2} errors on D, {u} and {u // 2} on D′"
            )


def _anytime(subject: ScoredEstimator) -> None:
    """Test the smallest p-value over all rounds, the worst time to stop."""
    decides = _accepts_decisions_anytime(subject)
    claim, alarms = PureDP(1.0), 0
    draw = decisions if decides else subject.scores
    for seed in range(AUDITS):
        rng = np.random.default_rng([9, seed])
        layout, state, total, smallest = None, None, 0, 1.0
        for size in ROUNDS:
            scores = draw(rng, 1.0, size)
            if layout is None:
                layout = subject.bound_to([np.zeros(0, np.bool_)] * 2 if decides else scores)
            counts = subject.counts(layout, scores)
            query = Query((size, size), 0.0, CONFIDENCE, claim, 0.0)
            state = subject.estimator.observe(state, layout, counts, query)
            total += size
            query = query._replace(trials=(total, total))
            estimate = subject.estimator.conclude(state, layout, query)
            smallest = min(smallest, estimate.p_value or 1.0)
        alarms += smallest <= 1 - CONFIDENCE
    assert _chance(alarms, AUDITS) > ERROR / 2, (
        f"{alarms} of {AUDITS} audits of a true claim refute it at {1 - CONFIDENCE:.2g} after some "
        "round: it is not valid at every number of trials at once; does a round choose its own bet?"
    )


# Audits of an anytime estimator, and draws of each round.
AUDITS, ROUNDS = 60, (64, 32, 64, 64, 128, 128)


def _accepts_decisions_anytime(subject: ScoredEstimator) -> bool:
    """True if the statistic takes decisions; the trial is left out unless the bound is anytime."""
    if not type(subject.estimator).anytime:
        raise LeftOut("it does not claim to be valid at every number of trials at once")
    _certifying(subject)
    return "decision" in subject.statistic.accepts


def _of_scores(subject: ScoredEstimator) -> None:
    if subject.of_canaries:
        raise LeftOut("it takes the canaries of a run, not scores of many")


def _certifying(subject: ScoredEstimator) -> None:
    if not subject.estimator.certifies_against(PureDP(1.0)):
        raise LeftOut("it certifies nothing against a pure claim")


TRIALS: tuple[Trial, ...] = (
    ("counts add, and masked scores are not counted", _additive),
    ("binds the same from the same pilot", _binds_again),
    ("answers whatever the counts are: none, all, NaN, no draws", _total),
    ("more confidence, smaller bound", _monotone),
    ("bound and p-value agree", _agrees),
    ("extreme is most extreme", _most_extreme),
    ("bounds hold as often as they promise", _calibrated),
    ("bounds hold at every confidence, by exact sums", _calibrated_exactly),
    ("finds a large loss", _not_vacuous),
    ("is valid at every number of trials at once, if declared", _anytime),
    ("its bets are fair whatever came before, by exact sums", _bets_are_fair),
)
