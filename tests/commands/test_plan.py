"""A plan foresees calls, and claims that cannot be decided."""

from __future__ import annotations

from typing import Any

import pytest
from support import small_audits
from support.black_boxes import sample_in_this_process

from dpframe import PureDP, host_mechanism
from dpframe.commands.audit import make_plan
from dpframe.commands.plan import outlook
from dpframe.draw.in_process import InProcessWorkers
from dpframe.engine.resources import planned_calls


def box(rng: Any, data: Any, n: int) -> Any:
    return rng.laplace(size=(n, *data.shape))


BOX = host_mechanism(box, name="box", claim=PureDP(1.0))


def foreseen(trials: int, *uses: str, **sweep: Any) -> Any:
    spec = small_audits.document(
        audit={"trials": trials}, mechanism=[{"use": use} for use in uses], **sweep
    )
    return outlook(small_audits.load(spec, [*small_audits.PLUGINS, BOX]))


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


def test_the_calls_of_a_black_box_include_its_checks() -> None:
    spec = small_audits.document(audit={"trials": 160}, mechanism=[{"use": "box"}])
    loaded = small_audits.load({**spec, "run": {"chunk": 16}}, [*small_audits.PLUGINS, BOX])
    (the_pass,) = make_plan(loaded, InProcessWorkers()).passes
    assert planned_calls(the_pass, loaded.run) == 16 * (2 * 10 + 4)
