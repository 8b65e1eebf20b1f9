"""The estimator `threshold`: what it counts, chooses, pays for and says."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.tiers import mostly_slow

from dpframe import DpframeError, GaussianDP, PureDP, Query
from dpframe.builtin.threshold import PilotThresholds, ThresholdCounts, ThresholdLoss
from dpframe.interfaces.statistic import count_scores
from dpframe.stats.binomial import clopper_pearson_upper
from dpframe.stats.histograms import bin_counts
from dpframe.stats.joint import threshold_epsilon

RNG = np.random.default_rng(0)
ODD = np.array([math.nan, -math.inf, -1.0, 0.5, 0.5, 2.0, math.inf], np.float32)


def query(n: int, m: int | None = None, *, delta: float = 0.0, claim: Any = None) -> Query:
    return Query((n, m or n), delta, 0.95, claim)


def counted(fn: int, tp: int, fp: int, tn: int) -> np.ndarray:
    return np.array([[tn, fp], [fn, tp]])


def shifted(n: int, by: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=n), rng.normal(size=n) + by


# --- what is counted


@pytest.mark.parametrize("threshold", [-math.inf, -1.0, 0.5, 0.75, math.inf])
def test_a_given_threshold_counts_scores_from_it_on(threshold: float) -> None:
    layout, counts, trials = count_scores(ThresholdCounts(threshold), (ODD, ODD[:3]), RNG)
    reached = [sum(s >= threshold for s in scores) for scores in (ODD.tolist(), ODD[:3].tolist())]
    assert layout == ()
    assert trials == (7, 3)
    assert counts.tolist() == [[7 - reached[0], reached[0]], [3 - reached[1], reached[1]]]


def test_the_pilots_thresholds_count_bins() -> None:
    layout = PilotThresholds().bind(ODD, ODD)
    layout, counts, trials = count_scores(PilotThresholds(), (np.tile(ODD, 30),) * 2, RNG)
    assert counts.sum(axis=1).tolist() == list(trials)
    assert np.asarray(layout["pilot"]).sum(axis=1).tolist() == [21, 21]
    assert counts[0, 0] + layout["pilot"][0, 0] == 30  # NaN is an atom of its own


Alone = functools.partial(ThresholdLoss, limits="clopper-pearson")
"""The published form: a limit of each rate by itself."""


def test_decisions_are_taken_as_they_are() -> None:
    decisions = (RNG.random(400) < 0.1, RNG.random(400) < 0.7)
    estimator = ThresholdLoss(direction="up")
    layout, counts, trials = count_scores(estimator.statistic(), decisions, RNG)
    found = estimator.estimate(layout, counts, query(*trials))
    # Bins: NaN, below 0, [0, 1), [1, …).
    expected = ThresholdLoss(threshold=0.5, direction="up").estimate(
        (), np.stack([counts[:, 2], counts[:, 3]], axis=1), query(*trials)
    )
    assert found._replace(notes=()) == expected._replace(notes=())
    assert "scores 1 or more mean D′" in found.notes[0]


def test_decisions_have_no_threshold() -> None:
    with pytest.raises(DpframeError, match="takes a score"):
        count_scores(ThresholdLoss(threshold=0.0).statistic(), (np.array([True]),) * 2, RNG)


# --- what is paid for


@pytest.mark.parametrize(
    ("counts", "exact", "jeffreys"),
    [
        ((300, 700, 50, 950), 2.32769, 2.33708),
        ((10, 490, 20, 480), 3.24814, 3.28530),
        ((100, 400, 100, 400), 1.16481, 1.17067),
    ],
)
def test_reference_values(counts: tuple[int, int, int, int], exact: float, jeffreys: float) -> None:
    asked = query(sum(counts[2:]), sum(counts[:2]), delta=1e-5)
    table = counted(*counts)
    found = Alone(threshold=0.0, direction="up").estimate((), table, asked)
    assert found.epsilon_lower == pytest.approx(exact, abs=6e-6)
    found = ThresholdLoss(threshold=0.0, direction="up", limits="jeffreys").estimate(
        (), table, asked
    )
    assert found.interval
    assert found.interval[0] == pytest.approx(jeffreys, abs=6e-6)


counts_of_100 = st.tuples(st.integers(0, 100), st.integers(0, 100))


@given(counts_of_100, st.sampled_from([0.0, 1e-5, 0.1]))
def test_directions(ones: tuple[int, int], delta: float) -> None:
    """Up and down mirror each other; either pays for both with half of the error each."""
    table = np.array([[100 - ones[0], ones[0]], [100 - ones[1], ones[1]]])
    asked = query(100, delta=delta)
    up, down, either = (
        Alone(threshold=0.0, direction=way).estimate((), table, asked)
        for way in ("up", "down", "either")
    )
    turned = Alone(threshold=0.0, direction="up").estimate((), table[:, ::-1], asked)
    assert down == turned
    paid = asked._replace(confidence=0.975)
    dearer = [
        Alone(threshold=0.0, direction=way).estimate((), table, paid) for way in ("up", "down")
    ]
    assert either.epsilon == max(up.epsilon, down.epsilon)
    for end in ("epsilon_lower", "epsilon_upper"):
        assert getattr(either, end) == pytest.approx(max(getattr(e, end) for e in dearer))
    assert "2 directions tested" in either.notes[0]
    assert "1 direction tested" in up.notes[0]


def test_each_limit_at_half_of_the_error() -> None:
    found = Alone(threshold=0.0, direction="up").estimate(
        (), counted(30, 70, 5, 95), query(100, delta=0.01)
    )
    (box,) = found.tradeoff
    assert box == pytest.approx(clopper_pearson_upper([5, 30], 100, 0.025))
    assert found.epsilon_lower == pytest.approx(float(threshold_epsilon(*box, 0.01)))
    assert found.epsilon == pytest.approx(math.log(0.69 / 0.05))
    assert found.epsilon_lower < found.epsilon < found.epsilon_upper


@settings(max_examples=20, deadline=None)
@given(counts_of_100, st.floats(0.1, 4), st.sampled_from(["up", "down", "either"]))
def test_p_value_inverts_the_bound(ones: tuple[int, int], claimed: float, direction: str) -> None:
    table = np.array([[100 - ones[0], ones[0]], [100 - ones[1], ones[1]]])
    # The exact test orders outcomes by the confidence, so it inverts its bound at this one alone.
    estimator = ThresholdLoss(threshold=0.0, direction=direction, limits="clopper-pearson")
    found = estimator.estimate((), table, query(100, claim=PureDP(claimed)))
    assert found.p_value
    if 1e-12 < found.p_value < 0.99:
        for factor, above in ((1.001, True), (0.999, False)):
            asked = query(100)._replace(confidence=1 - found.p_value * factor)
            assert (estimator.estimate((), table, asked).epsilon_lower > claimed) == above


# --- what the pilot chooses


def chosen(n: int, delta: float, by: float = 1.0, direction: str = "either") -> tuple[str, float]:
    """The note on the threshold, and the probability of the rarer error."""
    estimator = ThresholdLoss(direction=direction)
    layout = estimator.statistic().bind(*shifted(100_000, by))
    # Counts that do not depend on n, so that only the question differs.
    note = estimator.estimate(layout, np.asarray(layout["pilot"]), query(n, delta=delta)).notes[0]
    threshold = float(re.findall(r"scores \D*?(-?[\d.e-]*\d)", note)[0])
    d0, d1 = shifted(100_000, by)
    return note, min(float(np.mean(d0 >= threshold)), float(np.mean(d1 < threshold)))


def test_more_trials_and_a_smaller_delta_ask_for_rarer_events() -> None:
    rare = [chosen(n, 1e-5)[1] for n in (10**3, 10**4, 10**5, 10**6)]
    assert rare == sorted(rare, reverse=True)
    assert rare[0] > 10 * rare[-1]
    assert chosen(10**6, 1e-3)[1] > chosen(10**6, 1e-6)[1]


def test_the_pilot_finds_the_direction() -> None:
    assert "more" in chosen(10_000, 0.0, by=1.0)[0]
    assert "less than" in chosen(10_000, 0.0, by=-1.0)[0]
    assert "less than" in chosen(10_000, 0.0, by=-1.0, direction="down")[0]
    assert "more" in chosen(10_000, 0.0, by=1.0, direction="up")[0]


def test_where_nothing_is_promised_the_scores_are_still_split() -> None:
    assert 0.3 < chosen(1000, 0.0, by=0.001)[1] < 0.7
    assert 0.3 < chosen(10, 1e-5, by=0.5)[1] < 0.5


def test_the_choice_never_sees_the_counts() -> None:
    estimator = ThresholdLoss()
    layout = estimator.statistic().bind(*shifted(1000, 1.0))
    bins = np.asarray(layout["pilot"]).shape[1]
    notes = {
        estimator.estimate(layout, RNG.integers(0, 5, (2, bins)), query(1000, delta=1e-5)).notes
        for _ in range(20)
    }
    assert len(notes) == 1


@pytest.mark.parametrize("shift", mostly_slow([0.7, 1.0], (1,)))
def test_the_choice_is_near_the_best(shift: float) -> None:
    """Mean bound, against the best fixed threshold at expected counts."""
    n, delta, found = 20_000, 1e-5, []
    estimator = ThresholdLoss(direction="up")
    for seed in range(20):
        layout = estimator.statistic().bind(*shifted(20_000, shift, seed))
        draws = shifted(n, shift, 1000 + seed)
        counts = np.stack([bin_counts(layout["edges"], scores) for scores in draws])
        found.append(estimator.estimate(layout, counts, query(n, delta=delta)).epsilon_lower)
    large = shifted(10**6, shift, 99)
    rates = [(np.mean(large[0] >= t), np.mean(large[1] < t)) for t in np.linspace(-3, 4, 141)]
    best = max(
        float(threshold_epsilon(*clopper_pearson_upper(np.round(np.array(r) * n), n, 0.025), delta))
        for r in rates
    )
    assert np.mean(found) > 0.93 * best


# --- edges


@pytest.mark.parametrize("direction", mostly_slow(["up", "down", "either"], ("either",)))
@pytest.mark.parametrize("threshold", [None, 0.0])
def test_extreme_counts_say_most(direction: str, threshold: float | None) -> None:
    estimator = ThresholdLoss(threshold=threshold, direction=direction)
    for by in (1.0, -1.0):
        layout = () if threshold is not None else estimator.statistic().bind(*shifted(500, by))
        asked = query(80, 120, delta=1e-5, claim=GaussianDP(1.0))
        most = estimator.extreme(layout, asked.trials)
        assert most.sum(axis=1).tolist() == [80, 120]
        loudest = estimator.estimate(layout, most, asked)
        assert loudest.epsilon == math.inf
        assert loudest.p_value < 1e-12
        for _ in range(30):
            counts = np.stack(
                [RNG.multinomial(n, RNG.dirichlet(np.full(most.shape[1], 0.1))) for n in (80, 120)]
            )
            assert estimator.estimate(layout, counts, asked).p_value >= loudest.p_value


@pytest.mark.parametrize(
    "scores",
    [
        np.zeros(40),
        np.full(40, math.nan),
        np.full(40, math.inf),
        np.full(40, -math.inf),
        np.tile(ODD, 6),
        np.array([1.0, 2.0]),
    ],
)
@pytest.mark.parametrize("limits", ["clopper-pearson", "joint", "jeffreys"])
@pytest.mark.parametrize("delta", [0.0, 0.3])
def test_odd_scores_show_nothing(scores: np.ndarray, limits: str, delta: float) -> None:
    estimator = ThresholdLoss(limits=limits)
    asked = query(len(scores), delta=delta, claim=PureDP(0.5))
    found = estimator.estimate_scores((scores, scores), asked, np.random.default_rng(1))
    lower = found.interval[0] if limits == "jeffreys" else found.epsilon_lower
    assert lower == 0
    for number, other in found.profile:
        assert math.isfinite(number + other)
    # The two of an array of two differ, and one of them is all that is left to count.
    assert found.p_value == 1 or limits == "jeffreys" or len(scores) == 2


def test_scores_against_nan_are_told_apart() -> None:
    scores = (np.full(2000, math.nan), RNG.normal(size=2000))
    found = ThresholdLoss().estimate_scores(scores, query(2000), RNG)
    assert found.epsilon_lower > 5
    assert "other than NaN" in found.notes[0] or "from" in found.notes[0]


@pytest.mark.parametrize("error", [0.05, 0.05 / 252, 1e-6])
def test_the_exact_test_is_sharper_at_every_error(error: float) -> None:
    asked = query(300, claim=PureDP(0.1))._replace(confidence=1 - error)
    lower = {}
    for limits in ("clopper-pearson", "joint"):
        estimator = ThresholdLoss(threshold=0.0, limits=limits)
        found = estimator.estimate((), counted(100, 200, 100, 200), asked)
        lower[limits] = found.epsilon_lower
        assert (found.p_value <= error) == (found.epsilon_lower > 0.1)
    assert lower["joint"] > lower["clopper-pearson"]


def test_the_exact_test_keeps_small_p_values() -> None:
    """Its own p-value of these counts is above .001; the limits of each rate know better."""
    asked = query(1000, claim=PureDP(0.5))
    p_values = [
        ThresholdLoss(threshold=0.0, limits=limits)
        .estimate((), counted(100, 900, 400, 600), asked)
        .p_value
        for limits in ("clopper-pearson", "joint")
    ]
    assert p_values[0] < 1e-9
    assert p_values[1] == pytest.approx(100 * p_values[0], rel=1e-6)


def test_nothing_counted() -> None:
    for limits in ("clopper-pearson", "joint", "jeffreys"):
        found = ThresholdLoss(threshold=0.0, limits=limits).estimate(
            (), np.zeros((2, 2), int), query(1, delta=1e-5)
        )
        assert found.epsilon == 0
        assert found.epsilon_lower in (0, None)


def test_jeffreys_certifies_nothing() -> None:
    estimator = ThresholdLoss(threshold=0.0, limits="jeffreys")
    assert not estimator.certifies_against(PureDP(1.0))
    found = estimator.estimate((), counted(0, 500, 0, 500), query(500, claim=PureDP(0.1)))
    assert found.epsilon_lower is found.epsilon_upper is found.p_value is found.contrast is None
    assert found.tradeoff == ()
    assert found.interval[0] > 5
    assert "not a bound" in found.notes[1]


def test_profile_is_that_of_two_bins() -> None:
    found = ThresholdLoss(threshold=0.0, direction="up").estimate(
        (), counted(300, 700, 50, 950), query(1000)
    )
    for epsilon, delta in found.profile:
        a = math.exp(epsilon)
        assert delta == pytest.approx(max(0.7 - a * 0.05, 0.95 - a * 0.3, 0), abs=1e-12)
    assert found.profile[0] == pytest.approx((0, 0.65))
    assert found.profile[-1][1] == pytest.approx(0, abs=1e-9)
