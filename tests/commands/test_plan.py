"""What a plan foresees: time, and claims that cannot be decided."""

from __future__ import annotations

from typing import Any

import pytest
from support import small_audits
from support.black_boxes import sample_in_this_process

from dpframe import PureDP, host_mechanism
from dpframe.commands.plan import outlook


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
    assert foreseen(1000, "flip", "box", rehearse=True)["seconds"] is None
