"""Cells of several passes share their work while threads prepare them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dpframe import Estimator, PureDP, Query
from dpframe.builtin.estimators.betting import Betting
from dpframe.engine.anytime import Loudest, Player
from dpframe.engine.rounds import ends

ENDS = ends(2_000, 1 << 14, whole=False)
THREADS = 8


@pytest.fixture
def _switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def loudest() -> Loudest:
    query = Query((0, 0), delta=0.0, confidence=0.95, claim=PureDP(1.0), resolution=0.0)
    estimator: Estimator[Any, Any] = Betting()
    return Loudest(Player(estimator, (), query))


@pytest.mark.usefixtures("_switching", "coarse_bounds")
def test_threads_that_play_the_loudest_counts_at_once_play_each_round_once() -> None:
    """A run that goes on with stored rounds shows them while it prepares, in all passes at once."""
    alone = loudest().after(ENDS).settled(), loudest().after(ENDS).concluded()
    for _ in range(2):
        shared = loudest()
        with ThreadPoolExecutor(THREADS) as threads:
            found = list(threads.map(lambda _: shared.after(ENDS), range(THREADS)))  # noqa: B023
        assert {(player.trials, player.rounds) for player in found} == {(ENDS[-1], len(ENDS))}
        assert all(player.settled() == alone[0] for player in found)
        assert found[0].concluded() == alone[1]
