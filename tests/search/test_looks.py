"""Pairs of a fast box that show nothing at first get one large look instead of small steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support import leaky_boxes as boxes
from support.leaky_boxes import searched
from support.tiers import mostly_slow

from dpframe import HostMechanism, PureDP
from dpframe.count.checkpoint import Store
from dpframe.count.kept_answers import (
    LOOKS,
    MOMENT,
    AnswerFiles,
    AnswerRounds,
    KeptChoices,
    fitting_look,
)
from dpframe.draw.in_process import InProcessWorkers
from dpframe.draw.pool import Workers
from dpframe.draw.scheduling import Clock
from dpframe.draw.streams import EVAL, Asking, Stream
from dpframe.draw.worker import sampler
from dpframe.search import black_box_arms
from dpframe.search.search import SearchRun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("coarse_bounds_of_module")

STREAM = Stream(0, "searched", 0, EVAL)

RUN = {"seconds": 600.0, "stop": "never"}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[float, int]]]:
    """The standard errors that the pair had shown at every look, and its answers afterwards."""
    monkeypatch.setattr(black_box_arms.BlackBoxArm, "durations", ([1e-4], [1e-4]))
    yield from _looked(monkeypatch)


def _looked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[float, int]]]:
    seen: list[tuple[float, int]] = []
    look = SearchRun._look

    def noted(self: Any, arm: Any, draws: int) -> None:
        z, history = self._z(arm), len(self.wealth.history)
        look(self, arm, draws)
        seen.append((z, arm.trials))
        assert len(self.wealth.history) == history  # nothing is bet on a look

    monkeypatch.setattr(SearchRun, "_look", noted)
    yield seen


def choices(store: Store, question: str = "one") -> KeptChoices:
    return KeptChoices(store, STREAM, question, Clock(None), None)


def test_a_look_takes_a_moment_of_the_box() -> None:
    sizes = choices(Store())
    assert [sizes.look(most, 10**9) for most in (LOOKS[0], 0, LOOKS[1])] == [LOOKS[0], 0, LOOKS[1]]
    assert sizes.look(LOOKS[0], 100) == 64
    lines = [MOMENT / (2 * look) for look in LOOKS]
    durations = [([took], [took]) for line in lines for took in (line, 1.01 * line)]
    fitting = [fitting_look(both, both) for both in durations]
    assert fitting == [LOOKS[0], LOOKS[1], LOOKS[1], LOOKS[2], LOOKS[2], 0]


def test_what_counts_is_the_median_of_all_pairs_and_not_one_that_is_dear() -> None:
    line, quick = MOMENT / (2 * LOOKS[-1]), (1e-6, 1e-6, 1e-6)
    assert fitting_look(((1e-6, 9.0), (9.0, 1e-6)), (quick, quick, (9.0,) * 6))
    assert not fitting_look((quick, quick), (quick, (9.0,) * 4))  # often slow
    assert not fitting_look((quick, (9.0,) * 3), (quick,) * 9)  # its own D′ is
    assert fitting_look(((9 * line,), quick), (quick, quick))
    assert not fitting_look(((), quick), (quick,))
    assert not fitting_look(((), ()), ())


def test_who_repeats_a_search_looks_at_as_many() -> None:
    store = Store()
    first = choices(store)
    sizes = [first.look(LOOKS[0], 10**9) for _ in range(2)]
    again = choices(store)
    assert [again.look(0, 10**9) for _ in sizes] == sizes
    assert again.look(0, 10**9) == 0  # new boxes are measured
    assert choices(store, "another").look(0, 10**9) == 0


def test_what_shows_nothing_is_looked_at_and_not_bet_on(looks: list[tuple[float, int]]) -> None:
    found = searched(boxes.clipped_mean, 1.0, 4_000, run=RUN)
    assert len(looks) >= 4  # for 8 pairs
    assert all(z <= black_box_arms.LEAST_Z for z, _ in looks)
    # A sixteenth of what is left, since 8 pairs share half of it.
    assert {trials for _, trials in looks} <= {64, 128}
    assert found.p_value > 1e-6
    looks.clear()
    searched(boxes.clipped_mean, 1.0, 400)  # trials are what is spent, and not time
    assert not looks


@pytest.mark.slow
def test_looks_are_repeated_whatever_the_machine_does(
    looks: list[tuple[float, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    found = searched(boxes.clipped_mean, 1.0, 4_000, run=RUN, store=store)
    sizes = [*looks]
    looks.clear()
    monkeypatch.setattr(black_box_arms.BlackBoxArm, "durations", ([1.0], [1.0]))
    again = searched(boxes.clipped_mean, 1.0, 4_000, run=RUN, store=store)
    assert looks == sizes
    assert (again.estimate, again.search) == (found.estimate, found.search)
    slow = searched(boxes.clipped_mean, 1.0, 4_000, run=RUN)
    assert slow.estimate != found.estimate  # non-vacuity: looks make another search


class Ticking:
    """A clock of a machine that does other things too.

    Args:
        step: seconds between two readings.
        busy: of how many readings one comes four milliseconds late.
    """

    def __init__(self, step: float, busy: int | None = None) -> None:
        self.now, self.readings, self.step, self.busy = 0.0, 0, step, busy

    def __call__(self) -> float:
        self.readings += 1
        late = self.busy is not None and self.readings % self.busy == 0
        self.now += self.step + 4e-3 * late
        return self.now


class Batches(HostMechanism, name="leaky"):
    """A right box that is asked for many answers at once."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        return np.clip(np.nan_to_num(data), 0, 1).sum() + rng.laplace(size=n)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("box", "run"),
    mostly_slow([(None, RUN), (Batches, {**RUN, "chunk": 16})], [1]),
)
def test_what_holds_up_some_answers_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, box: Any, run: dict[str, Any]
) -> None:
    def searched_at(clock: Ticking) -> tuple[Any, ...]:
        with monkeypatch.context() as patch:
            patch.setattr(sampler, "perf_counter", clock)
            seen = next(looked := _looked(patch))
            found = searched(boxes.clipped_mean, 1.0, 2_000, run=run, box=box)
            looked.close()
        return len(seen), found.estimate, found.search

    idle = searched_at(Ticking(1e-4))
    assert idle[0] >= 3
    for busy in (3, 5):
        assert searched_at(Ticking(1e-4, busy)) == idle
    assert searched_at(Ticking(1.0))[0] == 0  # non-vacuity: a slow box is not looked at


@pytest.mark.parametrize("where", mostly_slow([InProcessWorkers, Workers], [0]))
def test_what_answers_took_is_kept_with_them(tmp_path: Path, where: Any) -> None:
    files, box = AnswerFiles(tmp_path), boxes.boxed(lambda rng, _: rng.random(), 1.0)()
    with where() as source:
        how = STREAM, Asking(), source, 8, Clock(None)
        tries = []
        for _ in range(2):
            draws = AnswerRounds(box, (0, 1), *how, files.of(STREAM, "box"))
            tries.append(draws)
            for first, stop in ((0, 2), (2, 5)):
                draws.draw(first, stop)
    assert tries[0].durations == tries[1].durations
    assert [len(durations) for durations in tries[1].durations] == [5, 5]
    assert all(0 < one < 60 for side in tries[1].durations for one in side)


def test_a_few_outputs_are_timed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "perf_counter", iter(range(100)).__next__)
    for rows, durations in ((8, [1 / 8] * 4), (3, [1 / 9]), (16, [1 / 16] * 4), (1, [])):
        timer = sampler.Timer()
        for _ in range(4):
            timer.drew(rows)
        assert timer.durations == pytest.approx(durations)


@pytest.mark.slow
def test_a_weak_effect_is_found_in_fewer_draws(looks: list[tuple[float, int]]) -> None:
    def for_another_norm(rng: np.random.Generator, data: Any) -> Any:
        """Ten numbers with the noise of one: each gives away a little."""
        x = 4 * np.clip(np.nan_to_num(data), 0, 1).mean()
        return np.full(10, 0.4 * x) + rng.laplace(0, 1, 10)

    found = searched(for_another_norm, 1.0, 40_000, run={"seconds": 600.0, "stop": "decided"})
    assert found.p_value < 1e-3
    assert found.trials[0] < 10_000  # without looks 16,096
