"""OpenDP's privacy filter keeps its claim, and services that misuse its odometer do not."""

from __future__ import annotations

import inspect
import os

import pytest
from dpframe_sessions import search_session

from dpframe.pytest import ViolationError

os.environ["RUST_BACKTRACE"] = "0"  # a refusal with a backtrace takes 70 ms
dp = pytest.importorskip("opendp.prelude")
pytestmark = pytest.mark.slow

D0, D1 = [1, 1, 1], [1, 1]
dp.enable_features("contrib")
SPACE = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
COUNTS = {
    epsilon: SPACE >> dp.t.then_count() >> dp.m.then_laplace(scale=1 / epsilon)
    for epsilon in (0.5, 1.0, 4.0)
}


def odometer():
    return dp.c.make_fully_adaptive_composition(*SPACE, dp.max_divergence())


def start(data):
    return dp.c.make_privacy_filter(odometer(), d_in=1, d_out=1.0)(data.tolist())


def step(state, epsilon):
    return state(COUNTS[epsilon])


def start_off_by_one(data):
    return dp.c.make_privacy_filter(odometer(), d_in=1, d_out=1.5)(data.tolist())


def start_without_filter(data):
    return odometer()(data.tolist())


def step_charging_after(state, epsilon):
    if state.privacy_loss(1) >= 1.0:
        raise RuntimeError("nothing left")
    return state(COUNTS[epsilon])


def start_with_ledger(data):
    return {"odometer": odometer()(data.tolist()), "spent": 0.0, "noise": None, "size": len(data)}


def step_failing_free(state, epsilon):
    if state["spent"] + epsilon > 1.0:
        raise RuntimeError("nothing left")
    answer = state["odometer"](COUNTS[epsilon])
    if answer < 3:
        raise ValueError("too small")
    state["spent"] += epsilon
    return answer


def step_reusing_noise(state, weight):
    if state["noise"] is None:
        state["noise"] = state["odometer"](COUNTS[1.0]) - state["size"]
    return weight * state["size"] + state["noise"]


WRONG = {
    "charges after": (start_without_filter, step_charging_after, [0.5, 4.0]),
    "off by one": (start_off_by_one, step, [0.5]),
    "fails free": (start_with_ledger, step_failing_free, [0.5, 1.0]),
    "reuses noise": (start_with_ledger, step_reusing_noise, [1, 2]),
}


def search(start, step, queries, seed=0, trials=60_000):
    pair = {"d0": D0, "d1": D1, "epsilon": 1.0, "rounds": 4}
    return search_session(
        start, step, queries, **pair, seed=seed, trials=trials, seconds=600.0, learn=8
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mistake", WRONG)
def test_a_planted_mistake_is_found(mistake, seed):
    with pytest.raises(ViolationError):
        search(*WRONG[mistake], seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_the_filter_is_not_accused(seed):
    """At .999 each, so all three pass with probability above .996 if the filter is right."""
    record = search(start, step, [0.5, 1.0], seed=seed, trials=10_000)
    assert record.cells[0].verdict == "consistent"


def test_the_adapter_is_short():
    assert sum(len(inspect.getsource(f).splitlines()) for f in (odometer, start, step)) <= 20
