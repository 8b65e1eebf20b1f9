"""The number of draws that it takes to refute a claim at all."""

from __future__ import annotations

import math

import pytest

from dpframe.claims import ApproxDP, PureDP
from dpframe.search.black_box_arms import WARM_UP, draws_needed

ERROR = 1e-3


def test_a_small_claim_is_decided_by_the_first_bets() -> None:
    assert draws_needed(PureDP(0.5), ERROR) <= 4 * WARM_UP
    assert draws_needed(ApproxDP(0.5, 1e-6), ERROR) <= 4 * WARM_UP


@pytest.mark.parametrize("epsilon", [8.0, 10.0, 12.0])
def test_a_large_claim_takes_as_many_as_its_events_are_rare(epsilon: float) -> None:
    needed = draws_needed(PureDP(epsilon), ERROR)
    assert needed is not None
    assert math.exp(epsilon) < needed < 100 * math.exp(epsilon)
    more = draws_needed(PureDP(epsilon), ERROR / 1000)
    assert more is not None
    assert more >= needed


def test_some_claims_nothing_refutes() -> None:
    assert draws_needed(PureDP(600.0), ERROR) is None
