"""A search looks behind a leaked kind of answers, and accuses nothing that only the kind shows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.special import bdtrc
from support.loud_boxes import FUNCTIONS, SCHEMA, TABLE, Library
from support.searched import found_by
from support.tiers import mostly_slow

import dpframe
from dpframe import HostMechanism, PureDP, Values
from dpframe.builtin.answers import OfAnswers
from dpframe.count import events as of_answers
from dpframe.count.events import AnswerEvents, LearnedAttack, Seen
from dpframe.draw.worker.codes import code_of_kind
from dpframe.search.leaks import KnownLeaks, roots_of
from dpframe.search.search import SearchRun
from dpframe.search.wealth import Point, Wealth, paid
from dpframe.stats.betting import choose, events, project

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.usefixtures("coarse_bounds_of_module")

ONE = (Point(1.0, 0.0),)
P, Q = (0.7, 0.1, 0.2), (0.4195, 0.0368, 0.5437)
"""NaN, 0 and 1: no ratio is above e, but that of 0 among the numbers is e^1.66."""


class Ends(dpframe.Neighbourhood, name="ends"):
    """One pair."""

    adjacency = "replace one record"

    def propose(self, rng: Any, history: Any) -> Any:
        return () if history else [Values(d0=(0.0,), d1=(1.0,))]


class Given(HostMechanism, name="given"):
    """NaN, 0 or 1, with given probabilities on D and on D′."""

    on_d: tuple[float, ...] = P
    on_d_prime: tuple[float, ...] = Q

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def release(self, rng: Any, data: Any) -> float:
        shares = self.on_d_prime if data[0] else self.on_d
        return (math.nan, 0.0, 1.0)[rng.choice(3, p=shares)]


class SometimesNaN(HostMechanism, name="sometimes-nan"):
    """NaN with a probability that depends on the data, else Laplace noise; a loss of 1 needs 1."""

    scale: float = 1.0
    inf: float = 0.0

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def release(self, rng: Any, data: Any) -> float:
        if rng.random() < (0.3 if data[0] else 0.02):
            return math.nan
        if rng.random() < (self.inf if data[0] else 0.0):
            return math.inf
        return float(data[0] + rng.laplace(0, self.scale))


def leaks_of(mechanism: Any, seed: int = 0, trials: int = 8_000, **params: Any) -> Any:
    """Search a mechanism for up to five leaks; return the cell and its leaks."""
    cell = found_by(mechanism, Ends, seed, trials, params, findings=5)
    assert cell.search is not None, cell.reason
    return cell, [cell.search, *cell.search.findings]


def test_a_second_leak_is_found_behind_a_leaked_kind() -> None:
    cell, (first, second) = leaks_of(SometimesNaN, scale=0.4)
    assert (first.event, second.leak) == ("the output is NaN", "the output is #")
    assert second.event.endswith(", among answers that are not NaN")
    assert cell.search.pairs == 1
    assert sum(second.hits) < sum(second.trials) - sum(first.hits)  # NaN is outside of every event


def test_each_leaked_kind_is_left_out_in_turn() -> None:
    """Two kinds of one root are one leak, and the search looks behind both."""
    _, found = leaks_of(SometimesNaN, scale=0.4, inf=0.05)
    assert [roots_of(one.leak) for one in found] == [{"not finite"}, {"outputs"}]
    event, _, kinds = found[-1].event.partition(", among answers that are not ")
    assert event.startswith("the output is")
    assert sorted(kinds.split(" or ")) == ["NaN", "inf"]


@pytest.mark.parametrize(
    ("mechanism", "params"),
    [
        (SometimesNaN, {}),
        # Among the numbers, 0 has a ratio of 3.4, but 2.5 among all answers.
        (Given, {"on_d": [0.3, 0.1, 0.6], "on_d_prime": [0.05, 0.04, 0.91]}),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_else_is_accused_behind_a_leaked_kind(
    mechanism: Any, params: Any, seed: int
) -> None:
    cell, found = leaks_of(mechanism, seed, **params)
    assert cell.p_value < 1e-3
    assert [one.leak for one in found] == ["the output is NaN"]


def counted(rng: np.random.Generator, draws: int, p: Sequence[float], q: Sequence[float]) -> Seen:
    """Draws of NaN, 0 and 1, of which NaN is left out."""
    x, y = rng.multinomial(draws, p), rng.multinomial(draws, q)
    return Seen(np.array([[x[2]], [y[2]]]), draws, (1,), np.array([x[0], y[0]]))


def followed(rng: np.random.Generator, p: Sequence[float], q: Sequence[float]) -> Wealth:
    """Bet on ten rounds of a pair."""
    wealth, seen = Wealth(0.0), counted(rng, 200, p, q)
    for _ in range(10):
        fresh = counted(rng, 200, p, q)
        wealth.bet_against_claim(0, seen, fresh, ONE, 0.0)
        assert seen.outside is not None
        assert fresh.outside is not None
        outside = seen.outside + fresh.outside
        seen = Seen(seen.above + fresh.above, seen.trials + fresh.trials, (1,), outside)
    return wealth


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("p", "q"),
    [
        (P, Q),
        ((0.0, 0.2689, 0.7311), (0.4, 0.4386, 0.1614)),  # of randomised response, 40 % are lost
        ((0.1, 0.245, 0.655), (0.1, 0.655, 0.245)),
    ],
)
def test_the_bets_behind_a_kind_are_valid(p: Any, q: Any, turned: bool) -> None:
    """At most 1 in 20 of 60 right pairs may be refuted at their claim; false-alarm rate 1e-6."""
    p, q = (q, p) if turned else (p, q)
    rng = np.random.default_rng(1)
    wrong = sum(followed(rng, p, q).best >= math.log(20) for _ in range(60))
    assert wrong == 0 or bdtrc(wrong - 1, 60, 0.05) > 1e-6


def test_the_bets_behind_a_kind_find_what_is_there() -> None:
    """Non-vacuity: twice the loss among the numbers, and a tenth of all answers is NaN on D′."""
    rng = np.random.default_rng(2)
    found = sum(
        followed(rng, (0.0, 0.12, 0.88), (0.1, 0.78, 0.12)).best >= math.log(1000)
        for _ in range(10)
    )
    assert found == 10


def test_events_behind_a_kind_are_counted_as_plain_loops_count_them() -> None:
    """An answer of a leaked kind is in an event of the multiplied side and in none of the other."""
    rng, cuts, kinds = np.random.default_rng(3), (0.2, 0.7), [0, 1]
    sides = [[(rng.choice(kinds), rng.random()) for _ in range(50)] for _ in range(2)]

    def count(side: int, is_above: bool, cut: float, multiplied: bool) -> int:
        return sum(
            multiplied if kind else (score >= cut) == is_above for kind, score in sides[side]
        )

    above = np.array([[count(d, True, cut, False) for cut in cuts] for d in (0, 1)])
    outside = np.array([sum(kind for kind, _ in side) for side in sides])
    expected = [
        [count(1 - more, is_above, cut, True), count(more, is_above, cut, False)]
        for more in (1, 0)
        for is_above in (True, False)
        for cut in cuts
    ]
    assert events(above, 50, outside).tolist() == expected
    assert events(above, 50, 0 * outside).tolist() == events(above, 50).tolist()


def test_a_bet_behind_a_kind_pays_what_a_hand_made_process_pays() -> None:
    rng = np.random.default_rng(4)
    before, fresh = (counted(rng, 300, (0.1, 0.1, 0.8), (0.3, 0.6, 0.1)) for _ in range(2))
    bet = choose(before.above, before.trials, np.exp([1.0]), 0.0, before.outside)
    side = 1 if bet.event[0] < 2 else 0  # more likely
    of_one = bet.event[0] % 2 == 0
    q, p = float(bet.q[0]), float(bet.p[0])
    q0, p0 = (float(one) for one in project(np.array(q), np.array(p), np.array(math.e), 0.0))
    (x0, y0), (x1, y1) = fresh.hits[0], fresh.hits[1]
    assert (x0, y0, x1 + y1) == (
        fresh.above[0, 0] + fresh.outside[0],  # type: ignore[index]
        fresh.above[1, 0],
        fresh.inside.sum() - fresh.above.sum() + fresh.outside[0],  # type: ignore[index]
    )
    earned = 0.0
    for dataset in (0, 1):
        ones, gone = int(fresh.above[dataset, 0]), int(fresh.outside[dataset])  # type: ignore[index]
        inside = ones if of_one else fresh.trials - gone - ones
        inside += gone if dataset != side else 0
        a, b = (p, p0) if dataset == side else (q, q0)
        earned += inside * math.log(a / b)
        earned += (fresh.trials - inside) * math.log((1 - a) / (1 - b))
    ways = paid(before, fresh, ONE)
    assert ways is not None
    assert ways[0] == pytest.approx(earned, rel=1e-6)


def test_answers_on_both_sides_are_scored_in_batches_of_one_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In batches of other sizes scores may be rounded differently, and tell D from D′."""
    sizes: list[int] = []

    def scores_of(attack: Any, state: Any, rows: Any) -> Any:
        sizes.append(len(rows))
        return np.where(np.arange(len(rows)) < 512, 1.0, 1.0 + 1e-15)

    monkeypatch.setattr(of_answers, "scores_of", scores_of)
    behind = object.__new__(AnswerEvents)
    behind.leaked = np.array([7], np.uint64)
    behind.learned = [LearnedAttack(0, OfAnswers(), (), np.array([1.0 + 1e-15]))]
    monkeypatch.setattr(AnswerEvents, "_looked", lambda own, attack, rows: rows)
    rows = np.zeros((2, 1024, 4), np.uint64)
    rows[1, ::2, 0] = 7
    seen = behind.count((rows[0], rows[1]))
    assert sizes == [1024, 1024]
    assert seen.above.tolist() == [[512], [256]]  # half of what is inside, on both sides
    assert np.array_equal(seen.outside, [0, 512])


@pytest.mark.parametrize("gone", [(0, 300), (300, 300), (0, 0), (300, 0)])
def test_kinds_that_are_always_seen_or_never(gone: tuple[int, int]) -> None:
    """NaN on one side alone, on both, or on none: nothing is left of a loud leak behind it."""
    left = 300 - np.array(gone)
    seen = Seen(left[:, None] // 2, 300, (1,), np.array(gone))
    wealth = Wealth(0.0)
    for drawn in range(5):
        wealth.bet(seen, seen, ONE, 1.0, drawn)
    assert wealth.best == 0.0
    assert wealth.bound(0.05) == 0.0


def test_no_conditional_law_is_bet_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim of 1 holds, and an observer of the numbers alone would see a loss of 1.66."""
    made: list[SearchRun] = []
    begin = SearchRun.__init__
    monkeypatch.setattr(
        SearchRun, "__init__", lambda own, *args: (made.append(own), begin(own, *args))[1]
    )
    found_by(Given, Ends, trials=300)
    (arm,) = made[0].arms
    rows = np.concatenate(arm._kept)  # type: ignore[attr-defined]
    nan = code_of_kind("float, NaN")
    is_nan, bits = rows[:, 0] == nan, rows[:, 3]
    three = np.array([rows[where][0] for where in (is_nan, bits == 0, ~is_nan & (bits != 0))])
    behind = arm._events.behind(np.array([nan], np.uint64))  # type: ignore[attr-defined]
    rng = np.random.default_rng(5)

    def drawn() -> Any:
        return tuple(three[rng.choice(3, 2_000, p=shares)] for shares in (P, Q))

    behind.learn(drawn(), arm._events.shape)  # type: ignore[attr-defined]
    seen, alone = behind.count(drawn()), Seen(np.zeros((2, 1), int), 0)
    wealth, conditional = Wealth(0.0), Wealth(0.0)
    for _ in range(5):
        fresh = behind.count(now := drawn())
        wealth.bet_against_claim(0, seen, fresh, ONE, 0.0)
        few = min(map(len, own := [behind.inside(side) for side in now]))
        ones = Seen(np.array([[np.count_nonzero(side[:few, 3])] for side in own]), few)
        if alone.trials:
            conditional.bet_against_claim(0, alone, ones, ONE, 0.0)
        alone = ones
    assert wealth.best < math.log(20)
    assert conditional.best > math.log(1e6)


ROOTS: list[tuple[str, str]] = [
    ("raises ValueError at a.py:3", "raises TypeError at a.py:3 · NaN or a missing value"),
    ("raises ValueError at a.py:3 in v.py:check_array", "raises E at b.py:9 in v.py:check_array"),
    ("the output is NaN · NaN or a missing value", "the output is inf · a number out of bounds"),
    (
        "returns float64 array of shape (#,)",
        "returns float64 array of shape (#,) · an unknown category",
    ),
    ("the output is #", "a weighted sum of the outputs is # or not a number"),
    ("returns array of shape (#,) with NaN at #", "returns list with inf at #"),
    ("output # is # · a number out of bounds", "the largest output is # · an unknown category"),
]


@pytest.mark.parametrize(("one", "other"), ROOTS)
def test_variants_of_one_root_are_one_leak(one: str, other: str) -> None:
    known = KnownLeaks([])
    known.add(one, 1.0)
    assert known.has(other, math.inf)
    for name, _ in ROOTS:
        assert known.has(name, math.inf) == (name == one), name


def test_ignored_names_ignore_their_roots_and_ignored_parts_nothing_else() -> None:
    assert KnownLeaks(["raises E at a.py:3"]).has("raises F at a.py:3 · NaN", math.inf)
    assert not KnownLeaks(["the output is"]).has("the largest output is #", math.inf)
    assert not KnownLeaks(["raises"]).has("does not return float", math.inf)


SEARCH = {"params": {"table": TABLE, "schema": SCHEMA, "adjacency": "replace"}, "findings": 3}
SEEDED = [(name, seed) for seed in range(3) for name in FUNCTIONS]
IN_SHORT = [*FUNCTIONS][:1]  # NaN for NaN, with half of the noise


def roots_in(name: str, seed: int, flawed: bool) -> set[str]:
    """Search a function of the small library; return the roots of the leaks that are listed."""
    trials = 4_000 if name in IN_SHORT and not seed else 20_000
    params = {"function": name, "flawed": flawed}
    cell = found_by(Library, "records", seed, trials, params, **SEARCH)
    assert cell.search is not None, cell.reason
    assert cell.p_value < 1e-3
    found = [cell.search, *cell.search.findings]
    beyond = [" · " in one.leak for one in found]
    assert beyond == sorted(beyond)  # data beyond the schema come last
    return set().union(*(roots_of(one.leak) for one in found))


def is_quiet(root: str) -> bool:
    """True if a root is that of a mistake behind the loud leaks of the library."""
    return root.startswith("outputs")


@pytest.mark.parametrize(("name", "seed"), mostly_slow(SEEDED, [0]))
def test_a_mistake_behind_a_louder_leak_is_listed(name: str, seed: int) -> None:
    found = roots_in(name, seed, flawed=True)
    assert any(map(is_quiet, found)), found
    assert len(found) > 1 or "shape" not in name


@pytest.mark.parametrize(("name", "seed"), mostly_slow(SEEDED, [0]))
def test_a_function_with_a_loud_leak_alone_is_accused_of_nothing_else(name: str, seed: int) -> None:
    """Claims of 1 that hold for all other answers; each search errs with probability 1e-3."""
    found = roots_in(name, seed, flawed=False)
    assert not any(map(is_quiet, found)), found
