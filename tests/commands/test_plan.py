"""A plan foresees times, and claims that cannot be decided."""

from __future__ import annotations

import io
import types
from typing import Any

import pytest
from rich.console import Console
from support import small_audits
from support.black_boxes import sample_in_this_process

from dpframe import HostMechanism, PureDP, host_mechanism
from dpframe.commands.audit import make_plan
from dpframe.commands.plan import outlook
from dpframe.engine import resources as box_duration
from dpframe.engine.resources import planned_calls
from dpframe.report.terminal.plan import render_plan
from dpframe.workers import in_process as here, pool
from dpframe.workers.in_process import Here


def box(rng: Any, data: Any, n: int) -> Any:
    return rng.laplace(size=(n, *data.shape))


BOX = host_mechanism(box, name="box", claim=PureDP(1.0))


def foreseen(trials: int, *uses: str, rehearse: bool = False, **sweep: Any) -> Any:
    spec = small_audits.document(
        audit={"trials": trials}, mechanism=[{"use": use} for use in uses], **sweep
    )
    return outlook(small_audits.load(spec, [*small_audits.PLUGINS, BOX]), rehearse=rehearse)


@pytest.fixture(autouse=True)
def _without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_in_this_process(monkeypatch)


def test_claims_that_could_only_come_out_inconclusive() -> None:
    sweep = {"sweep": {"mechanism.epsilon": [0.5, 6.0]}}
    assert foreseen(100, "flip", **sweep)["inconclusive"] == [
        {"reason": "flip · precision: ε = 6", "cells": 1}
    ]
    assert foreseen(100_000, "flip", **sweep)["inconclusive"] == []


def test_the_resolution_of_float32_is_none_of_a_black_box() -> None:
    flip, black = foreseen(10_000_000, "flip", "box")["estimators"]
    assert flip["largest_claim"] < flip["largest_epsilon"]
    assert black["largest_claim"] == black["largest_epsilon"]


def test_the_time_comes_from_a_rehearsal() -> None:
    short, long = (foreseen(n, "flip", rehearse=True)["seconds"] for n in (1000, 10**10))
    assert 0 < short < long
    assert foreseen(1000, "flip")["seconds"] is None


class Slow(HostMechanism, name="slow"):
    """A release takes a second or more of a clock that only it moves."""

    seconds: float = 1.0

    def sample(self, rng: Any, data: Any, n: int) -> Any:
        CLOCK[0] += n * self.seconds
        return rng.random((n, 1))


CLOCK = [0.0]


def rehearsed(monkeypatch: pytest.MonkeyPatch, seconds: float, trials: int = 20) -> Any:
    monkeypatch.setattr(pool, "Workers", Here)
    for module in (box_duration, here):
        monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: CLOCK[0]))
    spec = small_audits.document(
        audit={"trials": trials},
        mechanism=[{"use": "slow", "params": {"seconds": seconds}}],
        run={"chunk": 16},
    )
    return outlook(small_audits.load(spec, [*small_audits.PLUGINS, Slow]))


@pytest.mark.parametrize("seconds", [0.001, 0.01, 0.1, 0.5])
def test_black_boxes_are_rehearsed(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    before = CLOCK[0]
    found = rehearsed(monkeypatch, seconds)
    assert found["calls"] == (2 * 2 + 4) * 16
    assert found["seconds"] == pytest.approx(found["calls"] * seconds, abs=0.01)
    assert not found["seconds_at_least"]
    assert CLOCK[0] - before <= 2 * seconds + box_duration.REHEARSAL


def test_a_box_that_does_not_come_back_in_time_takes_that_long_at_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = rehearsed(monkeypatch, 3.0)
    assert found["seconds_at_least"]
    assert found["seconds"] == pytest.approx(found["calls"] * box_duration.REHEARSAL, abs=0.01)
    file = io.StringIO()
    render_plan(found, Console(file=file, width=100))
    assert "more than 4 min" in file.getvalue()


def test_boxes_that_fail_leave_the_time_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call, for the shape, was in order."""

    def sample(self: Any, rng: Any, data: Any, n: int) -> Any:
        return rng.random((n, 1)) if n == 2 else None

    monkeypatch.setattr(Slow, "sample", sample)
    found = rehearsed(monkeypatch, 1.0)
    assert (found["seconds"], found["seconds_at_least"]) == (None, False)


def test_workers_at_the_same_time_make_it_shorter() -> None:
    spec = small_audits.document(audit={"trials": 160}, mechanism=[{"use": "box"}])
    loaded = small_audits.load({**spec, "run": {"chunk": 16}}, [*small_audits.PLUGINS, BOX])
    (the_pass,) = make_plan(loaded, Here()).passes
    chunks = planned_calls(the_pass, loaded.run) // 16
    assert chunks == 2 * 10 + 4
    found = [box_duration.waves(the_pass, loaded.run, workers) for workers in (1, 2, 4, 1000)]
    assert found == [3 + 18, 3 + 9, 3 + 5, 3 + 1]
