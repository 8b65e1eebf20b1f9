"""The default estimator: ladders, grid, choice, raw scores, edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from support.tiers import mostly_slow

from dpframe import PureDP, Query
from dpframe.builtin.columns import tallied
from dpframe.builtin.event_choice import choose
from dpframe.builtin.events import (
    DOWN,
    EDGES,
    UP,
    Family,
    PilotGrid,
    geometric,
    grid,
)
from dpframe.builtin.order_statistics import OrderStatistics, ascending, rank_counts
from dpframe.interfaces.statistic import count_scores
from dpframe.plugins import epsilon_of
from dpframe.stats.exact_test import EventCounts, exact_region
from dpframe.stats.histograms import bin_counts

FAMILIES = (*UP, *DOWN)


def query(n: int, m: int | None = None, delta: float = 0.0, claim: Any = None) -> Query:
    return Query((n, m or n), delta, 0.95, claim)


def scores(seed: int, n: int, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=n).astype(np.float32), (rng.normal(size=n) + shift).astype(np.float32)


def on_grid(
    pilot: tuple[np.ndarray, np.ndarray],
    counted: tuple[np.ndarray, np.ndarray],
    asked: Query,
    estimator: OrderStatistics | None = None,
) -> Any:
    layout = PilotGrid().bind(*pilot)
    counts = np.stack([bin_counts(layout["edges"], values) for values in counted]).astype(np.int64)
    return (estimator or OrderStatistics()).estimate(layout, counts, asked)


# --- ladders


def naive_beyond(false: np.ndarray, true: np.ndarray, rank: int, top: bool) -> int:
    threshold = np.sort(false)[-rank] if top else np.sort(false)[rank - 1]
    return int(np.sum(true > threshold if top else true < threshold))


small_scores = hnp.arrays(
    np.float64, st.integers(2, 40), elements=st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0])
)


@given(small_scores, small_scores, st.sampled_from(FAMILIES), st.integers(1, 20))
def test_ladders_count_what_lies_beyond_a_rank(
    d0: np.ndarray, d1: np.ndarray, family: Family, rank: int
) -> None:
    false, true = ((d1, d0), (d0, d1))[family.says]
    rank = min(rank, len(false))
    expected = naive_beyond(false, true, rank, family.top)
    ranks = np.array([rank])
    assert family.bins(tallied((d0, d1))[1]).at_rank(ranks) == expected
    edges = np.array([-2.0, -1.0, 0.0, 0.5, 3.0])
    counts = np.stack([bin_counts(edges, d0), bin_counts(edges, d1)])
    assert family.bins(counts).at_rank(ranks) == expected


def test_shares_sum_to_one() -> None:
    for n in (1, 2, 7, 1000, 10**7):
        for family in FAMILIES:
            ladder = family.bins(np.array([[n, 0], [0, n]]))
            events = geometric(ladder, 1.0)
            assert events.share.sum() == pytest.approx(1.0)
            assert events.share.sum() <= 1 + 1e-12
            assert (events.false + 1 <= max(1, n / 2)).all()


def test_all_shares_of_an_estimate_sum_to_at_most_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpframe.builtin import events as certificate

    seen = []
    whole = certificate.joined

    def spy(parts: Any) -> Any:
        seen.append(float(sum(part.share.sum() for part in parts)))
        return whole(parts)

    monkeypatch.setattr(certificate, "joined", spy)
    rng = np.random.default_rng(0)
    curve = query(3000, delta=1e-5, claim=_gaussian_claim())
    for direction in ("either", "up", "down"):
        estimator = OrderStatistics(direction=direction)  # type: ignore[arg-type]
        for asked in (query(3000), curve):
            on_grid(scores(1, 3000), scores(2, 3000), asked, estimator)
            estimator.estimate_scores(scores(3, 3000), asked, rng)
            coins = (rng.random(3000) < 0.3, rng.random(3000) < 0.6)
            estimator.estimate_scores(coins, asked, rng)
    assert len(seen) == 18
    assert max(seen) <= 1 + 1e-9
    assert min(seen) > 0.89


def _gaussian_claim() -> Any:
    from dpframe import GaussianDP

    return GaussianDP(1.0)


# --- the grid


def test_bins_on_the_device_and_on_the_host_agree() -> None:
    pilot = scores(0, 5000)
    odd = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, 1e30, -1e30], np.float32)
    counted = tuple(np.concatenate([part, odd]) for part in scores(1, 3000))
    statistic = PilotGrid()
    layout = statistic.bind(*pilot)
    edges = layout["edges"]
    assert edges.shape == (EDGES,)
    assert edges.dtype == np.float32
    assert (np.diff(edges[np.isfinite(edges)]) > 0).all()

    class Bound(PilotGrid):
        def bind(self, *_: Any) -> Any:
            return layout

    _, counts, trials = count_scores(Bound(), counted, np.random.default_rng(0))
    assert [int(row.sum()) for row in counts] == list(trials)
    total = np.stack([bin_counts(edges, part) for part in counted])
    assert (counts <= total).all()
    assert counts[:, 0].sum() + counts[:, -1].sum() >= 2  # some NaN and inf were not in the pilot


def test_few_distinct_values_get_bins_of_their_own() -> None:
    values = np.array([0.0, 1.0, 1.0 + 1e-7, np.inf, -np.inf, np.nan], np.float32)
    edges = grid(values, values)
    assert [float(e) for e in edges[:5]] == [-np.inf, 0.0, 1.0, float(np.float32(1 + 1e-7)), np.inf]
    counts = bin_counts(edges, values)
    assert counts[0] == 1
    assert counts.max() == 1


@pytest.mark.parametrize("kind", ["heavy", "constant", "tiny", "infinite", "mixed"])
def test_grid_of_odd_pilots(kind: str) -> None:
    rng = np.random.default_rng(0)
    pilot = {
        "heavy": rng.standard_cauchy(5000) ** 3,
        "constant": np.full(5000, 2.5),
        "tiny": rng.normal(size=1),
        "infinite": np.where(rng.random(5000) < 0.5, np.inf, -np.inf),
        "mixed": np.where(rng.random(5000) < 0.5, np.inf, rng.normal(size=5000)),
    }[kind].astype(np.float32)
    edges = grid(pilot, pilot[: max(1, len(pilot) // 2)])
    assert edges.shape == (EDGES,)
    assert not np.isnan(edges).any()
    assert (edges[1:] >= edges[:-1]).all()


def test_the_record_can_replay_the_bound() -> None:
    import json

    statistic = PilotGrid()
    layout = statistic.bind(*scores(0, 4000))
    described = json.loads(json.dumps(statistic.describe(layout)))
    edges = np.array(described["edges"], np.float32)
    assert np.array_equal(edges, layout["edges"])
    assert np.array_equal(described["pilot"], layout["pilot"])


# --- estimates


def test_gaussian_bound_is_near_the_oracle() -> None:
    """Oracle at n = 10,000, δ = 1e-5: 2.165; one run scatters by about 0.3."""
    found = on_grid(scores(5, 10_000), scores(6, 10_000), query(10_000, delta=1e-5))
    assert 1.2 < found.epsilon_lower < 4.377
    assert found.epsilon_lower <= found.epsilon <= found.epsilon_upper
    assert any("events" in note for note in found.notes)
    assert found.profile[0][0] == 0
    deltas = [delta for _, delta in found.profile]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[0] == pytest.approx(0.3829, abs=0.03)  # TV of two Gaussians at distance 1
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in found.tradeoff)


def test_the_point_value_is_that_of_the_event_or_of_its_complement() -> None:
    """If {score < t} says D, {score ≥ t} may give the bound."""
    rng = np.random.default_rng(5)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        noise = 0.3 * rng.normal(size=(2, n))
        return noise[0].astype(np.float32), (noise[1] + (rng.random(n) < 0.25)).astype(np.float32)

    for n in (1000, 30_000):
        for _ in range(8):
            found = on_grid(draw(n), draw(n), query(n, delta=1e-5))
            assert found.epsilon_lower <= found.epsilon <= found.epsilon_upper


def test_empty_bins_do_not_hide_ties() -> None:
    """The event is a fixed one: beyond a rank it would fall a whole atom short half the time."""
    pilot = np.array([[0, 700, 0, 0, 300, 0], [0, 200, 0, 0, 800, 0]])
    for chosen in choose(pilot, [*UP], query(1000), 1.0):
        assert chosen.rank == 0


def test_direction() -> None:
    d0, d1 = scores(7, 20_000)
    pilot0, pilot1 = scores(8, 20_000)
    asked = query(20_000)
    up, down = OrderStatistics(direction="up"), OrderStatistics(direction="down")
    forward = on_grid((pilot0, pilot1), (d0, d1), asked, up)
    assert forward.epsilon_lower > 1
    assert on_grid((pilot1, pilot0), (d1, d0), asked, up).epsilon_lower == 0
    assert on_grid((pilot1, pilot0), (d1, d0), asked, down).epsilon_lower > 1
    assert on_grid((pilot1, pilot0), (d1, d0), asked).epsilon_lower > 1
    raw = OrderStatistics().estimate_scores((d1, d0), asked, np.random.default_rng(0))
    assert raw.epsilon_lower is not None
    assert raw.epsilon_lower > 0.8


@pytest.mark.parametrize("form", mostly_slow(["grid", "raw"], ("raw",)))
def test_randomised_response_reaches_its_fixed_event(form: str) -> None:
    """At least 0.95 of what one Clopper-Pearson pair at α/2 a side gives, on average."""
    from dpframe.stats.binomial import clopper_pearson_lower, clopper_pearson_upper

    n, keep = 2000, math.e / (1 + math.e)
    rng = np.random.default_rng(11)
    found, pairs = [], []
    for _ in range(60):
        d0, d1, p0, p1 = (
            (rng.random(n) < rate).astype(np.float32) for rate in (1 - keep, keep) * 2
        )
        if form == "grid":
            found.append(on_grid((p0, p1), (d0, d1), query(n)).epsilon_lower)
        else:
            found.append(OrderStatistics().estimate_scores((d0, d1), query(n), rng).epsilon_lower)
        high = clopper_pearson_upper(d0.sum(), n, 0.025)
        low = clopper_pearson_lower(d1.sum(), n, 0.025)
        pairs.append(math.log(float(low / high)))
    assert np.mean(found) >= 0.95 * np.mean(pairs)


def test_a_bound_above_the_claim_is_a_rejection() -> None:
    for seed in range(6):
        claim = PureDP(0.9 + 0.1 * seed)
        asked = query(5000, claim=claim)
        found = on_grid(scores(seed, 5000), scores(seed + 50, 5000), asked)
        assert (found.epsilon_lower > claim.epsilon) <= (found.p_value <= 0.05)
        raw = OrderStatistics().estimate_scores(scores(seed, 5000), asked, np.random.default_rng(0))
        assert raw.epsilon_lower is not None
        assert raw.p_value is not None
        assert (raw.epsilon_lower > claim.epsilon) <= (raw.p_value <= 0.05)


def test_extreme_counts_say_most() -> None:
    pilot = scores(0, 3000)
    for estimator in (OrderStatistics(), OrderStatistics(direction="down")):
        for seen in (pilot, pilot[::-1]):
            layout = PilotGrid().bind(*seen)
            asked = query(500, 700, claim=PureDP(1.0))
            extreme = estimator.estimate(layout, estimator.extreme(layout, (500, 700)), asked)
            rng = np.random.default_rng(1)
            for _ in range(5):
                counts = np.stack(
                    [
                        rng.multinomial(trials, rng.dirichlet(np.full(EDGES + 2, 0.01)))
                        for trials in (500, 700)
                    ]
                )
                other = estimator.estimate(layout, counts, asked)
                assert extreme.epsilon_lower >= other.epsilon_lower
                assert extreme.p_value <= other.p_value


# --- edges


ODD = {
    "one score": ([0.3], [0.7]),
    "two scores": ([0.3, 0.1], [0.7, 0.8]),
    "all tied": ([1.0] * 300, [1.0] * 300),
    "apart": ([0.0] * 300, [1.0] * 300),
    "all NaN": ([math.nan] * 300, [math.nan] * 300),
    "NaN apart": ([math.nan] * 300, [0.0] * 300),
    "infinite": ([-math.inf] * 300, [math.inf] * 300),
    "unequal": ([0.5, -0.5] * 20, [0.1] * 3000),
    "mixed": ([math.nan, -math.inf, 0.0, 5.0] * 75, [math.inf, 0.0, 1e300, -1e300] * 75),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("form", ["grid", "raw"])
@pytest.mark.parametrize("delta", mostly_slow([0.0, 1e-5, 0.9], (0, 1)))
def test_odd_scores(name: str, form: str, delta: float) -> None:
    pair = tuple(np.array(values, np.float64) for values in ODD[name])
    asked = query(len(pair[0]), len(pair[1]), delta, PureDP(0.5))
    if form == "grid":
        with np.errstate(over="ignore"):  # 1e300 as float32
            pair = tuple(values.astype(np.float32) for values in pair)
        found = on_grid((pair[0], pair[1]), (pair[0], pair[1]), asked)
    else:
        found = OrderStatistics().estimate_scores(
            (pair[0], pair[1]), asked, np.random.default_rng(0)
        )
    assert found.epsilon_lower is not None
    assert 0 <= found.epsilon_lower < 20
    assert not math.isnan(found.epsilon)
    assert 0 < found.p_value <= 1
    if name in ("all tied", "all NaN", "one score"):
        assert found.epsilon_lower == 0
    if name in ("apart", "NaN apart", "infinite") and delta < 0.5:
        assert found.epsilon_lower > 2


def test_nan_lies_below_everything() -> None:
    values = ascending(np.array([0.0, math.nan, -math.inf, math.inf]))
    assert values.tolist() == [-math.inf, np.finfo(np.float64).min, 0.0, math.inf]


def test_exposure_is_reported_in_both_forms() -> None:
    pair = scores(0, 4000, shift=3.0)
    raw = OrderStatistics().estimate_scores(pair, query(4000), np.random.default_rng(0))
    for found in (raw, on_grid(scores(1, 4000), pair, query(4000))):
        (note,) = [note for note in found.notes if note.startswith("exposure")]
        median = float(note.partition("median ")[2].partition(" ")[0])
        # The median of N(3, 1) is exceeded by a share Φ(−3) of N(0, 1): 9.5 bits.
        assert median == pytest.approx(-math.log2(0.00135), abs=0.9)
    counts = rank_counts((np.sort(pair[0]), np.sort(pair[1])))
    assert counts.sum(axis=1).tolist() == [4000, 4000]


def test_very_large_and_very_small_losses() -> None:
    n = 10**7
    pilot = np.array([-1.0, 1.0], np.float32)
    layout = PilotGrid().bind(np.repeat(pilot[:1], 100), np.repeat(pilot[1:], 100))
    bins = EDGES + 2
    apart = np.zeros((2, bins), np.int64)
    apart[0, 2], apart[1, 3] = n, n
    asked = query(n, claim=PureDP(50.0))
    assert 13 < OrderStatistics().estimate(layout, apart, asked).epsilon_lower < 17
    same = np.zeros((2, bins), np.int64)
    same[:, 2:4] = n // 2
    assert OrderStatistics().estimate(layout, same, query(n, claim=PureDP(1e-9))).epsilon_lower == 0


def test_rank_events_hold_their_trials() -> None:
    ladder = UP[0].bins(np.array([[5, 3], [1, 9]]))
    events = geometric(ladder, 1.0)  # ranks 1 and 3
    assert events.trials_false.tolist() == [8, 8]
    assert events.trials_true.tolist() == [10, 10]
    assert events.true.tolist() == [0, 0]  # rank 1 and 3 both lie in the top bin
    assert events.fpr.tolist() == [1 / 9, 3 / 9]


# --- the exact test, up to 1,000 trials


def test_one_event_is_tested_exactly_as_its_evidence_says() -> None:
    """Its bound can be computed from the evidence alone."""
    rng = np.random.default_rng(1)
    draws = [rng.laplace(size=(2, n)) + np.array([[0.0], [1.0]]) for n in (1000, 300)]
    pilot, counted = [(noise[0], noise[1]) for noise in draws]
    found = on_grid(pilot, counted, query(300))
    assert found.evidence is not None
    assert found.evidence.theorem == "joint"
    (row,) = [row for row in found.evidence.design if row[3] == 0]
    ((k, n, t, m, weight, share),) = [term for term in found.evidence.terms if term[4] == 0]
    own = found.shares[found.evidence.design.index(row)]
    assert row == (0, n, m, weight, share)
    assert (n, m) == (300, 300)
    counts = EventCounts(int(k), int(n), int(t), int(m))
    region = exact_region(counts, 0.0, either_rate=True, level=share * 0.05)
    assert own.epsilon_lower == pytest.approx(epsilon_of(region(share * 0.05), 0.0), rel=1e-12)
    assert share == pytest.approx(0.9 * 0.98)


@pytest.mark.parametrize("trials", [(1000, 1001), (1001, 1000), (1001, 1001)])
def test_no_event_is_tested_exactly_with_more_trials(trials: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    sizes = ((1000, 1000), trials)
    pilot, counted = [(rng.laplace(size=n), rng.laplace(size=m) + 1) for n, m in sizes]
    found = on_grid(pilot, counted, query(*trials))
    assert found.evidence is not None
    assert all(row[3] > 0 for row in found.evidence.design)


def test_no_rare_event_is_tested_exactly_that_the_pilot_hardly_saw() -> None:
    """Its rate beyond a rank does not depend on the pilot."""
    rng = np.random.default_rng(0)
    draws = [rng.normal(size=(2, n)) + np.array([[0.0], [6.0]]) for n in (1000, 500)]
    pilot, counted = [(noise[0], noise[1]) for noise in draws]
    found = on_grid(pilot, counted, query(500, delta=1e-5))
    assert found.evidence is not None
    assert all(row[3] > 0 for row in found.evidence.design)
    assert found.epsilon_lower is not None
    assert found.epsilon_lower > 4


def test_raw_decisions_are_tested_exactly() -> None:
    rng = np.random.default_rng(3)
    coins = (rng.random(300) < 0.27, rng.random(300) < 0.73)
    found = OrderStatistics().estimate_scores(coins, query(300), rng)
    assert found.evidence is not None
    (row,) = [row for row in found.evidence.design if row[3] == 0]
    assert row[:3] == (0, 270, 270)
    assert row[4] == pytest.approx(0.1 * 0.98)
