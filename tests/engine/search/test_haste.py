"""Pairs of a fast box that show nothing at first are looked at at once, and not in small steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support import leaky_boxes as boxes
from support.leaky_boxes import searched

from dpframe import HostMechanism, PureDP
from dpframe.engine.addresses.address import EVAL, Stream
from dpframe.engine.addresses.shape import Asking
from dpframe.engine.boxes.here import Here
from dpframe.engine.boxes.pace import Clock
from dpframe.engine.boxes.worker import answering, sampling
from dpframe.engine.counts.checkpoint import Store
from dpframe.engine.search import box_arm, hunt
from dpframe.engine.search.box_draws import BoxDraws
from dpframe.engine.search.haste import LARGEST, MOMENT, Haste
from dpframe.engine.search.kept_answers import Round, Shelves

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STREAM = Stream(0, "searched", 0, EVAL)

WHERE = (STREAM, Asking(), Here(), 8, Clock(None))
"""Of draws, in chunks of eight."""

RUN = {"seconds": 600.0, "stop": "never"}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[float, int]]]:
    """Of every look the standard errors that the pair had shown, and its answers afterwards."""
    monkeypatch.setattr(box_arm.BoxArm, "pace", 1e-4)
    yield from _looked(monkeypatch)


def _looked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[float, int]]]:
    seen: list[tuple[float, int]] = []
    look = hunt.Hunt._look

    def noted(self: Any, arm: Any, draws: int) -> None:
        z, history = self._z(arm), len(self.wealth.history)
        look(self, arm, draws)
        seen.append((z, arm.trials))
        assert len(self.wealth.history) == history  # nothing is bet on a look

    monkeypatch.setattr(hunt.Hunt, "_look", noted)
    yield seen


def test_a_look_takes_a_moment_of_the_box() -> None:
    haste = Haste(Store(), STREAM, "looks")
    sizes = [haste.next(pace, 10**9) for pace in (1e-6, MOMENT / 2048, MOMENT / 2000, math.inf)]
    assert sizes == [LARGEST, LARGEST, 0, 0]
    assert haste.next(1e-6, 100) == 64


def test_who_repeats_a_search_looks_at_as_many() -> None:
    store = Store()
    first = Haste(store, STREAM, "looks")
    sizes = [first.next(pace, 10**9) for pace in (1e-4, 1e-5)]
    again = Haste(store, STREAM, "looks")
    assert [again.next(1.0, 10**9) for _ in sizes] == sizes
    assert again.next(1.0, 10**9) == 0  # what was never asked before is measured
    assert Haste(store, STREAM, "others").next(1.0, 10**9) == 0


def test_what_shows_nothing_is_looked_at_and_not_bet_on(looks: list[tuple[float, int]]) -> None:
    found = searched(boxes.clipped_mean, 1.0, 4_000, run=RUN)
    assert len(looks) >= 4  # of 8 pairs
    assert all(z <= box_arm.CLEAR for z, _ in looks)
    # A sixteenth of what is left, since 8 pairs share half of it.
    assert {trials for _, trials in looks} <= {64, 128}
    assert found.estimate.p_value > 1e-6
    looks.clear()
    searched(boxes.clipped_mean, 1.0, 4_000)  # trials are what is spent, and not time
    assert not looks


def test_looks_are_repeated_whatever_the_machine_does(
    looks: list[tuple[float, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    found = searched(boxes.clipped_mean, 1.0, 4_000, run=RUN, store=store)
    sizes = [*looks]
    looks.clear()
    monkeypatch.setattr(box_arm.BoxArm, "pace", 1.0)
    again = searched(boxes.clipped_mean, 1.0, 4_000, run=RUN, store=store)
    assert looks == sizes
    assert (again.estimate, again.witness) == (found.estimate, found.witness)
    slow = searched(boxes.clipped_mean, 1.0, 4_000, run=RUN)
    assert slow.estimate != found.estimate  # non-vacuity: looks make another search


class Clock:
    """Of a machine that does other things too.

    Args:
        answer: seconds that an answer takes.
        busy: of how many readings one comes a second late.
    """

    def __init__(self, answer: float, busy: int | None = None) -> None:
        self.now, self.readings, self.answer, self.busy = 0.0, 0, answer, busy

    def __call__(self) -> float:
        self.readings += 1
        self.now += self.answer + (self.busy is not None and self.readings % self.busy == 0)
        return self.now


class Batches(HostMechanism, name="leaky"):
    """A right box that is asked for many answers at once."""

    def claim(self, pair: Any) -> PureDP:
        return PureDP(1.0)

    def sample(self, rng: np.random.Generator, data: Any, n: int) -> Any:
        return np.clip(np.nan_to_num(data), 0, 1).sum() + rng.laplace(size=n)


@pytest.mark.parametrize("box", [None, Batches])
def test_what_holds_up_some_answers_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, box: Any
) -> None:
    def searched_at(clock: Clock) -> tuple[Any, ...]:
        with monkeypatch.context() as patch:
            for module in (answering, sampling):
                patch.setattr(module, "perf_counter", clock)
            seen = next(looked := _looked(patch))
            found = searched(boxes.clipped_mean, 1.0, 4_000, run=RUN, box=box)
            looked.close()
        return len(seen), found.estimate, found.witness

    idle = searched_at(Clock(1e-5))
    assert idle[0] >= 4
    for busy in (3, 5, 7):  # every third answer is held up for a second, or every third batch
        assert searched_at(Clock(1e-5, busy)) == idle
    assert searched_at(Clock(1e-2))[0] == 0  # non-vacuity: a slow box is not looked at


def test_a_box_is_as_fast_as_its_quickest_chunk_told(tmp_path: Path) -> None:
    """Also in a search that goes on, with answers that are kept."""
    shelves, told = Shelves(tmp_path), [(3e-4, 5e-4), (1e-4, 9e-4), (2e-4, None)]
    rng = np.random.default_rng(1)
    for number, paces in enumerate(told):
        d0, d1 = rng.integers(0, 2**63, (2, 8, 4), np.uint64)
        kept = Round((d0, d1), {()}, one=False, words={}, paces=paces)
        shelves.of(STREAM, "box").save(number, number + 1, kept, {})
    draws: Any = BoxDraws(boxes.boxed(lambda rng, _: rng.random(), 1.0)(), (0, 1), *WHERE)
    assert draws.paces == [math.inf, math.inf]
    draws.shelf = shelves.of(STREAM, "box")
    for number in range(3):
        draws.draw(number, number + 1)
    assert draws.paces == [1e-4, 5e-4]


def test_a_weak_effect_is_found_in_fewer_draws(looks: list[tuple[float, int]]) -> None:
    def for_another_norm(rng: np.random.Generator, data: Any) -> Any:
        """Ten numbers with the noise of one: each gives away a little."""
        x = 4 * np.clip(np.nan_to_num(data), 0, 1).mean()
        return np.full(10, 0.4 * x) + rng.laplace(0, 1, 10)

    found = searched(for_another_norm, 1.0, 40_000, run={"seconds": 600.0, "stop": "decided"})
    assert found.estimate.p_value < 1e-3
    assert found.query.trials[0] < 10_000  # without looks 16,096
