"""The schedule: every segment once, whatever fails or runs out of time."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import threads as running
from support.small_audits import interrupted_at

from dpframe.common.machine import at_work
from dpframe.count.rounds import PrefixCounts
from dpframe.draw.streams import Segment, segments
from dpframe.engine import schedule
from dpframe.engine.schedule import CountedSegment, Finished, GaveUpError, Schedule
from dpframe.spec.audit import RunSettings

ROWS = 4
laws = settings(derandomize=True, deadline=None, max_examples=40)


class FakeWork:
    """A pass of which every segment counts its rows."""

    def __init__(self, trials: int, *, fail: Any = None, budget: int | None = None) -> None:
        self.trials, self.fail, self.budget = trials, fail, budget
        self.run, self.on_host, self.begun = RunSettings(), False, False
        self.in_steps = False
        self.tally = PrefixCounts((np.zeros(2, np.int64),), (0, 0), ROWS)
        self.prepared, self.hangs = 0, False
        self.counted: Counter[tuple[int, Segment]] = Counter()
        self._lock = threading.Lock()

    def prepare(self) -> None:
        self.prepared += 1
        if self.fail == "prepare":
            raise ValueError("prepare")

    def units(self) -> list[tuple[int, Segment]]:
        both = [(s, d) for d in (0, 1) for s in segments(self.trials, ROWS, 1 << 27)]
        return [(dataset, segment) for segment, dataset in sorted(both)]

    def count(self, dataset: int, segment: Segment) -> Any:
        with self._lock:
            self.counted[dataset, segment] += 1
        if self.fail == (dataset, segment.first):
            raise self.error()
        rows = segment.limit * (segment.stop - segment.first)
        return segment, (np.eye(2, dtype=np.int64)[dataset] * rows,)

    def begin(self) -> None:
        self.begun = True

    def error(self) -> BaseException:
        return KeyboardInterrupt("from a plugin")

    def overdue(self) -> bool:
        return self.hangs

    def out_of_time(self) -> bool:
        return self.budget is not None and sum(self.counted.values()) >= self.budget


class Laborious(FakeWork):
    """So long at its segments that the caller waits."""

    def count(self, dataset: int, segment: Segment) -> Any:
        np.sort(np.random.default_rng(0).random(20_000))
        return super().count(dataset, segment)


def served(works: list[Any], threads: int) -> dict[Any, list[BaseException | None]]:
    ended: dict[Any, list[BaseException | None]] = {work: [] for work in works}
    before = running.ours()
    for event in Schedule(works, threads, jax.devices()).events(5.0):
        match event:
            case CountedSegment(work=work, dataset=dataset, segment=segment, counts=counts):
                assert not ended[work]
                work.tally.add(dataset, segment, counts)
            case Finished(work=work, error=error):
                ended[work].append(error)
    assert running.ours() <= before
    return ended


@laws
@given(st.lists(st.integers(0, 40), max_size=6), st.integers(1, 5))
def test_every_segment_once(trials: list[int], threads: int) -> None:
    works: list[Any] = [FakeWork(number) for number in trials]
    ended = served(works, threads)
    for work in works:
        assert ended[work] == [None]
        assert work.prepared == 1
        assert work.counted == Counter(work.units())
        counts, got = work.tally.total()
        assert got == (work.trials, work.trials)
        assert counts[0].tolist() == [work.trials, work.trials]


@laws
@given(
    st.lists(
        st.sampled_from([None, "prepare", (0, 0), (1, 0), (0, 2), (1, 4)]), min_size=1, max_size=6
    ),
    st.integers(1, 5),
)
def test_a_failure_ends_its_own_work(failures: list[Any], threads: int) -> None:
    works: list[Any] = [FakeWork(40, fail=fail) for fail in failures]
    ended = served(works, threads)
    for work in works:
        (error,) = ended[work]
        assert (error is None) == (work.fail is None)
        if error is None:
            assert work.tally.total()[1] == (40, 40)
        else:
            assert isinstance(error, ValueError if work.fail == "prepare" else KeyboardInterrupt)


def test_what_has_failed_is_not_gone_on_with() -> None:
    work: Any = FakeWork(40, fail=(1, 0))
    served([work, FakeWork(9)], 1)
    assert sum(work.counted.values()) == 2


@laws
@given(st.integers(1, 40), st.integers(0, 30), st.integers(1, 4))
def test_out_of_time_ends_early_with_trials_on_both(trials: int, budget: int, threads: int) -> None:
    work: Any = FakeWork(trials, budget=budget)
    other: Any = FakeWork(17)
    ended = served([work, other], threads)
    assert ended == {work: [None], other: [None]}
    assert set(work.counted.values()) == {1}
    counts, got = work.tally.total()
    assert all(got), got
    assert counts[0].tolist() == list(got)
    assert sum(work.counted.values()) <= max(2, budget) + threads
    assert other.tally.total()[1] == (17, 17)


@pytest.mark.parametrize("threads", [1, 3])
def test_leaving_early_keeps_what_was_counted(threads: int) -> None:
    work: Any = FakeWork(4000)
    before = running.ours()
    schedule = Schedule([work], threads, jax.devices())
    for event in schedule.events(5.0):
        if isinstance(event, CountedSegment):
            work.tally.add(event.dataset, event.segment, event.counts)
            break
    assert running.ours() <= before
    for event in schedule.rest():
        if isinstance(event, CountedSegment):
            work.tally.add(event.dataset, event.segment, event.counts)
    counts, got = work.tally.total()
    assert sum(got) == ROWS * sum(work.counted.values())
    assert counts[0].tolist() == list(got)


@pytest.mark.parametrize("function", [Schedule.events, threading.Condition.wait])
def test_a_signal_at_any_moment_arrives_as_it_is(function: Any) -> None:
    """It meets no lock half released: that would be another error, in the place of Ctrl-C."""
    before = running.ours()
    for moment in range(1, 40):
        work: Any = Laborious(24)
        schedule = Schedule([work], 2, jax.devices())
        events = schedule.events(5.0)
        taken = [next(events)]
        interrupted_at(function, moment, lambda e=events, t=taken: t.extend(e))
        events.close()
        schedule._stop()  # the signal may have come when it was about to
        assert running.ours() <= before
        found = [*taken, *schedule.rest()]
        assert sum(isinstance(event, CountedSegment) for event in found) <= len(work.units())


class Measured(FakeWork):
    """Knows how many of its segments were made before they were needed."""

    made = ahead = 0

    def units(self) -> Any:
        for unit in super().units():
            self.made += 1
            yield unit

    def count(self, dataset: int, segment: Segment) -> Any:
        self.ahead = max(self.ahead, self.made - sum(self.counted.values()))
        return super().count(dataset, segment)


def test_segments_are_made_as_they_are_needed() -> None:
    work: Any = Measured(400)
    served([work], 2)
    assert work.made == 200
    assert work.ahead <= 2 * 2 + 1  # what the threads count and have counted, and the next


def test_nothing_to_do_ends_at_once() -> None:
    assert list(Schedule([], 3, jax.devices()).events(5.0)) == []


class Hanging(FakeWork):
    """Does not come back, while it is prepared or at one of its segments."""

    def __init__(self, trials: int, over: threading.Event, at: Any) -> None:
        super().__init__(trials)
        self.run = self.run._replace(seconds=0.0)
        self.over, self.at = over, at

    def prepare(self) -> None:
        super().prepare()
        if self.at == "prepare":
            self._hang("fit")

    def count(self, dataset: int, segment: Segment) -> Any:
        if self.at == (dataset, segment.first):
            self._hang("sample")
        return super().count(dataset, segment)

    def _hang(self, what: str) -> None:
        with at_work(what):
            self.hangs = True
            self.over.wait()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("at", "hook"), [("prepare", "fit"), ((0, 0), "sample"), ((1, 2), "sample")]
)
def test_what_hangs_is_given_up_and_its_thread_replaced(
    at: Any, hook: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "FAREWELL_SECONDS", 0.0)
    over, before = threading.Event(), running.ours()
    stuck, others = Hanging(10, over, at), [FakeWork(40), FakeWork(9)]
    ended: dict[Any, list[BaseException | None]] = {work: [] for work in (stuck, *others)}
    counted: Counter[Any] = Counter()
    for event in Schedule([stuck, *others], threads, jax.devices()).events(5.0):
        match event:
            case CountedSegment(work=work, segment=segment):
                assert not ended[work]
                counted[work] += segment.limit * (segment.stop - segment.first)
            case Finished(work=work, error=error):
                ended[work].append(error)
    (gave_up,) = ended.pop(stuck)
    assert isinstance(gave_up, GaveUpError)
    assert f"{hook} did not return" in str(gave_up)
    assert list(ended.values()) == [[None], [None]]
    assert [counted[work] for work in others] == [80, 18]
    left = running.ours() - before
    over.set()  # later results come too late for everybody
    for thread in left:
        thread.join(30)
        assert not thread.is_alive()


def test_a_work_that_keeps_its_time_is_waited_for() -> None:
    work = FakeWork(40)
    work.run = work.run._replace(seconds=1e9)
    assert served([work], 2) == {work: [None]}
