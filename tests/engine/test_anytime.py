"""Cells of several passes share their work while threads prepare them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest

from dpframe import Estimate, Estimator, PureDP, Query, audit
from dpframe.builtin.betting import Betting
from dpframe.count.rounds import ends
from dpframe.engine.anytime import EstimatorState, ExtremeCounts

ENDS = ends(2_000, 1 << 14, whole=False)
THREADS = 8


@pytest.fixture
def _switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def extremes() -> ExtremeCounts:
    query = Query((0, 0), delta=0.0, confidence=0.95, claim=PureDP(1.0), resolution=0.0)
    estimator: Estimator[Any, Any] = Betting()
    return ExtremeCounts(EstimatorState(estimator, (), query))


@pytest.mark.usefixtures("_switching", "coarse_bounds")
def test_threads_that_play_the_loudest_counts_at_once_play_each_round_once() -> None:
    """A run that goes on with stored rounds shows them while it prepares, in all passes at once."""
    alone = extremes().after(ENDS).settled(), extremes().after(ENDS).concluded()
    for _ in range(2):
        shared = extremes()
        with ThreadPoolExecutor(THREADS) as threads:
            found = list(threads.map(lambda _: shared.after(ENDS), range(THREADS)))  # noqa: B023
        assert {(progress.trials, progress.rounds) for progress in found} == {(ENDS[-1], len(ENDS))}
        assert all(progress.settled() == alone[0] for progress in found)
        assert found[0].concluded() == alone[1]


@pytest.mark.usefixtures("coarse_bounds")
def test_cells_of_other_trials_share_whole_rounds_only() -> None:
    shared = extremes()
    whole = ENDS[:6]
    cut, longer = [*whole[:-1], whole[-1] - 3], [*whole, whole[-1] + 5]
    for own in (cut, whole, longer, cut):
        assert shared.after(own).concluded() == extremes().after(own).concluded()


@pytest.mark.usefixtures("coarse_bounds")
def test_fewer_trials_in_the_same_round_may_be_inconclusive() -> None:
    """The extreme counts of 31 trials refute the claim at 3 %, and those of 29 do not."""
    record = audit(
        {
            "schema": 1,
            "audit": {"name": "two", "trials": 31, "confidence": 0.97, "multiplicity": "none"},
            "pair": {"use": "zeros-ones"},
            "mechanism": [{"use": "randomized-response", "params": {"epsilon": 2.0}}],
            "attack": [{"use": "majority-vote"}],
            "estimator": [{"use": "betting"}],
            "run": {"stop": "never"},
            "sweep": {"audit.trials": [31, 29]},
        }
    )
    assert [cell.verdict for cell in record.cells] == ["consistent", "inconclusive"]


class Sparing(Estimator, name="sparing", api=1):
    """Bets, and leaves out what is not asked for."""

    certifies: ClassVar[bool] = True
    assumption: ClassVar[str] = Betting.assumption
    anytime: ClassVar[bool] = True

    def statistic(self) -> Any:
        return Betting().statistic()

    def observe(self, state: Any, layout: Any, counts: Any, query: Query) -> Any:
        return Betting().observe(state, layout, counts, query)

    def extreme(self, layout: Any, trials: tuple[int, int]) -> Any:
        return Betting().extreme(layout, trials)

    def estimate(self, layout: Any, counts: Any, query: Query) -> Estimate:
        return Betting().estimate(layout, counts, query)

    def settled(self, state: Any, layout: Any, query: Query) -> Any:
        return Betting().settled(state, layout, query)

    def conclude(self, state: Any, layout: Any, query: Query) -> Estimate:
        found = Betting().conclude(state, layout, query)
        if query.only == "bound":
            return Estimate(0.0, found.epsilon_lower)
        return found._replace(epsilon_lower=None) if query.only == "p-values" else found


@pytest.mark.usefixtures("coarse_bounds")
def test_an_estimator_may_leave_out_what_is_not_read() -> None:
    contents = {
        "schema": 1,
        "audit": {"name": "sparing", "trials": 60},
        "pair": {"use": "zeros-ones"},
        "mechanism": [{"use": "randomized-response", "params": {"epsilon": 2.0}}],
        "attack": [{"use": "majority-vote"}],
        "estimator": [{"use": "sparing"}, {"use": "betting"}],
    }
    sparing, whole = audit(contents, plugins=[Sparing]).cells
    assert sparing.reason == whole.reason
    assert (sparing.basis, sparing.slack) == (whole.basis, whole.slack)
    assert sparing.slack is not None
