"""`histogram` and `histogram-split`: one bound, told as boxes, as a divergence, as a p-value."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.regions import rejects

from dpframe import ApproxDP, GaussianDP, PureDP, Query
from dpframe.builtin.histogram import (
    Histogram,
    Histograms,
    HistogramSplit,
    PilotBins,
    widened,
)
from dpframe.interfaces.estimator import epsilon_of
from dpframe.stats.histograms import bin_counts, hockey_stick, privacy_profile

KINDS = (Histogram(), Histogram(bins=20), Histogram(mode="paper"), HistogramSplit())


def fixed(counts: Any) -> tuple[dict[str, Any], np.ndarray]:
    """A layout under which the given counts are those of the bins, without NaN."""
    inner = np.asarray(counts, np.int64)
    edges = np.arange(1, inner.shape[1], dtype=np.float64)
    full = np.pad(inner, ((0, 0), (1, 0)))
    return {"edges": edges, "pilot": full, "deviation": np.float64(0)}, full


def ask(counts: Any, delta: float = 0.0, claim: Any = None, level: float = 0.95) -> Query:
    rows = np.asarray(counts)
    return Query((int(rows[0].sum()), int(rows[1].sum())), delta, level, claim)


def normals(n: int, seed: int, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=n).astype(np.float32), (rng.normal(size=n) + shift).astype(np.float32)


def estimate(estimator: Any, pilot: Any, scores: Any, asked: Query) -> Any:
    layout = estimator.statistic().bind(*pilot)
    counts = np.stack([bin_counts(layout["edges"], part) for part in scores]).astype(np.int64)
    return estimator.estimate(layout, counts, asked)


# --- lemma 3 and the boxes are the same bound

rows = st.lists(st.integers(0, 200), min_size=5, max_size=5).filter(lambda r: sum(r) > 20)


def naive_bound(counts: np.ndarray, delta: float, error: float) -> float:
    """sup {ε: H(P̂‖Q̂) − τ_P − e^ε τ_Q > δ}, or the same reversed, on a grid of ε."""
    n, k = counts.sum(axis=1), counts.shape[1]
    # Each histogram at half of the error: a planted a → 2a fails here.
    tau = np.sqrt(k / n) / 2 + np.sqrt(np.log(2 / error) / (2 * n))
    q, p = counts[0] / n[0], counts[1] / n[1]
    epsilons = np.linspace(0, 8, 16_001)
    ahead = hockey_stick(p, q, epsilons) - tau[1] - np.exp(epsilons) * tau[0]
    back = hockey_stick(q, p, epsilons) - tau[0] - np.exp(epsilons) * tau[1]
    above = np.flatnonzero(np.maximum(ahead, back) > delta)
    return float(epsilons[above[-1]]) if above.size else 0.0


@settings(max_examples=25)
@given(rows, rows, st.sampled_from([0.0, 1e-3, 0.1]), st.sampled_from([0.05, 0.9]))
def test_the_bound_is_that_of_lemma_3(x: Any, y: Any, delta: float, error: float) -> None:
    counts = np.array([x, y]) * 50
    found = Histogram().estimate(*fixed(counts), ask(counts, delta, level=1 - error))
    assert found.epsilon_lower == pytest.approx(naive_bound(counts, delta, error), abs=6e-4)


@given(rows, rows, st.floats(1e-4, 0.2), st.floats(1e-4, 0.2), st.floats(0, 0.3))
def test_no_event_says_more_than_the_prefixes(
    x: Any, y: Any, tau_q: float, tau_p: float, delta: float
) -> None:
    """All 2^k events have boxes that hold at once; the k + 1 best ones bound ε just as well."""
    found = Histograms(np.array([x, y]))
    boxes = widened(found, (tau_q, tau_p))
    masks = np.array(list(itertools.product([0, 1], repeat=5)))
    every = np.stack([masks @ found.q + tau_q, 1 - masks @ found.p + tau_p], axis=1)
    assert epsilon_of(boxes, delta) == pytest.approx(epsilon_of(every, delta), abs=1e-9)
    for claim in (PureDP(0.5), ApproxDP(1.0, 0.05), GaussianDP(0.7)):
        shifted = np.minimum(every + 1e-9, 1), np.minimum(boxes - 1e-9, 1)
        assert rejects(boxes, claim) >= rejects(shifted[0], claim)
        assert rejects(every, claim) >= rejects(np.maximum(boxes + 1e-9, 0), claim)


@settings(max_examples=15, deadline=None)
@given(rows, rows, st.sampled_from([PureDP(0.3), ApproxDP(0.5, 0.02), GaussianDP(0.5)]))
def test_a_curve_is_rejected_where_the_lowered_profile_exceeds_it(
    x: Any, y: Any, claim: Any
) -> None:
    """Lemma 3 at every ε against the claimed δ(ε), and the p-value of the boxes."""
    counts = np.array([x, y]) * 20
    found = Histogram().estimate(*fixed(counts), ask(counts, claim.default_delta, claim))
    epsilons = np.linspace(0, 6, 601)
    claimed = np.array([claim.delta_at(e) for e in epsilons])
    n, k = counts.sum(axis=1), counts.shape[1]
    q, p = counts[0] / n[0], counts[1] / n[1]

    def gap(error: float) -> float:
        tau = np.sqrt(k / n) / 2 + np.sqrt(np.log(2 / error) / (2 * n))
        ahead = hockey_stick(p, q, epsilons) - tau[1] - np.exp(epsilons) * tau[0]
        back = hockey_stick(q, p, epsilons) - tau[0] - np.exp(epsilons) * tau[1]
        return float((np.maximum(ahead, back) - claimed).max())

    assert found.p_value is not None
    for error in (1e-6, 0.05, 0.9):
        if abs(gap(error)) > 1e-3:
            assert (gap(error) > 0) == (found.p_value <= error)
    if found.epsilon_lower > claim.epsilon_at(claim.default_delta):
        assert found.p_value <= 0.05


def test_the_sharper_radius_says_more_and_the_paper_s_can_be_asked_for() -> None:
    scores = normals(10_000, 1)
    pilot = normals(10_000, 2)
    asked = Query((10_000, 10_000), 1e-5, 0.95, None)
    sharper = estimate(Histogram(bins=20), pilot, scores, asked)
    plain = estimate(Histogram(bins=20, sharp=False), pilot, scores, asked)
    assert 0.5 < plain.epsilon_lower < sharper.epsilon_lower
    assert sharper.epsilon_upper == math.inf
    assert plain.epsilon == sharper.epsilon


def test_trade_off_points_are_certified_and_convex() -> None:
    pilot, scores = normals(20_000, 3), normals(20_000, 4)
    asked = Query((20_000, 20_000), 1e-5, 0.95, GaussianDP(0.2))
    found = estimate(Histogram(bins=20), pilot, scores, asked)
    points = np.array(found.tradeoff)
    assert points[0].tolist() == [0.0, 1.0]
    assert points[-1].tolist() == [1.0, 0.0]
    true = GaussianDP(1.0).tradeoff(points[:, 0])
    assert (points[:, 1] >= true - 1e-12).all()
    assert (points[1:-1].sum(axis=1) < 1).all()
    assert len(points) > 5
    assert rejects(points, GaussianDP(0.2))
    assert found.p_value < 0.05
    assert found.contrast.lower > found.contrast.claimed


def test_the_profile_is_that_of_the_histograms() -> None:
    counts = np.array([[500, 300, 200], [200, 300, 500]])
    found = Histogram().estimate(*fixed(counts), ask(counts))
    q, p = counts / 1000
    for epsilon, delta in found.profile:
        assert delta == pytest.approx(float(privacy_profile(p, q, epsilon)), abs=1e-12)
    assert found.profile[0][0] == 0.0
    assert found.epsilon == pytest.approx(math.log(2.5))


# --- mode paper


def test_mode_paper_gives_an_interval_and_promises_nothing() -> None:
    scores, pilot = normals(100_000, 5), normals(10_000, 6)
    asked = Query((100_000, 100_000), 1e-5, 0.95, GaussianDP(0.1))
    paper = Histogram(bins=20, mode="paper")
    assert not paper.certifies_against(asked.claim)
    assert Histogram().certifies_against(asked.claim)
    found = estimate(paper, pilot, scores, asked)
    assert found.epsilon_lower is None
    assert found.epsilon_upper is None
    assert found.p_value is None
    low, high = found.interval
    assert 0 < low < found.epsilon <= high == math.inf
    assert any("not valid" in note for note in found.notes)
    # One radius for both, at all of the error: sup {ε: H − (1 + e^ε) τ > δ}.
    n, k = 100_000, 20
    tau = math.sqrt(max(k, 2 * math.log(2 / 0.05)) / n)
    assert f"{tau:.3g}" in found.notes[0]
    sound = estimate(Histogram(bins=20, sharp=False), pilot, scores, asked)
    assert low >= sound.epsilon_lower
    # The estimated curve lies above the true one by what the radius takes off, and is no bound.
    points = np.array(found.tradeoff)
    assert (np.diff(points[:, 1]) <= 1e-12).all()


# --- histogram-split


def test_learning_events_beats_bounding_the_histogram() -> None:
    asked = Query((10_000, 10_000), 1e-5, 0.95, None)
    learned, bounded = (
        np.mean([
            estimate(one, normals(10_000, seed), normals(10_000, seed + 50), asked).epsilon_lower
            for seed in range(10)
        ])
        for one in (HistogramSplit(), Histogram(bins=20))
    )  # fmt: skip
    assert learned > 1.7 * bounded


def test_learned_events_need_not_be_half_lines() -> None:
    """Noise around 0 and 2 against noise around 1 and 3."""
    rng = np.random.default_rng(7)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        places = rng.integers(0, 2, (2, n)) * 2 + np.array([[0], [1]])
        noisy = places + rng.normal(0, 0.2, (2, n))
        return noisy[0].astype(np.float32), noisy[1].astype(np.float32)

    asked = Query((5_000, 5_000), 0.0, 0.95, PureDP(1.0))
    found = estimate(HistogramSplit(), draw(5_000), draw(5_000), asked)
    assert found.epsilon_lower > 3
    assert found.p_value < 1e-6
    assert any("shared among" in note for note in found.notes)


def test_the_pilot_of_a_split_never_meets_the_bound() -> None:
    """However the pilot misleads, what was not counted is not claimed."""
    asked = Query((2_000, 2_000), 0.0, 0.95, None)
    found = estimate(HistogramSplit(), normals(2_000, 8, 3.0), normals(2_000, 9, 0.0), asked)
    assert found.epsilon_lower < 0.3


# --- edges


def odd(kind: str, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    inf = np.float32(np.inf)
    return {
        "apart": (np.zeros(n, np.float32), np.ones(n, np.float32)),
        "the same": (np.zeros(n, np.float32), np.zeros(n, np.float32)),
        "infinite": (np.full(n, -inf), np.full(n, inf)),
        "nan": (np.full(n, np.nan, np.float32), np.full(n, np.nan, np.float32)),
        "nan on one side": (np.full(n, np.nan, np.float32), np.zeros(n, np.float32)),
        "mixed": (
            np.where(rng.random(n) < 0.5, inf, np.nan).astype(np.float32),
            rng.normal(size=n).astype(np.float32),
        ),
    }[kind]


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.5])
@pytest.mark.parametrize(
    "kind", ["apart", "the same", "infinite", "nan", "nan on one side", "mixed"]
)
@pytest.mark.parametrize("estimator", KINDS, ids=lambda one: f"{one.name}-{one.params()}")
def test_odd_scores(estimator: Any, kind: str, delta: float) -> None:
    scores = odd(kind)
    claim = ApproxDP(1e-9, delta)
    found = estimate(estimator, scores, scores, Query((60, 60), delta, 0.95, claim))
    assert found.epsilon >= 0
    if found.epsilon_lower is not None:
        assert 0 <= found.epsilon_lower < math.inf
        assert 0 < found.p_value <= 1
        assert found.epsilon_upper is None or found.epsilon_lower <= found.epsilon_upper
    if kind in {"the same", "nan"}:
        assert found.epsilon == 0
        assert not found.epsilon_lower
    elif delta < 0.5:
        assert found.epsilon > 2


@pytest.mark.parametrize("estimator", KINDS, ids=lambda one: f"{one.name}-{one.params()}")
@pytest.mark.parametrize("n", [1, 2, 3, 11])
def test_hardly_any_raw_scores(estimator: Any, n: int) -> None:
    rng = np.random.default_rng(0)
    scores = (np.zeros(n), np.ones(n))
    found = estimator.estimate_scores(scores, Query((n, n), 0.0, 0.95, PureDP(1.0)), rng)
    if found.epsilon_lower is not None:
        assert 0 <= found.epsilon_lower < math.log(n + 1)
        assert found.p_value > (0.05 if n < 11 else 1e-3)


@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 50.0])
@pytest.mark.parametrize("estimator", [KINDS[0], KINDS[1], KINDS[3]], ids=lambda one: one.name)
def test_the_most_extreme_counts_say_the_most(estimator: Any, epsilon: float) -> None:
    n = 3_000
    layout = estimator.statistic().bind(*normals(n, 1))
    asked = Query((n, n), 0.0, 0.95, PureDP(epsilon))
    most = estimator.extreme(layout, (n, n))
    assert most.sum(axis=1).tolist() == [n, n]
    loudest = estimator.estimate(layout, most, asked)
    found = estimate(estimator, normals(n, 1), normals(n, 2, 5.0), asked)
    assert found.epsilon_lower <= loudest.epsilon_lower < math.log(n) + 1
    assert loudest.p_value <= found.p_value
    assert (loudest.p_value <= 0.05) == (epsilon < 50)


@settings(max_examples=25, deadline=None)
@given(rows, rows)
def test_swapping_the_datasets_changes_nothing(x: Any, y: Any) -> None:
    one, other = np.array([x, y]), np.array([y, x])
    found = [Histogram().estimate(*fixed(c), ask(c, 0.01, GaussianDP(0.5))) for c in (one, other)]
    assert found[0].epsilon_lower == pytest.approx(found[1].epsilon_lower, abs=1e-9)
    assert found[0].epsilon == pytest.approx(found[1].epsilon, abs=1e-9)
    assert found[0].p_value == pytest.approx(found[1].p_value, rel=1e-6)


def test_parameters() -> None:
    assert Histogram.from_params({}).statistic() == PilotBins(None, None, None)
    assert Histogram.from_params({"bins": 20, "low": 0}).statistic() == PilotBins(20, 0.0, None)
    for cls in (Histogram, HistogramSplit):
        with pytest.raises(ValueError, match="low must be below high"):
            cls.from_params({"low": 2.0, "high": 1.0})
        with pytest.raises(ValueError):
            cls.from_params({"bins": 1})


def test_the_events_of_a_split_share_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpframe.builtin import events as certificate

    seen: list[float] = []
    whole = certificate.joined

    def spy(parts: Any) -> Any:
        seen.append(float(sum(part.share.sum() for part in parts)))
        return whole(parts)

    monkeypatch.setattr(certificate, "joined", spy)
    for claim in (None, PureDP(1.0), GaussianDP(0.5)):
        asked = Query((2_000, 2_000), 0.0, 0.95, claim)
        estimate(HistogramSplit(), normals(2_000, 1), normals(2_000, 2), asked)
    assert len(seen) == 3
    assert max(seen) <= 1 + 1e-9
    assert min(seen) > 0.99
