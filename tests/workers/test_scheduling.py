"""Workers are lent in turn, the display guesses what is under way, and a box has its own time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.black_boxes import Box

from dpframe.workers import scheduling
from dpframe.workers.pool import FairQueue, UnderWay, Workers
from dpframe.workers.requests import Load, Stopped


class Time:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


def used(queue: FairQueue, clock: Time, who: str, seconds: float, workers: int = 1) -> None:
    ticket = queue.enter(who)
    queue.leave(ticket)
    queue.take(ticket, workers)
    clock.now += seconds
    queue.give_back(ticket)


def test_who_has_had_least_comes_first(clock: Time) -> None:
    queue = FairQueue(clock)
    kept = [queue.enter(who) for who in ("slow", "fast")]
    used(queue, clock, "slow", 8.0)
    used(queue, clock, "fast", 5.0, workers=2)
    slow, fast = (queue.enter(who) for who in ("slow", "fast"))
    for one in kept:
        queue.leave(one)
    assert queue.is_next(slow)  # 8 seconds against 10
    assert not queue.is_next(fast)
    used(queue, clock, "slow", 3.0)
    assert queue.is_next(fast)


def test_of_equal_ones_the_first_comes_first(clock: Time) -> None:
    queue = FairQueue(clock)
    first, second = queue.enter("one"), queue.enter("other")
    assert queue.is_next(first)
    queue.leave(first)
    assert queue.is_next(second)


def test_who_wanted_nothing_for_long_is_not_ahead_for_long(clock: Time) -> None:
    queue = FairQueue(clock)
    used(queue, clock, "old", 100.0)
    old = queue.enter("old")
    queue.enter("new")
    assert queue.is_next(old)  # both have had 100 seconds
    used(queue, clock, "old", 1.0)
    assert not queue.is_next(old)


def test_what_is_out_counts_while_it_is_out(clock: Time) -> None:
    queue = FairQueue(clock)
    ticket = queue.enter("long")
    queue.leave(ticket)
    queue.take(ticket, 1)
    first, again, later = (queue.enter(who) for who in ("other", "long", "other"))
    clock.now += 1.0
    queue.leave(first)
    assert queue.is_next(later)  # though the other one came before it
    assert not queue.is_next(again)


class Process:
    """A worker process that takes in anything at once."""

    def __init__(self, interpreter: str | None, remarks: Any) -> None:
        self.interpreter, self.alive = interpreter, True
        self.holds: int | None = None
        self.imported = ""


@pytest.fixture
def lender(monkeypatch: pytest.MonkeyPatch) -> Workers:
    def take_in(worker: Any) -> None:
        worker.process.holds, worker.at_rest = worker.load.number, True

    monkeypatch.setattr("dpframe.workers.pool.WorkerProcess", Process)
    monkeypatch.setattr("dpframe.workers.pool._Worker.ask_early", lambda _: None)
    monkeypatch.setattr("dpframe.workers.pool._Worker.take_in", take_in)
    monkeypatch.setattr("dpframe.workers.pool.end", lambda *_: None)
    return Workers(2)


def test_who_wants_two_is_not_passed(lender: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others who want one each leave no moment in which both are free."""
    entered, order = threading.Semaphore(0), []
    enter = FairQueue.enter

    def noted(self: Any, owner: str) -> Any:
        ticket = enter(self, owner)
        entered.release()
        return ticket

    def wants(number: int) -> None:
        box = Box(epsilon=float(number))
        with lender.lend(Load((box,), ((0.0,), (1.0,))), number):
            order.append(number)

    own = Load((Box(epsilon=3.0),), ((0.0,), (1.0,)))
    threads = [threading.Thread(target=wants, args=(number,)) for number in (2, 1)]
    with lender.lend(own):
        with lender.lend(own):
            monkeypatch.setattr(FairQueue, "enter", noted)
            for thread in threads:
                thread.start()
                assert entered.acquire(timeout=10)
        threads[1].join(0.2)  # one is free, and it would do for who wants one
        assert not order
    for thread in threads:
        thread.join(10)
    assert order == [2, 1]


def test_no_process_is_left_if_another_cannot_start(
    lender: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    ended: list[Any] = []

    def start(*given: Any) -> Any:
        if made:
            raise OSError("no more processes")
        made.append(Process(*given))
        return made[-1]

    monkeypatch.setattr("dpframe.workers.pool.WorkerProcess", start)
    monkeypatch.setattr("dpframe.workers.pool.end", lambda *given: ended.extend(given))
    with pytest.raises(OSError, match="no more"), lender.lend(Load((Box(),), ((0.0,), (1.0,))), 2):
        pass
    assert ended == made
    assert not lender._busy
    assert not lender._idle


def test_who_waits_when_the_run_ends_is_told(lender: Workers) -> None:
    load = Load((Box(),), ((0.0,), (1.0,)))
    told = threading.Event()

    def wait() -> None:
        try:
            with lender.lend(load, 2):
                pass
        except Stopped:
            told.set()

    with lender.lend(load):
        waiting = threading.Thread(target=wait)
        waiting.start()
        lender.stop()
        waiting.join(10)
    assert told.is_set()


def test_the_first_call_is_not_guessed() -> None:
    under_way = UnderWay()
    under_way.begin("a", "box", 16, now=0.0)
    assert [under_way.ahead(now) for now in (0.0, 100.0)] == [16, 16]


def test_later_calls_are_as_fast_as_the_last() -> None:
    under_way = UnderWay()
    under_way.begin("a", "box", 2, now=0.0)
    under_way.end("a", now=4.0)
    assert under_way.ahead(4.0) == 0
    under_way.begin("a", "box", 16, now=10.0)
    under_way.begin("b", "box", 4, now=12.0)
    under_way.begin("c", "another", 3, now=12.0)
    assert [under_way.ahead(now) for now in (12.0, 14.0, 16.0)] == [
        15 + 4 + 3,
        14 + 3 + 3,
        13 + 2 + 3,
    ]
    assert under_way.ahead(1e9) == 1 + 1 + 3  # tasks that have not come are not done
    under_way.end("b", now=22.0)
    under_way.forget("c")
    under_way.forget("c")
    assert under_way.ahead(1e9) == 1


def test_what_is_not_asked_for_is_not_ahead() -> None:
    """A worker waits for the word that it is done."""
    under_way = UnderWay()
    under_way.begin("a", "box", 0, now=0.0)
    assert under_way.ahead(5.0) == 0
    under_way.end("a", now=5.0)
    under_way.begin("a", "box", 1, now=5.0)
    assert under_way.ahead(9.0) == 1


def test_a_clock_runs_only_while_a_worker_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(scheduling.time, "monotonic", lambda: now)
    clock = scheduling.Clock(5.0)
    now = 200.0  # no worker was at work
    assert clock.left() == 5.0
    with clock.running():
        now = 202.0
        with clock.running():  # two at once count once
            now = 203.0
            assert clock.left() == 2.0
    now = 300.0
    assert clock.left() == 2.0
    with clock.running():
        assert clock.deadline() == 302.0
        now = 303.0
        assert clock.left() == -1.0
    assert scheduling.Clock(None).left() is None
