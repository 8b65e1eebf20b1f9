"""Built-in neighbourhoods propose neighbours inside their domain, and none twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.tiers import mostly_slow

from dpframe import Earned, Pair
from dpframe.interfaces import registry
from dpframe.testing import check_neighbourhood, neighbourhoods
from dpframe.testing.plugins import examine

CLASSES = {entry.name: entry.cls for entry in registry.load().of_kind("neighbourhood")}
BOXES = ("patterns", "grid", "random", "climb")
RECORDS = [[0.0, 1.0], [2.0, 0.5], [1.0, 1.0]]


def made(name: str, **params: Any) -> Any:
    return CLASSES[name].from_params(params)


def proposed(neighbourhood: Any, calls: int = 4, seed: int = 0) -> list[list[Pair]]:
    """Pairs, call by call; those with a large first entry of D′ earn most."""
    rng, history, found = np.random.default_rng(seed), [], []
    for _ in range(calls):
        pairs = list(neighbourhood.propose(rng, tuple(history)))
        found.append(pairs)
        history += [Earned(pair, 1000, max(0.0, float(np.ravel(pair.d1)[0]))) for pair in pairs]
    return found


def flat(calls: list[list[Pair]]) -> list[Pair]:
    return [pair for call in calls for pair in call]


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize("adjacency", mostly_slow(["each-by-one", "one-by-one", "any"], (0, 2)))
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    length=st.integers(1, 4),
    low=st.floats(-3, 2),
    width=st.floats(0.6, 4),
    step=st.floats(0.5, 3),
    whole=st.booleans(),
)
def test_pairs_are_neighbours_in_the_domain_and_come_once(
    name: str, adjacency: str, length: int, low: float, width: float, step: float, whole: bool
) -> None:
    params = {"length": length, "low": low, "high": low + width, "step": step, "whole": whole}
    if name == "grid":
        params["points"] = 3
    try:
        box = made(name, adjacency=adjacency, **params)
    except ValueError as refused:
        assert "no two" in str(refused)  # noqa: PT017
        return
    pairs = flat(proposed(box, calls=3))
    assert pairs
    seen = set()
    for pair in pairs:
        d0, d1 = pair.d0, pair.d1
        assert d0.shape == d1.shape == (length,)
        both = np.stack([d0, d1])
        assert low <= both.min() <= both.max() <= low + width
        if whole:
            assert np.array_equal(both, np.round(both))
        apart = np.abs(d1 - d0)
        assert apart.max() > 0
        if adjacency != "any":
            assert apart.max() <= step * (1 + 1e-12)
        if adjacency == "one-by-one":
            assert np.sum(apart > 0) == 1
        key = frozenset({d0.tobytes(), d1.tobytes()})
        assert key not in seen
        seen.add(key)


def test_the_eight_patterns() -> None:
    found = {(tuple(pair.d0), tuple(pair.d1)) for pair in proposed(made("patterns", high=2.0))[0]}
    ones = (1.0,) * 5
    assert found == {
        (ones, (2.0, 1.0, 1.0, 1.0, 1.0)),
        (ones, (0.0, 1.0, 1.0, 1.0, 1.0)),
        (ones, (2.0, 0.0, 0.0, 0.0, 0.0)),
        (ones, (0.0, 2.0, 2.0, 2.0, 2.0)),
        (ones, (0.0, 0.0, 0.0, 2.0, 2.0)),
        (ones, (2.0,) * 5),
        (ones, (0.0,) * 5),
        ((1.0, 1.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0, 1.0)),
    }


def test_in_a_narrow_box_every_pattern_changes_by_the_full_step() -> None:
    first = proposed(made("patterns"))[0]
    assert len(first) == 8
    assert {float(np.abs(pair.d1 - pair.d0).max()) for pair in first} == {1.0}


def test_patterns_end() -> None:
    calls = proposed(made("patterns", high=10.0), calls=9)
    assert all(calls[:3])
    assert calls[-1] == []
    assert len({float(pair.d0[1]) for pair in flat(calls)}) > 3, "they lie in several places"


def test_a_grid_is_complete() -> None:
    grid = made("grid", length=2, points=3, step=0.5, adjacency="one-by-one")
    pairs = flat(proposed(grid, calls=5))
    assert len(pairs) == 12  # 2 · 3 lines of 2 steps each
    local = made("grid", length=1, points=5, low=0.0, high=4.0, adjacency="any", whole=True)
    assert {frozenset({*pair.d0, *pair.d1}) for pair in flat(proposed(local))} == {
        frozenset({float(i), float(j)}) for i in range(5) for j in range(i)
    }


def test_records_are_replaced() -> None:
    for pair in flat(proposed(made("random", length=3, records=RECORDS, batch=4))):
        assert pair.adjacency == "replace one record"
        assert np.sum((pair.d0 != pair.d1).any(axis=1)) == 1
        assert {tuple(row) for row in (*pair.d0, *pair.d1)} <= {tuple(row) for row in RECORDS}
    single = flat(proposed(made("random", length=1, records=[0, 1, 2])))
    assert len(single) == 3, "every two of them, and then no more"


def test_climbing_pays() -> None:
    """Pairs that earn are found more often than by chance."""

    def reached(share: float) -> float:
        climb = made("climb", length=4, high=10.0, batch=16, fresh=share)
        pairs = flat(proposed(climb, calls=12))
        return float(np.mean([pair.d1[0] for pair in pairs[-64:]]))

    assert reached(0.1) > 7.5 > 6.5 > reached(1.0)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("patterns", {"low": 1.0}, "low 1, high 1: no two numbers between them"),
        ("random", {"whole": True, "low": 0.1}, "no two whole numbers between"),
        ("random", {"whole": True, "step": 0.5}, "no two whole numbers are at most 0.5 apart"),
        ("climb", {"high": 1e9}, "more than 1048576 steps"),
        ("grid", {"points": 9, "length": 5}, "'random' and 'climb'"),
        ("grid", {"points": 2, "step": 0.5}, "no two of the 2 points are at most 0.5 apart"),
        ("random", {"records": [[1.0]]}, "there is only one record"),
        ("random", {"records": [[1.0], [1.0, 2.0]]}, "differ in length"),
    ],
)
def test_domains_without_pairs(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(name, **params)


# --- the suite for authors


@pytest.mark.parametrize("name", BOXES)
def test_built_ins_keep_what_is_asked_of_all(name: str) -> None:
    found = check_neighbourhood(CLASSES[name])
    assert {one.result for one in found} == {"kept"}


BROKEN = {
    "proposes pairs": lambda pairs, rng, history: [],
    "D and D′ of every pair are data, and differ": lambda pairs, rng, history: [
        type(pairs[0])(d0=[1.0], d1=[1.0])
    ],
    "all pairs have one shape and type, if declared": lambda pairs, rng, history: [
        *pairs,
        type(pairs[0])(d0=[1], d1=[2]),
    ],
    "proposes no pair twice": lambda pairs, rng, history: [
        type(pairs[0])(d0=pairs[0].d1, d1=pairs[0].d0, adjacency="near"),
        *pairs,
    ],
    "proposes the same pairs for the same randomness and history": lambda pairs, rng, history: (
        CLASSES["random"]().propose(np.random.default_rng(), history)
    ),
    "continues whatever its pairs earn": lambda pairs, rng, history: (
        pairs if not history or history[0].growth < 1e299 else 1 / 0
    ),
    "states the relation of the neighbours": lambda pairs, rng, history: [
        type(pair)(d0=pair.d0, d1=pair.d1, adjacency=" ") for pair in pairs
    ],
}


@pytest.mark.parametrize("promise", BROKEN)
def test_broken_promises_are_found(promise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = CLASSES["random"]
    whole = cls.propose

    def propose(self: Any, rng: Any, history: Any) -> Any:
        return BROKEN[promise](whole(self, rng, history), rng, history)

    monkeypatch.setattr(cls, "propose", propose)
    if promise.startswith("proposes the same"):
        monkeypatch.setitem(CLASSES, "random", CLASSES["climb"])
    found = examine(neighbourhoods.ProposedPairs(cls()), neighbourhoods.TRIALS)
    assert promise in {one.promise for one in found if one.result == "broken"}
