"""The estimator that may be looked at at any time: what it bets, and what it says."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import bdtrc
from support.naive_bets import wealth
from support.tiers import mostly_slow

from dpframe import ApproxDP, GaussianDP, PureDP, Query, audit
from dpframe.builtin.betting import (
    EDGES,
    SHUFFLED,
    Betting,
    Book,
    Cuts,
    State,
    above,
    against,
    cuts,
    in_order,
    rounds_of_counts,
    rounds_of_scores,
    sizes,
)
from dpframe.stats.output_bets import bets, grouped
from dpframe.stats.output_bounds import bound, history, in_agreement, profile_below

BETTING = Betting()


def asked(n: int, claim: Any = None, delta: float = 0.0, resolution: float = 0.0) -> Query:
    return Query((n, n), delta, 0.95, claim, resolution)


def laplace(seed: int, n: int, epsilon: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.laplace(size=n), rng.laplace(epsilon, size=n)


def played(rounds: list[np.ndarray], query: Query, layout: Any = ()) -> State:
    state: Any = None
    for counts in rounds:
        size = int(counts[0].sum())
        state = BETTING.observe(state, layout, counts, query._replace(trials=(size, size)))
    assert isinstance(state, State)
    return state


def some_rounds(seed: int, number: int, bins: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(bins), 2)
    return [np.stack([rng.multinomial(50 + 9 * k, part) for part in shares]) for k in range(number)]


@pytest.mark.parametrize(
    "claim", [PureDP(0.3), ApproxDP(0.2, 0.05), GaussianDP(0.2)], ids=lambda claim: claim.kind
)
def test_wealth_is_that_of_a_plain_loop(claim: Any) -> None:
    rounds = some_rounds(1, 9, 7)
    state, wanted = played(rounds, asked(0, claim)), wealth(rounds, claim)
    assert [value for _, value in state.path] == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert max(wanted) > 1
    assert state.book.best[0] == pytest.approx(max(wanted))


@pytest.mark.parametrize("wealth", [[math.nan, 0.0], [0.0, math.nan]])
def test_wealth_of_nan_is_never_evidence(wealth: list[float]) -> None:
    """The engine refuses an estimate with such a p-value."""
    assert any(map(math.isnan, Book(best=np.array(wealth)).p_values))


def test_what_is_not_resolved_widens_the_claim() -> None:
    rounds, r = [np.array([[90, 10], [80, 20]]) * k for k in (1, 1, 2, 4)], 0.003
    state = played(rounds, asked(0, PureDP(0.1), resolution=r))
    widened = played(rounds, asked(0, ApproxDP(0.1, r * (1 + math.exp(0.1)))))
    assert state.book.now[1] == pytest.approx(widened.book.now[0], rel=1e-10)
    assert state.book.now[1] < state.book.now[0]
    exact, resolved = state.book.p_values
    assert exact < resolved < 1


def test_what_chooses_never_sees_what_it_bets_on() -> None:
    """Whatever a round holds, it is paid for by the bet that was chosen before it."""
    rounds, claim = some_rounds(3, 6, 9), PureDP(0.2)
    before, own = played(rounds, asked(0, claim)), against(claim, 0.0).exact
    assert before.counts is not None
    assert own is not None
    share = (before.counts[0] + 0.5) / (before.counts.sum(axis=0) + 1)
    supposed, group = grouped(share, before.counts.sum(axis=0))
    chosen = bets(supposed, own)[..., group]
    assert chosen.any()
    for seed in range(20):
        (next_round,) = some_rounds(100 + seed, 1, 9)
        after = played([*rounds, next_round], asked(0, claim))
        paid = (chosen * next_round).sum(axis=(1, 2))
        assert after.book.log_wealth[:, 0] == pytest.approx(before.book.log_wealth[:, 0] + paid)


def test_nothing_is_bet_on_the_first_round() -> None:
    first = np.array([[500, 0], [0, 500]])
    state = played([first], asked(0, PureDP(0.1)))
    assert state.path == ((500, 0.0),)
    assert BETTING.conclude(state, (), asked(500, PureDP(0.1))).epsilon_lower == 0


@pytest.mark.parametrize("claim", [PureDP(1.0), ApproxDP(1.0, 1e-3)])
def test_outputs_of_one_dataset_alone_are_refuted_by_sixteen_draws(claim: Any) -> None:
    """The best bet takes 4.8, and the goal of the bench is four times as many."""
    scores = (np.full(16, -40.0), np.full(16, 40.0))
    query = Query((16, 16), claim.default_delta, 0.95, claim)
    found = Betting().estimate_scores(scores, query, np.random.default_rng(0))
    assert found.p_value is not None
    assert found.p_value <= 0.05


def test_a_state_is_not_changed_by_what_comes_later() -> None:
    rounds, claim = some_rounds(4, 6, 5), PureDP(0.2)
    state = played(rounds[:5], asked(0, claim))
    kept = state.book.log_wealth.copy(), np.copy(state.above), state.path
    played(rounds, asked(0, claim))
    BETTING.observe(state, (), rounds[5], asked(50, claim))
    assert np.array_equal(state.book.log_wealth, kept[0])
    assert np.array_equal(state.above, kept[1])
    assert state.path == kept[2]


# --- cuts and rounds


@pytest.mark.parametrize(
    "scores",
    [
        np.full(64, 3.0),
        np.array([np.nan] * 64),
        np.array([-np.inf, np.inf] * 32),
        np.repeat([0.0, 1.0], 32),
        np.random.default_rng(0).standard_cauchy(64) * 1e30,
        np.random.default_rng(0).standard_cauchy(64) * 1e-30,
        1e6 + np.random.default_rng(0).normal(size=64),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cuts_are_ordered_whatever_the_scores_are(scores: np.ndarray, dtype: Any) -> None:
    edges = cuts(scores.astype(dtype), scores[::-1].astype(dtype))
    assert edges.shape == (EDGES,)
    assert edges.dtype == dtype
    assert not np.isnan(edges).any()
    assert (np.diff(edges[np.isfinite(edges)]) > 0).all()
    values = np.unique(scores[np.isfinite(scores)].astype(dtype))
    if len(values) < 100:
        assert np.isin(values, edges).all()
    if len(values) == 2:  # atoms are told from what is around them
        assert np.isin(np.nextafter(values, np.array(np.inf, dtype)), edges).all()


def test_draws_above_a_cut() -> None:
    counts = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    assert above(counts).tolist() == [[9, 7, 4], [21, 15, 8]]


def test_counts_are_dealt_out_once() -> None:
    counts = np.array([[3, 500, 7, 0], [100, 200, 300, 0]])
    dealt = list(rounds_of_counts(counts))
    assert [int(part[0].sum()) for part in dealt] == sizes(510)
    total = sum(dealt)
    assert total[0].tolist() == counts[0].tolist()  # type: ignore[index]
    assert (total[1] <= counts[1]).all()  # type: ignore[index, operator]
    assert (total[1] > 0).sum() == 3  # type: ignore[index]


@pytest.mark.usefixtures("coarse_bounds")
def test_sorted_scores_are_bet_on_in_random_order() -> None:
    """Sorted scores are no independent draws."""
    x, y = (np.sort(part) for part in laplace(1, 3000, 0.0))
    ordered, notes = in_order((x, y), np.random.default_rng(0))
    first, *_ = rounds_of_scores(ordered)[1]
    assert abs(np.median(np.repeat(np.arange(EDGES + 2), first[0])) - EDGES / 2) < EDGES / 4
    assert notes == (SHUFFLED,)
    found = [
        BETTING.estimate_scores((x, y), asked(3000), np.random.default_rng(s)) for s in range(3)
    ]
    assert max(each.epsilon_lower or 0.0 for each in found) < 0.1
    assert all(each.notes == (SHUFFLED,) for each in found)


@pytest.mark.usefixtures("coarse_bounds")
def test_short_sorted_files_refute_no_true_claim() -> None:
    """Too few draws to notice an order: answers that are rare come last, or first."""
    rng, alarms, unnoticed = np.random.default_rng(0), 0, 0
    for _ in range(12):
        x, y = (np.sort(rng.random(60) < share) for share in (0.1192, 0.8808))  # e⁻² to 1
        found = BETTING.estimate_scores((x, y[::-1]), asked(60, PureDP(2.0)), rng)
        alarms += (found.p_value or 1.0) <= 0.05 or (found.epsilon_lower or 0.0) > 2
        unnoticed += not found.notes
    assert unnoticed > 7  # in the order of the file nearly all of these would be alarms
    assert alarms <= 6  # with probability .05 each, 7 of 12 come less than once in a million


@pytest.mark.usefixtures("coarse_bounds")
@pytest.mark.parametrize("kind", mostly_slow([np.float32, bool, float], (1,)))
def test_a_file_that_grows_shows_the_same_bets(kind: Any) -> None:
    """Earlier bets stay, however long the file becomes, and whatever the seed."""
    x, y = (part > 0.5 if kind is bool else part.astype(kind) for part in laplace(2, 2000))
    paths = []
    for n in (100, 137, 1199, 1200):
        rng = np.random.default_rng(n)
        found = BETTING.estimate_scores((x[:n], y[: n + 1]), asked(n, PureDP(0.5)), rng)
        assert found.notes == ()
        paths.append(found.wealth)
    for shorter, longer in itertools.pairwise(paths):
        assert shorter[:-1] == longer[: len(shorter) - 1]  # the last round may be a part of one
    assert paths[-1][-1][1] > 5


@pytest.mark.slow
@pytest.mark.usefixtures("coarse_bounds")
def test_true_claims_are_refuted_as_rarely_as_stated_by_files_that_grow() -> None:
    """Exact nulls, 10 looks each; false-alarm rate 1e-6."""
    files, alarms, refuted, error = 20, 0, 0, 0.05
    for seed in range(files):
        x, y = laplace(1000 + seed, 2000)
        for claimed in (1.0, 0.5):
            wealthy = False
            for n in range(200, 2001, 200):
                rng, query = np.random.default_rng(0), asked(n, PureDP(claimed))
                found = BETTING.estimate_scores((x[:n], y[:n]), query, rng)
                wealthy = (found.p_value or 1.0) <= error
                if wealthy:
                    break
            alarms += wealthy and claimed == 1.0
            refuted += wealthy and claimed < 1.0
    assert alarms == 0 or bdtrc(alarms - 1, files, error) > 1e-6
    assert alarms <= error * files  # as this seed gives it
    assert refuted == files


def test_decisions_are_counted_as_decisions() -> None:
    statistic = Cuts()
    layout = statistic.bind(np.zeros(0, bool), np.zeros(0, bool))
    assert statistic.zero(layout).shape == (2, 2)
    assert statistic.describe(layout) == {"name": "DecisionCounts"}


# --- what it says


@pytest.mark.parametrize("claim", [PureDP(0.8), ApproxDP(0.3, 0.05)])
def test_bound_and_p_value_agree_when_a_claim_is_decided(claim: Any) -> None:
    """The claim is a point of the grid of bounds, bet against with the same weights."""
    rng, error = np.random.default_rng(3), 0.05
    for _ in range(1):
        scores = rng.laplace(size=3000), rng.laplace(1.2, size=3000)
        layout, rounds = rounds_of_scores(scores)
        state: Any = None
        for counts in rounds:
            state = BETTING.observe(state, layout, counts, asked(int(counts[0].sum()), claim))
            if state.trials > 300 or state.book.p_values[0] <= error:
                break
        found = BETTING.conclude(state, layout, asked(state.trials, claim, claim.delta))
        assert found.p_value is not None
        assert found.epsilon_lower is not None
        assert (found.epsilon_lower >= claim.epsilon) == (found.p_value <= error)


@pytest.mark.parametrize("delta", mostly_slow([0.0, 0.01], (1,)))
def test_a_profile_is_certified_with_the_bound(delta: float) -> None:
    for seed, n, least in ((0, 600, 0.4), (1, 6000, 0.7)):
        rounds = rounds_of_scores(laplace(seed, n))
        state = played(list(rounds[1]), asked(0, delta=delta), rounds[0])
        found = BETTING.conclude(state, rounds[0], asked(n, delta=delta))
        assert found.epsilon_lower is not None
        epsilons, deltas = np.array(found.profile_lower).T
        true = np.maximum(0, -np.expm1((epsilons - 1) / 2))
        assert (deltas <= true).all()
        assert deltas[0] > least * true[0]
        assert (deltas[epsilons > found.epsilon_lower] <= delta).all()
    state = played(list(rounds_of_scores(laplace(2, 300, 0.0))[1]), asked(0), rounds[0])
    assert BETTING.conclude(state, rounds[0], asked(300)).profile_lower == ()


def test_a_profile_contradicts_neither_bound_nor_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a wealth of its own, which may be the luckier one."""
    lucky, claim = ((0.0, 0.9), (0.5, 0.8), (9.0, 0.7)), ApproxDP(1.0, 0.05)
    monkeypatch.setattr("dpframe.builtin.betting.profile_below", lambda *_: lucky)
    monkeypatch.setattr("dpframe.builtin.betting.bound", lambda *_, **__: 1.5)
    for loss, allowed in ((0.0, [(e, claim.delta_at(e)) for e, _ in lucky]), (9.0, list(lucky))):
        layout, rounds = rounds_of_scores(laplace(4, 300, loss))
        state = played(list(rounds), asked(0, claim), layout)
        found = BETTING.conclude(state, layout, asked(300, claim, claim.delta))
        if loss:  # refuted; only the bound limits it
            allowed[-1] = (9.0, claim.delta)
        assert list(found.profile_lower) == allowed
    rising = iter([0.3, math.nan, 0.4, -0.1])  # of a claim that rounds, or knows nothing
    found = in_agreement([(float(e), 0.5) for e in range(4)], 9.0, 0.0, lambda _: next(rising))
    assert found == ((0.0, 0.3), (1.0, 0.3), (2.0, 0.3), (3.0, 0.0))
    assert in_agreement((), 1.0, 0.0, None) == ()


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_the_bound_is_where_plain_loops_refute_every_smaller_loss(delta: float) -> None:
    rounds = some_rounds(5, 12, 6)
    found = bound(history(played(rounds, asked(0)).rounds), delta, 0.05)
    assert found > 0.1
    for part in (0.2, 0.7, 1.0):
        assert max(wealth(rounds, ApproxDP(part * found, delta))) > -math.log(0.05) - 0.02
    assert max(wealth(rounds, ApproxDP(1.01 * found, delta))) < -math.log(0.05)


@pytest.mark.slow
def test_bounds_at_several_levels_are_those_of_rounds_asked_for_the_first_time() -> None:
    rounds = some_rounds(5, 12, 6)
    state = played(rounds, asked(0))
    for delta in (0.0, 0.1):
        found = []
        for confidence in (0.5, 0.95, 0.999):
            query = asked(0, delta=delta)._replace(confidence=confidence, claim=None)
            found.append(BETTING.conclude(state, np.zeros(0), query).epsilon_lower)
            fresh = bound(history(state.rounds), delta, 1 - confidence)
            assert found[-1] == fresh
        assert found == sorted(found, reverse=True)
        assert found[0] > found[2]
    assert state.past is not None
    assert len(state.past[0].known) > 1  # not vacuous


@pytest.mark.parametrize("only", ["bound", "p-values"])
def test_what_is_not_read_of_an_answer_costs_nothing(
    only: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = asked(0, PureDP(0.3))
    state = played(some_rounds(5, 12, 6), query)
    whole = BETTING.conclude(state, np.zeros(0), query)
    assert whole.profile_lower
    left_out = ["profile_below", "reaches"] + ["bound"] * (only == "p-values")
    for name in left_out:
        monkeypatch.delattr(f"dpframe.builtin.betting.{name}")
    part = BETTING.conclude(state, np.zeros(0), query._replace(only=only))
    if only == "bound":
        assert part.epsilon_lower == whole.epsilon_lower
    else:
        assert (part.p_value, part.p_resolved) == (whole.p_value, whole.p_resolved)


def test_an_audit_bounds_one_profile_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen.append(args)
        return profile_below(*args, **kwargs)

    monkeypatch.setattr("dpframe.builtin.betting.profile_below", counted)
    record = audit(
        {
            "schema": 1,
            "audit": {"name": "one", "trials": 60},
            "pair": {"use": "zeros-ones"},
            "mechanism": [{"use": "randomized-response", "params": {"epsilon": 3.0}}],
            "attack": [{"use": "majority-vote"}],
            "estimator": [{"use": "betting"}],
        }
    )
    assert record.cells[0].slack is not None
    assert len(seen) == 1


@pytest.mark.parametrize("kind", mostly_slow(["continuous", "ties", "decision"], {"decision"}))
def test_bounds_hold_and_are_not_vacuous(kind: str) -> None:
    """Exact nulls, stopped when it suits least; false-alarm rate 1e-6."""
    rng, audits, error = np.random.default_rng(6), 40, 0.2
    alarms = 0
    truth = 1 / (1 + math.exp(-1.0))
    for _ in range(audits):
        if kind == "continuous":
            scores: Any = rng.laplace(size=250), rng.laplace(1.0, size=250)
        elif kind == "ties":
            scores = tuple(rng.choice(3, 250, p=p).astype(float) for p in (SHARES, SHARES[::-1]))
        else:
            scores = rng.random(250) < 1 - truth, rng.random(250) < truth
        layout, rounds = rounds_of_scores(scores)
        alarms += played(list(rounds), asked(0, PureDP(1.0)), layout).book.p_values[0] <= error
    assert alarms == 0 or bdtrc(alarms - 1, audits, error) > 1e-6
    assert alarms > error * audits / 10


SHARES = np.array([math.e, 1.5, 1.0]) / (math.e + 2.5)
"""Three values on D, and on D′ the other way round, so that the loss is exactly 1."""


def test_settled() -> None:
    claim = PureDP(1.0)
    far = [np.array([[90, 10], [10, 90]]) * k for k in (1, 1, 2, 4, 8)]
    near = [np.array([[52, 48], [48, 52]]) * k for k in (1, 1, 2, 4, 8)]
    edge = [np.array([[73, 27], [27, 73]]) * k for k in (1, 1, 2, 4)]
    for rounds, wanted in ((far, "violated"), (near, "unreachable"), (edge, None)):
        total = sum(int(counts[0].sum()) for counts in rounds)
        state = played(rounds, asked(0, claim))
        assert BETTING.settled(state, (), asked(total, claim)) == wanted
        assert BETTING.settled(state, (), asked(total)) is None
        limit = BETTING.conclude(state, (), asked(total, claim)).epsilon_upper
        assert limit is not None
        assert (limit < 1) == (wanted == "unreachable")


def test_scores_are_never_given_up_for_what_is_frequent_alone() -> None:
    """Rare scores tell D′ for certain: whatever the many show, the claim is not out of reach."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=4000)
    y = np.where(rng.random(4000) < 1e-3, 50.0, rng.normal(size=4000))
    layout, rounds = rounds_of_scores((x, y))
    claim = PureDP(2.0)
    state = played(list(rounds)[:20], asked(0, claim), layout)
    assert BETTING.settled(state, layout, asked(state.trials, claim)) is None
    # With δ it is: what is rarer than δ shows no loss.
    loose = ApproxDP(2.0, 0.2)
    state = played(list(rounds_of_scores((x, y))[1]), asked(0, loose), layout)
    assert BETTING.settled(state, layout, asked(state.trials, loose)) == "unreachable"


@pytest.mark.slow
def test_scores_can_be_out_of_reach_too() -> None:
    x, y = laplace(7, 20_000, 0.2)
    found = BETTING.estimate_scores((x, y), asked(20_000), np.random.default_rng(0))
    assert found.epsilon_upper is not None
    assert 0.2 < found.epsilon_upper < 0.5
    assert found.epsilon_upper_of == "chosen thresholds"


def test_the_upper_limit_is_of_what_showed_the_bound() -> None:
    """A rare event tells most, a frequent one hardly anything."""
    rng, shares = np.random.default_rng(1), ([0.5, 0.2, 0.298, 0.002], [0.45, 0.23, 0.3, 0.02])
    layout = np.zeros(2, np.float32)
    for _ in range(1):
        rounds = [np.stack([rng.multinomial(n, part) for part in shares]) for n in sizes(20_000)]
        found = BETTING.conclude(played(rounds, asked(0), layout), layout, asked(20_000))
        assert found.epsilon_lower is not None
        assert found.epsilon_upper is not None
        assert 1.3 < found.epsilon_lower <= math.log(10) < found.epsilon_upper
