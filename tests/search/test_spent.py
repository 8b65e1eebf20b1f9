"""A search that was interrupted has what is left of its seconds, and not all of them anew."""

from __future__ import annotations

from typing import Any

import pytest
from support import leaky_boxes as boxes
from support.leaky_boxes import searched

from dpframe.count.checkpoint import Store
from dpframe.count.kept_answers import LEAST_SHARE, NOTE_SECONDS, KeptChoices
from dpframe.draw import scheduling as pace
from dpframe.draw.streams import EVAL, Stream
from dpframe.search import black_box_arms

pytestmark = pytest.mark.usefixtures("coarse_bounds_of_module")

STREAM = Stream(0, "searched", 0, EVAL)


class Try:
    """One try of a search with 60 seconds, at a time that is set by hand."""

    now = 0.0

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pace.time, "monotonic", lambda: self.now)
        self.clock = pace.Clock(60.0)
        self.spent = KeptChoices(store, STREAM, "one", self.clock, 60.0)

    def draws(self, drawn: int, seconds: float) -> float | None:
        with self.clock.running():
            self.now += seconds
            self.spent.note_time(drawn)
        return self.clock.left()


def test_who_goes_on_has_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    first = Try(store, monkeypatch)
    assert first.draws(100, 10.0) == 50.0
    assert first.draws(200, 10.0) == 40.0
    again = Try(store, monkeypatch)
    assert again.draws(100, 25.0) == 60.0  # steps that are taken again cost nothing
    assert again.draws(200, 25.0) == 40.0
    assert again.draws(300, 5.0) == 35.0
    third = Try(store, monkeypatch)
    assert third.draws(300, 25.0) == 35.0
    third.spent.forget_time()
    assert Try(store, monkeypatch).draws(300, 25.0) == 35.0  # all 60 together


def test_who_has_used_all_gets_some_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    Try(store, monkeypatch).draws(100, 59.9)
    assert Try(store, monkeypatch).draws(100, 1.0) == pytest.approx(LEAST_SHARE * 60)


def test_short_times_are_not_put_down(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    Try(store, monkeypatch).draws(100, NOTE_SECONDS / 2)
    assert store.load(STREAM, "spent-one") is None


@pytest.mark.slow
def test_a_search_goes_on_where_its_time_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(black_box_arms.BlackBoxArm, "durations", ([1e-5], [1e-5]))
    store, run = Store(), {"seconds": 600.0, "stop": "never"}
    draw, drawn = black_box_arms.BlackBoxArm.draw, []

    def dear(self: Any, draws: int) -> Any:
        """Each round seems to take 20 seconds, until the run is interrupted."""
        drawn.append(draws)
        if len(drawn) == 10:
            raise KeyboardInterrupt
        self._draws.clock.set(self._draws.clock.used() + 20.0)
        return draw(self, draws)

    with monkeypatch.context() as patch:
        patch.setattr(black_box_arms.BlackBoxArm, "draw", dear)
        with pytest.raises(KeyboardInterrupt):
            searched(boxes.clipped_mean, 1.0, 2_000, run=run, store=store)
    lefts: list[float] = []
    note = KeptChoices.note_time

    def noted(self: KeptChoices, much: int) -> None:
        note(self, much)
        lefts.append(self._clock.left() or 0.0)

    monkeypatch.setattr(KeptChoices, "note_time", noted)
    found = searched(boxes.clipped_mean, 1.0, 2_000, run=run, store=store)
    assert max(lefts[:8]) > 590.0  # eight pairs are begun again
    assert lefts[-1] < 600.0 - 9 * 20.0
    assert found.estimate is not None
    lefts.clear()
    searched(boxes.clipped_mean, 1.0, 2_000, run=run, store=store)
    assert lefts[-1] > 500.0  # it had come to its end
